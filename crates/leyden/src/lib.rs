//! Language-model inference on CPUs.
//!
//! A [`Model`] is loaded once. A [`Session`] is one conversation or text with it; a [`Batch`] computes answers, log
//! probabilities and vectors of many texts at once; a [`Service`] answers requests of many threads. All other calls
//! block; no async runtime is needed. Generated text comes
//! piece by piece, to a closure that can stop generation, or from an iterator.
//!
//! ```
//! use leyden::{Event, GenerateOptions, LoadOptions, Model, SessionOptions};
//! use std::ops::ControlFlow;
//!
//! let model = Model::embedded(&LoadOptions::default())?;
//! let mut session = model.session(&SessionOptions::default())?;
//! let prompt = model.tokenize("Once upon a time")?;
//! let options = GenerateOptions::new().max_tokens(16);
//! let answer = session.generate(&prompt, &options, &mut |event| {
//!     if let Event::Text(piece) = event {
//!         print!("{piece}");
//!     }
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(answer.prompt_tokens, prompt.len());
//! # Ok::<(), leyden::Error>(())
//! ```
#![forbid(unsafe_code)]

mod batch;
mod breakers;
mod calibration_files;
mod chat_format;
mod draft;
mod embedder;
mod error;
mod generation;
mod job;
mod model;
mod model_file;
mod options;
mod process;
mod runner;
mod service;
mod service_thread;
mod session;
mod turn;

pub use batch::{Batch, LogitsReader};
pub use breakers::{SEQUENCE_BREAKERS, sequence_breakers};
pub use embedder::{EmbedOptions, Embedder, Label, LabelDecision};
pub use error::Error;
pub use generation::{Event, Finish, Generation, StreamEvent};
pub use leyden_constrain::{Compiled, Constraint, Grammar, Guide, JsonForm, Vocabulary};
pub use leyden_engine::sample::{
    Dry, DynamicTemperature, Mirostat, MirostatVersion, Penalties, SamplingParams, SamplingStep,
    SequenceBreakers, Xtc,
};
pub use leyden_engine::schedule::Refusal;
pub use leyden_engine::{ActivationSums, MatrixInput, MatrixSums, TokenLogprobs};
pub use leyden_kernels::attention::KvType;
pub use leyden_kernels::gemm::{LayoutChoice, LayoutRule};
pub use leyden_kernels::placement::Replicas;
pub use leyden_kernels::{Level, Tier};
pub use leyden_models::{Adapter, AdapterSet, Make, PackCache, PackReport, Pooling, Prompts};
pub use leyden_tasks::calibration;
pub use leyden_tasks::{
    Aggregation, Entity, Error as TaskError, ErrorKind as TaskErrorKind, Place, SpanOptions, TaskKind,
};
pub use leyden_text::output::{OutputEvent, OutputParser};
pub use leyden_text::{Message, Rendered, Special, Tokenizer};
pub use model::{EMBEDDED, LoadOptions, Model};
pub use model_file::ModelFile;
pub use options::{BatchOptions, GenerateOptions, SessionOptions};
pub use process::peak_memory;
pub use service::{Answering, Canceller, Service};
pub use session::{Session, Stream};
pub use turn::{ChatOptions, ToolChoice, Turn};
