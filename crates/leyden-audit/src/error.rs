//! [`Error`]: the file, the line where one is at fault, and the description.

use std::fmt::{self, Display};
use std::path::Path;
use std::sync::Arc;

/// Error of an audit log. Clones share their text: all callers of a failed write get one.
#[derive(Clone, Debug)]
pub struct Error(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    file: Option<String>,
    line: Option<u64>,
    what: String,
}

impl Error {
    pub(crate) fn new(what: impl Into<String>) -> Error {
        Error(Arc::new(Parts { file: None, line: None, what: what.into() }))
    }

    pub(crate) fn file(path: &Path, what: impl Display) -> Error {
        let file = Some(path.display().to_string());
        Error(Arc::new(Parts { file, line: None, what: what.to_string() }))
    }

    pub(crate) fn line(path: &Path, line: u64, what: impl Display) -> Error {
        let file = Some(path.display().to_string());
        Error(Arc::new(Parts { file, line: Some(line), what: what.to_string() }))
    }

    /// Returns the file and the line in it.
    pub(crate) fn place(&self) -> (Option<&str>, Option<u64>) {
        (self.0.file.as_deref(), self.0.line)
    }

    /// Returns the description without the place.
    pub(crate) fn what(&self) -> &str {
        &self.0.what
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { file, line, what } = &*self.0;
        match (file, line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}: {what}"),
            (Some(file), None) => write!(f, "{file}: {what}"),
            (None, _) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

impl From<leyden_verify::Error> for Error {
    fn from(error: leyden_verify::Error) -> Error {
        Error::new(error.to_string())
    }
}
