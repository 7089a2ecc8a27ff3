//! Errors of a server that does not start or does not go on.

use std::path::PathBuf;

/// Error of a server that could not start or go on.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    kind: ErrorKind,
}

/// Kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Failure to listen on the address.
    #[error("{address}: cannot listen: {source}")]
    Listen {
        /// Address.
        address: String,
        /// Reason given by the system.
        source: std::io::Error,
    },
    /// Address that others can reach, on a server without keys and without the option that allows it.
    #[error("{address}: others can reach this address, and there are no API keys")]
    Unprotected {
        /// Address.
        address: String,
    },
    /// Error in a file of keys.
    #[error("{}: {}{what}", .file.display(), line_of(*.line))]
    Keys {
        /// Path of the file.
        file: PathBuf,
        /// Line, from 1; 0 for the file as a whole.
        line: usize,
        /// Reason of the error.
        what: String,
    },
    /// Two models with the same name.
    #[error("two models are called `{name}`")]
    DuplicateModel {
        /// Name of both.
        name: String,
    },
    /// No model to serve.
    #[error("there is no model to serve")]
    NoModel,
    /// Folder of batches that cannot be used.
    #[error("{}: {what}", .folder.display())]
    Batches {
        /// Path of the folder.
        folder: PathBuf,
        /// Reason of the error.
        what: String,
    },
    /// Too little memory.
    #[error("{model}: {what}")]
    Memory {
        /// Name of the model.
        model: String,
        /// Settings that would fit.
        what: String,
    },
    /// Option outside its range.
    #[error("{name}: {what}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// Reason of the error.
        what: String,
    },
    /// Failure to make the engine.
    #[error("{0}")]
    Engine(#[source] leyden_engine::Error),
    /// Failure to start threads or the runtime.
    #[error("{0}")]
    System(#[source] std::io::Error),
}

impl Error {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns true if the options of the command line are at fault.
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
