//! Servers that break connections, send invalid answers, stall and refuse.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::server::{Request, STREAM, Server, Step, answer, chunk, document, last, token};
use crate::*;
use serde_json::json;

/// Starts a server whose answers to all requests but the probes are `steps`.
fn with_answer(steps: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> (Server, Target) {
    let server = Server::start(move |request| {
        let probe = request.path != "/v1/chat/completions" || request.body["max_tokens"] == 1;
        if probe { Vec::new() } else { steps(request) }
    });
    let target = target(&server, Ask::default()).unwrap();
    (server, target)
}

/// Returns the result of two requests to such a server.
fn fails(steps: Vec<Step>) -> (Class, String) {
    let (_server, target) = with_answer(move |_| steps.clone());
    let mut workload = workload(2, 2);
    workload.timeout = Duration::from_secs(60);
    let run = finish(&target, &workload);
    assert_eq!(failures(&run).len(), 2, "{run:?}");
    failures(&run).remove(0)
}

fn bytes(text: impl Into<Vec<u8>>) -> Step {
    Step::Bytes(text.into())
}

#[test]
fn a_stream_may_break_anywhere() {
    let (_server, target) = with_answer(|request| {
        let whole: Vec<u8> = answer(request, 2)
            .into_iter()
            .flat_map(|step| if let Step::Bytes(bytes) = step { bytes } else { Vec::new() })
            .collect();
        // Single bytes for the head and the first chunk, then any pieces.
        let (first, rest) = whole.split_at(280);
        first.chunks(1).chain(rest.chunks(request.nth * 7 + 3)).map(bytes).collect()
    });
    let run = finish(&target, &workload(1, 4));
    assert!(failures(&run).is_empty(), "{:?}", failures(&run));
    assert!(run.records.iter().all(|record| record.events.len() == 2 && record.output_tokens == Some(2)));
}

#[test]
fn broken_answers_are_told_apart() {
    let sse = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    let event = token("x");
    let long = format!("{sse}Content-Length: 9999\r\n\r\n{event}");
    let short = format!("{sse}Content-Length: 10\r\n\r\n{event}");
    for (steps, class, wanted) in [
        (vec![Step::Close], Class::Connection, "closed without an answer"),
        (vec![bytes("HTTP/1.1 200"), Step::Close], Class::Connection, "in the head"),
        (vec![bytes(STREAM), bytes("5\r\nda"), Step::Close], Class::Connection, "in the middle"),
        (vec![bytes(long), Step::Close], Class::Connection, "bytes before the answer did"),
        (vec![bytes(short)], Class::Stream, "without a finish_reason"),
        (vec![bytes(STREAM), bytes("zz\r\n")], Class::Protocol, "a chunk has no size"),
        (vec![bytes(format!("{sse}{}", "X-A: b\r\n".repeat(9000)))], Class::Protocol, "64 KiB"),
        (vec![bytes(vec![b'x'; 100_000])], Class::Protocol, "64 KiB"),
        (vec![bytes("HTTP/1.1 100 Continue\r\n\r\n".repeat(20))], Class::Protocol, "interim"),
        (vec![bytes("HTTP/1.1 101 x\r\n\r\n")], Class::Protocol, "interim"),
        (vec![bytes("220 mail.example ESMTP\r\n\r\n")], Class::Protocol, "does not begin"),
        (document(200, "", &json!({ "choices": [] })), Class::Protocol, "not a stream"),
        (
            document(404, "", &json!({ "error": { "message": "no such model" } })),
            Class::Http4xx,
            "404: no such model",
        ),
        (document(503, "", &json!({ "error": "loading" })), Class::Http5xx, "status 503: loading"),
        (document(307, "Location: /elsewhere\r\n", &json!("")), Class::Protocol, "status 307"),
        (
            vec![bytes(STREAM), bytes(chunk("data: {\"error\":{\"message\":\"kaput\"}}\n\n"))],
            Class::Stream,
            "error in the stream: kaput",
        ),
        (vec![bytes(STREAM), bytes(chunk("data: {]\n\n"))], Class::Protocol, "an event is not valid"),
    ] {
        let (found, message) = fails(steps);
        assert!(found == class && message.contains(wanted), "{wanted}: {found:?} {message}");
    }
}

#[test]
fn a_slow_server_is_given_up() {
    let comments = vec![[bytes(chunk(": wait\n\n")), Step::Pause(Duration::from_millis(20))]; 1000];
    for steps in [
        vec![Step::Pause(LONG)],
        vec![bytes("HTTP/1.1 200 OK\r\n"), Step::Pause(LONG)],
        [bytes(STREAM)].into_iter().chain(comments.into_iter().flatten()).collect(),
    ] {
        let (_server, target) = with_answer(move |_| steps.clone());
        let mut workload = workload(1, 1);
        workload.timeout = Duration::from_millis(200);
        assert_eq!(
            failures(&finish(&target, &workload)),
            [(Class::Timeout, "no complete answer in time".into())]
        );
    }
}

#[test]
fn a_busy_server_is_asked_again_only_if_wanted() {
    let busy = AtomicUsize::new(0);
    let (server, target) = with_answer(move |_| {
        let full = json!({ "error": { "message": "full" } });
        let first = busy.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        if first { document(429, "Retry-After: 0\r\n", &full) } else { Vec::new() }
    });
    let mut workload = workload(1, 2);
    let run = finish(&target, &workload);
    assert_eq!(failures(&run), [(Class::Rejected, "status 429: full".to_owned())]);
    workload.retry = true;
    let run = finish(&target, &workload);
    assert!(failures(&run).is_empty() && run.records.iter().all(|record| record.rejections == 1));
    assert_eq!(Summary::new(&run, None).requests.rejections, 2);
    assert_eq!(server.seen("/chat/completions").len(), 1 + 2 + 4);
}

#[test]
fn connections_are_kept_and_a_closed_one_is_no_failure() {
    // Closes every connection after an answer that promised to keep it.
    let (server, target) = with_answer(|request| [answer(request, 2), vec![Step::Close]].concat());
    let run = finish(&target, &workload(1, 6));
    assert!(failures(&run).is_empty(), "{:?}", failures(&run));
    assert!(server.connections() >= 6);
    // A server that announces it, and whose answers end with the connection.
    let (_server, target) = with_answer(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        vec![bytes(format!("{head}{}{}", token("x"), last(4, 1))), Step::Close]
    });
    let run = finish(&target, &workload(2, 6));
    assert!(failures(&run).is_empty(), "{:?}", failures(&run));
}

#[test]
fn a_server_that_cannot_be_measured_is_refused_at_the_start() {
    let refused =
        |handler: fn(&Request) -> Vec<Step>| target(&Server::start(handler), Ask::default()).unwrap_err();
    let no_model = refused(|_| document(200, "", &json!({ "data": [] }))).to_string();
    assert!(no_model.ends_with(": /v1/models: the answer lists no model"), "{no_model}");
    let closed =
        refused(|_| document(401, "", &json!({ "error": { "message": "who are you?" } }))).to_string();
    assert!(closed.ends_with("/v1/models: status 401 who are you?"), "{closed}");
    let strict = refused(|request| match request.path.as_str() {
        "/v1/chat/completions" => document(400, "", &json!({ "error": { "message": "no chat template" } })),
        _ => Vec::new(),
    });
    assert!(strict.to_string().ends_with("/v1/chat/completions: status 400: no chat template"), "{strict}");
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server =
        leyden_load::Server::new(format!("http://{unused}").parse().unwrap(), None, &Authorities::System);
    let gone = Target::find(server.unwrap(), None, Ask::default(), LONG, &Control::default()).unwrap_err();
    assert!(gone.to_string().contains("cannot connect") && !gone.is_usage(), "{gone}");
}
