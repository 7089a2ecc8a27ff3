//! [`Error`]: the place, and the description of what is wrong there.

use std::fmt::Display;
use std::path::Path;

/// Error of a floor, a key or a document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written, or its contents are not valid.
    #[error("{file}: {what}")]
    File {
        /// The file.
        file: String,
        /// Description of the error.
        what: String,
    },
    /// A part of an expression is not valid.
    #[error("{part}: {what}")]
    Floor {
        /// The part.
        part: String,
        /// Description of the error.
        what: String,
    },
    /// No random bytes for a key.
    #[error("the system gives no random bytes for a key: {0}")]
    Random(String),
}

impl Error {
    pub(crate) fn file(path: &Path, what: impl Display) -> Error {
        Error::File { file: path.display().to_string(), what: what.to_string() }
    }

    pub(crate) fn floor(part: &str, what: impl Display) -> Error {
        Error::Floor { part: part.trim().to_owned(), what: what.to_string() }
    }
}
