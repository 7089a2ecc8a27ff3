//! [`Candidates`]: tokens that can still be drawn.
//!
//! A vocabulary has up to some 200,000 tokens, of which a few dozen matter. So the logits stay in one array by token id
//! until a step asks for a part of them, and only the part that is read is sorted.

use super::TokenSet;
use leyden_kernels::{Tier, ops};
use std::cmp::Ordering;

/// Token and its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) id: u32,
    pub(super) logit: f32,
}

/// Number of logits with a common maximum: the best k of all lie in the k blocks with the highest maxima.
const BLOCK: usize = 64;

/// Number of best candidates sorted at first; then four times as many, and so on.
const FIRST: usize = 64;

/// Candidates, best first once sorted.
#[derive(Debug)]
pub(super) struct Candidates {
    /// Logits by token id, valid while `whole`.
    logits: Vec<f32>,
    /// True until a step asks for items.
    whole: bool,
    items: Vec<Item>,
    /// Number of items at the front that are the best, in order.
    sorted: usize,
    /// Pending divisor of the logits. Kept separate so that the draw can subtract before it divides.
    temperature: f32,
}

/// Unnormalised probabilities, in the order of the items.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) values: Vec<f32>,
    /// Sum of the values.
    pub(super) sum: f64,
    /// Logit whose weight is 1.
    pub(super) max: f32,
}

impl Default for Candidates {
    fn default() -> Candidates {
        Candidates { logits: Vec::new(), whole: true, items: Vec::new(), sorted: 0, temperature: 1.0 }
    }
}

/// Compares items: best first, then by lower id.
fn order(a: &Item, b: &Item) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// Sorts the first `to` of `items`, of which the first `from` are sorted already.
pub(super) fn sort_part<T>(items: &mut [T], from: usize, to: usize, order: impl Fn(&T, &T) -> Ordering) {
    let rest = &mut items[from..];
    let new = to - from;
    if new < rest.len() {
        rest.select_nth_unstable_by(new, &order);
    }
    rest[..new].sort_unstable_by(&order);
}

/// Computes the maximum of every block, vectorised by the compiler.
fn maxima(logits: &[f32]) -> Vec<f32> {
    let max = |block: &[f32]| {
        let mut lanes = [f32::NEG_INFINITY; 16];
        let (parts, rest) = block.as_chunks::<16>();
        for part in parts {
            for i in 0..16 {
                lanes[i] = if part[i] > lanes[i] { part[i] } else { lanes[i] };
            }
        }
        lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |m, l| if *l > m { *l } else { m })
    };
    logits.chunks(BLOCK).map(max).collect()
}

impl Candidates {
    /// Starts with all tokens, except those with a logit of minus infinity. Returns false if a logit is NaN or plus
    /// infinity.
    pub(super) fn fill(&mut self, logits: &[f32]) -> bool {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        self.items.clear();
        (self.whole, self.sorted, self.temperature) = (true, 0, 1.0);
        logits.chunks(1024).all(|part| part.iter().fold(true, |good, l| good & (*l < f32::INFINITY)))
    }

    /// Removes all tokens but these; must follow [`fill`](Candidates::fill).
    pub(super) fn allow(&mut self, allowed: TokenSet<'_>) {
        allowed.mask(&mut self.logits);
    }

    /// Changes logits of distinct tokens by `change(id, logit)`, which must leave all others as they are. Results are
    /// clamped to finite numbers.
    pub(super) fn adjust(
        &mut self,
        ids: impl IntoIterator<Item = u32>,
        mut change: impl FnMut(u32, f32) -> f32,
    ) {
        let mut adjust = |id: u32, logit: &mut f32| {
            if *logit > f32::NEG_INFINITY {
                *logit = change(id, *logit).clamp(f32::MIN, f32::MAX);
            }
        };
        if self.whole {
            for id in ids {
                if let Some(logit) = self.logits.get_mut(id as usize) {
                    adjust(id, logit);
                }
            }
        } else {
            self.items.iter_mut().for_each(|i| adjust(i.id, &mut i.logit));
            self.sorted = 0;
        }
    }

    /// Removes a token.
    pub(super) fn forbid(&mut self, id: u32) {
        if self.whole {
            if let Some(logit) = self.logits.get_mut(id as usize) {
                *logit = f32::NEG_INFINITY;
            }
        } else {
            self.items.retain(|i| i.id != id);
            self.sorted = 0;
        }
    }

    /// Moves the tokens with at least this logit from the array to the items.
    fn gather(&mut self, floor: f32, maxima: &[f32]) {
        self.items.clear();
        for ((first, block), max) in (0_u32..).step_by(BLOCK).zip(self.logits.chunks(BLOCK)).zip(maxima) {
            if *max >= floor && *max > f32::NEG_INFINITY {
                let all = (first..).zip(block).map(|(id, &logit)| Item { id, logit });
                self.items.extend(all.filter(|i| i.logit >= floor && i.logit > f32::NEG_INFINITY));
            }
        }
        (self.whole, self.sorted) = (false, 0);
    }

