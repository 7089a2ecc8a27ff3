//! Pruning in one shot: weights of a trained model become zero without further training.
//!
//! [`PrunePlan::new`] lists the matrices of a file's layers and the share of zeros that each gets; [`PruneInputs`]
//! collects their inputs on a calibration text; [`prune`] writes the file. Embeddings, norms, biases, routers and heads
//! stay. Large models are pruned some layers at a time, so that memory is bounded and later layers see the inputs that
//! pruned layers make.

mod allocation;
mod factor;
mod gram;
mod inputs;
mod matrix;
mod plan;
mod select;
mod sparsegpt;
mod structure;
mod write;

pub use gram::Gram;
pub use inputs::PruneInputs;
pub use matrix::Method;
pub use plan::{Prunable, PruneOptions, PrunePlan};
pub use structure::Structure;
pub use write::{PrunedMatrix, prune};
