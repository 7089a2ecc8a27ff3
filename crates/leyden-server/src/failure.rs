//! Why a server does not start.

use std::path::PathBuf;

/// Why the server could not start or go on.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The address cannot be listened on.
    #[error("{address}: cannot listen: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Without keys, an address that others can reach needs the explicit option.
    #[error("{address}: others can reach this address, and there are no API keys")]
    Unprotected {
        /// The address.
        address: String,
    },
    /// A file of keys.
    #[error("{}: {}{what}", .file.display(), line_of(*.line))]
    Keys {
        /// The file.
        file: PathBuf,
        /// The line, from 1; 0 for the file as a whole.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Two models have one name.
    #[error("two models are called `{name}`")]
    DuplicateModel {
        /// The name.
        name: String,
    },
    /// There is no model.
    #[error("there is no model to serve")]
    NoModel,
    /// Memory is short.
    #[error("{model}: {what}")]
    Memory {
        /// The model.
        model: String,
        /// What would fit.
        what: String,
    },
    /// An option outside its range.
    #[error("{name}: {what}")]
    Option {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The engine cannot be made.
    #[error("{0}")]
    Engine(#[source] leyden_engine::Error),
    /// Threads or the runtime.
    #[error("{0}")]
    System(#[source] std::io::Error),
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

fn line_of(line: usize) -> String {
    if line == 0 { String::new() } else { format!("line {line}: ") }
}
