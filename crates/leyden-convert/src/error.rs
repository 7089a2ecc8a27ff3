//! Errors: the file, and what is wrong with it.

use std::fmt::Display;
use std::path::Path;

/// Error of a conversion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{0}")]
    File(#[from] leyden_tensor::Error),
    /// The model is not supported, or damaged.
    #[error("{0}")]
    Model(#[from] leyden_models::Error),
    /// The tokenizer is not supported, or damaged.
    #[error("{0}")]
    Text(#[from] leyden_text::Error),
    /// Something in a file cannot be expressed in the other layout.
    #[error("{file}: {what}")]
    Unlike {
        /// The file.
        file: String,
        /// Description of the error.
        what: String,
    },
    /// The caller's `watch` asked to stop. No file is left under the final name.
    #[error("stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn unlike(path: &Path, what: impl Display) -> Error {
        Error::Unlike { file: path.display().to_string(), what: what.to_string() }
    }
}
