//! Block tables: the KV cache blocks of every sequence.
//!
//! A block of [`BLOCK_TOKENS`] tokens is free, held by one or more sequences, or held by none and kept for its
//! contents. Sequences opened with a [`Scope`] share full blocks. A shared block is never written: new tokens are only
//! ever appended after the full blocks of a sequence.
//!
//! [`Pages`] are the blocks themselves. The caches of layers with a sliding window or a recurrent state implement
//! [`CacheKind`].

use crate::cache_kind::CacheKind;
use crate::error::{Error, ErrorKind};
use crate::pages::Pages;
use crate::prefix::{PrefixIndex, Scope};
use crate::states::{SequenceState, States};
use crate::windows::Windows;
use leyden_kernels::attention::BLOCK_TOKENS;
use leyden_models::AdapterSet;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

mod checkpoints;

/// Maximum number of draft tokens in a step of a model with recurrent layers.
pub const MAX_STATE_DRAFTS: usize = 16;

/// Id of an open sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(u64);

/// Blocks and state of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    /// Blocks in order; enough for `tokens`, possibly more.
    pub(crate) blocks: Vec<u32>,
    /// Number of tokens whose keys and values are stored.
    pub(crate) tokens: usize,
    scope: Option<Arc<Scope>>,
    /// Number of leading blocks that are in the index.
    published: usize,
    /// State in recurrent layers.
    pub(crate) state: SequenceState,
    /// Adapters of the model's projections.
    pub(crate) adapters: AdapterSet,
}

/// Cost of opening a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Number of tokens whose keys and values are already in the cache.
    pub cached_tokens: usize,
    /// Number by which [`BlockTables::available_blocks`] would shrink.
    pub blocks: usize,
}

/// Block tables of all open sequences. They hold block numbers only, no keys and values.
#[derive(Debug)]
pub struct BlockTables {
    pages: Pages,
    /// Slots of layers with a sliding window, if these keep fewer blocks than the others.
    windows: Option<Windows>,
    /// States and checkpoints of recurrent layers.
    states: Option<States>,
    sequences: HashMap<SequenceId, Sequence>,
    next: u64,
}

impl BlockTables {
    /// Creates tables for blocks `0..count`, all free.
    #[must_use]
    pub fn new(count: u32) -> BlockTables {
        BlockTables::with_index(count, PrefixIndex::default())
    }

    pub(crate) fn with_index(count: u32, index: PrefixIndex) -> BlockTables {
        let (pages, sequences) = (Pages::new(count, index), HashMap::new());
        BlockTables { pages, windows: None, states: None, sequences, next: 0 }
    }

    /// Adds slots for layers with a sliding window of so many tokens, which then keep only `slots` blocks.
    pub(crate) fn with_windows(self, window: usize, slots: u32) -> BlockTables {
        let windows = Windows::new(window, self.pages.total() as u32, slots);
        BlockTables { windows: Some(windows), ..self }
    }

    /// Adds states of recurrent layers, with at most so many checkpoints.
    pub(crate) fn with_states(self, checkpoints: usize) -> BlockTables {
        let states = self.states.unwrap_or_else(States::new);
        // A block has at most one checkpoint.
        let checkpoints = checkpoints.min(self.pages.total());
        BlockTables { states: Some(states.with_checkpoints(checkpoints)), ..self }
    }

    /// Returns the caches beside the blocks of keys and values.
    fn kinds(&self) -> impl Iterator<Item = &dyn CacheKind> {
        let windows = self.windows.as_ref().map(|kind| kind as &dyn CacheKind);
        windows.into_iter().chain(self.states.as_ref().map(|kind| kind as &dyn CacheKind))
    }

    fn kinds_mut(&mut self) -> impl Iterator<Item = &mut dyn CacheKind> {
        let windows = self.windows.as_mut().map(|kind| kind as &mut dyn CacheKind);
        windows.into_iter().chain(self.states.as_mut().map(|kind| kind as &mut dyn CacheKind))
    }

