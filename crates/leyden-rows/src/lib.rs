//! Rows in files: a reader, a writer, and a journal that lets an interrupted run resume.
//!
//! A [`Reader`] streams rows out of text lines, CSV, TSV, JSON, JSON lines or Parquet. A command computes a result for each row
//! and appends both to a [`Journal`], an append-only file beside the output. When all rows are done, [`write()`] turns the journal
//! into the output file. After a kill, the journal tells which rows are done; each of its lines has a hash of the input row, so a
//! changed input is noticed.
//!
//! Memory is bounded by one batch of rows, whatever the size of the files.
//!
//! ```
//! use leyden_rows::{Format, Reader};
//!
//! let input: &[u8] = b"id,text\n7,good\n8,bad\n";
//! let mut rows = Reader::from_read(Box::new(input), "input", Format::Csv)?;
//! let first = rows.next()?.expect("two rows");
//! assert_eq!(first.text(None)?, "good");
//! assert_eq!(first.fields["id"], "7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod format;
mod journal;
mod parquet;
mod reader;
mod row;
mod source;
mod target;

pub use error::Error;
pub use format::{Format, Output};
pub use journal::{Entry, Journal, Mark};
pub use reader::Reader;
pub use row::Row;
pub use target::write;

/// Maximum length of one row in bytes.
pub const MAX_ROW_BYTES: u64 = 64 << 20;
/// Maximum number of columns of an output table.
pub const MAX_COLUMNS: usize = 4096;
