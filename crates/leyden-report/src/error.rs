//! [`Error`]: a document that has no page, or a page that cannot be written.

use std::path::Path;

/// Error of a document or a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// File that cannot be read or written, or is no document.
    #[error("{file}: {what}")]
    File {
        /// File.
        file: String,
        /// Message.
        what: String,
    },
    /// Field of a document that is missing or has another type.
    #[error("`{field}`: {what}")]
    Field {
        /// Path of the field.
        field: String,
        /// Message.
        what: String,
    },
    /// Documents that cannot be shown beside each other.
    #[error("{0}")]
    Runs(String),
}

impl Error {
    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Error {
        Error::File { file: path.display().to_string(), what: what.into() }
    }

    pub(crate) fn field(field: &str, what: impl Into<String>) -> Error {
        Error::Field { field: field.to_owned(), what: what.into() }
    }
}
