//! Calibration of classifiers from labelled rows: temperature, sets with a coverage, answers with an error rate, and
//! their check on held-out halves.
//!
//! All of it is arithmetic on logits that a model has computed once. `docs/calibrate.md` has the statistics.

mod duplicates;
mod fit;
mod quality;
mod resample;
mod rows;
mod temperature;

pub use duplicates::{Duplicates, duplicates, shared_texts};
pub use fit::{Fit, FitOptions, ScoredRows, fit};
pub use resample::{Checked, Resampled, resample};
pub use rows::{LabelledRow, read_labelled};
