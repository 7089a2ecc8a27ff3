//! Conversion of models between the Hugging Face layout and GGUF: weights, configuration, tokenizer, chat template.
//!
//! [`to_gguf`] and [`to_folder`] convert the architectures that `leyden-models`' registry marks as converted. Files
//! of encoders also have their folder's settings as texts (`files.rs`), from which their tokenizer is read. The rules
//! of a tokenizer are found by comparison: of the rules that have a name in the other layout, the converter takes one
//! with which both tokenizers give the same tokens for a sample of hard cases (`tokenizer/`), and refuses the model
//! if there is none.
#![forbid(unsafe_code)]

mod error;
mod files;
mod folder;
mod former;
mod gguf;
mod safetensors;
mod templates;
mod tensors;
mod tokenizer;

pub use error::Error;
pub use folder::{to_folder, to_sparse_folder};
pub use gguf::to_gguf;
pub use tensors::Sparse;

use std::ops::ControlFlow;

/// Result of a conversion.
#[derive(Clone, Debug)]
pub struct Report {
    /// Number of tensors that were written.
    pub tensors: usize,
    /// Bytes of these tensors.
    pub bytes: usize,
    /// GGUF's name of the pre-tokenizer.
    pub rule: String,
    /// True if there was a chat template.
    pub template: bool,
    /// Properties that the other layout cannot express, and their consequences.
    pub note: Option<String>,
}

/// Callback that gets the written bytes and all bytes, and may ask to stop.
pub type Watch<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;
