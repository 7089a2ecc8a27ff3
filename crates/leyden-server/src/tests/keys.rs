//! Access by API keys, and fairness among keys.

use super::{COMPLETIONS, Lines, request, run, start, story, whole, worker_options};
use crate::app::App;
use crate::auth::{Access, ApiKeys};
use crate::routes::ROUTES;
use crate::{ServerOptions, WorkerOptions};
use hyper::header::AUTHORIZATION;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex};

fn keys() -> ApiKeys {
    let line = |id: &str, more: &str| {
        let digest: String =
            Sha256::digest(format!("secret of {id}")).iter().map(|b| format!("{b:02x}")).collect();
        format!("{{\"id\":\"{id}\",\"sha256\":\"{digest}\"{more}}}\n")
    };
    let lines = [
        line("ada", ""),
        line("bob", ""),
        line("root", ",\"scopes\":[\"inference\",\"admin\"]"),
        line("watcher", ",\"scopes\":[\"metrics\"]"),
        line("small", ",\"requests_per_minute\":1,\"tokens_per_minute\":1000000"),
    ];
    ApiKeys::parse(&lines.concat()).unwrap()
}

fn guarded() -> (Arc<App>, Lines) {
    let worker = WorkerOptions { queue_per_key: 2, parallel: 4, ..worker_options() };
    start(worker, ServerOptions { keys: Some(keys()), ..ServerOptions::default() })
}

