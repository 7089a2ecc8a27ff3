//! Errors: the file, and what is wrong with it.

use leyden::Model;
use std::fmt::Display;
use std::path::Path;

/// Error of an evaluation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model cannot be run.
    #[error("{0}")]
    Model(#[from] leyden::Error),
    /// A file cannot be read or written, or its contents are not valid.
    #[error("{file}: {what}")]
    File {
        /// The file.
        file: String,
        /// Description of the error.
        what: String,
    },
    /// A file of questions cannot be read or written.
    #[error("{0}")]
    RowFile(#[from] leyden_rows::Error),
    /// No row of a file can be parsed as a question.
    #[error("{0}")]
    Rows(String),
    /// The request is not valid.
    #[error("{0}")]
    Usage(String),
    /// The caller's `watch` asked to stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Returns the error of a model whose logits are not finite.
    pub(crate) fn not_finite(model: &Model) -> Error {
        leyden::Error::NotFinite { file: model.weights().path().display().to_string() }.into()
    }

    /// Returns the error of a file.
    pub(crate) fn file(path: &Path, what: impl Display) -> Error {
        Error::File { file: path.display().to_string(), what: what.to_string() }
    }
}
