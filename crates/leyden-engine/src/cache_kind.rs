//! The interface of the kinds of cache that layers have beside the blocks of keys and values.
//!
//! Every layer with full attention keeps all blocks ([`crate::pages`]). Layers of other kinds keep less: those with a window
//! the blocks in it ([`crate::windows`]), recurrent ones a state at some block borders ([`crate::states`]). Each kind is
//! known by the blocks that sequences share, so a prefix is reusable where all kinds have what is needed to go on.

use std::fmt::Debug;

/// Cache of the layers of one kind, by block.
pub(crate) trait CacheKind: Debug {
    /// Returns whether a sequence with these blocks can be continued behind its first `tokens` tokens.
    fn goes_on(&self, blocks: &[u32], tokens: usize) -> bool;

    /// Drops what is kept of a block, whose contents are gone.
    fn forget(&mut self, block: u32);

    /// Moves what is kept of a block to another of the same contents, unless that has it already.
    fn hand_over(&mut self, from: u32, to: u32);

    /// Asserts what must hold between any two calls.
    #[cfg(test)]
    fn check(&self);
}
