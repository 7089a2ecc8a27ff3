//! Errors: which file, which field or tensor, and what is wrong with it.

use leyden_tensor::Escaped;
use std::fmt;

/// Why a model could not be loaded or run.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    file: String,
    at: String,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is not readable as a model file.
    File(leyden_tensor::Error),
    /// Memory or threads.
    Resources(leyden_kernels::Error),
    /// No code for this architecture.
    UnknownArchitecture {
        /// What the file says.
        found: String,
        /// What it could say.
        supported: Vec<&'static str>,
    },
    /// A value that no model of the architecture can have, or that is not supported.
    Invalid(String),
    /// The file changed or shrank while it was in use.
    Truncated,
}

impl Error {
    pub(crate) fn invalid(file: &str, at: &str, what: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Invalid(what.into()), file: file.to_owned(), at: at.to_owned() }
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

impl From<leyden_tensor::Error> for Error {
    fn from(source: leyden_tensor::Error) -> Error {
        Error { kind: ErrorKind::File(source), file: String::new(), at: String::new() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ErrorKind::File(e) = &self.kind {
            return write!(f, "{e}");
        }
        write!(f, "{}: ", self.file)?;
        if !self.at.is_empty() {
            write!(f, "{}: ", Escaped(&self.at))?;
        }
        match &self.kind {
            ErrorKind::File(e) => write!(f, "{e}"),
            ErrorKind::Resources(e) => write!(f, "{e}"),
            ErrorKind::Invalid(what) => f.write_str(what),
            ErrorKind::Truncated => f.write_str("the file was truncated or became unreadable while in use"),
            ErrorKind::UnknownArchitecture { found, supported } => {
                let found = Escaped(found);
                write!(f, "architecture `{found}` is not supported; supported: {}", supported.join(", "))
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::File(e) => Some(e),
            ErrorKind::Resources(e) => Some(e),
            _ => None,
        }
    }
}
