//! Traces of `leyden serve`, read by OpenTelemetry's own definitions, and the options of the exporter.

use leyden_testkit::emulated;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::program::{command, leyden};
use super::serve::{Server, post};

#[test]
fn a_collector_reads_them() {
    if emulated() {
        let _ = writeln!(std::io::stderr(), "skipped: a collector is the same for every processor");
        return;
    }
    let package = "opentelemetry.proto.collector.trace.v1.trace_service_pb2";
    let found = Command::new("python3").args(["-c", &format!("import {package}")]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("LEYDEN_CI").is_none(), "python3 with the package opentelemetry-proto");
        let _ = writeln!(std::io::stderr(), "skipped: no python3 with the package opentelemetry-proto");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/otlp_collector.py");
    let mut collector = Command::new("python3").arg(script).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(collector.stdout.take().unwrap()).lines();
    let port = out.next().unwrap().unwrap();
    let mut serve = command(&["serve", "--port", "0", "--threads", "1", "--lame-duck", "0"]);
    serve.args(["--otlp-endpoint", &format!("http://127.0.0.1:{port}"), "--otlp-service", "stories"]);
    let server = Server::of(serve.env("LEYDEN_OTLP_HEADER", "x-token=t"));
    let body = r#"{"prompt":"Once upon a time","max_tokens":8,"ignore_eos":true}"#;
    let answer = server.exchange(post("/v1/completions", body));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("traceresponse: 00-"), "{answer}");
    // Waiting spans are sent at the end, too.
    let (code, log) = server.end();
    assert!(code == Some(0) && log.contains(" trace="), "{log}");
    assert_eq!(out.next().unwrap().unwrap(), "stories,POST /v1/completions,queue,prefill,decode");
    assert!(collector.wait().unwrap().success());
}

#[test]
fn wrong_options_are_named() {
    for (options, code, wanted) in [
        (&["--otlp-endpoint", "127.0.0.1:4318"][..], 2, "not the address of a collector"),
        (&["--otlp-endpoint", "http://127.0.0.1:1", "--otlp-sample", "2"], 2, "must be a number from 0 to 1"),
        (&["--otlp-endpoint", "http://127.0.0.1:1", "--otlp-header", "x"], 2, "must be NAME=VALUE"),
        (&["--otlp-endpoint", "http://127.0.0.1:1", "--otlp-header", "a b=c"], 1, "not a valid header"),
    ] {
        let error = leyden(&[&["serve", "--port", "0"], options].concat()).failed(code);
        assert!(error.contains(wanted), "{options:?}: {error}");
    }
}
