//! Sink of results: standard output, or a journal that becomes the output file.

use super::super::failure::Failure;
use leyden_batch::{Answer, Item, JournalSink, Recorder, Summary};
use leyden_rows::{Error, Journal, Output, Row};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
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

/// Form of output rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// Plain lines.
    Lines,
    /// Plain lines as a JSON text, for a journal.
    Quoted,
    /// Objects, with the fields of the row or without.
    Object { with_row: bool },
}

impl Form {
    /// Returns the answer with the result of a row.
    pub(crate) fn answer<T: Shown>(self, row: &Row, result: &T) -> Answer {
        let text = match self {
            Form::Lines => result.lines(),
            Form::Quoted => Value::from(result.lines()).to_string(),
            Form::Object { with_row } => object(with_row.then_some(&row.fields), T::NAMES, &result.fields()),
        };
        Answer { key: result.key(), ..Answer::of(text) }
    }

    /// Returns the output row of a row without a result.
    pub(crate) fn error_row<T: Shown>(self, row: &Row, reason: &str) -> String {
        match self {
            Form::Lines => T::error_lines(reason),
            Form::Quoted => Value::from(T::error_lines(reason)).to_string(),
            Form::Object { with_row } => {
                let fields = [(ERROR, Value::from(reason).to_string())];
                object(with_row.then_some(&row.fields), T::NAMES, &fields)
            }
        }
    }
}

/// Writer of the results of rows.
pub(crate) struct Sink<'o> {
    to: To<'o>,
    form: Form,
    /// Maximum number of rows of a sorted output; `None` for an output in the order of the input.
    sorted: Option<usize>,
}

enum To<'o> {
    Print {
        out: &'o mut (dyn Write + Send),
        /// Rows that wait for an earlier one, and the number of the next row.
        early: BTreeMap<u64, String>,
        next: u64,
        /// Error of standard output.
        lost: Option<io::Error>,
    },
    /// Rows to be printed at the end, sorted.
    Sorted {
        out: &'o mut (dyn Write + Send),
        rows: JournalSink,
    },
    File {
        rows: JournalSink,
        path: PathBuf,
        output: Output,
    },
}

impl<'o> Sink<'o> {
    /// Creates a sink on standard output: plain lines, or JSON objects.
    pub(crate) fn print(out: &'o mut (dyn Write + Send), json: bool, with_row: bool) -> Sink<'o> {
        let to = To::Print { out, early: BTreeMap::new(), next: 0, lost: None };
        Sink { to, form: if json { Form::Object { with_row } } else { Form::Lines }, sorted: None }
    }

    /// Creates a sink to a file, through the journal beside it. `run` identifies model and settings.
    ///
    /// # Errors
    /// The journal cannot be opened, or is of another run.
    pub(crate) fn file(path: &Path, output: Output, run: &str) -> Result<Sink<'o>, Failure> {
        // The journal has text lines for text output, else objects.
        let run = format!("{run} {}", if output == Output::Text { "text" } else { "objects" });
        let rows = JournalSink::new(Journal::open(path, &run)?);
        let form = if output == Output::Text { Form::Quoted } else { Form::Object { with_row: true } };
        Ok(Sink { to: To::File { rows, path: path.to_owned(), output }, form, sorted: None })
    }

    /// Creates a sink on standard output, sorted by descending key, with at most `most` rows without an error.
    ///
    /// # Errors
    /// Temporary files cannot be written.
    pub(crate) fn sorted(
        out: &'o mut (dyn Write + Send),
        json: bool,
        most: Option<usize>,
    ) -> Result<Sink<'o>, Failure> {
        let to = To::Sorted { out, rows: JournalSink::new(Journal::temporary()?) };
        let form = if json { Form::Object { with_row: true } } else { Form::Quoted };
        Ok(Sink { to, form, sorted: Some(most.unwrap_or(usize::MAX)) })
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

