//! [`Error`]: the file, the problem, and the next step.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// A file of rows that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {what}")]
#[non_exhaustive]
pub struct Error {
    /// The file.
    pub file: String,
    /// The problem, with its line or row.
    pub what: String,
    /// The next step for the user.
    pub hint: Option<String>,
    /// `true` for a command line that cannot be meant, `false` for a problem of a file.
    pub usage: bool,
}

impl Error {
    /// Returns an error of the file `name`.
    pub fn new(name: impl Display, what: impl Display) -> Error {
        Error { file: name.to_string(), what: what.to_string(), hint: None, usage: false }
    }

    /// Returns an error of the file at `path`.
    pub(crate) fn of(path: &Path, what: impl Display) -> Error {
        Error::new(path.display(), what)
    }

    /// A failed write to `path`.
    pub(crate) fn write(path: &Path, error: &io::Error) -> Error {
        Error::of(path, format!("cannot write: {error}"))
    }

    /// Adds the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// Marks the error as wrong usage.
    pub(crate) fn usage(mut self) -> Error {
        self.usage = true;
        self
    }
}