    /// Returns the candidates, the sorted ones first.
    pub(super) fn items(&mut self) -> &[Item] {
        if self.whole {
            self.items.clear();
            let all = (0_u32..).zip(&self.logits).map(|(id, &logit)| Item { id, logit });
            self.items.extend(all.filter(|i| i.logit > f32::NEG_INFINITY));
            (self.whole, self.sorted) = (false, 0);
        }
        &self.items
    }

    /// Returns the best candidate, the one with the lowest id among equals; `None` if there are no candidates.
    pub(super) fn best(&self) -> Option<Item> {
        if self.whole {
            let maxima = maxima(&self.logits);
            let max = maxima.iter().fold(f32::NEG_INFINITY, |m, l| if *l > m { *l } else { m });
            let block = maxima.iter().position(|m| *m == max && max > f32::NEG_INFINITY)?;
            let from = block * BLOCK;
            let at = from + self.logits[from..].iter().position(|l| *l == max)?;
            return Some(Item { id: u32::try_from(at).ok()?, logit: self.logits[at] });
        }
        if self.sorted > 0 { self.items.first() } else { self.items.iter().min_by(|a, b| order(a, b)) }
            .copied()
    }

    /// Sorts the best `n` to the front. Much faster than sorting all if `n` is small.
    pub(super) fn sort(&mut self, n: usize) {
        let n = n.min(self.items().len());
        if n > self.sorted {
            sort_part(&mut self.items, self.sorted, n, order);
            self.sorted = n;
        }
    }

    /// Sorts all candidates.
    pub(super) fn sort_all(&mut self) {
        self.sort(usize::MAX);
    }

    /// Keeps the best `n` candidates, at least one.
    pub(super) fn keep(&mut self, n: usize) {
        let n = n.max(1);
        if self.whole {
            let all = maxima(&self.logits);
            let mut highest = all.clone();
            let floor = match n < all.len() {
                true => *highest.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1,
                false => f32::NEG_INFINITY,
            };
            self.gather(floor, &all);
        }
        if n < self.items.len() {
            self.sort(n);
            self.items.truncate(n);
        }
    }

    /// Keeps the best candidate only.
    pub(super) fn keep_best(&mut self) {
        if let Some(best) = self.best() {
            self.replace(vec![best]);
        }
    }

    /// Keeps the candidates with at least this logit; the best must be one of them.
    pub(super) fn keep_above(&mut self, logit: f32) {
        if self.whole {
            let all = maxima(&self.logits);
            self.gather(logit, &all);
        } else {
            self.items.retain(|i| i.logit >= logit);
            self.sorted = self.sorted.min(self.items.len());
        }
    }

    /// Drops the best `n` candidates, which must be sorted and not all.
    pub(super) fn drop_best(&mut self, n: usize) {
        self.items.drain(..n);
        self.sorted -= n;
    }

    /// Replaces the candidates by these, in any order.
    pub(super) fn replace(&mut self, items: Vec<Item>) {
        self.items = items;
        (self.whole, self.sorted) = (false, 0);
    }

    /// Calls `stop` with consecutive parts of the candidates, best first, until it returns an index in the part.
    /// Returns the index among all candidates. Sorts only the parts passed.
    pub(super) fn best_first(&mut self, mut stop: impl FnMut(&[Item]) -> Option<usize>) -> Option<usize> {
        let (mut done, mut want) = (0, FIRST);
        let n = self.items().len();
        while done < n {
            self.sort(want);
            let end = want.min(n);
            if let Some(at) = stop(&self.items[done..end]) {
                return Some(done + at);
            }
            (done, want) = (end, want * 4);
        }
        None
    }

    /// Sets the divisor of all logits, above 0. [`settle`](Candidates::settle) must have run.
    pub(super) fn divide(&mut self, temperature: f32) {
        self.temperature = temperature;
    }

    /// Returns the pending divisor.
    pub(super) fn temperature(&self) -> f32 {
        self.temperature
    }

    /// Applies the pending divisor.
    pub(super) fn settle(&mut self) {
        let t = std::mem::replace(&mut self.temperature, 1.0);
        if t != 1.0 {
            // Clamped, because a small divisor must not turn numbers into infinities; sorted again, because rounding
            // can produce ties.
            self.items();
            self.items.iter_mut().for_each(|i| i.logit = (i.logit / t).clamp(f32::MIN, f32::MAX));
            self.sorted = 0;
        }
    }

    /// Returns the exponentials of all logits, relative to the best and divided by the temperature.
    pub(super) fn weights(&mut self, tier: Tier) -> Weights {
        self.items();
        let max = self.best().map_or(0.0, |b| b.logit);
        let mut values: Vec<f32> = self.items.iter().map(|i| (i.logit - max) / self.temperature).collect();
        ops::exp(tier, &mut values);
        let sum = values.iter().map(|w| f64::from(*w)).sum();
        Weights { values, sum, max }
    }
}
