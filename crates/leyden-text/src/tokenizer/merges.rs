//! [`Merges`]: merge rules of byte-pair encoding.
//!
//! As long as some adjacent pair is in the list, the pair of the lowest rank is replaced by its merged token, the
//! leftmost on a tie. Short words find that pair by a scan; long ones keep the candidates in a heap, so that even a
//! word of a megabyte takes O(n log n) time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foldhash::{HashMap, HashMapExt};

use super::bounds::{CHECK_INTERVAL, Exceeded};

/// Maximum length in tokens of a word that is merged by scanning for the best pair.
pub(super) const SCAN_TOKENS: usize = 48;

/// Maximum length in tokens of a word that is merged as one.
const MAX_TOKENS: usize = u32::MAX as usize - 1;

/// Merge of a pair of adjacent tokens.
#[derive(Clone, Copy)]
pub(super) struct Merge {
    /// Rank in the list: lower ranks are merged first.
    pub(super) rank: u32,
    /// Merged token.
    pub(super) id: u32,
}

/// Merges of a vocabulary.
pub(super) struct Merges(HashMap<(u32, u32), Merge>);

impl Merges {
    pub(super) fn with_capacity(n: usize) -> Self {
        Merges(HashMap::with_capacity(n))
    }

    /// Adds a merge, replacing an earlier one of the same pair.
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

    /// Merges the tokens of one word, those from `start` on. Fails if `stop` returns true meanwhile; the ids from
    /// `start` on are then meaningless.
    pub(super) fn apply(
        &self,
        ids: &mut Vec<u32>,
        start: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Exceeded> {
        let len = ids.len() - start;
        if len <= SCAN_TOKENS {
            let len = self.scan(&mut ids[start..]);
            ids.truncate(start + len);
            return Ok(());
        }
        // Positions have 32 bits: a longer word, which has gigabytes, is merged in parts.
        let (mut from, mut kept) = (start, start);
        while from < ids.len() {
            let end = ids.len().min(from.saturating_add(MAX_TOKENS));
            let len = self.heap(&mut ids[from..end], stop).ok_or(Exceeded::Stopped)?;
            ids.copy_within(from..from + len, kept);
            (from, kept) = (end, kept + len);
        }
        ids.truncate(kept);
        Ok(())
    }

    /// Merges in place and returns the number of remaining ids.
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

    /// Merges in place and returns the number of remaining ids, or `None` if `stop` returned true.
    fn heap(&self, ids: &mut [u32], stop: &dyn Fn() -> bool) -> Option<usize> {
        /// No neighbour, and the rank of no pair.
        const NONE: u32 = u32::MAX;
        let n = ids.len();
        let last = u32::try_from(n).unwrap_or(NONE);
        // Neighbours of the ids that are left.
        let mut next: Vec<u32> = (1..=last).collect();
        let mut previous: Vec<u32> = (0..last).map(|i| i.wrapping_sub(1)).collect();
        // Merge of each id with the next one.
        let none = Merge { rank: NONE, id: 0 };
        let pairs = ids.windows(2).map(|pair| self.get(pair[0], pair[1]).unwrap_or(none));
        let mut pairs: Vec<Merge> = pairs.chain([none]).collect();
        // Rank and position in one number. An entry is stale if its pair has another rank by now.
        let key = |rank: u32, at: u32| Reverse(u64::from(rank) << 32 | u64::from(at));
        let known = (0..last).zip(&pairs).filter(|(_, merge)| merge.rank != NONE);
        let mut heap: BinaryHeap<_> = known.map(|(at, merge)| key(merge.rank, at)).collect();
        let mut steps = 0_usize;
        while let Some(Reverse(best)) = heap.pop() {
            steps += 1;
            if steps.is_multiple_of(CHECK_INTERVAL) && stop() {
                return None;
            }
            // The lower half of a 64-bit number.
            let (rank, place) = ((best >> 32) as u32, best as u32);
            let at = place as usize;
            if pairs[at].rank != rank {
                continue;
            }
            let gone = next[at] as usize;
            ids[at] = pairs[at].id;
            pairs[gone].rank = NONE;
            next[at] = next[gone];
            let behind = next[at] as usize;
            if let Some(previous) = previous.get_mut(behind) {
                *previous = place;
            }
            let before = previous[at];
            if let Some(pair) = pairs.get_mut(before as usize) {
                *pair = self.get(ids[before as usize], ids[at]).unwrap_or(none);
                if pair.rank != NONE {
                    heap.push(key(pair.rank, before));
                }
            }
            let with_next = ids.get(behind).and_then(|&id| self.get(ids[at], id));
            pairs[at] = with_next.unwrap_or(none);
            if pairs[at].rank != NONE {
                heap.push(key(pairs[at].rank, place));
            }
        }
        let mut kept = 0;
        let mut at = 0;
        while at < n {
            ids[kept] = ids[at];
            kept += 1;
            at = next[at] as usize;
        }
        Some(kept)
    }
}