    /// Returns whether a sequence can be truncated to any length.
    #[must_use]
    pub fn can_go_back(&self) -> bool {
        self.states.is_none()
    }

    /// Returns the maximum number of draft tokens in a step: after each of them the state of recurrent layers is copied.
    #[must_use]
    pub fn draft_room(&self) -> usize {
        if self.states.is_some() { MAX_STATE_DRAFTS } else { usize::MAX }
    }

    /// Prepares a sequence for a step with draft tokens, so that it can be truncated to any length that it has in the
    /// step.
    pub fn expect_draft(&mut self, id: SequenceId) {
        if self.states.is_some() {
            self.sequences.get_mut(&id).into_iter().for_each(|s| States::expect_draft(&mut s.state));
        }
    }

    /// Returns whether a sequence can be continued after its first `tokens` tokens.
    fn can_continue(&self, s: &Sequence, tokens: usize) -> bool {
        let current =
            tokens == s.tokens && States::is_current(&s.state) || States::has_trail(&s.state, tokens);
        self.windows.as_ref().is_none_or(|kind| kind.can_continue(&s.blocks, tokens))
            && self.states.as_ref().is_none_or(|kind| current || kind.can_continue(&s.blocks, tokens))
    }

    /// Returns the number of blocks that layers with a sliding window keep, if these are fewer than the others'.
    #[must_use]
    pub fn window_blocks(&self) -> Option<usize> {
        self.windows.as_ref().map(Windows::used)
    }

    /// Assigns slots in layers with a sliding window to the new tokens of a step, given as pairs of sequence and
    /// number. Returns the blocks that were assigned slots, with these slots; `None` if there are too few.
    pub(crate) fn place(&mut self, new: &[(SequenceId, usize)]) -> Option<Vec<(u32, u32)>> {
        let Some(windows) = &mut self.windows else { return Some(Vec::new()) };
        let (mut old, mut fresh) = (Vec::new(), Vec::new());
        for (id, new) in new {
            let s = self.sequences.get(id)?;
            old.extend(&s.blocks[windows.needed(s.tokens)]);
            fresh.extend(&s.blocks[s.tokens.div_ceil(BLOCK_TOKENS)..(s.tokens + new).div_ceil(BLOCK_TOKENS)]);
        }
        let mut kept = HashSet::new();
        if !windows.has_free(fresh.len()) {
            kept.extend(&fresh);
            self.sequences.values().for_each(|s| kept.extend(&s.blocks[windows.needed(s.tokens)]));
        }
        windows.place(&old, &fresh, &kept).then(|| windows.take_placed())
    }

