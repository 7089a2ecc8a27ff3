//! [`Error`]: what is wrong with a file of TLS.

use std::path::{Path, PathBuf};

/// Error in a certificate, a key or a list of them: the file, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", shown(.file))]
pub struct Error {
    file: PathBuf,
    what: String,
}

impl Error {
    pub(crate) fn new(file: &Path, what: impl Into<String>) -> Error {
        Error { file: file.to_owned(), what: what.into() }
    }

    /// Returns the file; empty if none is at fault.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the reason.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }
}

fn shown(file: &Path) -> String {
    if file.as_os_str().is_empty() { String::new() } else { format!("{}: ", file.display()) }
}
