//! [`RequestTrace`]: the trace of a request, and its spans with the names of OpenTelemetry's semantic conventions.
//!
//! A request is a span `POST /v1/…` with children `queue`, `prefill` and `decode`. Spans have no text of a client or a
//! model, except the name of a model.

use crate::ids::Ids;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use leyden_otlp::{AttributeValue, Exporter, Span, SpanKind, TraceContext};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Traces of a server.
#[derive(Clone, Debug)]
pub struct Traces {
    /// Exporter of the spans.
    pub exporter: Arc<Exporter>,
    /// Fraction of the requests that are traced, 0 to 1, of those whose caller does not decide.
    pub ratio: f64,
}

/// Trace of a request that is recorded.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    exporter: Arc<Exporter>,
    context: TraceContext,
    parent: Option<u64>,
    state: String,
    method: String,
    /// Ids of the children.
    children: [u64; 3],
}

/// Maximum length of a `tracestate` that is taken; the standard asks for 512 at least.
const MAX_STATE: usize = 512;

impl Traces {
    /// Returns the trace of a request, if it is recorded: its caller decides by the header `traceparent`, or else the
    /// ratio does.
    pub(crate) fn begin(&self, headers: &HeaderMap, method: &str, ids: &Ids) -> Option<RequestTrace> {
        let mut all = headers.get_all("traceparent").iter();
        let caller = match (all.next(), all.next()) {
            (Some(value), None) => value.to_str().ok().and_then(TraceContext::parse),
            _ => None,
        };
        let trace = match caller {
            Some(caller) => caller.trace,
            None => u128::from_str_radix(&ids.next(), 16).unwrap_or_default().max(1),
        };
        let random = || u64::from_str_radix(&ids.next()[..16], 16).unwrap_or_default().max(1);
        // The lower half of a random id decides, as in other programs, so that those with one ratio trace the same.
        let drawn = (trace as u64 >> 1) as f64 / (u64::MAX >> 1) as f64;
        if !caller.map_or(drawn < self.ratio || self.ratio >= 1.0, |caller| caller.sampled) {
            return None;
        }
        let state = headers.get("tracestate").filter(|_| caller.is_some()).and_then(|v| v.to_str().ok());
        Some(RequestTrace {
            exporter: Arc::clone(&self.exporter),
            context: TraceContext { trace, span: random(), sampled: true },
            parent: caller.map(|caller| caller.span),
            state: state.filter(|state| state.len() <= MAX_STATE).unwrap_or_default().to_owned(),
            method: method.to_owned(),
            children: [random(), random(), random()],
        })
    }
}

/// Facts about a request for its spans.
#[derive(Debug, Default)]
pub(crate) struct Measured<'a> {
    pub(crate) route: &'a str,
    pub(crate) id: &'a str,
    pub(crate) model: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) code: Option<&'static str>,
    pub(crate) finish: Option<&'static str>,
    pub(crate) prompt_tokens: Option<usize>,
    pub(crate) cached_tokens: Option<usize>,
    pub(crate) completion_tokens: Option<usize>,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) moments: Moments,
}

/// Moments of a request; those that it has not reached are missing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    /// It was given to an engine.
    pub(crate) submitted: Option<Instant>,
    /// The engine began to compute it.
    pub(crate) admitted: Option<Instant>,
    pub(crate) first_token: Option<Instant>,
    /// The engine ended it.
    pub(crate) ended: Option<Instant>,
}

impl RequestTrace {
    /// Returns the value of the header `traceresponse`.
    pub(crate) fn header(&self) -> String {
        self.context.to_string()
    }

    /// Returns the id of the trace, for the log.
    pub(crate) fn id(&self) -> String {
        format!("{:032x}", self.context.trace)
    }

