//! States of recurrent layers: one slot for each open sequence, and checkpoints of states at block borders.
//!
//! A recurrent layer keeps only the state after a sequence's last token. A checkpoint is a copy of a state, in a slot
//! of its own. It belongs to the block whose last token the state follows. A sequence that begins with that block
//! continues from the copy.
//!
//! **Positions.** A sequence gets checkpoints at its newest block border, each replacing the one before; at the last
//! border [`ENDING`] tokens before the end of its prompt, because chat templates write the tokens after it differently
//! in the next turn; at the border where another text with the same prefix differs, for later texts with this prefix;
//! and at multiples of a power of two of tokens in its prompt. So the next turn recomputes less than a block of old
//! tokens, or a block and [`ENDING`].
//!
//! **Eviction.** The budget limits the number of checkpoints. Checkpoints of earlier turns are evicted first if the
//! same text has later ones, then the least recently used; an owner with more than its share loses its own. So a long
//! chat does not evict the checkpoints of shared prefixes. A block that is evicted loses its checkpoint too.

use crate::cache_kind::CacheKind;
use leyden_kernels::attention::BLOCK_TOKENS;
use leyden_models::StateCheckpoint;
use std::collections::{HashMap, HashSet};

/// Number of tokens at a prompt's end that the next turn of a chat may write differently: the opening of an answer.
const ENDING: usize = 16;
/// Minimum distance in tokens of the regular checkpoints within a prompt.
const DISTANCE: usize = 256;
/// Divisor of the number of checkpoints that gives the maximum of regular ones within one prompt.
const TEXT_SHARE: usize = 4;
/// Number of times that all checkpoints are exchanged before an unused one loses the protection of its owner's share.
const MAX_TURNS: u64 = 16;
/// Minimum of useful checkpoints: one at the prompt's end and one in the answer.
const FEWEST: usize = 2;
/// Default number of checkpoints: the larger of a minimum and a number for each sequence, if the bytes allow them.
const USUAL: (usize, usize) = (64, 4);

/// Returns the default budget in bytes for checkpoints of states of `state_bytes` each, for so many sequences at a
/// time: at most `most` bytes, but at least two states.
#[must_use]
pub fn usual_checkpoint_bytes(state_bytes: usize, sequences: usize, most: usize) -> usize {
    let wanted = sequences.saturating_mul(USUAL.1).max(USUAL.0);
    wanted.min(most / state_bytes.max(1)).max(FEWEST).saturating_mul(state_bytes)
}

/// State of an open sequence.
#[derive(Debug, Default)]
pub(crate) struct SequenceState {
    /// Slot of the state.
    pub(crate) slot: u32,
    /// True if checkpoints are made.
    keeps: bool,
    /// Number of tokens of the sequence when its checkpoint positions were set.
    start: usize,
    /// Positions of checkpoints, ascending multiples of a block, and whether other texts are likely to differ after
    /// them.
    marks: Vec<(usize, bool)>,
    /// Block of the checkpoint at the newest border, if that is none of `marks`.
    newest: Option<u32>,
    /// Copies of the state after the tokens of the last step's draft, all but the last: numbers of the sequence's tokens,
    /// and slots.
    trail: Vec<(usize, u32)>,
    /// True if the next step has a draft.
    drafts: bool,
    /// True if a failed step has left the state inconsistent.
    lost: bool,
}

/// Copy of a state.
#[derive(Debug)]
struct Checkpoint {
    slot: u32,
    /// Tick at which the checkpoint was made or last restored.
    used: u64,
    /// Owner in the sequence's scope.
    owner: String,
    /// True if the sequence's next checkpoint replaces it.
    passing: bool,
    /// True if other texts are likely to differ after it.
    common: bool,
    /// True if the same text has checkpoints of a later turn.
    superseded: bool,
}

/// Slots of states, and checkpoints.
#[derive(Debug)]
pub(crate) struct States {
    /// Checkpoints by block.
    kept: HashMap<u32, Checkpoint>,
    /// Maximum number of checkpoints.
    limit: usize,
    /// Number of slots allocated so far, and those of them that are free.
    slots: u32,
    free: Vec<u32>,
    ticks: u64,
    /// Copies (from slot, to slot) to be made before the next step.
    restores: Vec<(u32, u32)>,
    /// Blocks of checkpoints of the step under way.
    made: HashSet<u32>,
}

impl States {
    /// Creates states without checkpoints.
    pub(crate) fn new() -> States {
        let (kept, restores, made) = Default::default();
        States { kept, limit: 0, slots: 0, free: Vec::new(), ticks: 0, restores, made }
    }

    /// Sets the maximum number of checkpoints.
    pub(crate) fn with_checkpoints(self, limit: usize) -> States {
        States { limit, ..self }
    }

