//! Who runs when: sequences and their cache blocks, the step, and the choice of tokens.
//!
//! [`Engine::step`] is the only decode loop there is: it takes a plan that may hold any number of sequences,
//! each with any number of new tokens, and gives the logits asked for. Everything that generates text calls it.
#![forbid(unsafe_code)]

mod cache_kind;
mod engine;
mod error;
mod generation;
mod logprobs;
mod pages;
mod pooling;
mod prefix;
pub mod sample;
pub mod schedule;
mod states;
mod tables;
mod windows;

pub use engine::{
    Engine, EngineOptions, OutputRow, Outputs, StateRow, StepEntry, StepOutput, StepPlan, WholeText,
};
pub use error::{Error, ErrorKind};
pub use generation::{Answer, Generator, LogitReader, Outcome};
pub use leyden_models::{ActivationSums, Adapter, AdapterSet, MatrixSums, Pooling};
pub use logprobs::TokenLogprobs;
pub use pooling::Pool;
pub use prefix::Scope;
pub use states::usual_checkpoint_bytes;
pub use tables::{BlockTables, Fit, SequenceId};
