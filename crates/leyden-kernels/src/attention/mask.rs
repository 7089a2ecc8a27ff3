//! Attention masks.

use crate::attention::block::{BLOCK_TOKENS, TileRange};

/// Attention mask: the tokens of its sequence that a token attends to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mask {
    /// The token itself and all earlier ones.
    #[default]
    Causal,
    /// All stored tokens, later ones included (bidirectional).
    Full,
    /// Causal sliding window: this number of tokens, the last of which is the token itself.
    Window(usize),
    /// Bidirectional sliding window: the token itself and this number of tokens on either side.
    Around(usize),
}

impl Mask {
    /// Returns the size of the causal sliding window in tokens, if the mask is one.
    #[must_use]
    pub fn window(self) -> Option<usize> {
        match self {
            Mask::Causal | Mask::Full | Mask::Around(_) => None,
            Mask::Window(tokens) => Some(tokens),
        }
    }

    /// Returns whether tokens attend to later tokens.
    #[must_use]
    pub fn is_bidirectional(self) -> bool {
        matches!(self, Mask::Full | Mask::Around(_))
    }

    /// Returns the range of tokens that the token at `position` attends to in a sequence of `stored` tokens.
    pub(super) fn token_range(self, position: usize, stored: usize) -> TokenRange {
        let end = position + 1;
        match self {
            Mask::Causal => TokenRange { first: 0, end },
            Mask::Full => TokenRange { first: 0, end: stored },
            Mask::Window(tokens) => TokenRange { first: end.saturating_sub(tokens), end },
            Mask::Around(tokens) => TokenRange {
                first: position.saturating_sub(tokens),
                end: end.saturating_add(tokens).min(stored),
            },
        }
    }
}

/// Range of the tokens of a sequence that a row attends to: `first..end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenRange {
    pub(super) first: usize,
    pub(super) end: usize,
}

impl TokenRange {
    /// Returns the part of the range in tile `index`.
    #[inline(always)]
    pub(super) fn in_tile(self, index: usize) -> TileRange {
        let place = |token: usize| token.saturating_sub(index * BLOCK_TOKENS).min(BLOCK_TOKENS);
        TileRange { first: place(self.first), end: place(self.end) }
    }
}
