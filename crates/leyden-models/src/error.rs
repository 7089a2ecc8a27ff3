//! Errors: which file, which field or tensor, and what is wrong with it.

use leyden_tensor::{Escaped, Json, KnownKeys, RefusedKey};
use std::fmt;

/// Why a model could not be loaded or run.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    file: String,
    at: String,
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is not readable as a model file.
    #[error("{0}")]
    File(#[source] leyden_tensor::Error),
    /// Memory or threads.
    #[error("{0}")]
    Resources(#[source] leyden_kernels::Error),
    /// No code for this architecture.
    #[error("architecture `{}` is not supported; supported: {}", Escaped(.found), .supported.join(", "))]
    UnknownArchitecture {
        /// What the file says.
        found: String,
        /// What it could say.
        supported: Vec<&'static str>,
    },
    /// A value that no model of the architecture can have, or that is not supported.
    #[error("{0}")]
    Invalid(String),
    /// The file changed or shrank while it was in use.
    #[error("the file was truncated or became unreadable while in use")]
    Truncated,
}

impl Error {
    pub(crate) fn invalid(file: &str, at: &str, what: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Invalid(what.into()), file: file.to_owned(), at: at.to_owned() }
    }

    /// The error of a key whose value is not supported.
    pub(crate) fn refused(file: &str, refused: RefusedKey) -> Error {
        Error::invalid(file, &refused.key, refused.what)
    }

    pub(crate) fn truncated(file: &str) -> Error {
        Error { kind: ErrorKind::Truncated, file: file.to_owned(), at: String::new() }
    }

    pub(crate) fn unknown_architecture(
        file: &str,
        at: &str,
        found: &str,
        supported: Vec<&'static str>,
    ) -> Error {
        let kind = ErrorKind::UnknownArchitecture { found: found.to_owned(), supported };
        Error { kind, file: file.to_owned(), at: at.to_owned() }
    }

    pub(crate) fn resources(file: &str, source: leyden_kernels::Error) -> Error {
        Error { kind: ErrorKind::Resources(source), file: file.to_owned(), at: String::new() }
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

/// Refuses a file of settings in which a key is not known or asks for something that is not supported.
pub(crate) fn checked(json: &Json, known: KnownKeys) -> Result<(), Error> {
    known.check_all(json).map_err(|refused| Error::refused(json.file(), refused))
}

impl From<leyden_tensor::Error> for Error {
    fn from(source: leyden_tensor::Error) -> Error {
        Error { kind: ErrorKind::File(source), file: String::new(), at: String::new() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An error of the file names file and field itself.
        if !matches!(self.kind, ErrorKind::File(_)) {
            write!(f, "{}: ", self.file)?;
            if !self.at.is_empty() {
                write!(f, "{}: ", Escaped(&self.at))?;
            }
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.kind)
    }
}
