//! [`TokenSet`]: tokens that a constraint allows.

/// Set of tokens as a bit mask: token `t` is bit `t % 32` of word `t / 32`. Tokens beyond the last word are not in it.
///
/// The sampler does not depend on the source of the mask, a grammar for example.
///
/// ```
/// use leyden_engine::sample::TokenSet;
///
/// let set = TokenSet::new(&[0b1001]);
/// assert!(set.contains(3) && !set.contains(1) && !set.contains(32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenSet<'a> {
    words: &'a [u32],
}

impl<'a> TokenSet<'a> {
    /// Creates a set from bits.
    #[must_use]
    pub fn new(words: &'a [u32]) -> TokenSet<'a> {
        TokenSet { words }
    }

    /// Returns whether a token is in the set.
    #[must_use]
    pub fn contains(self, id: u32) -> bool {
        self.words.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
    }

    /// Sets the logits of all other tokens to minus infinity.
    pub(super) fn mask(self, logits: &mut [f32]) {
        let (known, beyond) = logits.split_at_mut(logits.len().min(self.words.len() * 32));
        beyond.fill(f32::NEG_INFINITY);
        for (part, &word) in known.chunks_mut(32).zip(self.words) {
            match word {
                u32::MAX => {}
                0 => part.fill(f32::NEG_INFINITY),
                _ => part.iter_mut().enumerate().for_each(|(bit, logit)| {
                    if word >> bit & 1 == 0 {
                        *logit = f32::NEG_INFINITY;
                    }
                }),
            }
        }
    }
}
