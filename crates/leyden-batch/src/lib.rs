//! Runs over rows: a source of rows, a computation, and a sink of answers, so that each row gets exactly one answer.
//!
//! [`run`] reads rows from a [`Source`], hands them to a [`Computation`] through a [`Feed`], and writes answers to a [`Sink`].
//! The computation decides how many rows it works on at the same time, on as many threads as it likes; answers come in any
//! order. With a [`JournalSink`] a run resumes after a kill. Rows that cannot be read, that have the id of an earlier row, that
//! the computation refuses, or that make it panic or kill the process get an answer with the reason; the others are not affected.
//!
//! Memory is bounded by the rows in flight, [`Limits::window`] and [`Limits::bytes`].
//!
//! ```
//! use leyden_batch::{Answer, Groups, Item, JournalSink, Run, run};
//! use leyden_rows::{Format, Journal, Reader};
//!
//! let input: &[u8] = b"good\nbad\n";
//! let rows = Reader::from_read(Box::new(input), "input", Format::Text)?;
//! let mut sink = JournalSink::new(Journal::temporary()?);
//! let mut lengths = Groups::new(|items: &[std::sync::Arc<Item>]| -> Result<_, String> {
//!     Ok(items.iter().map(|item| Ok(Answer::of(item.row.fields["text"].to_string()))).collect())
//! });
//! let error_row = |_: &Item, reason: &str| reason.to_owned();
//! let summary = run(Run::new(Box::new(rows), &mut sink, &error_row), &mut lengths)?;
//! assert_eq!((summary.read, summary.done, summary.failed), (2, 2, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod feed;
mod groups;
mod ids;
mod item;
mod parts;
mod run;
mod shard;
mod sink;
mod source;

pub use error::Error;
pub use feed::{Feed, Next};
pub use groups::Groups;
pub use item::{Answer, Item};
pub use parts::{Limits, Progress, Run};
pub use run::{Computation, Summary, run};
pub use shard::Shard;
pub use sink::{JournalSink, Recorder, Sink};
pub use source::{Rows, Source};
