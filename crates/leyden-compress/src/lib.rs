//! Makes models smaller: quantisation of GGUF files to the types of llama.cpp, and pruning.
//!
//! A [`Target`] such as `Q4_K_M` is a mix of types: [`Plan::new`] chooses the type of each tensor, and [`quantize`]
//! writes the file. With an [`Imatrix`], the error of a weight counts by the squares of the activations that it is
//! multiplied with. [`prune()`] sets weights to zero.
//!
//! ```no_run
//! use leyden_compress::{Options, Plan, Target, quantize};
//! use leyden_tensor::Gguf;
//! use std::ops::ControlFlow;
//! let source = Gguf::open("model-f16.gguf".as_ref())?;
//! let options = Options::new(Target::from_name("Q4_K_M").ok_or("no such type")?);
//! let plan = Plan::new(&source, &options)?;
//! let report = quantize(&source, &plan, &options, "model-q4_k_m.gguf".as_ref(), &mut |_| ControlFlow::Continue(()))?;
//! println!("{:.2} bits per weight", report.bits_per_weight());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod imatrix;
mod imatrix_writer;
mod mix;
mod pattern;
mod plan;
mod prune;
mod quantize;
mod rows;
mod target;
mod weights;

pub use error::Error;
pub use imatrix::Imatrix;
pub use imatrix_writer::ImatrixWriter;
pub use mix::{Candidate, Candidates, candidates, choose, probe};
pub use pattern::Override;
pub use plan::{Choice, Mix, Options, Plan};
pub use prune::{
    Gram, Method, Prunable, PruneInputs, PruneOptions, PrunePlan, PrunedMatrix, Structure, prune,
};
pub use quantize::{Progress, Report, TensorReport, quantize};
pub use target::Target;