    /// Returns the number of tokens, at most `tokens`, to which a sequence can be truncated: `tokens` itself, or the
    /// last block border before it from which layers with a sliding window or a recurrent state can continue.
    #[must_use]
    pub fn keepable(&self, id: SequenceId, tokens: usize) -> usize {
        let Some(s) = self.sequences.get(&id) else { return 0 };
        let tokens = tokens.min(s.tokens);
        if self.can_continue(s, tokens) {
            return tokens;
        }
        let borders = (1..=tokens / BLOCK_TOKENS).rev().map(|n| n * BLOCK_TOKENS);
        borders.into_iter().find(|border| self.can_continue(s, *border)).unwrap_or(0)
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn total_blocks(&self) -> usize {
        self.pages.total()
    }

    /// Returns the number of blocks that no sequence holds.
    #[must_use]
    pub fn available_blocks(&self) -> usize {
        self.pages.available()
    }

    /// Returns the number of blocks that no sequence holds and whose contents are kept for reuse.
    #[must_use]
    pub fn cached_blocks(&self) -> usize {
        self.pages.index.idle()
    }

    /// Opens an empty sequence that shares nothing.
    pub fn open(&mut self) -> SequenceId {
        self.insert(Sequence::default())
    }

    /// Opens an empty sequence that shares nothing and is computed with adapters.
    pub fn open_adapted(&mut self, adapters: AdapterSet) -> SequenceId {
        self.insert(Sequence { adapters, ..Sequence::default() })
    }

    /// Returns the cost of [`BlockTables::open_shared`] for `tokens`, and of reserving `length` tokens, at least as
    /// many.
    #[must_use]
    pub fn fit(&self, scope: Option<&Arc<Scope>>, tokens: &[u32], length: usize) -> Fit {
        let (known, _) = self.known(scope, tokens);
        let idle = known.iter().filter(|b| self.pages.index.is_idle(**b)).count();
        let fresh = length.div_ceil(BLOCK_TOKENS) - known.len();
        Fit { cached_tokens: known.len() * BLOCK_TOKENS, blocks: fresh + idle }
    }

    /// Opens a sequence with the scope's adapters that begins with the cached blocks of the longest known prefix of
    /// `tokens`. Returns it and the number of tokens in it. The last of `tokens` is never among them, because its
    /// logits are needed.
    pub fn open_shared(&mut self, scope: Arc<Scope>, tokens: &[u32]) -> (SequenceId, usize) {
        let (blocks, shared) = self.known(Some(&scope), tokens);
        blocks.iter().for_each(|b| self.pages.hold(*b));
        let (prompt, tokens, published) = (tokens.len(), blocks.len() * BLOCK_TOKENS, blocks.len());
        let (adapters, last) = (scope.adapters.clone(), blocks.last().copied());
        let state = SequenceState::default();
        let id = self.insert(Sequence { blocks, tokens, scope: Some(scope), published, state, adapters });
        if let (Some(states), Some(s)) = (&mut self.states, self.sequences.get_mut(&id)) {
            states.restore(&mut s.state, last);
        }
        self.plan_checkpoints(id, prompt, shared * BLOCK_TOKENS);
        (id, tokens)
    }

    /// Closes a sequence. Closing one that is not open does nothing.
    pub fn close(&mut self, id: SequenceId) {
        if let Some(mut s) = self.sequences.remove(&id) {
            self.release(&mut s.blocks, 0);
            self.states.iter_mut().for_each(|states| states.close(&s.state));
        }
    }

    /// Returns the number of tokens stored in a sequence.
    ///
    /// # Errors
    /// The sequence is not open.
    pub fn tokens(&self, id: SequenceId) -> Result<usize, Error> {
        Ok(self.get(id)?.tokens)
    }

    /// Returns the number of blocks that a sequence holds; 0 if it is not open.
    #[must_use]
    pub fn blocks_of(&self, id: SequenceId) -> usize {
        self.sequences.get(&id).map_or(0, |s| s.blocks.len())
    }

    /// Returns the number of blocks that would become available if all of `ids` were closed.
    #[must_use]
    pub fn releasable(&self, ids: &[SequenceId]) -> usize {
        let mut let_go: HashMap<u32, u32> = HashMap::new();
        for s in ids.iter().filter_map(|id| self.sequences.get(id)) {
            s.blocks.iter().for_each(|b| *let_go.entry(*b).or_default() += 1);
        }
        let_go.iter().filter(|&(b, n)| self.pages.holders(*b) <= *n).count()
    }

    /// Truncates a sequence to its first `tokens` tokens. A number above its length changes nothing.
    ///
    /// # Errors
    /// The sequence is not open, the cut is inside a full block that other sequences may share, or the length is not
    /// [`keepable`](Self::keepable).
    pub fn truncate(&mut self, id: SequenceId, tokens: usize) -> Result<(), Error> {
        let keepable = self.keepable(id, tokens);
        let s = self.sequences.get_mut(&id).ok_or(ErrorKind::UnknownSequence)?;
        let tokens = s.tokens.min(tokens);
        if keepable < tokens {
            return Err(ErrorKind::BehindWindow { tokens }.into());
        }
        let keep = tokens.div_ceil(BLOCK_TOKENS);
        if keep <= s.published && !tokens.is_multiple_of(BLOCK_TOKENS) {
            return Err(ErrorKind::SharedBlock { tokens }.into());
        }
        self.cut(id, tokens);
        Ok(())
    }

    /// Truncates a sequence to nothing, from where every kind of layer can continue. Does nothing if it is not open.
    pub fn clear(&mut self, id: SequenceId) {
        self.cut(id, 0);
    }

    /// Releases the reserved blocks after those of the sequence's tokens. Does nothing if it is not open.
    pub fn release_unused(&mut self, id: SequenceId) {
        let Some(s) = self.sequences.get_mut(&id) else { return };
        let keep = s.tokens.div_ceil(BLOCK_TOKENS);
        self.keep_blocks(id, keep);
    }

    /// Truncates a sequence, if it is open, to a length that was checked.
    fn cut(&mut self, id: SequenceId, tokens: usize) {
        let Some(s) = self.sequences.get_mut(&id) else { return };
        let states = self.states.as_mut().filter(|_| tokens < s.tokens || !States::is_current(&s.state));
        if let Some(states) = states {
            if !states.go_back(&s.state, tokens) {
                let last = tokens.checked_sub(1).map(|last| s.blocks[last / BLOCK_TOKENS]);
                states.restore(&mut s.state, last);
            }
            // The block gets other tokens, so a checkpoint at its end is none any more.
            if !tokens.is_multiple_of(BLOCK_TOKENS) {
                states.forget(s.blocks[tokens / BLOCK_TOKENS]);
            }
        }
        s.tokens = tokens;
        let keep = tokens.div_ceil(BLOCK_TOKENS);
        s.published = s.published.min(keep);
        self.keep_blocks(id, keep);
    }

    /// Releases all but the first `keep` blocks of a sequence.
    fn keep_blocks(&mut self, id: SequenceId, keep: usize) {
        let Some(s) = self.sequences.get_mut(&id) else { return };
        let mut blocks = std::mem::take(&mut s.blocks);
        self.release(&mut blocks, keep);
        if let Some(s) = self.sequences.get_mut(&id) {
            s.blocks = blocks;
        }
    }

    /// Reserves blocks for the first `tokens` tokens of a sequence, evicting kept blocks as needed. Returns `false` and
    /// does nothing if there are too few blocks or the sequence is not open.
    pub fn reserve(&mut self, id: SequenceId, tokens: usize) -> bool {
        let Some(s) = self.sequences.get(&id) else { return false };
        let missing = tokens.div_ceil(BLOCK_TOKENS).saturating_sub(s.blocks.len());
        if missing > self.available_blocks() {
            return false;
        }
        let blocks: Vec<u32> = (0..missing).filter_map(|_| self.pages.take()).collect();
        for &b in &blocks {
            // Its former contents are gone.
            self.kinds_mut().for_each(|kind| kind.forget(b));
        }
        if let Some(s) = self.sequences.get_mut(&id) {
            s.blocks.extend(blocks);
        }
        true
    }

    /// Shares the full blocks of a sequence, which stores `tokens`. If the index already has a block with the same
    /// contents, that one replaces the sequence's own: the same tokens give the same bits. Does nothing for a sequence
    /// opened without a scope.
    ///
    /// # Errors
    /// The sequence is not open.
    pub fn publish(&mut self, id: SequenceId, tokens: &[u32]) -> Result<(), Error> {
        let s = self.get(id)?;
        let Some(scope) = s.scope.clone().filter(|_| self.shares_beginnings()) else { return Ok(()) };
        let full = s.tokens.min(tokens.len()) / BLOCK_TOKENS;
        for i in s.published..full {
            let part = &tokens[i * BLOCK_TOKENS..(i + 1) * BLOCK_TOKENS];
            let s = self.get(id)?;
            let own = s.blocks[i];
            let parent = i.checked_sub(1).map(|p| s.blocks[p]);
            match self.pages.index.find(&scope, parent, part) {
                Some(same) => {
                    self.kinds_mut().for_each(|kind| kind.hand_over(own, same));
                    self.pages.hold(same);
                    self.let_go(own);
                    let s = self.get_mut(id)?;
                    s.blocks[i] = same;
                    States::rename(&mut s.state, own, same);
                }
                None => self.pages.index.insert(own, &scope, parent, part),
            }
            self.get_mut(id)?.published = i + 1;
        }
        Ok(())
    }

    /// Returns the tokens that followed `tokens`, the whole text of a sequence, in an earlier text of its scope that the
    /// prefix cache holds, at most `most`; empty for a text without a whole shared block.
    #[must_use]
    pub fn continuation(&self, id: SequenceId, tokens: &[u32], most: usize) -> Vec<u32> {
        let Some(s) = self.sequences.get(&id) else { return Vec::new() };
        let Some(parent) = s.published.checked_sub(1).map(|last| s.blocks[last]) else { return Vec::new() };
        tokens
            .get(s.published * BLOCK_TOKENS..)
            .map_or_else(Vec::new, |tail| self.pages.index.continuation(parent, tail, most))
    }

    /// Records that the next `tokens` tokens of a sequence are stored. Their blocks must be reserved.
    pub(crate) fn advance(&mut self, id: SequenceId, tokens: usize) {
        if let Some(s) = self.sequences.get_mut(&id) {
            s.tokens += tokens;
        }
    }

    /// Returns an open sequence.
    pub(crate) fn get(&self, id: SequenceId) -> Result<&Sequence, Error> {
        Ok(self.sequences.get(&id).ok_or(ErrorKind::UnknownSequence)?)
    }

    fn get_mut(&mut self, id: SequenceId) -> Result<&mut Sequence, Error> {
        Ok(self.sequences.get_mut(&id).ok_or(ErrorKind::UnknownSequence)?)
    }

    fn insert(&mut self, mut sequence: Sequence) -> SequenceId {
        let id = SequenceId(self.next);
        if let Some(states) = &mut self.states {
            sequence.state = states.open();
        }
        self.next += 1;
        self.sequences.insert(id, sequence);
        id
    }

    /// Returns the cached blocks of a prefix of `tokens`, without the last token, after which all kinds of layers can
    /// continue; and the number of cached blocks that attention layers alone could use.
    fn known(&self, scope: Option<&Arc<Scope>>, tokens: &[u32]) -> (Vec<u32>, usize) {
        let limit = tokens.len().saturating_sub(1) / BLOCK_TOKENS;
        let mut blocks = scope.map_or_else(Vec::new, |s| self.pages.index.longest(s, tokens, limit));
        let all = blocks.len();
        while !self.kinds().all(|kind| kind.can_continue(&blocks, blocks.len() * BLOCK_TOKENS)) {
            blocks.pop();
        }
        (blocks, all)
    }

    fn let_go(&mut self, block: u32) {
        if self.pages.let_go(block) {
            self.kinds_mut().for_each(|kind| kind.forget(block));
        }
    }

    /// Releases all but the first `keep` blocks, last first.
    fn release(&mut self, blocks: &mut Vec<u32>, keep: usize) {
        while blocks.len() > keep
            && let Some(block) = blocks.pop()
        {
            self.let_go(block);
        }
    }

    /// Asserts the invariants.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut held = vec![0; self.pages.total()];
        for s in self.sequences.values() {
            assert!(s.blocks.len() * BLOCK_TOKENS >= s.tokens, "room for every token");
            s.blocks.iter().for_each(|b| held[*b as usize] += 1);
            for (i, b) in s.blocks.iter().enumerate() {
                assert_eq!(i < s.published, self.pages.index.contains(*b), "block {i} of a sequence");
                assert!(i < s.published || held[*b as usize] == 1, "a block to be written has one holder");
            }
        }
        self.pages.check(&held);
        self.kinds().for_each(CacheKind::check);
    }

    /// Returns the number of open sequences.
    #[cfg(test)]
    pub(crate) fn open_sequences(&self) -> usize {
        self.sequences.len()
    }
}
