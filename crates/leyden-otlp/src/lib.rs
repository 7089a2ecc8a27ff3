//! Traces of requests, sent to a collector of OpenTelemetry (OTLP over HTTP, in JSON).
//!
//! Spans are plain data. An [`Exporter`] has a thread that sends them in batches; a full queue drops spans and counts
//! them, so that whoever makes spans never waits. The thread connects to the given endpoint and to nothing else: it uses
//! no proxy and follows no redirect.
#![forbid(unsafe_code)]

mod context;
mod endpoint;
mod error;
mod exporter;
mod json;
mod span;

pub use context::TraceContext;
pub use endpoint::Endpoint;
pub use error::Error;
pub use exporter::{Exporter, Options};
pub use leyden_tls::Authorities;
pub use span::{AttributeValue, Span, SpanKind};
