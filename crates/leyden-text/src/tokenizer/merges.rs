//! [`Merges`]: which neighbouring tokens become one, the heart of byte-pair encoding.
//!
//! As long as some neighbouring pair is in the list, the pair that stands earliest in it is replaced by its merged
//! token, and of equal pairs the leftmost. Short words look for that pair by scanning; long ones keep the candidates
//! in a heap, so that even a word of a megabyte takes time in proportion to its length (times a logarithm).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foldhash::{HashMap, HashMapExt};

/// The longest word, in tokens, that is merged by scanning for the best pair.
pub(super) const SCAN_TOKENS: usize = 48;

/// A pair of neighbouring tokens that may be merged.
#[derive(Clone, Copy)]
pub(super) struct Merge {
    /// The place in the list: lower goes first.
    pub(super) rank: u32,
    /// What the pair becomes.
    pub(super) id: u32,
}

/// The merges of a vocabulary.
pub(super) struct Merges(HashMap<(u32, u32), Merge>);

impl Merges {
    pub(super) fn with_capacity(n: usize) -> Self {
        Merges(HashMap::with_capacity(n))
    }

    /// Adds a merge; one of the same pair that was added before is forgotten.
    pub(super) fn insert(&mut self, left: u32, right: u32, merge: Merge) {
        self.0.insert((left, right), merge);
    }

    /// Adds a merge unless there is one of the same pair.
    pub(super) fn insert_new(&mut self, left: u32, right: u32, merge: Merge) {
        self.0.entry((left, right)).or_insert(merge);
    }

    fn get(&self, left: u32, right: u32) -> Option<Merge> {
        self.0.get(&(left, right)).copied()
    }

    /// Merges the tokens of one word, those from `start` on.
    pub(super) fn apply(&self, ids: &mut Vec<u32>, start: usize) {
        let word = &mut ids[start..];
        let len = if word.len() <= SCAN_TOKENS { self.scan(word) } else { self.heap(word) };
        ids.truncate(start + len);
    }

    /// Merges in place and returns how many ids are left.
    fn scan(&self, ids: &mut [u32]) -> usize {
        let mut n = ids.len();
        let mut pairs = [None; SCAN_TOKENS];
        for i in 1..n {
            pairs[i - 1] = self.get(ids[i - 1], ids[i]);
        }
        loop {
            let best = (1..n).filter_map(|i| pairs[i - 1].map(|merge| (merge.rank, i - 1, merge.id))).min();
            let Some((_, at, id)) = best else { return n };
            ids[at] = id;
            ids.copy_within(at + 2..n, at + 1);
            pairs.copy_within(at + 1..n, at);
            n -= 1;
            if at > 0 {
                pairs[at - 1] = self.get(ids[at - 1], id);
            }
            pairs[at] = if at + 1 < n { self.get(id, ids[at + 1]) } else { None };
        }
    }

    /// Merges in place and returns how many ids are left.
    fn heap(&self, ids: &mut [u32]) -> usize {
        /// Marks an id that was merged into the one before it.
        const GONE: u32 = u32::MAX;
        /// A pair as it was when pushed; it is stale if either id has changed since.
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        struct Candidate {
            rank: u32,
            at: usize,
            left: u32,
            right: u32,
            id: u32,
        }
        let n = ids.len();
        // The neighbours of the ids that are not gone; `n` and `usize::MAX` are beyond the ends.
        let mut next: Vec<usize> = (1..=n).collect();
        let mut previous: Vec<usize> = (0..n).map(|i| i.wrapping_sub(1)).collect();
        let candidate = |ids: &[u32], at: usize, next: usize| {
            let (&left, &right) = (ids.get(at)?, ids.get(next)?);
            let merge = self.get(left, right)?;
            Some(Reverse(Candidate { rank: merge.rank, at, left, right, id: merge.id }))
        };
        let mut heap: BinaryHeap<_> = (0..n).filter_map(|at| candidate(ids, at, at + 1)).collect();
        while let Some(Reverse(best)) = heap.pop() {
            let (at, gone) = (best.at, next[best.at]);
            if ids[at] != best.left || ids.get(gone) != Some(&best.right) {
                continue;
            }
            ids[at] = best.id;
            ids[gone] = GONE;
            next[at] = next[gone];
            if let Some(previous) = previous.get_mut(next[at]) {
                *previous = at;
            }
            heap.extend(candidate(ids, previous[at], at));
            heap.extend(candidate(ids, at, next[at]));
        }
        let mut kept = 0;
        let mut at = 0;
        while at < n {
            ids[kept] = ids[at];
            kept += 1;
            at = next[at];
        }
        kept
    }
}
