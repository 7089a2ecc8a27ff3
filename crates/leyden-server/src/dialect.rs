//! What a dialect is: the parts of an interface that are the same at all its endpoints.
//!
//! An endpoint of a dialect reads its own fields and makes those of a chat or of a completion of them
//! ([`inference`](crate::inference)), whose answer comes back as one stream of [`OutputEvent`](leyden_text::output)s,
//! whole or as it grows ([`Format`](crate::generate::Format)); what it writes of these is its own matter.

use crate::error::ApiError;
use crate::pieces::Pieces;
use hyper::header::HeaderMap;
use serde_json::{Value, json};
use std::fmt;

/// An interface that clients know.
pub(crate) struct Dialect {
    /// What the schema of its errors is called in the OpenAPI document.
    pub(crate) name: &'static str,
    /// The body of a failed request.
    pub(crate) error: fn(&ApiError) -> Value,
    /// The schema of that.
    pub(crate) error_schema: fn() -> Value,
    /// Whether bodies need not say that they are JSON. Those of other origins' pages have to all the same: a browser asks
    /// the server before it sends such.
    pub(crate) any_content: bool,
    /// The key that a request shows.
    pub(crate) key: fn(&HeaderMap) -> Result<&[u8], ApiError>,
}

impl Dialect {
    /// Returns a reference to the schema of its errors in the OpenAPI document.
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

/// Writes a server-sent event without a name, whose large parts are `pieces`.
pub(crate) fn data_of(pieces: Pieces, value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    pieces.write(value, out);
    out.extend_from_slice(b"\n\n");
}

/// Writes a server-sent event.
pub(crate) fn event(name: &str, value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("event: {name}\ndata: {value}\n\n").as_bytes());
}
