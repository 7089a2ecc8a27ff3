//! Prediction of memory, speed and cost of a model on a machine.
//!
//! [`ModelFacts`] come from a model's configuration and the types of its tensors, never from weights. A [`Machine`] is
//! the measured one or a row of [`Table`]. [`figures`] and [`encoder_figures`] predict rates by a roofline: a step takes
//! the time of its multiplications and of its reads, with the constants of our kernels ([`KernelClass`]). The constants
//! are graded against recorded measurements ([`grades`]), and every predicted rate has the interval of the errors found
//! there.
//!
//! All functions are pure: no network, no clock, no measurement.
#![forbid(unsafe_code)]

mod cost;
mod encoder;
mod error;
mod figures;
mod fitting;
mod grade;
mod interval;
mod kernels;
mod machine;
mod matrices;
mod matrix;
mod memory;
mod model;
mod recorded;
mod slo;
mod step;
mod table;
mod workload;

pub use cost::{Costs, Prices, Rival, TCO_YEARS, Tco, costs};
pub use encoder::{EncoderFigures, encoder_figures};
pub use error::Error;
pub use figures::{Figures, figures};
pub use fitting::{Fitting, fitting};
pub use grade::{Grade, GradeSummary, Kind, band, grades, summary};
pub use interval::{Band, Interval};
pub use kernels::KernelClass;
pub use machine::{Machine, Peaks};
pub use matrix::{Matrix, Role};
pub use memory::{MemoryParts, TypeBytes, max_context, memory};
pub use model::ModelFacts;
pub use slo::{Slo, users_within};
pub use step::{StepLoad, StepTime, step_time};
pub use table::{Fact, Row, Source, Stated, Table};
pub use workload::Workload;
