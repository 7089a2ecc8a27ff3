//! Errors of loading and running models: the file, the field or tensor, and the reason.

use leyden_tensor::{Escaped, Json, KnownKeys, RefusedKey};
use std::fmt;

/// Error of loading or running a model.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    file: String,
    at: String,
}

/// Kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is not readable as a model file.
    #[error("{0}")]
    File(#[source] leyden_tensor::Error),
    /// Memory or threads could not be allocated.
    #[error("{0}")]
    Resources(#[source] leyden_kernels::Error),
    /// The architecture is not supported.
    #[error("architecture `{}` is not supported; supported: {}", Escaped(.found), .supported.join(", "))]
    UnknownArchitecture {
        /// Architecture that the file names.
        found: String,
        /// Names of the supported architectures.
        supported: Vec<&'static str>,
    },
    /// A value is impossible for the architecture or not supported.
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

    /// Returns the error for a key whose value is not supported.
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

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

/// Checks that a configuration file has only known keys with supported values.
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
        // The message of a file error already names the file and the field.
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
