//! Texts in rows: lines of a file, or objects on lines.

use super::failure::Failure;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;

/// The longest line: no model takes a text of as many tokens.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// One text.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) text: String,
    /// The line it stands on, from 1.
    line: usize,
}

impl AsRef<str> for Row {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// Texts in the order in which they come.
pub(super) struct Rows {
    input: Box<dyn BufRead>,
    /// The file for messages; empty for a text from the command line.
    name: String,
    json: bool,
    lines: usize,
    single: Option<String>,
}

impl Rows {
    /// One text.
    pub(super) fn of_text(text: &str) -> Rows {
        let (input, name) = (Box::new(io::empty()), String::new());
        Rows { input, name, json: false, lines: 0, single: Some(text.to_owned()) }
    }

    /// The lines of a file, or of standard input.
    pub(super) fn open(path: Option<&Path>) -> Result<Rows, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            let stdin = io::stdin();
            if stdin.is_terminal() {
                let what = "reading texts from the terminal, one on a line; end with Ctrl-D on an empty line";
                let _ = writeln!(io::stderr(), "{what}");
            }
            let (input, name) = (Box::new(stdin.lock()), "standard input".to_owned());
            return Ok(Rows { input, name, json: false, lines: 0, single: None });
        };
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Failure::new(format!("{name}: cannot read: {error}")))?;
        let json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jsonl"));
        Ok(Rows { input: Box::new(BufReader::new(file)), name, json, lines: 0, single: None })
    }

    /// All texts, of which there may be so many.
    ///
    /// # Errors
    /// There are more.
    pub(super) fn all(mut self, most: usize) -> Result<Vec<Row>, Failure> {
        let rows = self.take(most.saturating_add(1))?;
        match rows.len() <= most {
            true => Ok(rows),
            false => {
                Err(Failure::new(format!("{}: more than {most} texts", self.name)).hint("divide the file"))
            }
        }
    }

    /// The next texts, at most so many; none at the end.
    pub(super) fn take(&mut self, most: usize) -> Result<Vec<Row>, Failure> {
        if let Some(text) = self.single.take() {
            return Ok(vec![Row { text, line: 1 }]);
        }
        let mut rows = Vec::new();
        while rows.len() < most
            && let Some(line) = self.line()?
        {
            // A line without anything is no object, but it is a text.
            if self.json && line.trim().is_empty() {
                continue;
            }
            let text = if self.json { self.text_of(&line)? } else { line };
            rows.push(Row { text, line: self.lines });
        }
        Ok(rows)
    }

    /// The next line without its end.
    fn line(&mut self) -> Result<Option<String>, Failure> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut bytes);
        read.map_err(|error| Failure::new(format!("{}: cannot read: {error}", self.name)))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.lines += 1;
        if bytes.len() as u64 > MAX_LINE_BYTES {
            return Err(self.wrong(&format!("more than {} MiB", MAX_LINE_BYTES >> 20)));
        }
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        String::from_utf8(line.to_vec()).map(Some).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            self.wrong(&format!("not UTF-8 text: byte {at}"))
                .hint("convert the file to UTF-8, for example with iconv")
        })
    }

    /// The text of a line of JSON.
    fn text_of(&self, line: &str) -> Result<String, Failure> {
        let value: Value = serde_json::from_str(line).map_err(|error| {
            let what = error.to_string();
            let half = ["surrogate", "end of hex escape"].iter().any(|word| what.contains(word));
            let what = if half { "half of a surrogate pair, which is no character" } else { &what };
            self.wrong(&format!("not JSON: {what}")).hint("a line is {\"text\": \"...\"}")
        })?;
        match value {
            Value::String(text) => Ok(text),
            Value::Object(mut object) => match object.remove("text") {
                Some(Value::String(text)) => Ok(text),
                Some(_) => Err(self.wrong("field `text`: not a text")),
                None => Err(self.wrong("field `text`: missing")),
            },
            _ => Err(self.wrong("neither an object with the field `text` nor a text")),
        }
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::new(format!("{}: line {}: {what}", self.name, self.lines))
    }

    /// Where a row stands, for the beginning of a message.
    pub(super) fn place(&self, row: &Row) -> String {
        if self.name.is_empty() { String::new() } else { format!("{}: line {}: ", self.name, row.line) }
    }
}
