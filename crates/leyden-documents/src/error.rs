//! [`Error`]: the file, the problem, and the next step.

use std::path::{Path, PathBuf};

/// A document that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", file.display())]
#[non_exhaustive]
pub struct Error {
    /// The file.
    pub file: PathBuf,
    /// The problem, and what to do about it where that is known.
    pub reason: String,
}

impl Error {
    /// Returns an error of the file at `path`.
    pub(crate) fn of(path: &Path, reason: impl Into<String>) -> Error {
        Error { file: path.to_path_buf(), reason: reason.into() }
    }
}
