//! [`Span`]: a piece of work in a trace.

use std::time::SystemTime;

/// Role of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Part of another span of the same process.
    Internal,
    /// Answer to a request from outside.
    Server,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// Text.
    Text(String),
    /// Integer.
    Integer(i64),
    /// Number.
    Number(f64),
    /// List of texts.
    Texts(Vec<String>),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        AttributeValue::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        AttributeValue::Text(text)
    }
}

impl From<usize> for AttributeValue {
    fn from(n: usize) -> Self {
        AttributeValue::Integer(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

/// Piece of work in a trace.
#[derive(Clone, Debug)]
pub struct Span {
    /// Id of the trace; not 0.
    pub trace: u128,
    /// Id of the span; not 0.
    pub id: u64,
    /// Id of the span to which this one belongs; `None` for the first of a trace.
    pub parent: Option<u64>,
    /// The caller's header `tracestate`; empty without it.
    pub state: String,
    /// Name.
    pub name: String,
    /// Role.
    pub kind: SpanKind,
    /// Begin and end; a span that ends before it begins has no length.
    pub times: (SystemTime, SystemTime),
    /// Attributes with the names of the semantic conventions.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Message of a failure; `None` if the work did not fail.
    pub failure: Option<String>,
}
