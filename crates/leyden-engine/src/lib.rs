//! Scheduler, sequences and their KV cache blocks, the forward step, and sampling.
//!
//! [`Engine::step`] is the only forward pass: it takes a plan with any number of sequences, each with any number of new
//! tokens, and returns the requested logits. All text generation goes through it.
#![forbid(unsafe_code)]

mod cache_kind;
mod drafter;
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

pub use drafter::check_draft;
pub use engine::{
    Engine, EngineOptions, OutputRow, Outputs, StateRow, StepEntry, StepOutput, StepPlan, WholeText,
};
pub use error::{Error, ErrorKind};
pub use generation::{Answer, Generator, LogitReader, Outcome};
pub use leyden_models::{ActivationSums, Adapter, AdapterSet, MatrixInput, MatrixSums, Pooling};
pub use logprobs::TokenLogprobs;
pub use pooling::Pool;
pub use prefix::Scope;
pub use states::usual_checkpoint_bytes;
pub use tables::{BlockTables, Fit, MAX_STATE_DRAFTS, SequenceId};