    /// Adds a recorder of answers, for outputs in a file.
    pub(crate) fn with_recorder(self, recorder: Option<Box<dyn Recorder>>) -> Sink<'o> {
        let to = match (self.to, recorder) {
            (To::File { rows, path, output }, Some(recorder)) => {
                To::File { rows: rows.with_recorder(recorder), path, output }
            }
            (to, _) => to,
        };
        Sink { to, ..self }
    }

    /// Returns the form of the output rows.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Returns the error of standard output that ended a run.
    pub(crate) fn lost(&mut self) -> Option<Failure> {
        match &mut self.to {
            To::Print { lost, .. } => lost.take().map(Failure::from),
            _ => None,
        }
    }

    /// Prints the only text of a command line.
    ///
    /// # Errors
    /// Writing failed.
    pub(crate) fn print_one(&mut self, text: &str) -> Result<(), Failure> {
        let To::Print { out, .. } = &mut self.to else { return Ok(()) };
        let end = if matches!(self.form, Form::Object { .. }) { "\n" } else { "" };
        Ok(write!(out, "{text}{end}")?)
    }

    /// Writes the output file.
    ///
    /// # Errors
    /// The file cannot be written; the journal is kept.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        match &mut self.to {
            To::Print { .. } => {}
            To::Sorted { out, rows } => {
                let journal = rows.journal_mut();
                let order = journal.best_first(self.sorted)?;
                let mut failed = None;
                journal.each_of(&order, |_, entry| {
                    let plain = || serde_json::from_str::<String>(&entry.row).unwrap_or_default();
                    let is_object = matches!(self.form, Form::Object { .. });
                    let text = if is_object { entry.row.clone() + "\n" } else { plain() };
                    if failed.is_none() {
                        failed = out.write_all(text.as_bytes()).err();
                    }
                    Ok(())
                })?;
                failed.map_or(Ok(()), Err)?;
                out.flush()?;
            }
            To::File { rows, path, output } => {
                let journal = rows.journal_mut();
                journal.sync()?;
                let order = self.sorted.map(|most| journal.best_first(Some(most))).transpose()?;
                leyden_rows::write(path, *output, journal, order.as_deref())?;
                journal.remove()?;
            }
        }
        Ok(())
    }

    /// Returns the rows of a file or of a sorted output.
    fn rows(&mut self) -> Option<&mut JournalSink> {
        match &mut self.to {
            To::Print { .. } => None,
            To::Sorted { rows, .. } | To::File { rows, .. } => Some(rows),
        }
    }
}

impl leyden_batch::Sink for Sink<'_> {
    fn has(&mut self, number: u64, row: &Row) -> Result<bool, Error> {
        self.rows().map_or(Ok(false), |rows| rows.has(number, row))
    }

    fn kept(&self) -> (u64, u64) {
        match &self.to {
            To::Print { .. } => (0, 0),
            To::Sorted { rows, .. } | To::File { rows, .. } => rows.kept(),
        }
    }

    fn unmatched(&mut self) -> Result<u64, Error> {
        self.rows().map_or(Ok(0), JournalSink::unmatched)
    }

    fn put(&mut self, item: Item, answer: Answer) -> Result<(), Error> {
        let To::Print { out, early, next, lost } = &mut self.to else {
            return self.rows().map_or(Ok(()), |rows| rows.put(item, answer));
        };
        early.insert(item.number, answer.row);
        while let Some(text) = early.remove(next) {
            *next += 1;
            let end = if matches!(self.form, Form::Object { .. }) { "\n" } else { "" };
            if let Err(error) = write!(out, "{text}{end}") {
                let what = Error::new("standard output", &error);
                *lost = Some(error);
                return Err(what);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        match &mut self.to {
            // Readers of a pipe get rows early.
            To::Print { out, lost, .. } => out.flush().map_err(|error| {
                let what = Error::new("standard output", &error);
                *lost = Some(error);
                what
            }),
            To::Sorted { .. } => Ok(()),
            To::File { rows, .. } => rows.flush(),
        }
    }

    fn begin(&mut self) -> Result<bool, Error> {
        self.rows().map_or(Ok(false), JournalSink::begin)
    }

    fn begin_alone(&mut self, number: u64) -> Result<u32, Error> {
        self.rows().map_or(Ok(0), |rows| rows.begin_alone(number))
    }

    fn end(&mut self) -> Result<(), Error> {
        match &mut self.to {
            To::File { rows, .. } => rows.end(),
            _ => self.flush(),
        }
    }
}

/// Returns the failure of a run if there are rows with errors. `name` is that of the input.
pub(crate) fn verdict(summary: &Summary, name: &str) -> Result<(), Failure> {
    if summary.failed == 0 {
        return Ok(());
    }
    let place = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let first =
        summary.first_error.as_ref().map_or_else(String::new, |first| format!(", the first: {place}{first}"));
    let rows = summary.done + summary.failed;
    let message = format!("rows without a result: {} of {rows}{first}", summary.failed);
    let hint = match first.contains(" tokens, but the model takes ") {
        true => "shorten the text, or use --truncate",
        false => "the field `error` of these rows has the reason; correct them and run the command again",
    };
    Err(Failure::new(message).hint(hint))
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
