//! Service per key: virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024,
//! algorithm 2).

use super::request::KeyId;
use std::collections::BTreeMap;

/// Service received by each key. The key with the least goes next.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Weighted tokens of every key ever served.
    served: BTreeMap<KeyId, u64>,
    /// Key whose request was admitted last.
    last: Option<KeyId>,
}

impl Counters {
    /// Returns the weighted tokens of a key.
    pub(crate) fn get(&self, key: KeyId) -> u64 {
        self.served.get(&key).copied().unwrap_or(0)
    }

    /// Adds service to a key's counter.
    pub(crate) fn charge(&mut self, key: KeyId, tokens: usize, weight: u32) {
        let n = (tokens as u64).saturating_mul(u64::from(weight));
        let served = self.served.entry(key).or_default();
        *served = served.saturating_add(n);
    }

    /// Records that a request of this key left the queue.
    pub(crate) fn admitted(&mut self, key: KeyId) {
        self.last = Some(key);
    }

    /// Raises the counter of a key that becomes backlogged, so that idle time earns no credit: to the least counter of
    /// the `backlogged` keys, or if there is none, to the counter of the key that was admitted last.
    pub(crate) fn lift(&mut self, key: KeyId, backlogged: impl Iterator<Item = KeyId>) {
        let least = backlogged.map(|k| self.get(k)).min();
        let floor = least.or_else(|| self.last.map(|k| self.get(k))).unwrap_or(0);
        let served = self.served.entry(key).or_default();
        *served = (*served).max(floor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyId = KeyId(1);
    const B: KeyId = KeyId(2);
    const C: KeyId = KeyId(3);

    #[test]
    fn idling_earns_nothing() {
        let mut c = Counters::default();
        c.lift(A, [].into_iter());
        c.charge(A, 100, 2);
        c.lift(B, [A].into_iter());
        assert_eq!((c.get(A), c.get(B)), (200, 200));
        c.charge(B, 10, 1);
        c.lift(C, [A, B].into_iter());
        assert_eq!(c.get(C), 200);
    }

    #[test]
    fn an_empty_queue_remembers_who_was_last() {
        let mut c = Counters::default();
        c.charge(A, 50, 1);
        c.charge(B, 7, 1);
        c.admitted(A);
        c.lift(C, [].into_iter());
        assert_eq!(c.get(C), 50);
    }

    #[test]
    fn a_counter_never_sinks_and_never_wraps() {
        let mut c = Counters::default();
        c.charge(A, 50, 1);
        c.charge(B, 7, 1);
        c.lift(A, [B].into_iter());
        assert_eq!(c.get(A), 50);
        c.charge(A, usize::MAX, u32::MAX);
        c.charge(A, usize::MAX, u32::MAX);
        assert_eq!(c.get(A), u64::MAX);
    }
}