/// Reads a key's stream, and sends the key and the number of tokens of each event.
async fn stream_as(
    app: Arc<App>,
    key: &'static str,
    mut body: Value,
    told: Arc<Mutex<Vec<(&'static str, usize)>>>,
) {
    body["stream"] = true.into();
    // With log probabilities each event shows its number of tokens.
    body["logprobs"] = 0.into();
    let mut request = request("POST", COMPLETIONS, &body.to_string());
    request.headers_mut().insert(AUTHORIZATION, format!("Bearer secret of {key}").parse().unwrap());
    let mut response = app.respond(request).await;
    assert_eq!(response.status().as_u16(), 200);
    while let Some(bytes) = super::next(response.body_mut()).await {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let pieces = text
            .split_terminator("\n\n")
            .filter_map(|e| serde_json::from_str(e.strip_prefix("data: ")?).ok());
        let tokens = |p: Value| p["choices"][0]["logprobs"]["tokens"].as_array().map_or(0, Vec::len);
        told.lock().unwrap().push((key, pieces.map(tokens).sum()));
    }
}

async fn as_key(
    app: &Arc<App>,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: &str,
) -> (u16, Value, Option<String>) {
    let mut request = request(method, path, body);
    if let Some(key) = key {
        let value = format!("Bearer secret of {key}").parse().unwrap();
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let response = app.respond(request).await;
    let status = response.status().as_u16();
    let left =
        response.headers().get("x-ratelimit-remaining-requests").map(|v| v.to_str().unwrap().to_owned());
    (status, serde_json::from_str(&whole(response).await).unwrap_or_default(), left)
}

#[test]
fn every_route_asks_for_what_its_row_says() {
    run(async {
        let (app, _) = guarded();
        for route in ROUTES {
            let method = route.method.as_str();
            let path = route.path.replace("{model}", "storyteller");
            // An error about the body, or about an answer that is not stored, shows that the key was accepted.
            let expect = |allowed: bool, denied: u16| match (allowed, route.has_body()) {
                // The body is a list.
                (true, true) if path == "/lora-adapters" => 200,
                (true, _) if path.contains("{response_id}") => 404,
                // A server without a folder for files and batches.
                (true, true) if path == "/v1/files" || path.starts_with("/v1/audio/") => 415,
                (true, _) if path.starts_with("/v1/files") || path.starts_with("/v1/batches") => 404,
                (true, true) => 400,
                (true, false) => 200,
                (false, _) => denied,
            };
            let status = |key| as_key(&app, method, &path, key, "[]");
            let open = route.access == Access::Open;
            assert_eq!(status(None).await.0, expect(open, 401), "{path} without a key");
            assert_eq!(status(Some("nobody")).await.0, expect(open, 401), "{path} with a wrong key");
            let any = open || route.access == Access::AnyKey;
            let metrics = any || route.path == "/metrics";
            assert_eq!(
                status(Some("watcher")).await.0,
                expect(metrics, 403),
                "{path} with the scope metrics"
            );
            let admin = route.access.name() == "admin";
            let inference = route.path != "/metrics";
            assert_eq!(
                status(Some("ada")).await.0,
                expect(inference && !admin, 403),
                "{path} with the scope inference"
            );
            assert_eq!(
                status(Some("root")).await.0,
                expect(inference, 403),
                "{path} with the scopes inference and admin"
            );
        }
        let admin = ROUTES.iter().filter(|route| route.access.name() == "admin").map(|route| route.path);
        assert_eq!(
            admin.collect::<Vec<_>>(),
            ["/api/pull", "/api/copy", "/api/create", "/api/delete", "/lora-adapters"]
        );
        // Only callers with access learn which paths exist.
        assert_eq!(as_key(&app, "GET", "/nothing", None, "").await.0, 401);
        assert_eq!(as_key(&app, "GET", "/nothing", Some("ada"), "").await.0, 404);
    });
}

#[test]
fn keys_share_no_cache_and_have_limits() {
    run(async {
        let (app, lines) = guarded();
        let mut long = story(1, 2);
        long["prompt"] = "The wolf came to the door and knocked ".repeat(12).into();
        let body = long.to_string();
        let cached =
            |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        for (key, hit) in [("ada", false), ("ada", true), ("bob", false), ("bob", true)] {
            let (status, answer, left) = as_key(&app, "POST", COMPLETIONS, Some(key), &body).await;
            assert_eq!((status, cached(&answer) > 0, left), (200, hit, None), "{key}");
        }
        let (status, _, left) = as_key(&app, "POST", COMPLETIONS, Some("small"), &body).await;
        assert_eq!((status, left.as_deref()), (200, Some("0")));
        let (status, answer, _) = as_key(&app, "POST", COMPLETIONS, Some("small"), &body).await;
        assert_eq!((status, answer["error"]["type"].as_str()), (429, Some("rate_limit_error")));
        app.log().flush();
        let log = lines.text();
        assert!(log.contains("\"key\":\"ada\"") && log.contains("\"status\":429"), "{log}");
        assert!(!log.contains("secret") && !log.contains("wolf"), "neither keys nor prompts are logged");
    });
}

/// Many requests of one key do not delay those of another key until all are served.
#[test]
fn a_flood_of_one_key_does_not_drown_another() {
    run(async {
        let (app, _) = guarded();
        let mut flood = tokio::task::JoinSet::new();
        for i in 0..24 {
            let app = Arc::clone(&app);
            flood.spawn(async move {
                as_key(&app, "POST", COMPLETIONS, Some("ada"), &story(i, 60).to_string()).await.0
            });
        }
        let m = super::metrics(&app);
        super::until("the flood is there", || m.running.get() > 0).await;
        let (status, ..) = as_key(&app, "POST", COMPLETIONS, Some("bob"), &story(50, 10).to_string()).await;
        assert_eq!(status, 200);
        let statuses: Vec<u16> = flood.join_all().await;
        assert!(statuses.iter().all(|s| [200, 429].contains(s)), "{statuses:?}");
        assert!(statuses.contains(&429), "a key's queue is bounded: {statuses:?}");
        assert!(statuses.iter().filter(|s| **s == 200).count() >= 2);
    });
}

/// One request of a key beside forty of another key starts at once, and advances in every step. Work beyond generation
/// counts, too.
#[test]
fn all_that_takes_work_counts_as_a_request() {
    let messages = json!([{ "role": "user", "content": "Once" }]);
    for (path, body) in [
        ("/tokenize", json!({ "prompt": "Once" })),
        ("/detokenize", json!({ "tokens": [1] })),
        ("/v1/messages/count_tokens", json!({ "messages": messages })),
        ("/apply-template", json!({ "messages": messages })),
        ("/v1/embeddings", json!({ "input": "Once" })),
    ] {
        run(async {
            let (app, _) = guarded();
            let ask = async || as_key(&app, "POST", path, Some("small"), &body.to_string()).await;
            assert_ne!(ask().await.0, 429, "{path}");
            let (status, answer, left) = ask().await;
            assert_eq!((status, left.as_deref()), (429, Some("0")), "{path}: {answer}");
        });
    }
}

#[test]
fn one_request_has_its_share_beside_a_flood() {
    run(async {
        let slots = 4;
        let worker = WorkerOptions { parallel: slots, queue: 256, queue_per_key: 128, ..worker_options() };
        let (app, _) = start(worker, ServerOptions { keys: Some(keys()), ..ServerOptions::default() });
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut all = tokio::task::JoinSet::new();
        for i in 0..40 {
            all.spawn(stream_as(Arc::clone(&app), "ada", story(i, 60), Arc::clone(&told)));
        }
        let m = super::metrics(&app);
        super::until("the flood waits", || m.running.get() + m.waiting.get() == 40).await;
        super::until("the flood runs", || !told.lock().unwrap().is_empty()).await;
        let came = told.lock().unwrap().len();
        all.spawn(stream_as(Arc::clone(&app), "bob", story(50, 60), Arc::clone(&told)));
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
        let told = told.lock().unwrap();
        let of = |key: &str, from: usize, to: usize| -> usize {
            told[from..to].iter().filter(|(k, _)| *k == key).map(|(_, tokens)| tokens).sum()
        };
        let first = told.iter().position(|(k, _)| *k == "bob").unwrap();
        let last = told.iter().rposition(|(k, tokens)| *k == "bob" && *tokens > 0).unwrap();
        assert_eq!((of("bob", first, last + 1), of("ada", 0, told.len())), (60, 2400));
        // The other key's slots generate a token each per step; the order of the readers makes a small difference.
        let (before, beside) = (of("ada", came, first), of("ada", first, last));
        eprintln!("{before} tokens before it starts, {beside} beside its 60");
        assert!(before <= 30 * slots, "{before} tokens of the flood before it starts");
        assert!(beside <= 60 * slots * 3 / 2, "{beside} tokens of the flood beside its 60");
    });
}
