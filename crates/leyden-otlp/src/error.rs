//! [`Error`]: what is wrong with an option of the exporter, or why it cannot start.

/// Error of an option, or of the start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct Error {
    at: String,
    what: String,
}

impl Error {
    pub(crate) fn new(at: impl Into<String>, what: impl Into<String>) -> Error {
        Error { at: at.into(), what: what.into() }
    }
}
