//! `leyden serve --audit` and `leyden audit`, as a user runs them.

use super::program::{Files, leyden};
use super::serve::{Server, post};
use serde_json::Value;
use std::fs;

fn asked(server: &Server, path: &str, body: &str) -> String {
    let answer = server.exchange(post(path, body));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

#[test]
fn a_server_is_audited_and_its_answers_are_computed_again() {
    let files = Files::new();
    let (log, reader) = (files.path("log"), files.path("reader.key"));
    let run = leyden(&["audit", "keygen", &reader]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let server = Server::start(&["--audit", &log, "--audit-content", run.out.trim()]);
    let body = r#"{"prompt":"Once upon a time","max_tokens":12,"temperature":1.2,"ignore_eos":true}"#;
    asked(&server, "/v1/completions", body);
    asked(
        &server,
        "/v1/chat/completions",
        r#"{"messages":[{"role":"user","content":"Once"}],"max_tokens":5,"stream":true}"#,
    );
    asked(&server, "/v1/embeddings", r#"{"input":["Once","Then"]}"#);
    // A log that is written is right, too; nobody else can write it.
    let run = leyden(&["audit", "verify", &log]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    let run = leyden(&["serve", "--port", "0", "--audit", &log]);
    assert!(run.code == Some(1) && run.err.contains("another process"), "{}", run.err);
    let anchor = files.path("anchor");
    assert_eq!(server.end().0, Some(0));
    fs::copy(format!("{log}/head"), &anchor).unwrap();
    let run =
        leyden(&["audit", "verify", &log, "--anchor", &anchor, "--key", &format!("{log}.key.pub"), "--json"]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (&report["entries"], &report["closed"], &report["warnings"]),
        (&4.into(), &true.into(), &Value::Array(vec![]))
    );

    let run = leyden(&["audit", "show", &log, "--json", "--key", &reader]);
    let shown: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(shown[0]["content"]["input"], body);
    assert!(shown[0]["model"]["sha256"].as_str().unwrap().len() == 64 && shown[0]["seed"].is_u64());
    assert!(leyden(&["audit", "show", &log]).out.lines().count() == 4);
    // The embedded model is a file, too.
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../leyden/model/storyteller-q8_0.gguf");
    for i in [0, 1, 3] {
        let id = shown[i]["id"].as_str().unwrap();
        let run = leyden(&["audit", "replay", &log, "--id", id, "-m", model, "--key", &reader]);
        assert_eq!(run.code, Some(0), "{i}: {}{}", run.out, run.err);
        assert!(run.out.contains("the same result"), "{}", run.out);
    }
    // Without the content, the body is in a file.
    let (id, right, wrong) = (shown[0]["id"].as_str().unwrap(), files.path("right"), files.path("wrong"));
    fs::write(&right, body).unwrap();
    fs::write(&wrong, body.replace("12", "13")).unwrap();
    let replay = |input: &str, more: &[&str]| {
        leyden(
            &[&["audit", "replay", &log, "--id", id, "-m", model, "--input", input, "--json"], more].concat(),
        )
    };
    assert_eq!(replay(&right, &[]).code, Some(0));
    let run = replay(&right, &["--", "--parallel", "2"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let run = replay(&wrong, &[]);
    assert!(run.code == Some(1) && run.err.contains("its SHA-256 is"), "{}", run.err);
    // A changed record.
    let segment = format!("{log}/segment-000001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replacen("\"finish\":\"length\"", "\"finish\":\"stop\"", 1)).unwrap();
    let run = leyden(&["audit", "verify", &log]);
    assert!(
        run.code == Some(1) && run.out.contains("segment-000001.jsonl:4: prev"),
        "{}{}",
        run.out,
        run.err
    );
    let run = leyden(&["serve", "--port", "0", "--audit", &log]);
    assert!(run.code == Some(1) && run.err.contains("does not continue"), "{}", run.err);
}

#[test]
fn wrong_usage_of_audit_is_explained() {
    let files = Files::new();
    let (log, none) = (files.path("log"), files.path("none"));
    for (arguments, words) in [
        (vec!["serve", "--audit-content", "x"], "--audit"),
        (vec!["serve", "--audit", &log, "--audit-content", &none], "--audit-content"),
        (vec!["audit", "verify", &none], "none"),
        (vec!["audit", "show", &none], "none"),
        (vec!["audit", "replay", &none, "--id", "x"], "--model"),
    ] {
        let run = leyden(&arguments);
        assert!(run.code != Some(0) && run.err.contains(words), "{arguments:?}: {}", run.err);
    }
}
