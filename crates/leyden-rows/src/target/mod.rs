//! Output files: one file per format. The rows come from a [`Journal`].

mod npy;
mod rows;
mod table;

pub(crate) use rows::Rows;

use crate::{Error, Journal, Output};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes the rows of a journal to `path`, all of them in order, or those at the offsets in `order`. The file appears whole: it is
/// written beside the one that it replaces, flushed and renamed.
///
/// Rows of [`Output::Text`] are JSON texts, all others JSON objects; [`Output::Npy`] takes the field `embedding`.
///
/// # Errors
/// The file cannot be written, or the rows do not fit the format.
pub fn write(path: &Path, output: Output, journal: &mut Journal, order: Option<&[u64]>) -> Result<(), Error> {
    let failed = |error: &std::io::Error| Error::write(path, error);
    let file = leyden_files::Output::create(path).map_err(|error| failed(&error))?;
    let mut out = BufWriter::with_capacity(1 << 18, file);
    let mut rows = Rows::new(journal, order);
    match output {
        Output::Csv => table::write(path, ',', &mut rows, &mut out)?,
        Output::Tsv => table::write(path, '\t', &mut rows, &mut out)?,
        Output::Npy => npy::write(path, &mut rows, &mut out)?,
        Output::Parquet => crate::parquet::write(path, &mut rows, &mut out)?,
        Output::JsonLines => rows.each_text(|row| writeln!(out, "{row}").map_err(|error| failed(&error)))?,
        Output::Text => rows.each_text(|row| {
            let line: String = serde_json::from_str(&row).map_err(|error| Error::of(path, error))?;
            out.write_all(line.as_bytes()).map_err(|error| failed(&error))
        })?,
        Output::Json => {
            let mut before = "[\n";
            rows.each_text(|row| {
                write!(out, "{before}{row}").map_err(|error| failed(&error))?;
                before = ",\n";
                Ok(())
            })?;
            let end = if before == "[\n" { "[]\n" } else { "\n]\n" };
            out.write_all(end.as_bytes()).map_err(|error| failed(&error))?;
        }
    }
    let file = out.into_inner().map_err(|error| failed(error.error()))?;
    file.finish().map_err(|error| failed(&error))
}
