//! Preemption.

use super::Scheduler;
use super::request::{Decision, KeyId, RequestId};
use super::task::{Part, Task};
use crate::tables::{BlockTables, SequenceId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Slots and blocks held by each key, and an equal share of them.
#[derive(Debug)]
pub(super) struct Shares {
    slots: usize,
    blocks: usize,
    /// Numbers of all slots and blocks.
    of_all: (usize, usize),
    held: BTreeMap<KeyId, (usize, usize)>,
}

impl Shares {
    fn of(&self, key: KeyId) -> (usize, usize) {
        self.held.get(&key).copied().unwrap_or_default()
    }

    /// Returns whether the key holds more than its share of slots, or of blocks.
    fn exceeded(&self, key: KeyId) -> bool {
        let (slots, blocks) = self.of(key);
        slots > self.slots || blocks > self.blocks
    }

    /// Returns the key's dominant share if it exceeds an equal share, else 0: the larger of its fractions of all slots
    /// and of all blocks (Ghodsi et al., NSDI 2011), as a multiple of 1 / (slots × blocks).
    fn excess(&self, key: KeyId) -> usize {
        let (slots, blocks) = self.of(key);
        let all = self.of_all;
        if self.exceeded(key) { slots.saturating_mul(all.1).max(blocks.saturating_mul(all.0)) } else { 0 }
    }

    /// Returns whether the key would stay within its share with another task of so many blocks.
    fn allows(&self, key: KeyId, more_blocks: usize) -> bool {
        let (slots, blocks) = self.of(key);
        slots < self.slots && blocks + more_blocks <= self.blocks
    }
}

impl Scheduler {
    /// Returns an equal share of slots and blocks for each key that has requests.
    pub(super) fn shares(&self, tables: &BlockTables) -> Shares {
        let mut held = BTreeMap::<KeyId, (usize, usize)>::new();
        for t in &self.running {
            let h = held.entry(t.request.key).or_default();
            h.0 += 1;
            h.1 += t.sequence.map_or(0, |s| tables.blocks_of(s));
        }
        let keys: BTreeSet<KeyId> = self.queue.keys().chain(held.keys().copied()).collect();
        let n = keys.len().max(1);
        let of_all = (self.options.running, self.blocks);
        Shares { slots: (of_all.0 / n).max(1), blocks: of_all.1 / n, of_all, held }
    }

    /// Returns the oldest running task of the highest priority.
    pub(super) fn eldest(&self) -> Option<RequestId> {
        let rank = |t: &&Task| (Reverse(t.request.priority), t.order);
        self.running.iter().min_by_key(rank).map(|t| t.request.id)
    }

    /// Sorts the running tasks in reverse order of preemption: the last is preempted first.
    pub(super) fn rank(&mut self, tables: &BlockTables) {
        let shares = self.shares(tables);
        let eldest = self.eldest();
        self.running.sort_by_key(|t| {
            let r = &t.request;
            (Reverse(r.priority), Some(r.id) != eldest, shares.excess(r.key), t.order)
        });
    }

    /// Preempts a running task: puts it back in the queue.
    pub(super) fn preempt(&mut self, i: usize, tables: &mut BlockTables, decisions: &mut Vec<Decision>) {
        let mut task = self.running.remove(i);
        if let Some(sequence) = task.sequence.take() {
            match &mut task.request.held {
                // The held sequence stays open, and is emptied.
                Some(held) => {
                    held.same = 0;
                    tables.clear(sequence);
                }
                None => tables.close(sequence),
            }
        }
        task.computed = 0;
        task.part = Part::default();
        task.preempted_in = self.steps;
        decisions.push(Decision::Preempted { request: task.request.id });
        self.enqueue(task);
    }

    /// Makes room for a waiting request: preempts tasks of lower priority, and tasks of keys that hold more than their
    /// share if the request's key stays within its own. `blocks` is the number that the request needs, 0 if only a slot
    /// is missing. Preempts no task if that would not be enough. Returns whether there is room.
    pub(super) fn reclaim(
        &mut self,
        priority: i32,
        key: KeyId,
        blocks: usize,
        tables: &mut BlockTables,
        decisions: &mut Vec<Decision>,
    ) -> bool {
        self.rank(tables);
        let mut shares = self.shares(tables);
        let eldest = self.eldest();
        // Under a promise, those who were admitted keep their speed.
        let entitled = self.slo.is_none() && shares.allows(key, blocks);
        let (mut victims, mut sequences) = (Vec::<usize>::new(), Vec::<SequenceId>::new());
        let enough = |sequences: &[SequenceId]| {
            sequences.len() + self.options.running > self.running.len()
                && tables.available_blocks() + tables.releasable(sequences) >= blocks
        };
        for (i, t) in self.running.iter().enumerate().rev() {
            if enough(&sequences) {
                break;
            }
            let r = &t.request;
            let equal = r.priority == priority && r.key != key && Some(r.id) != eldest;
            let greedy = entitled && equal && shares.exceeded(r.key);
            if t.admitted_in != self.steps && (r.priority < priority || greedy) {
                victims.push(i);
                sequences.extend(t.sequence);
                if let Some(h) = shares.held.get_mut(&r.key) {
                    h.0 -= 1;
                    h.1 -= t.sequence.map_or(0, |s| tables.blocks_of(s)).min(h.1);
                }
            }
        }
        let enough = enough(&sequences);
        if enough {
            // From the last one, so that the indices of the others stay valid.
            victims.into_iter().for_each(|i| self.preempt(i, tables, decisions));
        }
        enough
    }
}