    /// Returns whether computed prefixes can be reused.
    pub(crate) fn reuses(&self) -> bool {
        self.limit > 0
    }

    /// Returns the number of checkpoints.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Returns the number of slots that the cache must have.
    pub(crate) fn slots(&self) -> usize {
        self.slots as usize
    }

    /// Returns the state of a new sequence.
    pub(crate) fn open(&mut self) -> SequenceState {
        SequenceState { slot: self.take_slot(), ..SequenceState::default() }
    }

    /// Frees a sequence's slot.
    pub(crate) fn close(&mut self, state: &SequenceState) {
        self.free.push(state.slot);
        self.free.extend(state.trail.iter().map(|(_, slot)| *slot));
    }

    /// Keeps copies of the state after each token of the next step, so that rejected draft tokens can be dropped.
    pub(crate) fn expect_draft(state: &mut SequenceState) {
        state.drafts = true;
    }

    /// Returns whether the last step has left a copy of the state after so many tokens.
    pub(crate) fn has_trail(state: &SequenceState, tokens: usize) -> bool {
        !state.lost && state.trail.iter().any(|(at, _)| *at == tokens)
    }

    /// Resets a sequence's state to that after so many tokens, if the last step has left a copy. Returns whether it has.
    pub(crate) fn go_back(&mut self, state: &SequenceState, tokens: usize) -> bool {
        let copy = state.trail.iter().find(|(at, _)| *at == tokens).filter(|_| !state.lost);
        self.restores.extend(copy.map(|(_, slot)| (*slot, state.slot)));
        copy.is_some()
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    /// Sets the checkpoint positions of a sequence that has `start` tokens of a prompt of `prompt` tokens, the first
    /// `shared` of which another text has too.
    pub(crate) fn plan(&self, state: &mut SequenceState, start: usize, prompt: usize, shared: usize) {
        (state.keeps, state.start) = (self.limit > 0, start);
        let mut every = DISTANCE;
        while prompt / every > self.limit / TEXT_SHARE {
            every *= 2;
        }
        state.marks = (1..=prompt / every).map(|i| (i * every, true)).collect();
        States::mark(state, prompt.saturating_sub(ENDING), false);
        // A single block is too short a prefix to keep its checkpoint for long.
        States::mark(state, shared, shared > start + BLOCK_TOKENS);
    }

    /// Adds a checkpoint position, rounded down to a block border.
    pub(crate) fn mark(state: &mut SequenceState, tokens: usize, common: bool) {
        let border = tokens / BLOCK_TOKENS * BLOCK_TOKENS;
        match state.marks.binary_search_by_key(&border, |mark| mark.0) {
            Ok(at) => state.marks[at].1 |= common,
            Err(at) if border > 0 => state.marks.insert(at, (border, common)),
            Err(_) => {}
        }
    }

    /// Returns whether the state in the slot is that of the sequence's last token.
    pub(crate) fn is_current(state: &SequenceState) -> bool {
        !state.lost
    }

    /// Marks a state as lost by a failed step.
    pub(crate) fn lose(state: &mut SequenceState) {
        state.lost = true;
    }

    /// Ends a step; drops its checkpoints if it failed.
    pub(crate) fn end_step(&mut self, succeeded: bool) {
        for block in std::mem::take(&mut self.made) {
            if !succeeded {
                self.forget(block);
            }
        }
    }

    /// Resets a sequence's state to zero, or to the checkpoint of its block `last`.
    pub(crate) fn restore(&mut self, state: &mut SequenceState, last: Option<u32>) {
        self.ticks += 1;
        (state.lost, state.newest) = (false, None);
        if let Some(checkpoint) = last.and_then(|block| self.kept.get_mut(&block)) {
            (checkpoint.used, checkpoint.passing, checkpoint.superseded) = (self.ticks, false, false);
            self.restores.push((checkpoint.slot, state.slot));
        }
    }

    /// Takes the copies (from slot, to slot) to be made before the next step, in order.
    pub(crate) fn take_restores(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.restores)
    }

    /// Replaces the sequence's block `from` by `to`.
    pub(crate) fn rename(state: &mut SequenceState, from: u32, to: u32) {
        if state.newest == Some(from) {
            state.newest = Some(to);
        }
    }

    /// Returns the checkpoints to be made in a step that extends a sequence with these blocks from `from` tokens to
    /// `to`.
    pub(crate) fn advance(
        &mut self,
        state: &mut SequenceState,
        owner: &str,
        blocks: &[u32],
        (from, to): (usize, usize),
    ) -> Vec<StateCheckpoint> {
        // A copy is restored before the step writes to its slot.
        self.free.extend(state.trail.drain(..).map(|(_, slot)| slot));
        let mut made = self.at_borders(state, owner, blocks, (from, to));
        if std::mem::take(&mut state.drafts) {
            for tokens in 1..to - from {
                if made.iter().all(|checkpoint| checkpoint.tokens != tokens) {
                    let slot = self.take_slot();
                    state.trail.push((from + tokens, slot));
                    made.push(StateCheckpoint { tokens, slot: slot as usize });
                }
            }
            made.sort_unstable_by_key(|checkpoint| checkpoint.tokens);
        }
        made
    }

