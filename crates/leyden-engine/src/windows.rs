//! Slots of layers with a sliding window, which keep keys and values in fewer blocks than the other layers: slots of
//! blocks before the windows of all sequences are reused.
//!
//! A sequence has the same block numbers in all layers; for a layer with a window, a block has a slot or none. A block
//! gets a slot when a step writes to it. If no slot is free, the blocks used longest ago lose theirs, but never those
//! in the window of an open sequence. So the end of a cached prefix can be reused as long as there are slots enough.

use crate::cache_kind::CacheKind;
use leyden_kernels::attention::BLOCK_TOKENS;
use std::collections::HashSet;
use std::ops::Range;

/// Number of tokens by which a sequence can be truncated at any time, to roll back draft tokens.
const MARGIN: usize = BLOCK_TOKENS;

/// Slots of blocks.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Window in tokens.
    window: usize,
    /// Slot of each block.
    slots: Vec<Option<u32>>,
    /// Block in each slot, and the tick at which it was last used.
    blocks: Vec<Option<(u32, u64)>>,
    free: Vec<u32>,
    ticks: u64,
    /// Blocks assigned to slots since [`take_placed`](Self::take_placed) was last called.
    placed: Vec<(u32, u32)>,
}

impl Windows {
    /// Creates slots for a window of so many tokens, for `blocks` blocks in `slots` slots.
    pub(crate) fn new(window: usize, blocks: u32, slots: u32) -> Windows {
        Windows {
            window,
            slots: vec![None; blocks as usize],
            blocks: vec![None; slots as usize],
            free: (0..slots).rev().collect(),
            ticks: 0,
            placed: Vec::new(),
        }
    }

    /// Returns the number of slots that suffices for so many sequences at a time, in steps of so many tokens.
    pub(crate) fn slots_for(window: usize, sequences: usize, step_tokens: usize) -> usize {
        // A window may begin and end within a block, and so may the new tokens of each sequence.
        let each = (window + MARGIN).div_ceil(BLOCK_TOKENS) + 2;
        sequences.saturating_mul(each).saturating_add(step_tokens.div_ceil(BLOCK_TOKENS))
    }

    /// Returns the number of used slots.
    pub(crate) fn used(&self) -> usize {
        self.blocks.len() - self.free.len()
    }

    /// Returns the indices of the blocks that a sequence of `tokens` tokens needs to continue, also after a truncation
    /// by [`MARGIN`].
    pub(crate) fn needed(&self, tokens: usize) -> Range<usize> {
        (tokens + 1).saturating_sub(self.window + MARGIN) / BLOCK_TOKENS..tokens.div_ceil(BLOCK_TOKENS)
    }

    /// Returns whether so many blocks can get slots without evicting others.
    pub(crate) fn has_free(&self, blocks: usize) -> bool {
        blocks <= self.free.len()
    }

    /// Assigns slots to `fresh` blocks, evicting blocks that are not in `kept` where no slot is free, and marks the
    /// blocks of `old` that have a slot as used. Returns `false` if there are too few slots; some of the blocks then
    /// have one.
    pub(crate) fn place(&mut self, old: &[u32], fresh: &[u32], kept: &HashSet<u32>) -> bool {
        self.ticks += 1;
        for slot in old.iter().filter_map(|block| self.slots[*block as usize]) {
            if let Some((_, used)) = &mut self.blocks[slot as usize] {
                *used = self.ticks;
            }
        }
        for &block in fresh {
            // Its slot may have the contents of an earlier block with the same number.
            self.forget(block);
            if self.free.is_empty() {
                self.make_way(kept);
            }
            let Some(slot) = self.free.pop() else { return false };
            self.slots[block as usize] = Some(slot);
            self.blocks[slot as usize] = Some((block, self.ticks));
            self.placed.push((block, slot));
        }
        true
    }

    /// Frees the slots used longest ago among those of blocks not in `kept`.
    fn make_way(&mut self, kept: &HashSet<u32>) {
        let spare = |b: &&(u32, u64)| !kept.contains(&b.0);
        let Some(oldest) = self.blocks.iter().flatten().filter(spare).map(|b| b.1).min() else { return };
        let old: Vec<u32> =
            self.blocks.iter().flatten().filter(spare).filter(|b| b.1 == oldest).map(|b| b.0).collect();
        old.into_iter().for_each(|block| self.forget(block));
    }

    /// Takes the blocks assigned to slots since the last call, with their slots, in order.
    pub(crate) fn take_placed(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.placed)
    }
}

impl CacheKind for Windows {
    fn can_continue(&self, blocks: &[u32], tokens: usize) -> bool {
        let first = (tokens + 1).saturating_sub(self.window) / BLOCK_TOKENS;
        blocks[first..tokens.div_ceil(BLOCK_TOKENS)].iter().all(|b| self.slots[*b as usize].is_some())
    }

    fn forget(&mut self, block: u32) {
        if let Some(slot) = self.slots[block as usize].take() {
            self.blocks[slot as usize] = None;
            self.free.push(slot);
        }
    }

    fn hand_over(&mut self, from: u32, to: u32) {
        if self.slots[to as usize].is_none()
            && let Some(slot) = self.slots[from as usize].take()
        {
            self.slots[to as usize] = Some(slot);
            let used = self.blocks[slot as usize].map_or(0, |b| b.1);
            self.blocks[slot as usize] = Some((to, used));
            self.placed.push((to, slot));
        }
    }

    #[cfg(test)]
    fn check(&self) {
        let standing = self.slots.iter().filter(|s| s.is_some()).count();
        assert_eq!(standing, self.used(), "every block that stands in a slot has one of its own");
        for (slot, block) in (0..).zip(&self.blocks) {
            match block {
                Some((block, _)) => assert_eq!(self.slots[*block as usize], Some(slot)),
                None => assert!(self.free.contains(&slot), "no slot is lost"),
            }
        }
    }
}
