//! Rows of every format, read and written.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod formats;
mod outputs;
mod parquet_files;

use leyden_rows::{Error, Reader, Row};
use std::path::Path;

/// All rows of a file.
fn read(path: &Path) -> Result<Vec<Row>, Error> {
    let mut reader = Reader::open(path, None)?;
    let mut rows = Vec::new();
    while let Some(row) = reader.next()? {
        rows.push(row);
    }
    Ok(rows)
}
