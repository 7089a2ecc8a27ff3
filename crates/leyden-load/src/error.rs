//! The error type of this crate: a kind and a place.

use std::fmt::{self, Display};
use std::io;
use std::path::Path;

/// An error with the setting, file or server where it happened.
///
/// ```
/// let error = "9..3".parse::<leyden_load::Lengths>().unwrap_err();
/// assert_eq!(error.to_string(), "9..3: the range is empty");
/// assert!(error.is_usage());
/// ```
#[derive(Debug)]
pub struct Error {
    kind: Box<ErrorKind>,
    at: Box<str>,
}

/// Kind of an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting has an invalid value.
    #[error("{0}")]
    Setting(String),
    /// A file could not be read or written.
    #[error("cannot {what}: {source}")]
    Io {
        /// Action that failed.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// A trace is not valid.
    #[error("{0}")]
    Trace(String),
    /// The server cannot be reached, or cannot be measured.
    #[error("{0}")]
    Server(String),
    /// Encrypted connections are not possible.
    #[error("{0}")]
    Tls(String),
    /// The system cannot start another thread.
    #[error("cannot start a thread for another user: {0}")]
    Threads(#[source] io::Error),
    /// The run was stopped.
    #[error("stopped")]
    Stopped,
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(at: impl Into<String>, kind: ErrorKind) -> Self {
        Self { kind: Box::new(kind), at: at.into().into_boxed_str() }
    }

    /// Returns the error of an invalid setting; `at` is the setting or its text.
    pub(crate) fn setting(at: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(at, ErrorKind::Setting(why.into()))
    }

    /// Returns a function for `map_err` of an operation on a file.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let at = path.display().to_string();
        move |source| Self::new(at, ErrorKind::Io { what, source })
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns true if the error is a mistake in a setting, and not of a server or the machine.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(*self.kind, ErrorKind::Setting(_))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.kind)
    }
}
