//! Errors of graphs: the file, the node, and the reason.

use leyden_tensor::Escaped;
use std::fmt;

/// Error of loading or running a graph.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    file: String,
    node: String,
}

/// Kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is not readable as an ONNX model.
    #[error("{0}")]
    File(#[source] leyden_tensor::Error),
    /// Operators that are not supported, each with its first node and the number of its nodes.
    #[error("operators that are not supported: {}", list(.0))]
    Missing(Vec<Missing>),
    /// A value is impossible for the operator or not supported.
    #[error("{0}")]
    Invalid(String),
}

/// An operator that is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// Domain and name.
    pub operator: String,
    /// Version of the operator set.
    pub opset: i64,
    /// Name of the first such node.
    pub node: String,
    /// Number of nodes.
    pub count: usize,
}

fn list(missing: &[Missing]) -> String {
    let row = |m: &Missing| {
        let more = if m.count > 1 { format!(" and {} more", m.count - 1) } else { String::new() };
        format!("{} (operator set {}; node `{}`{more})", Escaped(&m.operator), m.opset, Escaped(&m.node))
    };
    missing.iter().map(row).collect::<Vec<_>>().join(", ")
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Error {
        Error { kind, file: String::new(), node: String::new() }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid(what.into()))
    }

    /// Names the node, unless an inner node is named.
    pub(crate) fn node(mut self, name: &str, operator: &str) -> Error {
        if self.node.is_empty() && !matches!(self.kind, ErrorKind::Missing(_)) {
            let named = name.contains(operator);
            self.node = if named { name.to_owned() } else { format!("{name} ({operator})") };
        }
        self
    }

    /// Names the file.
    pub(crate) fn file(mut self, label: &str) -> Error {
        if self.file.is_empty() {
            label.clone_into(&mut self.file);
        }
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reader's errors name the file themselves.
        if !self.file.is_empty() && !matches!(self.kind, ErrorKind::File(_)) {
            write!(f, "{}: ", Escaped(&self.file))?;
        }
        if !self.node.is_empty() {
            write!(f, "{}: ", Escaped(&self.node))?;
        }
        write!(f, "{}", self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::File(source) => Some(source),
            _ => None,
        }
    }
}

impl From<leyden_tensor::Error> for Error {
    fn from(error: leyden_tensor::Error) -> Error {
        Error::new(ErrorKind::File(error))
    }
}

impl From<String> for Error {
    fn from(what: String) -> Error {
        Error::invalid(what)
    }
}

impl From<&str> for Error {
    fn from(what: &str) -> Error {
        Error::invalid(what)
    }
}
