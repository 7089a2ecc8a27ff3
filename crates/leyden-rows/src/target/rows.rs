//! [`Rows`]: rows of a journal as writers of output files get them.

use crate::{Error, Journal, MAX_COLUMNS};
use serde_json::{Map, Value};

/// Rows of a journal in the order of the output.
pub(crate) struct Rows<'j> {
    journal: &'j mut Journal,
    order: Option<&'j [u64]>,
}

impl<'j> Rows<'j> {
    /// Returns all rows of a journal, or those at the offsets in `order`.
    pub(super) fn new(journal: &'j mut Journal, order: Option<&'j [u64]>) -> Rows<'j> {
        Rows { journal, order }
    }

    /// Goes over the rows as JSON text.
    pub(super) fn each_text(&mut self, mut f: impl FnMut(String) -> Result<(), Error>) -> Result<(), Error> {
        match self.order {
            Some(offsets) => self.journal.each_of(offsets, |_, entry| f(entry.row)),
            None => self.journal.each(|_, entry| f(entry.row)),
        }
    }

    /// Goes over the rows as objects.
    pub(crate) fn each(
        &mut self,
        mut f: impl FnMut(Map<String, Value>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.each_text(|row| match serde_json::from_str(&row) {
            Ok(Value::Object(fields)) => f(fields),
            Ok(_) => Err(Error::new("output row", "not an object")),
            Err(error) => Err(Error::new("output row", error)),
        })
    }

    /// Names of all columns, in the order of their first row.
    pub(crate) fn columns(&mut self) -> Result<Vec<String>, Error> {
        let mut columns: Vec<String> = Vec::new();
        self.each(|row| {
            for name in row.keys() {
                if !columns.contains(name) {
                    columns.push(name.clone());
                }
            }
            match columns.len() > MAX_COLUMNS {
                true => Err(Error::new("output", format!("more than {MAX_COLUMNS} columns"))
                    .hint("name an output that ends in .jsonl")),
                false => Ok(()),
            }
        })?;
        Ok(columns)
    }
}
