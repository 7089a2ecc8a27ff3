//! [`Source`] of rows.

use leyden_rows::{Error, Reader, Row};

/// Rows of an input, one after the other.
pub trait Source: Send {
    /// Returns the next row; `None` at the end.
    ///
    /// # Errors
    /// The input cannot be read any further. A row that alone is bad is returned with its problem.
    fn next(&mut self) -> Result<Option<Row>, Error>;

    /// Returns the share of the input that has been read, from 0 to 1, if it is known.
    fn share(&self) -> Option<f64> {
        None
    }
}

impl Source for Reader {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        Reader::next(self)
    }

    fn share(&self) -> Option<f64> {
        Reader::share(self)
    }
}

/// Rows in memory.
#[derive(Debug)]
pub struct Rows(std::vec::IntoIter<Row>);

impl From<Vec<Row>> for Rows {
    fn from(rows: Vec<Row>) -> Rows {
        Rows(rows.into_iter())
    }
}

impl Source for Rows {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        Ok(self.0.next())
    }
}