    /// Queues the spans of a request that began at `started` and is over now.
    pub(crate) fn end(&self, started: Instant, measured: &Measured<'_>) {
        let (now, clock) = (Instant::now(), SystemTime::now());
        let time =
            |moment: Instant| clock.checked_sub(now.saturating_duration_since(moment)).unwrap_or(clock);
        let mut spans = vec![self.request(time(started), clock, measured)];
        let Moments { submitted, admitted, first_token, ended } = measured.moments;
        // A request that an engine has not begun or not ended was given up now.
        let over = ended.unwrap_or(now);
        let parts = [
            ("queue", submitted, admitted.unwrap_or(over)),
            ("prefill", admitted, first_token.unwrap_or(over)),
            ("decode", first_token, over),
        ];
        for ((name, begin, end), id) in parts.into_iter().zip(self.children) {
            let Some(begin) = begin else { continue };
            let tokens = match name {
                "prefill" => Some(("gen_ai.usage.input_tokens", measured.prompt_tokens)),
                "decode" => Some(("gen_ai.usage.output_tokens", measured.completion_tokens)),
                _ => None,
            };
            let attributes = tokens.into_iter().filter_map(|(key, n)| Some((key, n?.into()))).collect();
            spans.push(Span {
                id,
                parent: Some(self.context.span),
                name: name.to_owned(),
                kind: SpanKind::Internal,
                times: (time(begin), time(end)),
                attributes,
                failure: None,
                ..self.bare()
            });
        }
        self.exporter.send(spans);
    }

    fn request(&self, begin: SystemTime, end: SystemTime, measured: &Measured<'_>) -> Span {
        let status = measured.status.map_or(499, |status| status.as_u16());
        let mut attributes: Vec<(&'static str, AttributeValue)> = vec![
            ("http.request.method", self.method.as_str().into()),
            ("http.route", measured.route.into()),
            ("http.response.status_code", usize::from(status).into()),
            ("gen_ai.provider.name", "leyden".into()),
            ("gen_ai.response.id", measured.id.into()),
        ];
        let texts = [
            ("gen_ai.operation.name", operation(measured.route)),
            ("gen_ai.request.model", measured.model),
            ("gen_ai.response.model", measured.model),
            ("error.type", measured.code),
            ("leyden.key", measured.key),
        ];
        attributes.extend(texts.into_iter().filter_map(|(key, text)| Some((key, text?.into()))));
        let numbers = [
            ("gen_ai.request.max_tokens", measured.max_tokens),
            ("gen_ai.usage.input_tokens", measured.prompt_tokens),
            ("gen_ai.usage.cache_read.input_tokens", measured.cached_tokens),
            ("gen_ai.usage.output_tokens", measured.completion_tokens),
        ];
        attributes.extend(numbers.into_iter().filter_map(|(key, n)| Some((key, n?.into()))));
        if let Some(finish) = measured.finish {
            let reasons = AttributeValue::Texts(vec![finish.to_owned()]);
            attributes.push(("gen_ai.response.finish_reasons", reasons));
        }
        // A refused request is a success of a server, by the conventions of HTTP.
        let failed = status >= 500 || measured.finish == Some("error");
        Span {
            id: self.context.span,
            parent: self.parent,
            name: format!("{} {}", self.method, measured.route),
            kind: SpanKind::Server,
            times: (begin, end),
            attributes,
            failure: failed.then(|| measured.code.unwrap_or("error").to_owned()),
            ..self.bare()
        }
    }

    fn bare(&self) -> Span {
        Span {
            trace: self.context.trace,
            id: 0,
            parent: None,
            state: self.state.clone(),
            name: String::new(),
            kind: SpanKind::Internal,
            times: (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH),
            attributes: Vec::new(),
            failure: None,
        }
    }
}

/// Names of operations by a part of a route, the first that fits.
const OPERATIONS: &[(&str, &str)] = &[
    ("embed", "embeddings"),
    ("input_tokens", ""),
    ("count_tokens", ""),
    ("tokenize", ""),
    ("chat", "chat"),
    ("messages", "chat"),
    ("responses", "chat"),
    ("completion", "text_completion"),
    ("generate", "text_completion"),
    ("infill", "text_completion"),
];

/// Returns the name of a route's operation; `None` for those that the conventions do not have.
fn operation(route: &str) -> Option<&'static str> {
    let found = OPERATIONS.iter().find(|(part, _)| route.contains(part));
    found.map(|(_, operation)| *operation).filter(|operation| !operation.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_the_conventions() {
        for (route, wanted) in [
            ("/v1/chat/completions", Some("chat")),
            ("/v1/completions", Some("text_completion")),
            ("/v1/embeddings", Some("embeddings")),
            ("/api/embed", Some("embeddings")),
            ("/v1/messages", Some("chat")),
            ("/v1/messages/count_tokens", None),
            ("/v1/responses", Some("chat")),
            ("/api/generate", Some("text_completion")),
            ("/rerank", None),
            ("/tokenize", None),
        ] {
            assert_eq!(operation(route), wanted, "{route}");
        }
    }
}
