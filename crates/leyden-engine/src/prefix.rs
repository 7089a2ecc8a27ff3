//! Index of the prefix cache: full blocks by their contents.
//!
//! A full block is identified by everything that its contents depend on: the [`Scope`] of its sequence, all earlier
//! tokens and its own tokens. Lookups use a hash chained from block to block and then compare all of these, so a
//! collision costs time and never returns a wrong block. Blocks that no sequence holds (idle blocks) are kept until
//! room is needed, and evicted in the order in which they were last used.

use leyden_kernels::attention::{BLOCK_TOKENS, KvType};
use leyden_models::AdapterSet;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Everything besides the tokens that must be equal for two sequences to share blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Digest of the weights, or another name that identifies them.
    pub model: String,
    /// Storage type of keys and values.
    pub kv_type: KvType,
    /// Owner of the blocks: the API key, so that response times reveal nothing about the prompts of other keys.
    /// Sequences with the empty owner share among themselves.
    pub owner: String,
    /// Adapters of the sequence, with their scales.
    pub adapters: AdapterSet,
    /// Anything else that changes the result or separates users of one key.
    pub salt: String,
}

/// Number of times that all idle blocks are replaced before an unused block loses the protection of its owner's share.
/// Without this limit, the blocks of keys that are no longer used would be kept forever.
const MAX_TURNS: u64 = 16;

/// Maximum number of blocks after one that are compared in the search for a continuation.
const MAX_FOLLOWERS: usize = 64;

/// Block in the index.
#[derive(Debug)]
struct Entry {
    hash: u64,
    /// Previous block of the sequence. It stays in the index as long as this one: every holder of this block holds it
    /// too.
    parent: Option<u32>,
    scope: Arc<Scope>,
    tokens: Box<[u32]>,
    /// Tick at which its last holder released it; `None` while it is held.
    idle_since: Option<u64>,
}

/// Index of full blocks.
#[derive(Debug)]
pub(crate) struct PrefixIndex {
    entries: HashMap<u32, Entry>,
    by_hash: HashMap<u64, Vec<u32>>,
    /// Blocks that follow a block, in the order in which they were added.
    followers: HashMap<u32, Vec<u32>>,
    /// Blocks without a holder, the least recently used first.
    idle: BTreeMap<u64, u32>,
    /// Ticks of the idle blocks, by owner.
    owners: HashMap<String, BTreeSet<u64>>,
    /// Number of times that a block became idle.
    ticks: u64,
    /// Bits of the hash that are used; fewer in tests of collisions.
    mask: u64,
}

impl Default for PrefixIndex {
    fn default() -> PrefixIndex {
        PrefixIndex {
            entries: HashMap::new(),
            by_hash: HashMap::new(),
            followers: HashMap::new(),
            idle: BTreeMap::new(),
            owners: HashMap::new(),
            ticks: 0,
            mask: u64::MAX,
        }
    }
}

impl PrefixIndex {
    /// Creates an index whose hashes have few bits.
    #[cfg(test)]
    pub(crate) fn with_hash_bits(bits: u32) -> PrefixIndex {
        PrefixIndex { mask: (1 << bits) - 1, ..PrefixIndex::default() }
    }

    /// Returns the number of blocks without a holder.
    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Returns whether the block is in the index.
    pub(crate) fn contains(&self, block: u32) -> bool {
        self.entries.contains_key(&block)
    }

    /// Returns whether the block is in the index and has no holder.
    pub(crate) fn is_idle(&self, block: u32) -> bool {
        self.entries.get(&block).is_some_and(|e| e.idle_since.is_some())
    }

    /// Returns the block with `tokens` that follows the block `parent`.
    pub(crate) fn find(&self, scope: &Arc<Scope>, parent: Option<u32>, tokens: &[u32]) -> Option<u32> {
        let candidates = self.by_hash.get(&self.hash(scope, parent, tokens))?;
        candidates.iter().copied().find(|b| {
            self.entries.get(b).is_some_and(|e| {
                e.parent == parent
                    && *e.tokens == *tokens
                    && (Arc::ptr_eq(&e.scope, scope) || e.scope == *scope)
            })
        })
    }

    /// Returns the blocks of the longest known prefix of `tokens`, at most `limit` of them.
    pub(crate) fn longest(&self, scope: &Arc<Scope>, tokens: &[u32], limit: usize) -> Vec<u32> {
        let mut blocks = Vec::new();
        for part in tokens.chunks_exact(BLOCK_TOKENS).take(limit) {
            match self.find(scope, blocks.last().copied(), part) {
                Some(block) => blocks.push(block),
                None => break,
            }
        }
        blocks
    }

    /// Adds a block that is held and not yet in the index; `parent` must be in it.
    pub(crate) fn insert(&mut self, block: u32, scope: &Arc<Scope>, parent: Option<u32>, tokens: &[u32]) {
        let hash = self.hash(scope, parent, tokens);
        let entry = Entry { hash, parent, scope: Arc::clone(scope), tokens: tokens.into(), idle_since: None };
        self.entries.insert(block, entry);
        self.by_hash.entry(hash).or_default().push(block);
        if let Some(parent) = parent {
            self.followers.entry(parent).or_default().push(block);
        }
    }

