//! [`Promise`]: the statement about decisions, with its numbers.

use super::answers::rows_for_error;
use super::conformal::rows_for_coverage;
use super::error::{CalibrationError, fraction};

/// Promise about decisions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Promise {
    /// The set has the right label with at least this probability. For texts with any number of labels: each right
    /// label is in the set with at least this probability.
    Coverage {
        /// Probability.
        coverage: f64,
        /// True for the texts of each label by themselves, where it has enough rows.
        per_class: bool,
    },
    /// At most this share of the answered texts is answered wrongly, unless the calibration rows were misleading, which
    /// has the probability 1 - `confidence`. For texts with any number of labels: at most this share of the texts that
    /// get a label does not have it.
    MaxError {
        /// Share of wrong answers.
        max_error: f64,
        /// Probability that the calibration rows lead to such an answer.
        confidence: f64,
    },
}

impl Promise {
    /// Usual confidence.
    pub const CONFIDENCE: f64 = 0.95;

    /// Checks the ranges of the numbers.
    ///
    /// # Errors
    /// One is outside its range.
    pub fn check(self) -> Result<(), CalibrationError> {
        let inside = |name, value: f64, range, low: f64| match value > low && value < 1.0 {
            true => Ok(()),
            false => Err(CalibrationError::Range { name, value, range }),
        };
        match self {
            Promise::Coverage { coverage, .. } => inside("coverage", coverage, "between 0 and 1", 0.0),
            Promise::MaxError { max_error, confidence } => {
                inside("max-error", max_error, "between 0 and 1", 0.0)?;
                inside("confidence", confidence, "between 0.5 and 1", 0.5 - f64::EPSILON)
            }
        }
    }

    /// Returns the number of threshold rows that it needs at least; of answers, if all are right.
    #[must_use]
    pub fn needed_rows(self) -> usize {
        match self {
            Promise::Coverage { coverage, .. } => rows_for_coverage(coverage),
            Promise::MaxError { max_error, confidence } => rows_for_error(max_error, confidence),
        }
    }
}

impl std::fmt::Display for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Promise::Coverage { coverage, per_class } => {
                write!(f, "coverage {}{}", fraction(*coverage), if *per_class { " per class" } else { "" })
            }
            Promise::MaxError { max_error, confidence } => {
                write!(f, "max-error {} with {} confidence", fraction(*max_error), fraction(*confidence))
            }
        }
    }
}
