//! Interface of the caches that some layers have beside the blocks of keys and values.
//!
//! Layers with full attention keep all blocks ([`crate::pages`]). The others keep less: layers with a sliding window
//! the blocks in it ([`crate::windows`]), recurrent layers a state at some block borders ([`crate::states`]). All
//! caches are addressed by the numbers of the shared blocks, so a prefix can be reused where every kind of cache still
//! has its part.

use std::fmt::Debug;

/// Cache of the layers of one kind, by block.
pub(crate) trait CacheKind: Debug {
    /// Returns whether a sequence with these blocks can be continued after its first `tokens` tokens.
    fn can_continue(&self, blocks: &[u32], tokens: usize) -> bool;

    /// Drops the entry of a block, whose contents are gone.
    fn forget(&mut self, block: u32);

    /// Moves the entry of a block to another block with the same contents, unless that has an entry already.
    fn hand_over(&mut self, from: u32, to: u32);

    /// Asserts the invariants.
    #[cfg(test)]
    fn check(&self);
}
