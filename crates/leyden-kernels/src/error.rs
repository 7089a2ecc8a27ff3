//! Errors of this crate: memory, threads, and weights without a kernel; everything else is a bug of the caller.

use leyden_tensor::DType;

/// Error of packing weights, creating a cache or starting threads.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {kind}")]
pub struct Error {
    #[source]
    kind: ErrorKind,
    at: String,
}

/// Kind of an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system has no memory for `bytes` bytes.
    #[error("no memory for {bytes} bytes: {source}")]
    Memory {
        /// Number of bytes requested.
        bytes: usize,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The size does not fit the address space.
    #[error("larger than the address space")]
    TooLarge,
    /// There is no kernel for this type of weights.
    #[error("weights of type {0} are not supported")]
    NoKernel(DType),
    /// Threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(#[source] std::io::Error),
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

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}
