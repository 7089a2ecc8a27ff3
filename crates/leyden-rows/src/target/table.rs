//! CSV and TSV. Texts stand as they are, lists and objects as JSON, `null` and absent fields as nothing.

use super::Rows;
use crate::Error;
use serde_json::Value;
use std::io::Write;
use std::path::Path;

/// Writes a header and all rows.
pub(super) fn write(
    path: &Path,
    delimiter: char,
    rows: &mut Rows<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let columns = rows.columns()?;
    let mut put = |cells: &[String]| {
        let line: Vec<String> = cells.iter().map(|cell| quoted(cell, delimiter)).collect();
        // An empty line would be no row.
        let line = if line.len() == 1 && line[0].is_empty() {
            "\"\"".to_owned()
        } else {
            line.join(&delimiter.to_string())
        };
        writeln!(out, "{line}").map_err(|error| Error::write(path, &error))
    };
    if !columns.is_empty() {
        put(&columns)?;
    }
    rows.each(|row| {
        let cells = columns.iter().map(|column| match row.get(column) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        });
        put(&cells.collect::<Vec<String>>())
    })
}

/// Puts quotes around a cell where it needs them.
fn quoted(cell: &str, delimiter: char) -> String {
    match cell.contains([delimiter, '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}
