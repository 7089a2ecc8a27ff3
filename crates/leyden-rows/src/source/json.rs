//! A JSON list, read element by element: the whole document is never in memory.

use super::{JsonLines, Source, lines};
use crate::{Error, MAX_ROW_BYTES, Row};
use serde_json::Value;
use std::io::{BufRead, Cursor, Read};

/// Hint for documents that are no list of rows.
const WANT: &str = "want a list of objects, [{\"text\": \"...\"}, ...]; pandas writes it with to_json(FILE, orient='records')";

/// Rows of a JSON document: a list, or objects on lines as many files named `.json` have.
pub(crate) fn json<R: BufRead + Send + 'static>(
    mut input: R,
    name: &str,
) -> Result<Box<dyn Source + Send>, Error> {
    let wrong = |what: &str| Error::new(name, what).hint(WANT);
    match peek(&mut input, name)? {
        Some(b'[') => {
            input.consume(1);
            Ok(Box::new(JsonList { input, name: name.to_owned(), number: 0, ended: false }))
        }
        Some(b'{') => {
            let mut first = Vec::new();
            let read = input.by_ref().take(MAX_ROW_BYTES).read_until(b'\n', &mut first);
            read.map_err(|error| Error::new(name, format!("cannot read: {error}")))?;
            let Ok(Value::Object(object)) = serde_json::from_slice(&first) else {
                return Err(wrong("an object over several lines, not a list of rows"));
            };
            if !object.is_empty() && object.values().all(|value| value.is_object() || value.is_array()) {
                return Err(wrong("an object of columns or lists, not a list of rows"));
            }
            Ok(Box::new(JsonLines::new(Cursor::new(first).chain(input), name)))
        }
        Some(_) => Err(wrong("not a JSON list")),
        None => Err(wrong("empty")),
    }
}

/// Skips white space and returns the next byte without taking it.
fn peek<R: BufRead>(input: &mut R, name: &str) -> Result<Option<u8>, Error> {
    loop {
        let bytes = input.fill_buf().map_err(|error| Error::new(name, format!("cannot read: {error}")))?;
        let Some(first) = bytes.first().copied() else { return Ok(None) };
        if !first.is_ascii_whitespace() {
            return Ok(Some(first));
        }
        let blanks = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        input.consume(blanks);
    }
}

/// Elements of a list.
struct JsonList<R> {
    input: R,
    name: String,
    /// Number of the last element, from 1.
    number: u64,
    ended: bool,
}

impl<R: BufRead> JsonList<R> {
    /// Reads one element up to the comma or bracket behind it, which it returns.
    fn element(&mut self) -> Result<(Vec<u8>, u8), Error> {
        let (mut element, mut depth, mut quoted, mut escaped) = (Vec::new(), 0_u32, false, false);
        loop {
            let read = self.input.fill_buf();
            let bytes = read.map_err(|error| Error::new(&self.name, format!("cannot read: {error}")))?;
            if bytes.is_empty() {
                return Err(self.wrong("the file ends within the list"));
            }
            for (i, byte) in bytes.iter().enumerate() {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if quoted => escaped = true,
                    b'"' => quoted = !quoted,
                    _ if quoted => {}
                    b',' | b']' if depth == 0 => {
                        let end = *byte;
                        element.extend_from_slice(&bytes[..i]);
                        self.input.consume(i + 1);
                        return Ok((element, end));
                    }
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
            let n = bytes.len();
            element.extend_from_slice(bytes);
            self.input.consume(n);
            if element.len() as u64 > MAX_ROW_BYTES {
                return Err(self.wrong(&format!("more than {} MiB", MAX_ROW_BYTES >> 20)));
            }
        }
    }

    fn wrong(&self, what: &str) -> Error {
        Error::new(&self.name, format!("item {}: {what}", self.number))
    }
}

impl<R: BufRead> Source for JsonList<R> {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        if self.ended {
            return Ok(None);
        }
        self.number += 1;
        let (element, end) = self.element()?;
        self.ended = end == b']';
        if element.trim_ascii().is_empty() && self.ended && self.number == 1 {
            return Ok(None);
        }
        // A wrong character may have moved the ends of all elements, so nothing behind it can be trusted.
        let value: Value = serde_json::from_slice(&element)
            .map_err(|error| self.wrong(&format!("not JSON: {error}")).hint(WANT))?;
        if self.ended
            && let Some(byte) = peek(&mut self.input, &self.name)?
        {
            return Err(self.wrong(&format!("`{}` behind the list", char::from(byte))));
        }
        Ok(Some(lines::value_row(value, format!("item {}", self.number))))
    }
}
