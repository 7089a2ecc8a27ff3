//! Dialect: the parts of an API that are the same at all its endpoints.
//!
//! An endpoint of a dialect converts its own fields into those of a chat or of a completion
//! ([`inference`](crate::inference)). The answer is a stream of [`OutputEvent`](leyden_text::output)s, which the
//! endpoint gets as a whole or in pieces ([`Format`](crate::generate::Format)) and writes in the dialect's form.

use crate::error::ApiError;
use crate::streamed_json::StreamedJson;
use hyper::header::HeaderMap;
use serde_json::{Value, json};
use std::fmt;

/// API of a known service that the server implements.
pub(crate) struct Dialect {
    /// Name of its error schema in the OpenAPI document.
    pub(crate) name: &'static str,
    /// Function that writes the body of a failed request.
    pub(crate) error: fn(&ApiError) -> Value,
    /// Function that returns the schema of that body.
    pub(crate) error_schema: fn() -> Value,
    /// True if bodies need no JSON content type. Requests from pages of other origins need it all the same: it makes a
    /// browser send a preflight request.
    pub(crate) any_content: bool,
    /// Function that finds the API key in a request.
    pub(crate) key: fn(&HeaderMap) -> Result<&[u8], ApiError>,
}

impl Dialect {
    /// Returns a reference to its error schema in the OpenAPI document.
    pub(crate) fn error_reference(&self) -> Value {
        json!({ "$ref": format!("#/components/schemas/{}", self.name) })
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Writes a server-sent event without a name.
pub(crate) fn data(value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("data: {value}\n\n").as_bytes());
}

/// Writes a server-sent event without a name; its large parts come from `pieces`.
pub(crate) fn data_of(pieces: StreamedJson, value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    pieces.write(value, out);
    out.extend_from_slice(b"\n\n");
}

/// Writes a server-sent event.
pub(crate) fn event(name: &str, value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("event: {name}\ndata: {value}\n\n").as_bytes());
}
