//! Which blocks hold which tokens: the prefix cache's index.
//!
//! A full block is known by everything that made it: the [`Scope`] of its sequence, the tokens before it and its own
//! tokens. The index goes by a hash chained from block to block and then compares all of that, so a collision costs
//! time and never gives a wrong block. Blocks that no sequence holds are kept until room is needed, and go in the order
//! in which they were last used.

use leyden_kernels::attention::{BLOCK_TOKENS, KvType};
use leyden_models::AdapterSet;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What, besides the tokens, must be equal for two sequences to share blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Which weights: their digest, or whatever else tells them apart.
    pub model: String,
    /// How keys and values are stored.
    pub kv_type: KvType,
    /// Who may share: the API key, so that nobody learns from the time of an answer what others have asked. Sequences
    /// with the empty owner share among themselves.
    pub owner: String,
    /// The adapters of the sequence, with their scales.
    pub adapters: AdapterSet,
    /// Anything else that changes the result or parts users within a key.
    pub salt: String,
}

/// How many times the idle blocks are exchanged before an unused block loses the protection of its owner's share. Without
/// an end, keys that are no longer used would keep their shares from the others.
const MAX_TURNS: u64 = 16;

/// A block in the index.
#[derive(Debug)]
struct Entry {
    hash: u64,
    /// The block before it. It stays as long as this one, for whoever holds this one holds it too.
    parent: Option<u32>,
    scope: Arc<Scope>,
    tokens: Box<[u32]>,
    /// When its last holder let go; `None` while it is held.
    idle_since: Option<u64>,
}

/// The index.
#[derive(Debug)]
pub(crate) struct PrefixIndex {
    entries: HashMap<u32, Entry>,
    by_hash: HashMap<u64, Vec<u32>>,
    /// Blocks that nobody holds, the longest unused first.
    idle: BTreeMap<u64, u32>,
    /// The same, by owner.
    owners: HashMap<String, BTreeSet<u64>>,
    /// Counts the times that a block was let go.
    ticks: u64,
    /// Bits of the hash that count; fewer in tests of collisions.
    mask: u64,
}

impl Default for PrefixIndex {
    fn default() -> PrefixIndex {
        PrefixIndex {
            entries: HashMap::new(),
            by_hash: HashMap::new(),
            idle: BTreeMap::new(),
            owners: HashMap::new(),
            ticks: 0,
            mask: u64::MAX,
        }
    }
}

impl PrefixIndex {
    /// An index whose hashes have few bits.
    #[cfg(test)]
    pub(crate) fn with_hash_bits(bits: u32) -> PrefixIndex {
        PrefixIndex { mask: (1 << bits) - 1, ..PrefixIndex::default() }
    }

    /// Blocks that nobody holds.
    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Whether the block is in the index.
    pub(crate) fn contains(&self, block: u32) -> bool {
        self.entries.contains_key(&block)
    }

    /// Whether the block is in the index and held by nobody.
    pub(crate) fn is_idle(&self, block: u32) -> bool {
        self.entries.get(&block).is_some_and(|e| e.idle_since.is_some())
    }

    /// The block that holds `tokens` behind the block `parent`.
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

    /// The blocks of the longest known beginning of `tokens`, at most `limit` of them.
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

    /// Takes in a block that is held and not yet known; `parent` must be known.
    pub(crate) fn insert(&mut self, block: u32, scope: &Arc<Scope>, parent: Option<u32>, tokens: &[u32]) {
        let hash = self.hash(scope, parent, tokens);
        let entry = Entry { hash, parent, scope: Arc::clone(scope), tokens: tokens.into(), idle_since: None };
        self.entries.insert(block, entry);
        self.by_hash.entry(hash).or_default().push(block);
    }

    /// Somebody holds the block again.
    pub(crate) fn wake(&mut self, block: u32) {
        if let Some(e) = self.entries.get_mut(&block)
            && let Some(tick) = e.idle_since.take()
        {
            self.idle.remove(&tick);
            forget(&mut self.owners, &e.scope.owner, tick);
        }
    }

    /// The block's last holder has let go of it. Of a chain, the last block goes first.
    pub(crate) fn rest(&mut self, block: u32) {
        if let Some(e) = self.entries.get_mut(&block) {
            self.ticks += 1;
            e.idle_since = Some(self.ticks);
            self.idle.insert(self.ticks, block);
            self.owners.entry(e.scope.owner.clone()).or_default().insert(self.ticks);
        }
    }

    /// Forgets an idle block, and returns it: the least recently used one of an owner with more than half of the idle blocks,
    /// else of the owners with more than an equal share, else of all. So floods of several owners leave another its share,
    /// until its blocks have been idle for [`MAX_TURNS`].
    pub(crate) fn evict(&mut self) -> Option<u32> {
        let (&oldest, _) = self.idle.first_key_value()?;
        let idle = self.idle.len();
        // The least recently used block of the owners with more than one part in `parts`.
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
        }
        Some(block)
    }

    /// What must hold between any two calls; `held` counts the holders of each block.
    #[cfg(test)]
    pub(crate) fn check(&self, held: &[u32]) {
        for (b, e) in &self.entries {
            assert_eq!(held[*b as usize] == 0, e.idle_since.is_some());
            assert!(e.parent.is_none_or(|p| self.entries.contains_key(&p)), "a parent stays");
            assert!(self.by_hash[&e.hash].contains(b));
        }
        assert_eq!(self.entries.len(), self.by_hash.values().map(Vec::len).sum::<usize>());
        assert_eq!(self.idle.len(), self.owners.values().map(BTreeSet::len).sum::<usize>());
        assert!(self.idle.iter().all(|(t, b)| self.entries[b].idle_since == Some(*t)));
    }

    fn hash(&self, scope: &Scope, parent: Option<u32>, tokens: &[u32]) -> u64 {
        // Fixed keys: the same requests always find the same blocks.
        let mut hasher = DefaultHasher::new();
        match parent.and_then(|p| self.entries.get(&p)) {
            // The chain: the parent's hash stands for the scope and for all tokens before.
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
