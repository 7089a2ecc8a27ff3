//! [`Limits`]: bounds on what reading a document may take.

use serde_json::{Value, json};
use std::path::PathBuf;

/// Bounds on what reading a document may take.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size of the file in bytes; 64 MiB by default.
    pub file_bytes: u64,
    /// Maximum size in bytes of everything that is unpacked out of a compressed document; 256 MiB by default.
    pub unpacked_bytes: u64,
    /// Maximum size of the text in bytes; 32 MiB by default.
    pub text_bytes: usize,
    /// Maximum number of pages; 10 000 by default.
    pub pages: usize,
    /// Maximum number of seconds for one document; 30 by default.
    pub seconds: u64,
    /// Maximum size of the child process in bytes of address space; 2 GiB by default.
    pub memory_bytes: u64,
    /// Program that calls [`crate::answer`] first in its `main`, to read PDF, DOCX and HTML in a child process; none by default.
    pub program: Option<PathBuf>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            file_bytes: 64 << 20,
            unpacked_bytes: 256 << 20,
            text_bytes: 32 << 20,
            pages: 10_000,
            seconds: 30,
            memory_bytes: 2 << 30,
            program: None,
        }
    }
}

impl Limits {
    /// Returns the default limits, with the running program as the one that reads in a child process.
    ///
    /// # Errors
    /// The system does not tell the path of the running program.
    pub fn with_this_program() -> std::io::Result<Limits> {
        Ok(Limits { program: Some(std::env::current_exe()?), ..Limits::default() })
    }

    /// Returns the limits as an argument of the child process.
    pub(crate) fn argument(&self) -> String {
        json!([
            self.file_bytes,
            self.unpacked_bytes,
            self.text_bytes,
            self.pages,
            self.seconds,
            self.memory_bytes
        ])
        .to_string()
    }

    /// Reads what [`Limits::argument`] wrote; `None` if it is anything else.
    pub(crate) fn of_argument(argument: &str) -> Option<Limits> {
        let values: Value = serde_json::from_str(argument).ok()?;
        let value = |i: usize| values.get(i)?.as_u64();
        Some(Limits {
            file_bytes: value(0)?,
            unpacked_bytes: value(1)?,
            text_bytes: usize::try_from(value(2)?).ok()?,
            pages: usize::try_from(value(3)?).ok()?,
            seconds: value(4)?,
            memory_bytes: value(5)?,
            program: None,
        })
    }
}

/// Returns a size in words, for messages.
pub(crate) fn size(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{bytes} bytes") }
}
