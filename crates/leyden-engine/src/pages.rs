//! Blocks of the paged KV cache: free, held by sequences, or held by none and kept for their contents.

use crate::prefix::PrefixIndex;

/// Blocks, the number of sequences that hold each, and the index of full blocks.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Blocks without contents; the last one is taken next.
    free: Vec<u32>,
    /// Number of sequences that hold each block.
    holders: Vec<u32>,
    pub(crate) index: PrefixIndex,
}

impl Pages {
    /// Creates blocks `0..count`, all free.
    pub(crate) fn new(count: u32, index: PrefixIndex) -> Pages {
        Pages { free: (0..count).rev().collect(), holders: vec![0; count as usize], index }
    }

    /// Returns the number of blocks.
    pub(crate) fn total(&self) -> usize {
        self.holders.len()
    }

    /// Returns the number of blocks that no sequence holds.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.index.idle()
    }

    /// Returns the number of sequences that hold a block.
    pub(crate) fn holders(&self, block: u32) -> u32 {
        self.holders[block as usize]
    }

    /// Takes a block for new contents and gives it one holder: a free block, or one that the index evicts.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let block = self.free.pop().or_else(|| self.index.evict())?;
        self.holders[block as usize] = 1;
        Some(block)
    }

    /// Adds a holder.
    pub(crate) fn hold(&mut self, block: u32) {
        let n = &mut self.holders[block as usize];
        *n += 1;
        if *n == 1 {
            self.index.mark_held(block);
        }
    }

    /// Removes a holder. Returns whether the block's contents are gone: it has no holder and is not in the index.
    pub(crate) fn let_go(&mut self, block: u32) -> bool {
        let n = &mut self.holders[block as usize];
        *n -= 1;
        if *n > 0 {
            return false;
        }
        if self.index.contains(block) {
            self.index.mark_idle(block);
            return false;
        }
        self.free.push(block);
        true
    }

    /// Asserts the invariants; `held` counts the holders of each block.
    #[cfg(test)]
    pub(crate) fn check(&self, held: &[u32]) {
        assert_eq!(held, self.holders);
        let unheld = held.iter().filter(|n| **n == 0).count();
        assert_eq!(unheld, self.available(), "no block is lost");
        assert!(self.free.iter().all(|b| held[*b as usize] == 0 && !self.index.contains(*b)));
        self.index.check(held);
    }
}
