//! [`Grammars`]: cache of a model's compiled grammars.

use leyden_constrain::{Compiled, Vocabulary};
use leyden_engine::schedule::KeyId;
use leyden_text::Tokenizer;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Maximum number of cached grammars.
const KEPT: usize = 64;
/// Maximum bytes of the cached grammars with their sources, as estimated by [`Compiled::bytes`]; the most recent one
/// stays in any case.
const KEPT_BYTES: usize = 64 << 20;

/// Vocabulary of a model in the form for grammars, and the cached grammars.
#[derive(Default)]
pub(crate) struct Grammars {
    /// Vocabulary, made for the first request that needs it; takes half a second for a large one.
    vocabulary: OnceLock<Option<Arc<Vocabulary>>>,
    /// Cached grammars, the most recently used first.
    kept: Mutex<Vec<Kept>>,
}

/// Compiled grammar, used for all keys and charged to the key that had it compiled.
struct Kept {
    owner: KeyId,
    source: String,
    compiled: Arc<Compiled>,
}

impl fmt::Debug for Grammars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammars").finish_non_exhaustive()
    }
}

impl Grammars {
    /// Returns a cached grammar.
    pub(crate) fn known(&self, source: &str) -> Option<Arc<Compiled>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|kept| kept.source == source)?;
        kept[..=at].rotate_right(1);
        Some(Arc::clone(&kept[0].compiled))
    }

    /// Returns the vocabulary of the model with this tokenizer; `None` if it cannot be used with grammars.
    pub(crate) fn vocabulary(&self, tokenizer: &dyn Tokenizer) -> Option<&Arc<Vocabulary>> {
        self.vocabulary.get_or_init(|| Vocabulary::new(tokenizer).ok()).as_ref()
    }

    /// Caches a compiled grammar, charged to its owner.
    pub(crate) fn keep(&self, owner: KeyId, source: String, compiled: &Arc<Compiled>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(0, Kept { owner, source, compiled: Arc::clone(compiled) });
        let sizes =
            kept.iter().map(|kept| (kept.owner, kept.source.len().saturating_add(kept.compiled.bytes())));
        for at in beyond(sizes.collect()) {
            kept.remove(at);
        }
    }
}

/// Returns the indexes of the grammars to evict, in descending order. `sizes` has the owner and the bytes of each, the
/// most recently used first. If a limit is exceeded, the owner with the largest share loses its least recently used
/// grammar; one grammar stays in any case.
fn beyond(mut sizes: Vec<(KeyId, usize)>) -> Vec<usize> {
    let sum = |sizes: &[(KeyId, usize)], of: Option<KeyId>| {
        let of = sizes.iter().filter(|(owner, _)| of.is_none_or(|of| of == *owner));
        of.fold((0_usize, 0_usize), |(count, bytes), (_, size)| (count + 1, bytes.saturating_add(*size)))
    };
    let mut places: Vec<usize> = (0..sizes.len()).collect();
    let mut gone = Vec::new();
    while sizes.len() > 1 {
        let (count, bytes) = sum(&sizes, None);
        if count <= KEPT && bytes <= KEPT_BYTES {
            break;
        }
        let taken = |owner: KeyId| {
            let (count, of) = sum(&sizes, Some(owner));
            if bytes > KEPT_BYTES { of } else { count }
        };
        // Of several owners with the same share, the one with the least recently used grammar loses it.
        let most = sizes.iter().map(|(owner, _)| taken(*owner)).max();
        let Some(at) = sizes.iter().rposition(|(owner, _)| Some(taken(*owner)) == most) else { break };
        sizes.remove(at);
        gone.push(places.remove(at));
    }
    gone.sort_unstable_by(|a, b| b.cmp(a));
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let kept = |sizes: Vec<(u32, usize)>| {
            let count = sizes.len();
            let gone = beyond(sizes.into_iter().map(|(owner, size)| (KeyId(owner), size)).collect());
            assert!(gone.is_sorted_by(|a, b| a > b));
            (0..count).filter(|at| !gone.contains(at)).collect::<Vec<_>>()
        };
        let of = |size: usize| vec![(0, size); 200];
        assert_eq!(kept(of(1000)), (0..KEPT).collect::<Vec<_>>());
        assert_eq!(kept(of(8 << 20)), (0..8).collect::<Vec<_>>());
        assert_eq!(kept(of(usize::MAX)), [0]);
        assert_eq!(kept(vec![(0, usize::MAX)]), [0]);
        // A key with few grammars keeps them, however many another key has compiled since.
        let few = [(1, 1000), (1, 4 << 20)];
        assert_eq!(kept([&of(1000)[..], &few].concat()).last(), Some(&201));
        assert_eq!(kept([&of(8 << 20)[..], &few].concat()).iter().filter(|at| **at >= 200).count(), 2);
    }
}
