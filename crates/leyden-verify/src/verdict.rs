//! [`Verdict`]: pass, fail or inconclusive.

use serde::{Deserialize, Serialize};

/// Verdict on a floor, a load, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The floor is reached with 95 % confidence.
    Pass,
    /// The floor is missed with 95 % confidence.
    Fail,
    /// Too few data for either.
    Inconclusive,
}

impl Verdict {
    /// Combines the verdicts of two conditions that must both hold: fail if one fails, pass if both pass.
    #[must_use]
    pub fn and(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Fail, _) | (_, Verdict::Fail) => Verdict::Fail,
            (Verdict::Pass, Verdict::Pass) => Verdict::Pass,
            _ => Verdict::Inconclusive,
        }
    }

    /// Returns the verdict in capitals, as it is printed.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
            Verdict::Inconclusive => "INCONCLUSIVE",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Fail, Inconclusive, Pass};

    #[test]
    fn all_conditions_must_pass() {
        for (a, b, both) in [
            (Pass, Pass, Pass),
            (Pass, Inconclusive, Inconclusive),
            (Inconclusive, Inconclusive, Inconclusive),
            (Fail, Pass, Fail),
            (Fail, Inconclusive, Fail),
        ] {
            assert_eq!((a.and(b), b.and(a)), (both, both));
        }
    }
}
