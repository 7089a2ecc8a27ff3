//! Errors: which file, and what is wrong with it.

use leyden::Model;
use std::fmt::Display;
use std::path::Path;

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model cannot be run.
    #[error("{0}")]
    Model(#[from] leyden::Error),
    /// A file cannot be read or written, or does not hold what it should.
    #[error("{file}: {what}")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// A file of rows cannot be read or written.
    #[error("{0}")]
    RowFile(#[from] leyden_rows::Error),
    /// No row of a file is a question.
    #[error("{0}")]
    Rows(String),
    /// What was asked makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Whoever watched the progress said stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// A model's logits are not numbers.
    pub(crate) fn not_finite(model: &Model) -> Error {
        leyden::Error::NotFinite { file: model.weights().path().display().to_string() }.into()
    }

    /// An error of a file.
    pub(crate) fn file(path: &Path, what: impl Display) -> Error {
        Error::File { file: path.display().to_string(), what: what.to_string() }
    }
}
