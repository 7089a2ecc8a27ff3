//! Text to tokens and back: tokenizers, chat templates, incremental detokenising and stop strings.
#![forbid(unsafe_code)]

mod error;
mod tokenizer;

pub use error::{Error, ErrorKind};
pub use tokenizer::{Special, Tokenizer, from_gguf};
