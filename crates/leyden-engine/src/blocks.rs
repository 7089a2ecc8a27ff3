//! Which cache blocks are free.

/// A stack of free block numbers.
#[derive(Debug)]
pub(crate) struct FreeBlocks {
    free: Vec<u32>,
}

impl FreeBlocks {
    /// All of `0..count`, lowest handed out first.
    pub(crate) fn new(count: u32) -> FreeBlocks {
        FreeBlocks { free: (0..count).rev().collect() }
    }

    /// How many are free.
    pub(crate) fn len(&self) -> usize {
        self.free.len()
    }

    /// Moves `n` free blocks onto `to`, or none if there are fewer.
    pub(crate) fn take(&mut self, n: usize, to: &mut Vec<u32>) -> bool {
        if n > self.free.len() {
            return false;
        }
        to.extend((0..n).filter_map(|_| self.free.pop()));
        true
    }

    /// Takes blocks back, last first, so that they are handed out again in the same order.
    pub(crate) fn give_back(&mut self, blocks: &mut Vec<u32>, keep: usize) {
        while blocks.len() > keep {
            self.free.extend(blocks.pop());
        }
    }
}