    /// Returns the checkpoints at block borders.
    fn at_borders(
        &mut self,
        state: &mut SequenceState,
        owner: &str,
        blocks: &[u32],
        (from, to): (usize, usize),
    ) -> Vec<StateCheckpoint> {
        if !state.keeps {
            return Vec::new();
        }
        let marks = state.marks.iter().filter(|mark| (from + 1..=to).contains(&mark.0));
        let mut borders: Vec<(usize, bool, bool)> =
            marks.map(|&(mark, common)| (mark, common, false)).collect();
        let newest = to / BLOCK_TOKENS * BLOCK_TOKENS;
        if newest > from && borders.last().is_none_or(|last| last.0 < newest) {
            borders.push((newest, false, true));
        }
        if newest > from
            && let Some(old) = state.newest.take()
            && self.kept.get(&old).is_some_and(|checkpoint| checkpoint.passing)
        {
            self.forget(old);
        }
        let mut made = Vec::new();
        if newest > from {
            self.supersede(&blocks[..state.start.min(from) / BLOCK_TOKENS]);
        }
        for &(tokens, common, passing) in &borders[borders.len().saturating_sub(self.limit)..] {
            let block = blocks[tokens / BLOCK_TOKENS - 1];
            self.forget(block);
            if self.kept.len() >= self.limit && !self.evict() {
                continue;
            }
            self.ticks += 1;
            let slot = self.take_slot();
            let (used, owner, superseded) = (self.ticks, owner.to_owned(), false);
            let checkpoint = Checkpoint { slot, used, owner, passing, common, superseded };
            self.kept.insert(block, checkpoint);
            self.made.insert(block);
            if passing {
                state.newest = Some(block);
            }
            made.push(StateCheckpoint { tokens: tokens - from, slot: slot as usize });
        }
        made
    }

    /// Marks the checkpoints of these blocks as superseded by later ones of the same text, except those of shared
    /// prefixes.
    fn supersede(&mut self, blocks: &[u32]) {
        for block in blocks {
            if let Some(checkpoint) = self.kept.get_mut(block) {
                checkpoint.superseded = !checkpoint.common;
            }
        }
    }

    /// Drops a checkpoint of an earlier step: of an owner with more than half of all, else of those with more than an
    /// equal share, else of all. A checkpoint unused for long loses the protection of its owner's share. Returns whether
    /// there was one.
    fn evict(&mut self) -> bool {
        let mut owned: HashMap<&str, usize> = HashMap::new();
        self.kept.values().for_each(|c| *owned.entry(&c.owner).or_default() += 1);
        let all = self.kept.len();
        let first = |parts: usize| {
            let above = |c: &Checkpoint| owned[&*c.owner].saturating_mul(parts) > all;
            let spare = self.kept.iter().filter(|(block, c)| !self.made.contains(block) && above(c));
            spare.min_by_key(|(_, c)| (!c.superseded, c.used)).map(|(block, _)| *block)
        };
        let oldest = self.kept.values().map(|c| c.used).min().unwrap_or_default();
        let is_kept = self.ticks - oldest <= MAX_TURNS * all as u64;
        let shared = || first(owned.len()).filter(|_| is_kept);
        let Some(block) = first(2).or_else(shared).or_else(|| first(usize::MAX)) else { return false };
        self.forget(block);
        true
    }
}

impl CacheKind for States {
    fn can_continue(&self, blocks: &[u32], tokens: usize) -> bool {
        let (n, rest) = (tokens / BLOCK_TOKENS, tokens % BLOCK_TOKENS);
        tokens == 0 || rest == 0 && self.kept.contains_key(&blocks[n - 1])
    }

    fn forget(&mut self, block: u32) {
        if let Some(checkpoint) = self.kept.remove(&block) {
            self.free.push(checkpoint.slot);
        }
    }

    fn hand_over(&mut self, from: u32, to: u32) {
        if !self.kept.contains_key(&to)
            && let Some(checkpoint) = self.kept.remove(&from)
        {
            self.kept.insert(to, checkpoint);
        }
    }

    #[cfg(test)]
    fn check(&self) {
        assert!(self.kept.len() <= self.limit, "the budget is kept");
        let mut slots: Vec<u32> =
            self.kept.values().map(|c| c.slot).chain(self.free.iter().copied()).collect();
        let all = slots.len();
        slots.sort_unstable();
        slots.dedup();
        assert!(slots.len() == all && all <= self.slots(), "a slot has one use");
    }
}

#[cfg(test)]
mod tests;