    /// Returns the tokens that followed `tail` when it came after the block `parent` in an earlier text, at most
    /// `most`. Of several such texts, the one whose block was added last counts.
    pub(crate) fn continuation(&self, parent: u32, tail: &[u32], most: usize) -> Vec<u32> {
        let mut found = Vec::new();
        let (mut parent, mut tail) = (parent, tail);
        while found.len() < most {
            let followers = self.followers.get(&parent).into_iter().flatten().rev().take(MAX_FOLLOWERS);
            let mut entries = followers.filter_map(|block| Some((*block, &self.entries.get(block)?.tokens)));
            let Some((block, tokens)) = entries.find(|(_, tokens)| tokens.starts_with(tail)) else { break };
            found.extend(tokens[tail.len()..].iter().take(most - found.len()));
            (parent, tail) = (block, &[]);
        }
        found
    }

    /// Marks a block as held again.
    pub(crate) fn mark_held(&mut self, block: u32) {
        if let Some(e) = self.entries.get_mut(&block)
            && let Some(tick) = e.idle_since.take()
        {
            self.idle.remove(&tick);
            forget(&mut self.owners, &e.scope.owner, tick);
        }
    }

    /// Marks a block as idle: its last holder has released it. Of a sequence's blocks, the last one is released first.
    pub(crate) fn mark_idle(&mut self, block: u32) {
        if let Some(e) = self.entries.get_mut(&block) {
            self.ticks += 1;
            e.idle_since = Some(self.ticks);
            self.idle.insert(self.ticks, block);
            self.owners.entry(e.scope.owner.clone()).or_default().insert(self.ticks);
        }
    }

    /// Removes an idle block from the index and returns it: the least recently used one of an owner with more than half
    /// of the idle blocks, else of the owners with more than an equal share, else of all. So many requests of several
    /// owners leave another owner its share, until its blocks have been idle for [`MAX_TURNS`].
    pub(crate) fn evict(&mut self) -> Option<u32> {
        let (&oldest, _) = self.idle.first_key_value()?;
        let idle = self.idle.len();
        // Returns the least recently used block of the owners with more than 1 / `parts` of the idle blocks.
        let above = |parts: usize| {
            let owners = self.owners.values().filter(|ticks| ticks.len() * parts > idle);
            owners.filter_map(|ticks| ticks.first().copied()).min()
        };
        let is_kept = self.ticks - oldest <= MAX_TURNS * idle as u64;
        let shared = || above(self.owners.len()).filter(|_| is_kept);
        let tick = above(2).or_else(shared).unwrap_or(oldest);
        let block = self.idle.remove(&tick)?;
        if let Some(e) = self.entries.remove(&block) {
            forget(&mut self.owners, &e.scope.owner, tick);
            if let Some(same) = self.by_hash.get_mut(&e.hash) {
                same.retain(|b| *b != block);
                if same.is_empty() {
                    self.by_hash.remove(&e.hash);
                }
            }
            if let Some(siblings) = e.parent.and_then(|parent| self.followers.get_mut(&parent)) {
                siblings.retain(|b| *b != block);
            }
            // Its own followers are idle and older: they were evicted before.
            self.followers.remove(&block);
        }
        Some(block)
    }

    /// Asserts the invariants; `held` counts the holders of each block.
    #[cfg(test)]
    pub(crate) fn check(&self, held: &[u32]) {
        for (b, e) in &self.entries {
            assert_eq!(held[*b as usize] == 0, e.idle_since.is_some());
            assert!(e.parent.is_none_or(|p| self.entries.contains_key(&p)), "a parent stays");
            assert!(self.by_hash[&e.hash].contains(b));
        }
        let follow: usize = self.entries.values().filter(|e| e.parent.is_some()).count();
        assert_eq!(follow, self.followers.values().map(Vec::len).sum::<usize>());
        assert_eq!(self.entries.len(), self.by_hash.values().map(Vec::len).sum::<usize>());
        assert_eq!(self.idle.len(), self.owners.values().map(BTreeSet::len).sum::<usize>());
        assert!(self.idle.iter().all(|(t, b)| self.entries[b].idle_since == Some(*t)));
    }

    fn hash(&self, scope: &Scope, parent: Option<u32>, tokens: &[u32]) -> u64 {
        // Fixed hash keys: the same requests always find the same blocks.
        let mut hasher = DefaultHasher::new();
        match parent.and_then(|p| self.entries.get(&p)) {
            // The parent's hash covers the scope and all earlier tokens.
            Some(p) => p.hash.hash(&mut hasher),
            None => scope.hash(&mut hasher),
        }
        tokens.hash(&mut hasher);
        hasher.finish() & self.mask
    }
}

fn forget(owners: &mut HashMap<String, BTreeSet<u64>>, owner: &str, tick: u64) {
    if let Some(ticks) = owners.get_mut(owner) {
        ticks.remove(&tick);
        if ticks.is_empty() {
            owners.remove(owner);
        }
    }
}

#[cfg(test)]
mod tests;
