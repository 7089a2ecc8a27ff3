//! [`Report`]: the result of the checks of a log.

use serde::Serialize;

/// A place in a log, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Path of the file.
    pub file: String,
    /// Line in it, from 1; `None` if it is about the whole file.
    pub line: Option<u64>,
    /// Description.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// Source of the key with which signatures were checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeySource {
    /// The log itself: a log that was written anew with another key looks the same.
    #[default]
    Log,
    /// An anchor.
    Anchor,
    /// A key file.
    File,
}

/// Result of the checks.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Random id of the log.
    pub log: String,
    /// Public key of the checkpoints.
    pub key: String,
    /// Source of that key.
    pub key_from: KeySource,
    /// Number of segments.
    pub segments: u64,
    /// Number of lines.
    pub records: u64,
    /// Number of lines that are records of requests or rows.
    pub entries: u64,
    /// Number of checkpoints with a right signature.
    pub checkpoints: u64,
    /// Number of lines after the last checkpoint, which no signature covers.
    pub unsigned: u64,
    /// Time of the first line.
    pub first: Option<String>,
    /// Time of the last line.
    pub last: Option<String>,
    /// True if the log ends with the checkpoint of a closed log.
    pub closed: bool,
    /// True if a process writes the log at present.
    pub in_use: bool,
    /// Differences from what the log must be: it was changed.
    pub problems: Vec<Finding>,
    /// Facts that an auditor should know, which a crash or a clock that was set explains.
    pub warnings: Vec<Finding>,
    /// Number of problems beyond the maximum, which are left out.
    pub problems_left_out: u64,
    /// Number of warnings beyond the maximum, which are left out.
    pub warnings_left_out: u64,
}
