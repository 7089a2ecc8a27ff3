//! [`Calibration`]: a classifier's temperature and thresholds from labelled rows, and the decisions that follow from them.
//!
//! Two promises are kept apart: [`Promise::Coverage`] is about sets of labels, and
//! [`Promise::MaxError`] about the texts that are answered. Both assume that further texts are exchangeable
//! with the labelled rows. The temperature and the order of tests come from the tuning rows, and the thresholds from the
//! other rows, which no other part has seen.

mod answers;
mod binomial;
mod conformal;
mod decision;
mod document;
mod error;
mod promise;

pub use answers::{Candidate, candidates, rows_for_error};
pub use binomial::{beta_binomial_interval, beta_quantile, binomial_at_most, lower_bound, upper_bound};
pub use conformal::{SetScore, rank, rows_for_coverage};
pub use decision::{Answer, Basis, Decider, Decision};
pub use document::{
    Calibration, LabelKind, MAX_DOCUMENT_BYTES, MIN_ROWS, MadeFor, Quality, RowCounts, TEMPERATURES,
    labelled_rows, probabilities, tuning_rows,
};
pub use error::CalibrationError;
pub use promise::Promise;

#[cfg(test)]
mod tests;
