//! Traces of requests, as a collector gets them.

use super::{
    CHAT, COMPLETIONS, EMBEDDINGS, get, next, request, run, start, story, until, whole, worker_options,
};
use crate::app::App;
use crate::{ServerOptions, Traces};
use leyden_otlp::{Authorities, Exporter, Options};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

/// Collector of this process: the spans that it got.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Value>>>);

impl Collector {
    /// Starts to listen; returns the address, too. Its thread ends with the process.
    fn start() -> (Collector, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let collector = Collector::default();
        let spans = collector.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut length = 0;
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                    let lower = line.to_ascii_lowercase();
                    length =
                        lower.strip_prefix("content-length: ").map_or(length, |n| n.trim().parse().unwrap());
                    line.clear();
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap();
                let all = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
                spans.0.lock().unwrap().extend(all.as_array().unwrap().iter().cloned());
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                reader.get_mut().write_all(answer).unwrap();
            }
        });
        (collector, address)
    }

    /// Waits for the spans of a trace whose request has a name.
    async fn spans(&self, name: &str) -> Vec<Value> {
        let mut found = Vec::new();
        until(name, || {
            let all = self.0.lock().unwrap();
            let request = all.iter().find(|span| span["name"] == name);
            let Some(trace) = request.map(|span| span["traceId"].clone()) else { return false };
            found = all.iter().filter(|span| span["traceId"] == trace).cloned().collect();
            true
        })
        .await;
        found
    }
}

fn traced(endpoint: &str, ratio: f64) -> Arc<App> {
    let exporter = Exporter::start(Options {
        endpoint: endpoint.parse().unwrap(),
        headers: Vec::new(),
        authorities: Authorities::System,
        resource: Vec::new(),
        report: Box::new(|_| {}),
    });
    let traces = Some(Traces { exporter: Arc::new(exporter.unwrap()), ratio });
    start(worker_options(), ServerOptions { traces, ..ServerOptions::default() }).0
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    let value = all.iter().find(|attribute| attribute["key"] == key).map(|attribute| &attribute["value"]);
    value.and_then(|value| value.as_object().unwrap().values().next()).unwrap_or(&Value::Null)
}

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

