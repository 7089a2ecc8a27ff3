//! Where layers that attend to a window keep keys and values: in fewer blocks than the others, for what lies behind the window
//! of every sequence makes way.
//!
//! A sequence has the same blocks in all layers; for such a layer a block stands in a slot, or in none any more. Slots are
//! taken when a step writes to their blocks, and given to others when there are no free ones: first those of the blocks that
//! were used longest ago, and never those in the window of an open sequence. So a text that begins like an earlier one
//! finds the end of that beginning as long as there is room.

use crate::cache_kind::CacheKind;
use leyden_kernels::attention::BLOCK_TOKENS;
use std::collections::HashSet;
use std::ops::Range;

/// Tokens that a sequence can be cut back by at any time: guesses that turn out wrong.
const MARGIN: usize = BLOCK_TOKENS;

/// Which slots hold which blocks.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Tokens that a token sees.
    window: usize,
    /// The slot of each block.
    slots: Vec<Option<u32>>,
    /// The block in each slot, and when it was last used.
    blocks: Vec<Option<(u32, u64)>>,
    free: Vec<u32>,
    ticks: u64,
    /// Blocks that came into slots since somebody asked.
    placed: Vec<(u32, u32)>,
}

impl Windows {
    /// For a window of so many tokens over `blocks` blocks in `slots` slots.
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

    /// Slots that are enough for so many sequences at a time, in steps of so many tokens.
    pub(crate) fn slots_for(window: usize, sequences: usize, step_tokens: usize) -> usize {
        // A window may begin and end within a block, and so may what is new of each sequence.
        let each = (window + MARGIN).div_ceil(BLOCK_TOKENS) + 2;
        sequences.saturating_mul(each).saturating_add(step_tokens.div_ceil(BLOCK_TOKENS))
    }

    /// Slots that are in use.
    pub(crate) fn used(&self) -> usize {
        self.blocks.len() - self.free.len()
    }

    /// The numbers of the blocks that a sequence of `tokens` tokens needs to go on, also when it is cut back a little.
    pub(crate) fn needed(&self, tokens: usize) -> Range<usize> {
        (tokens + 1).saturating_sub(self.window + MARGIN) / BLOCK_TOKENS..tokens.div_ceil(BLOCK_TOKENS)
    }

    /// Whether so many blocks can get slots without taking them from others.
    pub(crate) fn has_free(&self, blocks: usize) -> bool {
        blocks <= self.free.len()
    }

    /// Gives `fresh` blocks slots, taking them from blocks that are not in `kept` where none is free, and notes that those of
    /// `old` which have one are in use. Returns `false` if there are too few; some of the blocks then have one.
    pub(crate) fn place(&mut self, old: &[u32], fresh: &[u32], kept: &HashSet<u32>) -> bool {
        self.ticks += 1;
        for slot in old.iter().filter_map(|block| self.slots[*block as usize]) {
            if let Some((_, used)) = &mut self.blocks[slot as usize] {
                *used = self.ticks;
            }
        }
        for &block in fresh {
            // It may hold what was known under its number before.
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

    /// Frees the slots that were used longest ago of those that may be freed.
    fn make_way(&mut self, kept: &HashSet<u32>) {
        let spare = |b: &&(u32, u64)| !kept.contains(&b.0);
        let Some(oldest) = self.blocks.iter().flatten().filter(spare).map(|b| b.1).min() else { return };
        let old: Vec<u32> =
            self.blocks.iter().flatten().filter(spare).filter(|b| b.1 == oldest).map(|b| b.0).collect();
        old.into_iter().for_each(|block| self.forget(block));
    }

    /// Blocks that came into slots since this was last asked, in order.
    pub(crate) fn take_placed(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.placed)
    }
}

impl CacheKind for Windows {
    fn goes_on(&self, blocks: &[u32], tokens: usize) -> bool {
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
