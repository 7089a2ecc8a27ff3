//! LoRA adapters (Hu et al., 2021): low-rank products that are added to projections of a loaded model.
//!
//! [`Network::adapter`](crate::Network::adapter) reads an adapter from a PEFT folder or a GGUF file, checks it against
//! the model and packs it. The weights of the model do not change: a step adds `scale * B (A x)` to the results of the
//! rows whose sequence has the adapter. It is computed in F32 in a fixed order, so that a row's bits depend neither on
//! other rows nor on their adapters.

mod adapter;
mod gguf;
mod pairs;
mod peft;
mod step;
mod targets;

pub use adapter::{Adapter, AdapterSet};
pub(crate) use step::StepAdapters;
pub(crate) use targets::{Target, Targets};

use crate::error::Error;
use leyden_kernels::Cpu;
use std::path::Path;
use std::sync::Arc;

/// Reads an adapter from a PEFT folder or a GGUF file.
pub(crate) fn read(targets: &Arc<Targets>, cpu: &Cpu, path: &Path) -> Result<Adapter, Error> {
    if path.is_dir() { peft::read(targets, cpu, path) } else { gguf::read(targets, cpu, path) }
}
