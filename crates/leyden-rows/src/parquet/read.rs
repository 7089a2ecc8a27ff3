//! Rows of a file.

use super::columns::{Column, value};
use super::footer::Footer;
use super::pages::Pages;
use crate::source::Source;
use crate::{Error, Row};
use serde_json::Map;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of a Parquet file.
pub(crate) struct Parquet {
    file: Arc<File>,
    name: String,
    footer: Footer,
    names: Vec<String>,
    /// Next row group.
    group: usize,
    /// Columns of the row group that is being read, and rows that are left in it.
    columns: Vec<Column>,
    left: u64,
    /// Number of rows that were read, for progress.
    number: Arc<AtomicU64>,
}

impl Parquet {
    /// Reads the footer of `file`, which messages call `name`.
    pub(crate) fn open(file: File, name: &str, number: Arc<AtomicU64>) -> Result<Parquet, Error> {
        let footer = Footer::read(&file)
            .map_err(|what| Error::new(name, format!("not readable as Parquet: {what}")))?;
        let names = footer.schema.fields.iter().map(|field| field.name.clone()).collect();
        let file = Arc::new(file);
        Ok(Parquet {
            file,
            name: name.to_owned(),
            footer,
            names,
            group: 0,
            columns: Vec::new(),
            left: 0,
            number,
        })
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.footer.groups.iter().fold(0, |rows, group| rows.saturating_add(group.rows))
    }

    /// Opens row groups until there is a row; `false` at the end.
    fn fill(&mut self) -> bool {
        while self.left == 0 {
            let Some(group) = self.footer.groups.get(self.group) else { return false };
            let leaves = self.footer.schema.leaves.iter().zip(&group.chunks);
            let column = |(leaf, chunk): (&_, &_)| {
                Column::new(Pages::new(Arc::clone(&self.file), *chunk, *leaf), *leaf)
            };
            self.columns = leaves.map(column).collect();
            self.left = group.rows;
            self.group += 1;
        }
        true
    }
}

impl Source for Parquet {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        if !self.fill() {
            return Ok(None);
        }
        self.left -= 1;
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fields = Map::new();
        for field in &self.footer.schema.fields {
            let found = value(field, &mut self.columns, 0, 0).map_err(|what| {
                let what = format!("row {number}: column `{}`: not readable as Parquet: {what}", field.name);
                Error::new(&self.name, what)
            })?;
            fields.insert(field.name.clone(), found);
        }
        Ok(Some(Row::new(fields, format!("row {number}"))))
    }

    fn columns(&self) -> Option<&[String]> {
        Some(&self.names)
    }
}
