//! Models between the layout of the Hugging Face hub and GGUF: weights, configuration, tokenizer, chat template.
//!
//! [`to_gguf`] and [`to_folder`] convert the models of `leyden-models`' registry that say so. Files of encoders have the settings of
//! their folder as texts too (`files.rs`), which is where their tokenizer is read from. What a tokenizer does is not
//! looked up but compared: of the rules that either layout has a name for, the one is taken with which both tokenizers make the
//! same tokens of a sample of hard cases (`tokenizer/`), and none is guessed.
#![forbid(unsafe_code)]

mod error;
mod files;
mod folder;
mod former;
mod gguf;
mod safetensors;
mod templates;
mod tokenizer;

pub use error::Error;
pub use folder::to_folder;
pub use gguf::to_gguf;

use std::ops::ControlFlow;

/// What a model became.
#[derive(Clone, Debug)]
pub struct Report {
    /// Tensors that were written.
    pub tensors: usize,
    /// Bytes of them.
    pub bytes: usize,
    /// The rule by which texts are cut into words, by GGUF's name.
    pub rule: String,
    /// Whether there was a chat template.
    pub template: bool,
    /// What the other layout has no word for, and what follows from it.
    pub note: Option<String>,
}

/// Hears how many bytes of all are written, and may say stop.
pub type Watch<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;
