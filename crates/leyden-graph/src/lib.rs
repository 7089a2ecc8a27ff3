//! Graphs: ONNX models as programs on leyden's kernels.
//!
//! [`Model::load`] reads a file, looks up each node in the table of operators (`ops`), computes all that is constant
//! and orders the rest. [`Model::run`] computes outputs from inputs. Operators that are missing are named, all at once,
//! before anything runs.
//!
//! A new operator is a row in the table of `ops/mod.rs` and its file; a new pass a row in `passes/mod.rs` and its file.
//! No operator relies on the platform's mathematics library, and every sum has one written order, so results are the
//! same bits on every processor.
#![forbid(unsafe_code)]
#![allow(
    clippy::needless_range_loop,
    reason = "positions, rows and channels are indices; several arrays share one index"
)]
#![allow(clippy::clone_on_copy, reason = "macros over the types of elements clone texts and copy numbers")]

mod attributes;
mod error;
mod executor;
mod files;
mod graph;
mod import;
mod inputs;
mod limits;
mod model;
mod ops;
mod outline;
mod passes;
mod shape;
mod stored;
mod tensor;
mod trace;
mod value;

pub use error::{Error, ErrorKind};
pub use files::{read_input, to_json};
pub use import::constants;
pub use limits::Limits;
pub use model::{Model, Options};
pub use ops::supported_operators;
pub use outline::{GraphInput, Outline};
pub use shape::Shape;
pub use tensor::{Buffer, Data, ElementType, Tensor, zeros};
pub use trace::NodeTime;
pub use value::{Key, Value};
