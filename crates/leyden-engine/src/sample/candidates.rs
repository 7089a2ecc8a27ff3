//! Tokens still in the running.

use std::cmp::Ordering;

/// A token and its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) id: u32,
    pub(super) logit: f32,
}

/// Candidates, best first once sorted.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) items: Vec<Item>,
    /// The first this many are the best, in order.
    sorted: usize,
}

/// Best first; among equals the lower id.
fn order(a: &Item, b: &Item) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

impl Candidates {
    /// All tokens with a logit above minus infinity.
    pub(super) fn fill(&mut self, logits: &[f32]) {
        self.items.clear();
        let all = (0_u32..).zip(logits).map(|(id, &logit)| Item { id, logit });
        self.items.extend(all.filter(|i| i.logit > f32::NEG_INFINITY));
        self.sorted = 0;
    }

    /// Brings the best `n` to the front, in order. Costs far less than sorting all where `n` is small.
    pub(super) fn sort(&mut self, n: usize) {
        let n = n.min(self.items.len());
        if n <= self.sorted {
            return;
        }
        let rest = &mut self.items[self.sorted..];
        let new = n - self.sorted;
        if new < rest.len() {
            rest.select_nth_unstable_by(new, order);
        }
        rest[..new].sort_unstable_by(order);
        self.sorted = n;
    }

    /// Keeps the best `n`.
    pub(super) fn keep(&mut self, n: usize) {
        if n < self.items.len() {
            self.sort(n);
            self.items.truncate(n);
        }
    }

    /// Keeps those with at least this logit.
    pub(super) fn keep_above(&mut self, logit: f32) {
        self.items.retain(|i| i.logit >= logit);
        self.sorted = self.sorted.min(self.items.len());
    }

    pub(super) fn sort_all(&mut self) {
        self.sort(self.items.len());
    }
}
