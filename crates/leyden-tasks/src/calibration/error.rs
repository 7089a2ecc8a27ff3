//! [`CalibrationError`]: reasons why a calibration cannot be read, made or used.

/// Error of a calibration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// Document that is no calibration.
    #[error("{0}")]
    Document(String),
    /// Calibration made with another model or other settings.
    #[error("{what}: the calibration is for {stated}, and this is {found}")]
    Other {
        /// Name of the part that differs.
        what: &'static str,
        /// Part of the calibration.
        stated: String,
        /// Part of the model or request.
        found: String,
    },
    /// Too few labelled rows for a promise.
    #[error("{promise} needs at least {needed} labelled rows{of}, and the calibration has {rows}")]
    TooFew {
        /// Promise.
        promise: String,
        /// Label that the rows are about, after a blank; empty for all.
        of: String,
        /// Number of rows that are needed.
        needed: usize,
        /// Number of rows.
        rows: usize,
    },
    /// Error rate that no threshold keeps.
    #[error(
        "no threshold keeps an error rate of at most {} with {} confidence: the best one that was tried had {wrong} \
         errors in {answered} rows", fraction(*max_error), fraction(*confidence)
    )]
    NoThreshold {
        /// Maximum error rate.
        max_error: f64,
        /// Confidence.
        confidence: f64,
        /// Rows of the best threshold that were wrong.
        wrong: usize,
        /// Rows that it answers.
        answered: usize,
    },
    /// Number outside its range.
    #[error("{name}: {value} is not {range}")]
    Range {
        /// Name of the number.
        name: &'static str,
        /// Value.
        value: f64,
        /// Range.
        range: &'static str,
    },
    /// Head that gives no probabilities of labels.
    #[error("{0}")]
    Head(&'static str),
    /// Logits that are not finite, or of another number of labels.
    #[error("scores that are not finite numbers, or not one for each label")]
    Scores,
}

/// Formats a share in percent, with as many digits as it needs.
pub(super) fn fraction(share: f64) -> String {
    let text = format!("{:.4}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}
