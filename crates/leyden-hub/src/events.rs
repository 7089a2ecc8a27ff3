//! [`Event`]: progress of a pull.

use std::time::Duration;

use crate::error::Error;

/// What a pull tells while it works.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another pull of the same repository is at work, and this one waits for it.
    Waiting,
    /// The repository has several models and none was named, so one was chosen.
    Chosen {
        /// Its main file.
        file: &'a str,
        /// How many there are.
        of: usize,
    },
    /// What belongs to the model.
    Plan {
        /// How many files.
        files: usize,
        /// Their length together.
        bytes: u64,
    },
    /// A file that is there already is being checked.
    Check {
        /// Its path in the repository.
        path: &'a str,
        /// Its length.
        bytes: u64,
    },
    /// A file is being downloaded.
    Download {
        /// Its path in the repository.
        path: &'a str,
        /// Its length.
        bytes: u64,
    },
    /// How far the file in question is. The first values of a resumed download come while what is there is checked.
    At {
        /// Bytes from its beginning.
        bytes: u64,
    },
    /// The file is in its place.
    Done {
        /// Its path in the repository.
        path: &'a str,
        /// Its length.
        bytes: u64,
    },
    /// Something failed that may pass, and will be tried again.
    Retry {
        /// What failed.
        error: &'a Error,
        /// The wait before it is tried again.
        wait: Duration,
    },
    /// What was there of the file is not what the hub lists, so it is downloaded from the beginning.
    StartOver {
        /// Its path in the repository.
        path: &'a str,
    },
}
