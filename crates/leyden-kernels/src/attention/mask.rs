//! Which tokens of its sequence a token sees.

use crate::attention::block::{BLOCK_TOKENS, Seen};

/// Which tokens of its sequence a token sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mask {
    /// Itself and all before it.
    #[default]
    Causal,
    /// All that are stored, those behind it too.
    Full,
    /// Itself and those before it, so many in all (sliding-window attention).
    Window(usize),
    /// Itself, and so many before and behind it.
    Around(usize),
}

impl Mask {
    /// The tokens of the window, if that is what it sees.
    #[must_use]
    pub fn window(self) -> Option<usize> {
        match self {
            Mask::Causal | Mask::Full | Mask::Around(_) => None,
            Mask::Window(tokens) => Some(tokens),
        }
    }

    /// Whether it sees tokens behind it.
    #[must_use]
    pub fn sees_behind(self) -> bool {
        matches!(self, Mask::Full | Mask::Around(_))
    }

    /// What the token at `position` sees of a sequence of which so many tokens are stored.
    pub(super) fn sight(self, position: usize, stored: usize) -> Sight {
        let end = position + 1;
        match self {
            Mask::Causal => Sight { first: 0, end },
            Mask::Full => Sight { first: 0, end: stored },
            Mask::Window(tokens) => Sight { first: end.saturating_sub(tokens), end },
            Mask::Around(tokens) => {
                Sight { first: position.saturating_sub(tokens), end: end.saturating_add(tokens).min(stored) }
            }
        }
    }
}

/// The tokens of its sequence that a row sees: from the first on, up to the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) first: usize,
    pub(super) end: usize,
}

impl Sight {
    /// What of them lies in tile `index`.
    #[inline(always)]
    pub(super) fn in_tile(self, index: usize) -> Seen {
        let place = |token: usize| token.saturating_sub(index * BLOCK_TOKENS).min(BLOCK_TOKENS);
        Seen { first: place(self.first), end: place(self.end) }
    }
}
