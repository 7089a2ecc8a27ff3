//! [`Acceptance`]: share of draft tokens that turn out right.

/// Factor on the counts of all earlier drafts when a draft is added.
const MEMORY: f64 = 0.9;
/// Number of tokens that the expectation before any draft counts for.
const EXPECTED: f64 = 4.0;

/// Counts of draft tokens that were right and wrong, in which older ones weigh less. Tokens after a wrong one were not
/// checked and are not counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acceptance {
    right: f64,
    wrong: f64,
}

impl Acceptance {
    /// Records a draft of `drafted` tokens, of which `accepted` were right. `doubt` is the probability of the token that
    /// the draft model would have drafted next but was too unsure of.
    pub(crate) fn record(&mut self, drafted: usize, accepted: usize, doubt: Option<f64>) {
        self.right = self.right * MEMORY + accepted as f64;
        self.wrong *= MEMORY;
        match doubt {
            _ if accepted < drafted => self.wrong += 1.0,
            Some(p) => {
                self.right += p;
                self.wrong += 1.0 - p;
            }
            None => {}
        }
    }

    /// Returns the probability that the next draft token is right, if that of any text is `expected`.
    pub(crate) fn rate(&self, expected: f64) -> f64 {
        (self.right + EXPECTED * expected) / (self.right + self.wrong + EXPECTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_follows_the_drafts() {
        let mut a = Acceptance::default();
        assert_eq!(a.rate(0.7), 0.7);
        (0..50).for_each(|_| a.record(4, 4, None));
        assert!(a.rate(0.7) > 0.97);
        (0..50).for_each(|_| a.record(4, 0, None));
        assert!(a.rate(0.7) < 0.3);
        // Three of four right before each wrong one.
        (0..100).for_each(|_| a.record(8, 3, None));
        assert!((a.rate(0.7) - 0.75).abs() < 0.02);
        // A token that was not drafted counts for its probability.
        (0..200).for_each(|_| a.record(0, 0, Some(0.4)));
        assert!((a.rate(0.4) - 0.4).abs() < 0.02);
    }
}
