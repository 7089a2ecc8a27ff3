//! Sink of results: standard output, or a journal that becomes the output file.

use super::super::failure::Failure;
use leyden_rows::{Entry, Journal, Output, Row};
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Field with the reason why a row has no result.
const ERROR: &str = "error";

/// Result of one row, as commands print it.
pub(crate) trait Shown {
    /// Names of the fields of results: row fields with these names are renamed, also in rows with errors.
    const NAMES: &'static [&'static str];

    /// Returns the lines of plain text, with line breaks.
    fn lines(&self) -> String;

    /// Returns the fields with their values as JSON text.
    fn fields(&self) -> Vec<(&'static str, String)>;

    /// Returns the key of a sorted output, the greatest first.
    fn key(&self) -> f32 {
        0.0
    }

    /// Sets the index of the row in the input, from 0.
    fn set_index(&mut self, _index: u64) {}

    /// Returns the lines for a row without a result.
    fn error_lines(reason: &str) -> String
    where
        Self: Sized,
    {
        // Line breaks would split the output line.
        let reason: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("error: {reason}\n")
    }
}

/// Writer of the results of rows.
pub(crate) struct Sink<'o> {
    to: To<'o>,
    /// True if objects have the fields of their row; false for a single text of the command line.
    with_row: bool,
    /// Number of rows with an error, including interrupted runs.
    failed: u64,
    rows: u64,
    first_error: Option<String>,
    /// Maximum number of rows of a sorted output; `None` for an output in the order of the input.
    sorted: Option<usize>,
}

enum To<'o> {
    Print {
        out: &'o mut dyn Write,
        json: bool,
    },
    /// Rows to be printed at the end, sorted.
    Sorted {
        out: &'o mut dyn Write,
        json: bool,
        journal: Journal,
    },
    File {
        journal: Journal,
        path: PathBuf,
        output: Output,
    },
}

impl<'o> Sink<'o> {
    /// Creates a sink on standard output: plain lines, or JSON objects.
    pub(crate) fn print(out: &'o mut dyn Write, json: bool, with_row: bool) -> Sink<'o> {
        Sink { to: To::Print { out, json }, with_row, failed: 0, rows: 0, first_error: None, sorted: None }
    }

    /// Creates a sink to a file, through the journal beside it. `run` identifies model and settings.
    ///
    /// # Errors
    /// The journal cannot be opened, or is of another run.
    pub(crate) fn file(path: &Path, output: Output, run: &str) -> Result<Sink<'o>, Failure> {
        // The journal has text lines for text output, else objects.
        let run = format!("{run} {}", if output == Output::Text { "text" } else { "objects" });
        let journal = Journal::open(path, &run)?;
        let (failed, rows) = (journal.failed(), journal.rows());
        let to = To::File { journal, path: path.to_owned(), output };
        Ok(Sink { to, with_row: true, failed, rows, first_error: None, sorted: None })
    }

