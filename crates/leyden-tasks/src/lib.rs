//! Tasks: what a request asks for, turned into prompts with the outputs that heads compute for them, and outputs turned
//! into results.
//!
//! Library and server share every rule of this crate: prompts before texts, truncation, windows of long texts, pairs,
//! calibrated decisions, and the choice of entities. It computes nothing with weights and does no input or output.
#![forbid(unsafe_code)]

pub mod calibration;
mod classify;
mod compare;
mod decide;
mod embed;
mod embed_sparse;
mod embed_tokens;
mod entities;
mod error;
mod extract_labels;
mod extract_tokens;
mod generate;
mod kind;
mod label_marks;
mod model;
mod order;
mod pairs;
mod rerank;
mod task;
mod texts;
mod token_windows;
mod truncation;
mod vectors;

pub use classify::Classify;
pub use compare::Compare;
pub use decide::{Decide, Decided};
pub use embed::Embed;
pub use embed_sparse::EmbedSparse;
pub use embed_tokens::{EmbedTokens, Rows};
pub use entities::{Aggregation, Entity};
pub use error::{Error, ErrorKind, Place};
pub use extract_labels::{ExtractLabels, SpanOptions};
pub use extract_tokens::ExtractTokens;
pub use generate::{Samplers, sequence_breakers};
pub use kind::TaskKind;
pub use label_marks::check_label_marks;
pub use model::{TaskModel, check_tokens};
pub use order::{best, ranked};
pub use pairs::{LongDocument, PairPart, encode_pairs};
pub use rerank::Rerank;
pub use task::{Plan, Task, TaskPrompt};
pub use texts::{Preface, TextInput, TextOptions, encode_texts};
pub use truncation::{Truncation, encode_within};
pub use vectors::VectorShape;
