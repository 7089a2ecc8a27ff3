//! The library's error.

use std::fmt;

/// Why a model could not be opened or did not answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file is not readable as a model file.
    File(leyden_tensor::Error),
    /// The model cannot be loaded or run.
    Model(leyden_models::Error),
    /// The tokenizer or the chat template.
    Text(leyden_text::Error),
    /// The engine refused the request or failed.
    Engine(leyden_engine::Error),
    /// A schema or grammar was refused, or an answer cannot follow it.
    Constraint(leyden_constrain::Error),
    /// Memory or threads.
    Resources(leyden_kernels::Error),
    /// The prompt has no tokens and the model no token to begin with.
    EmptyPrompt,
    /// The prompt is longer than the context.
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that fit.
        context: usize,
    },
    /// An option outside its range.
    Option {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The model computed logits that are not numbers.
    NotFinite {
        /// The file.
        file: String,
    },
    /// Tokenizer and weights do not belong together.
    Vocabulary {
        /// The file that has the vocabulary.
        file: String,
        /// Where in it the vocabulary stands.
        at: &'static str,
        /// Tokens of the tokenizer.
        tokens: usize,
        /// The embedding.
        tensor: String,
        /// Its rows.
        rows: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(e) => write!(f, "{e}"),
            Error::Model(e) => write!(f, "{e}"),
            Error::Text(e) => write!(f, "{e}"),
            Error::Engine(e) => write!(f, "{e}"),
            Error::Constraint(e) => write!(f, "{e}"),
            Error::Resources(e) => write!(f, "{e}"),
            Error::EmptyPrompt => f.write_str("the prompt is empty and the model has no token to begin with"),
            Error::PromptTooLong { tokens, context } => {
                write!(f, "the prompt has {tokens} tokens, which do not fit the context of {context}")
            }
            Error::NotFinite { file } => {
                write!(f, "{file}: logits: values that are not numbers; the weights are damaged or too large")
            }
            Error::Option { name, what } => write!(f, "{name}: {what}"),
            Error::Vocabulary { file, at, tokens, tensor, rows } => {
                write!(f, "{file}: {at}: {tokens} tokens, but {tensor} has {rows} rows")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::File(e) => Some(e),
            Error::Model(e) => Some(e),
            Error::Text(e) => Some(e),
            Error::Engine(e) => Some(e),
            Error::Constraint(e) => Some(e),
            Error::Resources(e) => Some(e),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($variant:ident $source:ty,)*) => {
        $(impl From<$source> for Error {
            fn from(e: $source) -> Error {
                Error::$variant(e)
            }
        })*
    };
}

from! {
    File leyden_tensor::Error,
    Model leyden_models::Error,
    Text leyden_text::Error,
    Engine leyden_engine::Error,
    Constraint leyden_constrain::Error,
    Resources leyden_kernels::Error,
}
