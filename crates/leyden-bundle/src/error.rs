//! [`Error`]: an archive or folder, the entry in it, and the description of what is wrong.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A bundle, or an entry of it, is not as it must be.
    #[error("{file}: {what}")]
    Bundle {
        /// The archive or folder.
        file: String,
        /// Entry and description.
        what: String,
    },
    /// A file cannot be read or written.
    #[error("{file}: cannot {action}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The failed operation.
        action: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The work was interrupted.
    #[error("interrupted")]
    Stopped,
}

impl Error {
    /// Returns the error of an archive or folder.
    pub(crate) fn bundle(file: &Path, what: impl Display) -> Error {
        Error::Bundle { file: file.display().to_string(), what: what.to_string() }
    }

    /// Returns the error of an entry, whose name may come from outside.
    pub(crate) fn entry(file: &Path, entry: &str, what: impl Display) -> Error {
        Error::bundle(file, format_args!("{}: {what}", printable(entry)))
    }

    /// Returns a conversion for `map_err` on file operations.
    pub(crate) fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
        let file = file.display().to_string();
        move |source| Error::Io { file, action, source }
    }
}

/// Returns the beginning of a text of untrusted origin, without control characters.
pub(crate) fn printable(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    text.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect()
}
