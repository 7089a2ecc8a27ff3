//! Errors of this crate: memory, threads, and weights without a kernel; everything else is a caller's bug.

use leyden_tensor::DType;
use std::fmt;

/// Why weights or a cache could not be made.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    at: String,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system gave no memory for `bytes` bytes.
    Memory {
        /// How many were asked for.
        bytes: usize,
        /// What it said.
        source: std::io::Error,
    },
    /// The size does not fit the address space.
    TooLarge,
    /// No kernel computes with this type of weights.
    NoKernel(DType),
    /// Threads could not be started.
    Threads(std::io::Error),
}

impl Error {
    pub(crate) fn memory(at: &str, bytes: usize, source: std::io::Error) -> Error {
        Error { kind: ErrorKind::Memory { bytes, source }, at: at.to_owned() }
    }

    pub(crate) fn too_large(at: &str) -> Error {
        Error { kind: ErrorKind::TooLarge, at: at.to_owned() }
    }

    pub(crate) fn no_kernel(at: &str, dtype: DType) -> Error {
        Error { kind: ErrorKind::NoKernel(dtype), at: at.to_owned() }
    }

    pub(crate) fn threads(source: std::io::Error) -> Error {
        Error { kind: ErrorKind::Threads(source), at: "thread pool".to_owned() }
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Memory { bytes, source } => {
                write!(f, "{}: no memory for {bytes} bytes: {source}", self.at)
            }
            ErrorKind::TooLarge => write!(f, "{}: larger than the address space", self.at),
            ErrorKind::NoKernel(dtype) => write!(f, "{}: weights of type {dtype} are not supported", self.at),
            ErrorKind::Threads(source) => write!(f, "{}: cannot start threads: {source}", self.at),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Memory { source, .. } | ErrorKind::Threads(source) => Some(source),
            ErrorKind::TooLarge | ErrorKind::NoKernel(_) => None,
        }
    }
}
