//! Small requests whose answers are large.

use super::{get, post, request, run, start, whole, worker_options};
use crate::auth::ApiKeys;
use crate::{Limits, ServerOptions};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Returns for each endpoint with unbounded answers a request whose answer could exceed 64 KiB, and the change that
/// makes it small.
fn requests() -> Vec<(&'static str, Value, Value)> {
    let texts = vec!["Once upon a time there was a little wolf"; 40];
    let few = json!(["Once upon a time"]);
    let messages = json!([{ "role": "user", "content": "x" }]);
    vec![
        (
            "/v1/completions",
            json!({ "prompt": "x", "n": 8, "max_tokens": 100, "logprobs": 5 }),
            json!({ "n": 1, "max_tokens": 2 }),
        ),
        (
            "/v1/completions",
            json!({ "prompt": vec!["x"; 32], "n": 16, "max_tokens": 200 }),
            json!({ "prompt": "x", "n": 1, "max_tokens": 2 }),
        ),
        (
            "/v1/completions",
            json!({ "prompt": vec!["Once upon a time there was a wolf"; 32], "echo": true, "max_tokens": 0, "logprobs": 20 }),
            json!({ "prompt": "x" }),
        ),
        (
            "/v1/chat/completions",
            json!({ "messages": messages, "n": 8, "max_tokens": 100, "logprobs": true, "top_logprobs": 20 }),
            json!({ "n": 1, "max_tokens": 2 }),
        ),
        (
            "/v1/responses",
            json!({ "input": "x", "max_output_tokens": 100, "top_logprobs": 20 }),
            json!({ "top_logprobs": 0, "max_output_tokens": 2 }),
        ),
        (
            "/api/generate",
            json!({ "model": "storyteller", "prompt": "x", "stream": false, "logprobs": true, "top_logprobs": 20,
                "options": { "num_predict": 400 } }),
            json!({ "options": { "num_predict": 2 } }),
        ),
        (
            "/api/chat",
            json!({ "model": "storyteller", "messages": messages, "stream": false, "logprobs": true,
                "top_logprobs": 20, "options": { "num_predict": 400 } }),
            json!({ "options": { "num_predict": 2 } }),
        ),
        ("/completion", json!({ "prompt": "x", "n_predict": 400, "n_probs": 20 }), json!({ "n_predict": 2 })),
        ("/v1/embeddings", json!({ "input": texts }), json!({ "input": few })),
        ("/embed", json!({ "inputs": texts }), json!({ "inputs": few })),
        ("/api/embed", json!({ "model": "storyteller", "input": texts }), json!({ "input": few })),
        ("/embed_all", json!({ "inputs": texts }), json!({ "inputs": few })),
        ("/pooling", json!({ "input": texts, "task": "token_embed" }), json!({ "input": few })),
        ("/tokenize", json!({ "prompt": "a wolf ".repeat(20_000) }), json!({ "prompt": "a wolf" })),
    ]
}

fn limits(answer_bytes: usize) -> Limits {
    Limits {
        answer_bytes,
        answers_bytes: 4 * answer_bytes,
        answers_bytes_per_key: answer_bytes,
        ..Limits::default()
    }
}

#[test]
fn answers_that_can_be_too_large_are_refused_before_they_are_computed() {
    run(async {
        let options = ServerOptions { limits: limits(64 << 10), ..ServerOptions::default() };
        let (app, _) = start(worker_options(), options);
        for (path, mut body, change) in requests() {
            let (status, error) = post(&app, path, body.clone()).await;
            assert_eq!(status, 413, "{path}: {error}");
            assert!(error.to_string().contains("the answer could take"), "{path}: {error}");
            body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let (status, answer) = post(&app, path, body).await;
            assert_eq!(status, 200, "{path}: {answer}");
        }
        let metrics = get(&app, "/metrics").await.1;
        assert!(metrics.contains("leyden"), "{metrics}");
        // With the usual limits they are answered.
        let (app, _) = start(worker_options(), ServerOptions::default());
        for (path, body, _) in requests().into_iter().filter(|(path, ..)| path.contains("embed")) {
            assert_eq!(post(&app, path, body).await.0, 200, "{path}");
        }
    });
}

/// A large document is written while it is sent, so its length is unknown; its content is that of a small one.
#[test]
fn large_documents_are_sent_in_pieces() {
    run(async {
        let (app, _) = start(worker_options(), ServerOptions::default());
        let text = "Once upon a time there was a little wolf";
        let one = post(&app, "/embed_all", json!({ "inputs": text })).await.1;
        let body = json!({ "inputs": vec![text; 40] }).to_string();
        let response = app.respond(request("POST", "/embed_all", &body)).await;
        assert!(!response.headers().contains_key(CONTENT_LENGTH));
        let text = whole(response).await;
        assert!(text.len() > 256 << 10, "{}", text.len());
        let all: Value = serde_json::from_str(&text).unwrap();
        assert!(all.as_array().unwrap().iter().all(|states| states == &one[0]) && all[39].is_array());
    });
}

/// Memory for unread answers is charged to the key.
#[test]
fn unread_answers_of_a_key_leave_room_for_others() {
    run(async {
        let line = |id: &str| {
            let digest: String = Sha256::digest(id.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
            format!("{{\"id\":\"{id}\",\"sha256\":\"{digest}\"}}\n")
        };
        let keys = ApiKeys::parse(&(line("ada") + &line("bob"))).unwrap();
        let options = ServerOptions { limits: limits(2 << 20), keys: Some(keys), ..ServerOptions::default() };
        let (app, _) = start(worker_options(), options);
        let body = json!({ "inputs": vec!["Once upon a time there was a little wolf"; 80] }).to_string();
        let ask = async |key: &str| {
            let mut request = request("POST", "/embed_all", &body);
            request.headers_mut().insert(AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
            app.respond(request).await
        };
        let mut unread = Vec::new();
        // Each takes more than half of what a key may have.
        unread.push(ask("ada").await);
        assert_eq!(unread[0].status().as_u16(), 200);
        let second = ask("ada");
        let waits = tokio::time::timeout(std::time::Duration::from_millis(300), second).await;
        assert!(waits.is_err(), "the second waits for the first to be read");
        let other = ask("bob").await;
        assert_eq!(other.status().as_u16(), 200);
        assert!(whole(other).await.len() > 256 << 10);
        drop(unread);
        assert_eq!(ask("ada").await.status().as_u16(), 200);
    });
}
