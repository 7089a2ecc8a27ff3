//! Batches of `leyden serve --batch-dir`, which outlive the server.

use super::program::{Files, STORYTELLER, leyden};
use super::serve::Server;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Sends a request, and returns its status and body.
fn ask(server: &Server, method: &str, path: &str, kind: &str, body: &str) -> (u16, String) {
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\n");
    let answer = server.exchange(format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    (status, if chunked { unchunked(body) } else { body.to_owned() })
}

/// Returns a body without the lengths of its chunks.
fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        body += &after[..length];
        rest = &after[(length + 2).min(after.len())..];
        if length == 0 {
            break;
        }
    }
    body
}

fn value(answer: &(u16, String)) -> Value {
    assert_eq!(answer.0, 200, "{}", answer.1);
    serde_json::from_str(&answer.1).unwrap()
}

fn json_of(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    value(&ask(server, method, path, "application/json", &body))
}

/// Uploads a file and returns its id.
fn upload(server: &Server, content: &str) -> String {
    let part =
        |name: &str, text: &str| format!("--b\r\ncontent-disposition: form-data; {name}\r\n\r\n{text}\r\n");
    let body = part("name=\"file\"; filename=\"rows.jsonl\"", content)
        + &part("name=\"purpose\"", "batch")
        + "--b--\r\n";
    let file = value(&ask(server, "POST", "/v1/files", "multipart/form-data; boundary=b", &body));
    file["id"].as_str().unwrap().to_owned()
}

/// Waits until a batch fulfils a condition.
fn until(server: &Server, id: &str, what: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let batch = json_of(server, "GET", &format!("/v1/batches/{id}"), &Value::Null);
        if what(&batch) {
            return batch;
        }
        assert!(start.elapsed() < leyden_testkit::patience(Duration::from_secs(120)), "{batch}");
        sleep(Duration::from_millis(10));
    }
}

/// Returns the lines of `n` requests for completions of 120 tokens.
fn requests(n: u64) -> String {
    let line = |i| {
        let body = json!({ "prompt": "Once upon a time", "max_tokens": 120, "seed": i, "ignore_eos": true });
        let row = json!({ "custom_id": format!("row {i}"), "method": "POST", "url": "/v1/completions", "body": body });
        format!("{row}\n")
    };
    (0..n).map(line).collect()
}

const ROWS: u64 = 60;

#[test]
fn a_batch_outlives_kills_with_every_row_once() {
    let files = Files::new();
    let folder = files.path("batches");
    let start = || Server::start(&[STORYTELLER, "--batch-dir", &folder]);
    let mut server = start();
    let file = upload(&server, &requests(ROWS));
    let new = json!({ "input_file_id": file, "endpoint": "/v1/completions", "completion_window": "24h" });
    let id = json_of(&server, "POST", "/v1/batches", &new)["id"].as_str().unwrap().to_owned();
    let mut last = 0;
    for _ in 0..2 {
        let done = |batch: &Value| batch["request_counts"]["completed"].as_u64().unwrap();
        let batch = until(&server, &id, |batch| done(batch) > last || batch["status"] == "completed");
        last = done(&batch);
        // Answers are flushed every second.
        sleep(Duration::from_millis(300));
        server.kill();
        server = start();
    }
    let batch = until(&server, &id, |batch| batch["status"] == "completed");
    assert_eq!(batch["request_counts"], json!({ "total": ROWS, "completed": ROWS, "failed": 0 }));
    assert_eq!(batch["error_file_id"], Value::Null);
    let rows = rows(&server, &batch["output_file_id"]);
    let ids: Vec<String> = rows.iter().map(|row| row["custom_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, (0..ROWS).map(|i| format!("row {i}")).collect::<Vec<_>>());
    let tokens = |row: &Value| row["response"]["body"]["usage"]["completion_tokens"].clone();
    assert!(rows.iter().all(|row| tokens(row) == 120));
    // Neither a second server nor a server without the folder has them.
    let second = leyden(&["serve", STORYTELLER, "--port", "0", "--batch-dir", &folder]);
    assert!(second.code == Some(1) && second.err.contains("another server uses this folder"), "{second:?}");
    let other = Server::start(&[STORYTELLER]);
    let (status, body) = ask(&other, "GET", "/v1/batches", "application/json", "");
    assert!(status == 404 && body.contains("--batch-dir"), "{body}");
}

/// Returns the rows of a file of the server.
fn rows(server: &Server, file: &Value) -> Vec<Value> {
    let path = format!("/v1/files/{}/content", file.as_str().unwrap());
    let (status, content) = ask(server, "GET", &path, "application/json", "");
    assert_eq!(status, 200, "{content}");
    content.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_batch_past_its_window_keeps_its_answers_and_names_the_rest() {
    let files = Files::new();
    let folder = files.path("batches");
    let start = || Server::start(&[STORYTELLER, "--batch-dir", &folder]);
    let mut server = start();
    let file = upload(&server, &requests(400));
    let new = json!({ "input_file_id": file, "endpoint": "/v1/completions", "completion_window": "1h" });
    let id = json_of(&server, "POST", "/v1/batches", &new)["id"].as_str().unwrap().to_owned();
    let done = |batch: &Value| batch["request_counts"]["completed"].as_u64().unwrap();
    until(&server, &id, |batch| done(batch) > 0);
    // Answers are flushed every second.
    sleep(Duration::from_millis(1200));
    server.kill();
    // An hour passes.
    let path = format!("{folder}/batches/{id}.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    record["expires_at"] = record["created_at"].clone();
    std::fs::write(&path, record.to_string()).unwrap();
    server = start();
    let batch = until(&server, &id, |batch| batch["status"] == "expired");
    let (answers, errors) = (rows(&server, &batch["output_file_id"]), rows(&server, &batch["error_file_id"]));
    assert!(batch["expired_at"].is_u64() && batch["completed_at"].is_null(), "{batch}");
    assert_eq!(answers.len() as u64, done(&batch));
    assert!(
        !answers.is_empty() && answers.len() + errors.len() == 400,
        "{} + {}",
        answers.len(),
        errors.len()
    );
    assert!(errors.iter().all(|row| row["error"]["code"] == "batch_expired" && row["response"].is_null()));
    let mut ids: Vec<String> =
        answers.iter().chain(&errors).map(|row| row["custom_id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 400);
    let cancel = ask(&server, "POST", &format!("/v1/batches/{id}/cancel"), "application/json", "");
    assert!(cancel.0 == 409 && cancel.1.contains("batch_ended"), "{cancel:?}");
}
