//! [`Event`]: progress of a pull.

use std::time::Duration;

use crate::error::Error;

/// Event of a running pull.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another pull of the same repository is running, and this one waits for it.
    Waiting,
    /// One of several models of the repository was chosen, because none was named.
    Chosen {
        /// Main file of the model.
        file: &'a str,
        /// Number of models.
        of: usize,
    },
    /// Files of the model are known.
    Plan {
        /// Number of files.
        files: usize,
        /// Sum of their lengths in bytes.
        bytes: u64,
    },
    /// Check of an existing file begins.
    Check {
        /// Path in the repository.
        path: &'a str,
        /// Length in bytes.
        bytes: u64,
    },
    /// Download of a file begins.
    Download {
        /// Path in the repository.
        path: &'a str,
        /// Length in bytes.
        bytes: u64,
    },
    /// Progress in the current file. The first values of a resumed download are from the check of its existing part.
    At {
        /// Number of bytes from the beginning.
        bytes: u64,
    },
    /// File is complete and in its place.
    Done {
        /// Path in the repository.
        path: &'a str,
        /// Length in bytes.
        bytes: u64,
    },
    /// Temporary failure; the request is retried.
    Retry {
        /// Error of the failed try.
        error: &'a Error,
        /// Time until the retry.
        wait: Duration,
    },
    /// Existing data does not match the hub's checksum; the file is downloaded from the beginning.
    StartOver {
        /// Path in the repository.
        path: &'a str,
    },
}
