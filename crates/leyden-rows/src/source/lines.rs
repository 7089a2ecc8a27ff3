//! Rows on lines: [`Text`] and [`JsonLines`].

use super::Source;
use crate::row::TEXT;
use crate::{Error, MAX_ROW_BYTES, Row};
use serde_json::{Map, Value};
use std::io::{BufRead, Read};

/// Lines of an input.
struct Lines<R> {
    input: R,
    name: String,
    /// Number of the last line, from 1.
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads the next line without its end.
    fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(MAX_ROW_BYTES + 1).read_until(b'\n', &mut bytes);
        read.map_err(|error| Error::new(&self.name, format!("cannot read: {error}")))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if bytes.len() as u64 > MAX_ROW_BYTES {
            let what = format!("{}: more than {} MiB", self.place(), MAX_ROW_BYTES >> 20);
            return Err(Error::new(&self.name, what));
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        Ok(Some(bytes))
    }

    fn place(&self) -> String {
        format!("line {}", self.number)
    }
}

/// Text lines, each a row; an empty line is a row with an empty text.
pub(crate) struct Text<R>(Lines<R>);

impl<R: BufRead> Text<R> {
    /// Rows of `input`, which messages call `name`.
    pub(crate) fn new(input: R, name: &str) -> Text<R> {
        Text(Lines { input, name: name.to_owned(), number: 0 })
    }
}

impl<R: BufRead> Source for Text<R> {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        let Some(bytes) = self.0.next()? else { return Ok(None) };
        let place = self.0.place();
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => Row::of_text(text, place),
            Err(error) => Row::bad(place, not_utf8(&error.utf8_error())),
        }))
    }
}

/// Names the first byte that is no UTF-8.
pub(super) fn not_utf8(error: &std::str::Utf8Error) -> String {
    format!("not UTF-8 text: byte {}", error.valid_up_to())
}

/// JSON lines: objects, or texts in quotes; empty lines are skipped.
pub(crate) struct JsonLines<R>(Lines<R>);

impl<R: BufRead> JsonLines<R> {
    /// Rows of `input`, which messages call `name`.
    pub(crate) fn new(input: R, name: &str) -> JsonLines<R> {
        JsonLines(Lines { input, name: name.to_owned(), number: 0 })
    }
}

impl<R: BufRead> Source for JsonLines<R> {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        loop {
            let Some(bytes) = self.0.next()? else { return Ok(None) };
            if !bytes.trim_ascii().is_empty() {
                return Ok(Some(json_row(&bytes, self.0.place())));
            }
        }
    }
}

/// Makes a row of a JSON object or text.
pub(super) fn json_row(bytes: &[u8], place: String) -> Row {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) => value_row(value, place),
        Err(error) => {
            let what = error.to_string();
            let half = ["surrogate", "end of hex escape"].iter().any(|word| what.contains(word));
            let what = if half { "half of a surrogate pair, which is no character" } else { &what };
            Row::bad(place, format!("not JSON: {what}"))
        }
    }
}

/// Makes a row of a JSON value.
pub(super) fn value_row(value: Value, place: String) -> Row {
    match value {
        Value::Object(fields) => Row::new(fields, place),
        Value::String(text) => Row::new(Map::from_iter([(TEXT.to_owned(), text.into())]), place),
        _ => Row::bad(place, "neither an object nor a text"),
    }
}
