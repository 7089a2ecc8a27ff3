//! Why a server does not start.

use std::fmt;
use std::path::PathBuf;

/// Why the server could not start or go on.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The address cannot be listened on.
    Listen {
        /// The address.
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Without keys, an address that others can reach needs the explicit option.
    Unprotected {
        /// The address.
        address: String,
    },
    /// A file of keys.
    Keys {
        /// The file.
        file: PathBuf,
        /// The line, from 1; 0 for the file as a whole.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Two models have one name.
    DuplicateModel {
        /// The name.
        name: String,
    },
    /// There is no model.
    NoModel,
    /// Memory is short.
    Memory {
        /// The model.
        model: String,
        /// What would fit.
        what: String,
    },
    /// An option outside its range.
    Option {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The engine cannot be made.
    Engine(leyden_engine::Error),
    /// Threads or the runtime.
    System(std::io::Error),
}

impl Error {
    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Whether the command line asks for something that cannot be meant.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Unprotected { .. }
                | ErrorKind::DuplicateModel { .. }
                | ErrorKind::NoModel
                | ErrorKind::Option { .. }
        )
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error { kind }
    }
}

impl From<leyden_engine::Error> for Error {
    fn from(error: leyden_engine::Error) -> Error {
        ErrorKind::Engine(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Listen { address, source } => write!(f, "{address}: cannot listen: {source}"),
            ErrorKind::Unprotected { address } => {
                write!(f, "{address}: others can reach this address, and there are no API keys")
            }
            ErrorKind::Keys { file, line: 0, what } => write!(f, "{}: {what}", file.display()),
            ErrorKind::Keys { file, line, what } => write!(f, "{}: line {line}: {what}", file.display()),
            ErrorKind::DuplicateModel { name } => write!(f, "two models are called `{name}`"),
            ErrorKind::NoModel => f.write_str("there is no model to serve"),
            ErrorKind::Memory { model, what } => write!(f, "{model}: {what}"),
            ErrorKind::Option { name, what } => write!(f, "{name}: {what}"),
            ErrorKind::Engine(e) => write!(f, "{e}"),
            ErrorKind::System(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Listen { source, .. } | ErrorKind::System(source) => Some(source),
            ErrorKind::Engine(e) => Some(e),
            _ => None,
        }
    }
}
