//! Service counted per key: virtual token counters (Sheng et al., "Fairness in Serving Large Language Models",
//! OSDI 2024, algorithm 2).

use super::request::KeyId;
use std::collections::BTreeMap;

/// What each key has received. The key with the least goes next.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// One number per key ever seen.
    served: BTreeMap<KeyId, u64>,
    /// The key whose request was admitted last.
    last: Option<KeyId>,
}

impl Counters {
    /// Weighted tokens of a key.
    pub(crate) fn get(&self, key: KeyId) -> u64 {
        self.served.get(&key).copied().unwrap_or(0)
    }

    /// Counts service.
    pub(crate) fn charge(&mut self, key: KeyId, tokens: usize, weight: u32) {
        let n = (tokens as u64).saturating_mul(u64::from(weight));
        let served = self.served.entry(key).or_default();
        *served = served.saturating_add(n);
    }

    /// A request of this key left the queue.
    pub(crate) fn admitted(&mut self, key: KeyId) {
        self.last = Some(key);
    }

    /// The key, which was not backlogged, is from now on. Being idle earns nothing: its counter is lifted to the
    /// least of the others' that are, or if none is, to that of the key which was served last.
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
