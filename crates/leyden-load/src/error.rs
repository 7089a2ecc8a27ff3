//! The one error type of this crate: what went wrong and where.

use std::fmt::{self, Display};
use std::io;
use std::path::Path;

/// An error that names the setting, file or server it is about.
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

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting has a value that cannot be meant.
    #[error("{0}")]
    Setting(String),
    /// A file could not be read or written.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// A recorded trace is not what it should be.
    #[error("{0}")]
    Trace(String),
    /// The server cannot be reached, or is not one that can be measured.
    #[error("{0}")]
    Server(String),
    /// Encrypted connections are not possible.
    #[error("{0}")]
    Tls(String),
    /// The system gives no more threads.
    #[error("cannot start a thread for another user: {0}")]
    Threads(#[source] io::Error),
    /// Somebody stopped it.
    #[error("stopped")]
    Stopped,
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(at: impl Into<String>, kind: ErrorKind) -> Self {
        Self { kind: Box::new(kind), at: at.into().into_boxed_str() }
    }

    /// A setting that cannot be meant; `at` is the setting or its text.
    pub(crate) fn setting(at: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(at, ErrorKind::Setting(why.into()))
    }

    /// For `map_err` of an operation on a file.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let at = path.display().to_string();
        move |source| Self::new(at, ErrorKind::Io { what, source })
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Whether the one who asked made a mistake, rather than a server or the machine.
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
