//! Requests to a collector, in the JSON of OTLP: ids as hexadecimal digits, and 64-bit integers as texts.

use crate::span::{AttributeValue, Span, SpanKind};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Name of the code that makes the spans.
const SCOPE: &str = "leyden";
/// Code of a span that failed.
const STATUS_ERROR: u8 = 2;

/// Returns the document of spans; `resource` describes the process.
pub(crate) fn document(resource: &[(&'static str, AttributeValue)], spans: &[Span]) -> Value {
    json!({
        "resourceSpans": [{
            "resource": { "attributes": attributes(resource) },
            "scopeSpans": [{
                "scope": { "name": SCOPE, "version": env!("CARGO_PKG_VERSION") },
                "spans": spans.iter().map(span).collect::<Vec<_>>(),
            }],
        }],
    })
}

fn span(span: &Span) -> Value {
    let (begin, end) = span.times;
    let mut document = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": match span.kind { SpanKind::Internal => 1, SpanKind::Server => 2 },
        "startTimeUnixNano": nanoseconds(begin),
        "endTimeUnixNano": nanoseconds(end.max(begin)),
        "attributes": attributes(&span.attributes),
    });
    if let Some(parent) = span.parent {
        document["parentSpanId"] = format!("{parent:016x}").into();
    }
    if !span.state.is_empty() {
        document["traceState"] = span.state.as_str().into();
    }
    if let Some(message) = &span.failure {
        document["status"] = json!({ "code": STATUS_ERROR, "message": message });
    }
    document
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn attributes(all: &[(&'static str, AttributeValue)]) -> Vec<Value> {
    all.iter().map(|(key, of)| json!({ "key": key, "value": value(of) })).collect()
}

fn value(of: &AttributeValue) -> Value {
    match of {
        AttributeValue::Text(text) => json!({ "stringValue": text }),
        AttributeValue::Integer(n) => json!({ "intValue": n.to_string() }),
        AttributeValue::Number(x) => json!({ "doubleValue": x }),
        AttributeValue::Texts(texts) => {
            let values: Vec<Value> = texts.iter().map(|text| json!({ "stringValue": text })).collect();
            json!({ "arrayValue": { "values": values } })
        }
    }
}
