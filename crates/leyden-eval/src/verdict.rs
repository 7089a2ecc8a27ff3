//! [`Verdict`]: a share and its interval compared with a floor.

use crate::stats::wilson;

/// Result of a comparison with a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is at the floor or above.
    Reached,
    /// The whole interval is below the floor.
    Missed,
    /// The floor is in the interval: too few measurements.
    Inconclusive,
}

impl Verdict {
    /// Compares a 95 % interval with a floor.
    ///
    /// ```
    /// use leyden_eval::{Verdict, stats::wilson};
    ///
    /// assert_eq!(Verdict::of(0.99, wilson(3, 3)), Verdict::Inconclusive);
    /// assert_eq!(Verdict::of(0.99, wilson(1000, 1000)), Verdict::Reached);
    /// assert_eq!(Verdict::of(0.99, wilson(90, 100)), Verdict::Missed);
    /// ```
    #[must_use]
    pub fn of(floor: f64, (low, high): (f64, f64)) -> Verdict {
        match () {
            () if low >= floor => Verdict::Reached,
            () if high < floor => Verdict::Missed,
            () => Verdict::Inconclusive,
        }
    }

    /// Combines the verdicts of several comparisons: missed if one is, else inconclusive if one is.
    #[must_use]
    pub fn with(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Missed, _) | (_, Verdict::Missed) => Verdict::Missed,
            (Verdict::Inconclusive, _) | (_, Verdict::Inconclusive) => Verdict::Inconclusive,
            _ => Verdict::Reached,
        }
    }

    /// Returns the name used in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// Maximum number of questions that is considered.
const MAX_QUESTIONS: usize = 1_000_000;

/// Returns the number of questions with which a share of `share` would decide about `floor`, in steps of a tenth;
/// `None` if a million are not enough.
#[must_use]
pub fn questions_to_decide(floor: f64, share: f64) -> Option<usize> {
    let mut n = 10;
    while n <= MAX_QUESTIONS {
        let hits = (share * n as f64).round() as usize;
        if Verdict::of(floor, wilson(hits.min(n), n)) != Verdict::Inconclusive {
            return Some(n);
        }
        n += (n / 10).max(1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_decides() {
        let all = [Verdict::Reached, Verdict::Missed, Verdict::Inconclusive];
        for verdict in all {
            assert_eq!(verdict.with(verdict), verdict);
            assert_eq!(verdict.with(Verdict::Missed), Verdict::Missed);
        }
        assert_eq!(Verdict::Reached.with(Verdict::Inconclusive), Verdict::Inconclusive);
        assert_eq!(Verdict::of(0.5, (0.5, 0.6)), Verdict::Reached);
        assert_eq!(Verdict::of(1.0, wilson(0, 0)), Verdict::Inconclusive);
        assert_eq!(questions_to_decide(0.5, 0.5), None);
        let needed = questions_to_decide(0.99, 1.0).unwrap();
        assert!((300..500).contains(&needed), "{needed}");
    }
}
