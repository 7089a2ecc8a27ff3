//! Text to tokens and back: tokenizers, chat templates, incremental detokenising and stop strings.
#![forbid(unsafe_code)]

mod detok;
mod error;
mod stop;
mod template;
mod tokenizer;

pub use detok::Detokenizer;
pub use error::{Error, ErrorKind};
pub use stop::{StopEvent, StopMatcher};
pub use template::{ChatTemplate, Message, RenderOptions, join_messages};
pub use tokenizer::{Special, Tokenizer, from_gguf};
