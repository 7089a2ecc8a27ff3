//! Responses with a complete body: a JSON document or a text.

use crate::body::Reply;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::Value;

/// Returns a response with a JSON document.
pub(crate) fn document(status: StatusCode, value: &Value) -> Response<Reply> {
    plain(status, "application/json", value.to_string())
}

/// Returns a response with a text.
pub(crate) fn plain(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
