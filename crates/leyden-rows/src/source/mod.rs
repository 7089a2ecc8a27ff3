//! Sources of rows: one file per format.

mod csv;
mod json;
mod lines;

pub(crate) use csv::Csv;
pub(crate) use json::json;
pub(crate) use lines::{JsonLines, Text};

use crate::{Error, Row};

/// Rows of one format.
pub(crate) trait Source {
    /// Returns the next row; `None` at the end.
    fn next(&mut self) -> Result<Option<Row>, Error>;

    /// Names of the columns in the header; `None` for formats without one.
    fn columns(&self) -> Option<&[String]> {
        None
    }
}
