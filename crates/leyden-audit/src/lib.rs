//! Audit logs: records of what a model was asked and answered, in which a later change is noticed.
//!
//! - [`AuditLog`] writes: [`AuditLog::append`] returns when the record is on the disk; callers that wait at the same time
//!   share one write.
//! - [`Record`] is one request or one row; [`Content`] its texts, which are written encrypted to a [`Recipient`] or not at
//!   all.
//! - [`verify()`] checks a folder, alone or against copies of its checkpoints; [`read`] returns its records.
//!
//! A log is a folder of segments, files of JSON lines. Each line holds the SHA-256 of the line before it. Checkpoints are
//! lines signed with a key outside of the folder; the newest one is also in the file `head`, to be copied to another
//! machine.
//!
//! ```
//! use leyden_audit::{AuditLog, Options, Record, VerifyOptions, verify};
//! let place = tempfile::tempdir()?;
//! let folder = place.path().join("log");
//! let log = AuditLog::open(&folder, Options::new(place.path().join("key"), "1.0"))?;
//! let number = log.append(&Record { id: "request-1".to_owned(), task: "classify".to_owned(), ..Record::default() })?;
//! log.close()?;
//! let report = verify(&folder, &VerifyOptions::default())?;
//! assert!(report.problems.is_empty() && report.entries == 1 && report.records > number);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod clock;
mod content;
mod digest;
mod error;
mod folder;
mod key;
mod line;
mod log;
mod read;
mod record;
mod report;
mod scan;
mod verify;
mod writer;

pub use content::{Content, ContentKey, Recipient};
pub use digest::{Digest, hex, sha256};
pub use error::Error;
pub use folder::HEAD;
pub use log::{AuditLog, Figures, Options};
pub use read::{Entry, read};
pub use record::{AdapterFacts, Caller, ModelFacts, Phase, Record};
pub use report::{Finding, KeySource, Report};
pub use verify::{VerifyOptions, verify};

#[cfg(test)]
mod tests;
