//! [`Grammars`]: the compiled grammars of a model that are kept.

use leyden_constrain::{Compiled, Vocabulary};
use leyden_engine::schedule::KeyId;
use leyden_text::Tokenizer;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Compiled grammars that are kept.
const KEPT: usize = 64;
/// The bytes that they may take together, as [`Compiled::bytes`] estimates it and with their sources; the last is kept in any case.
const KEPT_BYTES: usize = 64 << 20;

/// A model's vocabulary as grammars need it, and the last grammars.
#[derive(Default)]
pub(crate) struct Grammars {
    /// Made with the first request that needs it, half a second for a large one.
    vocabulary: OnceLock<Option<Arc<Vocabulary>>>,
    /// The last one used first.
    kept: Mutex<Vec<Kept>>,
}

/// A compiled grammar, kept for all keys at the cost of the one that had it compiled.
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
    /// Returns a grammar that was compiled before.
    pub(crate) fn known(&self, source: &str) -> Option<Arc<Compiled>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|kept| kept.source == source)?;
        kept[..=at].rotate_right(1);
        Some(Arc::clone(&kept[0].compiled))
    }

    /// Returns the vocabulary of the model with this tokenizer; `None` for one that cannot be used with grammars.
    pub(crate) fn vocabulary(&self, tokenizer: &dyn Tokenizer) -> Option<&Arc<Vocabulary>> {
        self.vocabulary.get_or_init(|| Vocabulary::new(tokenizer).ok()).as_ref()
    }

    /// Keeps a compiled grammar at the cost of its owner.
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

/// Returns the places of the grammars that are not kept, the last first. `sizes` has the owner and bytes of each, the one used last
/// first. Where there is no room, the owner who takes most of it loses the grammar used longest ago; one grammar is kept in any
/// case.
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
        // Of several owners who have the same, the first from the end.
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
        // A key with few grammars keeps them, whatever another has compiled since.
        let few = [(1, 1000), (1, 4 << 20)];
        assert_eq!(kept([&of(1000)[..], &few].concat()).last(), Some(&201));
        assert_eq!(kept([&of(8 << 20)[..], &few].concat()).iter().filter(|at| **at >= 200).count(), 2);
    }
}
