//! [`Input`]: the requests of a batch, a line each, and the check of all of them before the first is computed.

use super::record::InputError;
use crate::json;
use crate::limits::Limits;
use leyden_batch::Source;
use leyden_rows::{Error, Row};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// Endpoints whose requests a batch may have.
pub(crate) const BATCH_ENDPOINTS: [&str; 3] = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"];
/// Bytes of a line beside the body.
const LINE_BYTES: usize = 4096;
/// Maximum number of errors of an input that are reported.
const MAX_ERRORS: usize = 50;
/// Maximum number of characters of a `custom_id`.
const MAX_ID_CHARS: usize = 512;

/// Request of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RowRequest {
    pub(crate) custom_id: String,
    /// Body as JSON.
    pub(crate) body: String,
}

impl RowRequest {
    /// Returns the request as a row.
    fn into_row(self, place: String) -> Row {
        let fields = [("custom_id", self.custom_id), ("body", self.body)];
        Row::new(
            fields.map(|(name, text)| (name.to_owned(), Value::String(text))).into_iter().collect(),
            place,
        )
    }

    /// Returns the id and the body of a row.
    pub(crate) fn of_row(row: &Row) -> Option<(&str, &str)> {
        Some((row.fields.get("custom_id")?.as_str()?, row.fields.get("body")?.as_str()?))
    }
}

/// Request of a line and the parts that all lines share, or the line's error.
type Parsed = Result<(RowRequest, Line), InputError>;

/// Reader of a batch's lines. Empty lines are left out.
#[derive(Debug)]
pub(crate) struct Input {
    lines: BufReader<File>,
    line: u64,
    read: u64,
    bytes: u64,
    line_bytes: usize,
    limits: (usize, usize),
}

impl Input {
    pub(crate) fn new(file: File, bytes: u64, limits: &Limits) -> Input {
        Input {
            lines: BufReader::with_capacity(1 << 16, file),
            line: 0,
            read: 0,
            bytes,
            line_bytes: limits.body_bytes + LINE_BYTES,
            limits: (limits.json_depth + 1, limits.json_values),
        }
    }

    /// Returns the next request, with its line; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    fn next_request(&mut self) -> io::Result<Option<(u64, Parsed)>> {
        loop {
            let mut bytes = Vec::new();
            let most = self.line_bytes as u64 + 1;
            let n = self.lines.by_ref().take(most).read_until(b'\n', &mut bytes)?;
            self.read += n as u64;
            if n == 0 {
                return Ok(None);
            }
            self.line += 1;
            let whole = bytes.ends_with(b"\n") || n as u64 != most;
            if !whole {
                self.read += self.lines.skip_until(b'\n')? as u64;
                let message = format!("the line is longer than {} bytes", self.line_bytes);
                return Ok(Some((self.line, Err(self.error("line_too_long", None, message)))));
            }
            if self.line == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
                bytes.drain(..3);
            }
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            return Ok(Some((self.line, self.parse(bytes.trim_ascii()))));
        }
    }

    fn error(&self, code: &str, param: Option<&str>, message: impl Into<String>) -> InputError {
        InputError {
            code: code.to_owned(),
            message: message.into(),
            param: param.map(str::to_owned),
            line: Some(self.line),
        }
    }

    fn parse(&self, bytes: &[u8]) -> Parsed {
        let parsed = json::parse(bytes, self.limits.0, self.limits.1);
        let Value::Object(mut map) = parsed.map_err(|e| self.error("invalid_json_line", None, e.message))?
        else {
            return Err(self.error("invalid_json_line", None, "the line is not a JSON object"));
        };
        let missing =
            |name: &str| self.error("missing_required_parameter", Some(name), format!("`{name}` is missing"));
        let wrong =
            |name: &str, what: &str| self.error("invalid_value", Some(name), format!("`{name}` {what}"));
        let text = |map: &mut Map<String, Value>, name: &str| match map.remove(name) {
            None | Some(Value::Null) => Err(missing(name)),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(wrong(name, "is not a string")),
        };
        let custom_id = text(&mut map, "custom_id")?;
        if custom_id.is_empty() || custom_id.chars().count() > MAX_ID_CHARS {
            return Err(wrong("custom_id", &format!("has not 1 to {MAX_ID_CHARS} characters")));
        }
        let (method, url) = (text(&mut map, "method")?, text(&mut map, "url")?);
        if method != "POST" {
            return Err(wrong("method", "is not POST"));
        }
        let body = match map.remove("body") {
            None | Some(Value::Null) => return Err(missing("body")),
            Some(body @ Value::Object(_)) => body,
            Some(_) => return Err(wrong("body", "is not an object")),
        };
        if body.get("stream").is_some_and(|stream| stream == &Value::Bool(true)) {
            return Err(wrong("body.stream", "is true, but the answers of a batch are whole"));
        }
        Ok((RowRequest { custom_id, body: body.to_string() }, Line { url }))
    }
}

/// Parts of a line that are the same for all lines.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    url: String,
}

impl Source for Input {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        let next = self.next_request().map_err(|error| Error::new("input file", error))?;
        Ok(next.map(|(line, request)| match request {
            Ok((request, _)) => request.into_row(format!("line {line}")),
            Err(error) => Row::bad(format!("line {line}"), error.message),
        }))
    }

    fn share(&self) -> Option<f64> {
        (self.bytes > 0).then(|| (self.read as f64 / self.bytes as f64).min(1.0))
    }
}

/// Checks all lines of an input. Returns the number of requests, or the first errors.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn check(
    mut input: Input,
    endpoint: &str,
    most: usize,
) -> io::Result<Result<u64, Vec<InputError>>> {
    let (mut rows, mut ids, mut errors) = (0u64, HashSet::new(), Vec::new());
    while let Some((line, request)) = input.next_request()? {
        rows += 1;
        let error = |code: &str, param: &str, message: String| InputError {
            code: code.to_owned(),
            message,
            param: Some(param.to_owned()),
            line: Some(line),
        };
        match request {
            Err(error) => errors.push(error),
            Ok((_, Line { url })) if url != endpoint => {
                let message = format!("`url` is not the batch's endpoint, {endpoint}");
                errors.push(error("mismatched_endpoint", "url", message));
            }
            Ok((RowRequest { custom_id, .. }, _)) => {
                if !ids.insert(custom_id) {
                    let message = "an earlier line has the same `custom_id`".to_owned();
                    errors.push(error("duplicate_custom_id", "custom_id", message));
                }
            }
        }
        let whole = |code: &str, message: String| InputError {
            code: code.to_owned(),
            message,
            param: None,
            line: None,
        };
        if rows > most as u64 {
            let message = format!("the file has more than {most} requests; divide it");
            return Ok(Err(vec![whole("too_many_requests_in_batch", message)]));
        }
        if errors.len() >= MAX_ERRORS {
            return Ok(Err(errors));
        }
    }
    if rows == 0 {
        let message = "the file has no requests".to_owned();
        errors.push(InputError { code: "empty_file".to_owned(), message, param: None, line: None });
    }
    Ok(if errors.is_empty() { Ok(rows) } else { Err(errors) })
}