#[test]
fn a_request_has_spans_for_queue_prefill_and_decode() {
    run(async {
        let (collector, endpoint) = Collector::start();
        let app = traced(&endpoint, 1.0);
        let mut streamed = story(1, 12);
        streamed["stream"] = true.into();
        let mut asked = request("POST", COMPLETIONS, &streamed.to_string());
        asked.headers_mut().insert("traceparent", format!("{CALLER}-01").parse().unwrap());
        asked.headers_mut().insert("tracestate", "vendor=x".parse().unwrap());
        let mut response = app.respond(asked).await;
        let header = response.headers()["traceresponse"].to_str().unwrap().to_owned();
        while next(response.body_mut()).await.is_some() {}
        drop(response);
        let spans = collector.spans("POST /v1/completions").await;
        let by_name = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
        let whole = by_name("POST /v1/completions");
        assert_eq!(whole["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(
            (&whole["parentSpanId"], &whole["traceState"]),
            (&"00f067aa0ba902b7".into(), &"vendor=x".into())
        );
        assert_eq!(whole["kind"], 2);
        assert_eq!(header, format!("00-{}-{}-01", &CALLER[3..35], whole["spanId"].as_str().unwrap()));
        for (key, wanted) in [
            ("gen_ai.operation.name", json!("text_completion")),
            ("gen_ai.provider.name", json!("leyden")),
            ("gen_ai.request.model", json!("storyteller")),
            ("gen_ai.request.max_tokens", json!("12")),
            ("gen_ai.usage.output_tokens", json!("12")),
            ("http.route", json!(COMPLETIONS)),
            ("http.response.status_code", json!("200")),
        ] {
            assert_eq!(*attribute(whole, key), wanted, "{key}: {whole}");
        }
        assert_eq!(attribute(whole, "gen_ai.response.finish_reasons")["values"][0]["stringValue"], "length");
        assert_ne!(*attribute(whole, "gen_ai.usage.input_tokens"), Value::Null);
        assert!(!whole.to_string().contains("king"), "no text of a client: {whole}");
        let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
        let mut before = time(whole, "startTimeUnixNano");
        for name in ["queue", "prefill", "decode"] {
            let part = by_name(name);
            assert_eq!((&part["parentSpanId"], &part["kind"]), (&whole["spanId"], &1.into()), "{name}");
            let (begin, end) = (time(part, "startTimeUnixNano"), time(part, "endTimeUnixNano"));
            assert!(before <= begin && begin <= end, "{name}: {spans:?}");
            before = end;
        }
        assert!(before <= time(whole, "endTimeUnixNano"));
        until("the spans are counted", || app.traces.as_ref().unwrap().exporter.exported() == 4).await;
        let page = get(&app, "/metrics").await.1;
        assert!(page.contains("leyden_trace_spans_total{result=\"exported\"} 4"), "{page}");
        assert!(page.contains("leyden_trace_spans_total{result=\"dropped\"} 0"), "{page}");
    });
}

#[test]
fn other_requests_have_what_they_reach() {
    run(async {
        let (collector, endpoint) = Collector::start();
        let app = traced(&endpoint, 1.0);
        let (status, _) = super::post(&app, CHAT, json!({ "messages": 1 })).await;
        assert_eq!(status, 400);
        let spans = collector.spans("POST /v1/chat/completions").await;
        assert_eq!(spans.len(), 1, "{spans:?}");
        assert_eq!(*attribute(&spans[0], "http.response.status_code"), json!("400"));
        assert_ne!(*attribute(&spans[0], "error.type"), Value::Null);
        assert_eq!(spans[0]["status"], Value::Null, "a refusal is no failure of the server");
        super::ask(&app, EMBEDDINGS, json!({ "input": "a cat" })).await;
        let spans = collector.spans("POST /v1/embeddings").await;
        let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["POST /v1/embeddings", "queue", "prefill"]);
        assert_eq!(*attribute(&spans[0], "gen_ai.operation.name"), json!("embeddings"));
        // Probes and lists are not traced.
        for path in ["/health", "/metrics", "/v1/models"] {
            let response = app.respond(request("GET", path, "")).await;
            assert!(!response.headers().contains_key("traceresponse"), "{path}");
            drop(whole(response).await);
        }
    });
}

#[test]
fn the_caller_decides_and_else_the_ratio() {
    run(async {
        let (collector, endpoint) = Collector::start();
        let traced_by = async |app: &Arc<App>, parent: &str| {
            let mut asked = request("POST", "/tokenize", r#"{"content":"a"}"#);
            if !parent.is_empty() {
                asked.headers_mut().insert("traceparent", parent.parse().unwrap());
            }
            let response = app.respond(asked).await;
            let header = response.headers().get("traceresponse").map(|v| v.to_str().unwrap().to_owned());
            drop(whole(response).await);
            header
        };
        let (never, always) = (traced(&endpoint, 0.0), traced(&endpoint, 1.0));
        assert_eq!(traced_by(&never, "").await, None);
        assert_eq!(traced_by(&never, "no context").await, None);
        assert_eq!(traced_by(&always, &format!("{CALLER}-00")).await, None);
        let header = traced_by(&never, &format!("{CALLER}-01")).await.unwrap();
        assert!(header.starts_with(&CALLER[..35]), "{header}");
        let header = traced_by(&always, "no context").await.unwrap();
        assert!(!header.starts_with(&CALLER[..35]), "{header}");
        collector.spans("POST /tokenize").await;
        let half = traced(&endpoint, 0.5);
        let mut n = 0;
        for _ in 0..200 {
            n += usize::from(traced_by(&half, "").await.is_some());
        }
        // 6 standard deviations.
        assert!((58..=142).contains(&n), "{n}");
    });
}