    /// Creates a sink on standard output, sorted by descending key, with at most `most` rows without an error.
    ///
    /// # Errors
    /// Temporary files cannot be written.
    pub(crate) fn sorted(
        out: &'o mut dyn Write,
        json: bool,
        most: Option<usize>,
    ) -> Result<Sink<'o>, Failure> {
        let to = To::Sorted { out, json, journal: Journal::temporary()? };
        let sorted = Some(most.unwrap_or(usize::MAX));
        Ok(Sink { to, with_row: true, failed: 0, rows: 0, first_error: None, sorted })
    }

    /// Creates a sink to a file, sorted as in [`sorted`](Self::sorted).
    ///
    /// # Errors
    /// As for [`file`](Self::file).
    pub(crate) fn sorted_file(
        path: &Path,
        output: Output,
        run: &str,
        most: Option<usize>,
    ) -> Result<Sink<'o>, Failure> {
        let sorted = Some(most.unwrap_or(usize::MAX));
        Ok(Sink { sorted, ..Sink::file(path, output, run)? })
    }

    /// Returns the number of rows that an interrupted run finished.
    pub(crate) fn kept(&self) -> u64 {
        match &self.to {
            To::Print { .. } | To::Sorted { .. } => 0,
            To::File { journal, .. } => journal.kept(),
        }
    }

    /// Returns the number of finished rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns true if an interrupted run finished the row.
    ///
    /// # Errors
    /// The input changed since then.
    pub(crate) fn has(&mut self, number: u64, row: &Row) -> Result<bool, Failure> {
        match &mut self.to {
            To::Print { .. } | To::Sorted { .. } => Ok(false),
            To::File { journal, .. } => Ok(journal.has(number, row)?),
        }
    }

    /// Writes the result of a row, or the reason why it has none; a message about it begins with `place`.
    ///
    /// # Errors
    /// Writing failed.
    pub(crate) fn put<T: Shown>(
        &mut self,
        row: &Row,
        result: &Result<T, String>,
        place: &str,
    ) -> Result<(), Failure> {
        self.rows += 1;
        if let Err(reason) = result {
            self.failed += 1;
            if self.first_error.is_none() {
                self.first_error = Some(format!("{place}{reason}"));
            }
        }
        let text = || match result {
            Ok(result) => result.lines(),
            Err(reason) => T::error_lines(reason),
        };
        let object = |with_row: bool| {
            let fields = match result {
                Ok(result) => result.fields(),
                Err(reason) => vec![(ERROR, Value::from(reason.as_str()).to_string())],
            };
            object(if with_row { Some(&row.fields) } else { None }, T::NAMES, &fields)
        };
        let (journal, plain) = match &mut self.to {
            To::Print { out, json: true } => return Ok(writeln!(out, "{}", object(self.with_row))?),
            To::Print { out, json: false } => return Ok(out.write_all(text().as_bytes())?),
            To::Sorted { journal, json, .. } => (journal, !*json),
            To::File { journal, output, .. } => (journal, *output == Output::Text),
        };
        let key = result.as_ref().map_or(0.0, T::key);
        let output = if plain { Value::from(text()).to_string() } else { object(true) };
        journal.append(&Entry {
            number: self.rows - 1,
            hash: row.hash(),
            failed: result.is_err(),
            key,
            row: output,
        })?;
        Ok(())
    }

    /// Writes out finished rows, so that they are visible, or survive a kill.
    ///
    /// # Errors
    /// Writing failed.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.to {
            // Readers of a pipe get rows early.
            To::Print { out, .. } => Ok(out.flush()?),
            To::Sorted { .. } => Ok(()),
            To::File { journal, .. } => Ok(journal.sync()?),
        }
    }

    /// Writes the output file.
    ///
    /// # Errors
    /// The file cannot be written; the journal is kept.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        match &mut self.to {
            To::Print { .. } => {}
            To::Sorted { out, json, journal } => {
                let order = journal.best_first(self.sorted)?;
                let mut failed = None;
                journal.each_of(&order, |_, entry| {
                    let plain = || serde_json::from_str::<String>(&entry.row).unwrap_or_default();
                    let text = if *json { entry.row.clone() + "\n" } else { plain() };
                    if failed.is_none() {
                        failed = out.write_all(text.as_bytes()).err();
                    }
                    Ok(())
                })?;
                failed.map_or(Ok(()), Err)?;
                out.flush()?;
            }
            To::File { journal, path, output } => {
                journal.sync()?;
                let order = self.sorted.map(|most| journal.best_first(Some(most))).transpose()?;
                leyden_rows::write(path, *output, journal, order.as_deref())?;
                journal.remove()?;
            }
        }
        Ok(())
    }

    /// Returns the failure of a run if there are rows with errors.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        if self.failed == 0 {
            return Ok(());
        }
        let first =
            self.first_error.as_ref().map_or_else(String::new, |first| format!(", the first: {first}"));
        let message = format!("rows without a result: {} of {}{first}", self.failed, self.rows);
        let hint = match first.contains(" tokens, but the model takes ") {
            true => "shorten the text, or use --truncate",
            false => "the field `error` of these rows has the reason; correct them and run the command again",
        };
        Err(Failure::new(message).hint(hint))
    }
}

/// Writes an object with the fields of a row and of its result. A row field with the name of a result field becomes
/// `input_NAME`.
pub(crate) fn object(
    row: Option<&Map<String, Value>>,
    names: &[&str],
    result: &[(&'static str, String)],
) -> String {
    let mut text = String::from("{");
    let mut put = |name: &str, value: &str| {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&Value::from(name).to_string());
        text.push(':');
        text.push_str(value);
    };
    for (name, value) in row.into_iter().flatten() {
        let mut name = name.clone();
        if names.contains(&&name[..]) || name == ERROR {
            name = format!("input_{name}");
            while row.is_some_and(|row| row.contains_key(&name)) {
                name = format!("input_{name}");
            }
        }
        put(&name, &value.to_string());
    }
    result.iter().for_each(|(name, value)| put(name, value));
    text.push('}');
    text
}

/// Formats a number as JSON, with the same digits as the server; `null` for NaN and infinities.
pub(crate) fn number(x: f32) -> String {
    serde_json::to_string(&f64::from(x)).unwrap_or_else(|_| "null".to_owned())
}

/// Formats a vector as JSON.
pub(crate) fn numbers(vector: &[f32]) -> String {
    serde_json::to_string(vector).unwrap_or_else(|_| "null".to_owned())
}

/// Formats a vector as plain text, with spaces between the numbers.
pub(crate) fn plain_numbers(vector: &[f32]) -> String {
    let mut line = Vec::new();
    for (i, x) in vector.iter().enumerate() {
        let blank = if i == 0 { "" } else { " " };
        // Writing to memory cannot fail.
        let _: io::Result<()> = write!(line, "{blank}{x}");
    }
    String::from_utf8_lossy(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_of_the_row_stay_beside_those_of_the_result() {
        let Value::Object(row) = json!({ "id": 7, "text": "a", "label": "gold", "input_label": 1 }) else {
            panic!("an object")
        };
        let names = ["label", "score"];
        let found = object(Some(&row), &names, &[("label", "\"x\"".to_owned()), ("score", "0.5".to_owned())]);
        let wanted = json!({
            "id": 7, "text": "a", "input_input_label": "gold", "input_label": 1, "label": "x", "score": 0.5
        });
        assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), wanted);
        // A row with an error has no label; a label of the input must not be taken for one.
        let failed = object(Some(&row), &names, &[("error", "\"no\"".to_owned())]);
        let failed: Value = serde_json::from_str(&failed).unwrap();
        assert_eq!((failed.get("label"), &failed["input_input_label"]), (None, &json!("gold")));
        assert_eq!(object(None, &names, &[("score", number(f32::NAN))]), "{\"score\":null}");
        assert_eq!(numbers(&[0.1, -2.0]), "[0.1,-2.0]");
        assert_eq!(plain_numbers(&[0.1, -2.0]), "0.1 -2");
    }
}
