//! Every field of the table, sent alone with its value, has the outcome that its row says.

use super::{app, request, run, start, whole, worker_options};
use crate::ServerOptions;
use crate::app::App;
use crate::body::Reply;
use crate::published::{self, Outcome, Row};
use crate::routes::{self, ROUTES};
use hyper::{Method, Request};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// A request with the required fields of its endpoint.
fn base(path: &str) -> Value {
    let messages = json!([{ "role": "user", "content": "Once" }]);
    let model = "storyteller";
    match path {
        "/v1/chat/completions" | "/chat/completions" => json!({ "messages": messages, "max_tokens": 2 }),
        "/v1/chat/completions/input_tokens" | "/chat/completions/input_tokens" | "/apply-template" => {
            json!({ "messages": messages })
        }
        "/v1/completions" | "/completion" | "/completions" => json!({ "prompt": "Once", "max_tokens": 2 }),
        "/infill" => json!({ "input_prefix": "a", "input_suffix": "b", "max_tokens": 2 }),
        "/v1/responses" | "/responses" => json!({ "input": "Once", "max_output_tokens": 2 }),
        "/v1/responses/compact" | "/responses/compact" => json!({ "model": model, "input": "Once" }),
        "/v1/messages" => json!({ "messages": messages, "max_tokens": 2 }),
        "/v1/messages/count_tokens" => json!({ "messages": messages }),
        "/api/chat" => json!({ "model": model, "messages": messages, "options": { "num_predict": 2 } }),
        "/api/generate" => json!({ "model": model, "prompt": "Once", "options": { "num_predict": 2 } }),
        "/api/embed" => json!({ "model": model, "input": "Once" }),
        "/v1/embeddings" | "/embeddings" | "/classify" => json!({ "input": "Once" }),
        "/pooling" => json!({ "input": "Once", "task": "embed" }),
        "/embedding" => json!({ "content": "Once" }),
        "/v2/embed" | "/v1/embed" => json!({ "texts": ["Once"], "input_type": "search_document" }),
        "/embed" | "/predict" => json!({ "inputs": "Once" }),
        "/rerank" | "/v1/rerank" | "/v2/rerank" | "/reranking" | "/v1/reranking" => {
            json!({ "query": "a", "documents": ["b"] })
        }
        "/score" | "/v1/score" => json!({ "text_1": "a", "text_2": "b" }),
        // A form whose fields are checked before the file is missed.
        "/v1/audio/transcriptions" | "/v1/audio/translations" => json!({ "model": model }),
        "/tokenize" => json!({ "prompt": "Once" }),
        "/detokenize" => json!({ "tokens": [5] }),
        other => panic!("no request for {other}"),
    }
}

/// Groups of mutually exclusive fields.
const ONE_OF: &[&[&str]] = &[
    &["prompt", "messages", "content", "input"],
    &["texts", "inputs", "documents"],
    &["text_1", "queries", "data_1"],
    &["text_2", "documents", "items", "data_2"],
    &["max_tokens", "max_completion_tokens", "n_predict", "num_predict"],
];

/// The endpoint's request with the field of a row.
fn with(row: &Row, path: &str) -> Value {
    let mut body = base(path);
    let mut names: Vec<&str> = row.field.split('.').collect();
    if row.field.starts_with("speculative.") {
        names = vec![row.field];
    }
    let fields = body.as_object_mut().unwrap();
    for group in ONE_OF.iter().filter(|group| group.contains(&names[0])) {
        fields.retain(|name, _| !group.contains(&name.as_str()));
    }
    match names[..] {
        [outer, inner] => body[outer][inner] = row.value.clone(),
        _ => body[names[0]] = row.value.clone(),
    }
    body
}

/// Returns a body as a form: lists as several parts, no part for null.
fn form(path: &str, body: &Value) -> Request<Reply> {
    let mut text = String::new();
    for (name, value) in body.as_object().unwrap() {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let name = if value.is_array() { format!("{name}[]") } else { name.clone() };
        for value in values.iter().filter(|value| !value.is_null()) {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let head = format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            text += &format!("{head}{shown}\r\n");
        }
    }
    let builder = Request::builder().method("POST").uri(path);
    let builder = builder.header("content-type", "multipart/form-data; boundary=edge");
    builder.body(Reply::whole(text + "--edge--\r\n")).unwrap()
}

/// Returns the status of an answer, its header of ignored fields, and the message of an error.
async fn ask(app: &Arc<App>, path: &str, body: &Value) -> (u16, String, String) {
    let is_form = path.starts_with("/v1/audio/");
    let request = if is_form { form(path, body) } else { request("POST", path, &body.to_string()) };
    let response = app.respond(request).await;
    let ignored = response.headers().get("x-leyden-ignored").map(|v| v.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let text = whole(response).await;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let error = &answer["error"];
    let message = error["message"].as_str().or(error.as_str()).or(answer["message"].as_str());
    let message = if status == 200 { "" } else { message.unwrap_or(&text) };
    (status, ignored.unwrap_or_default(), message.to_owned())
}

/// Status and message of the usual request to a path, asked once.
async fn usual_of(
    app: &Arc<App>,
    path: &'static str,
    answers: &mut HashMap<&'static str, (u16, String)>,
) -> (u16, String) {
    if let Some(known) = answers.get(path) {
        return known.clone();
    }
    let (status, _, message) = ask(app, path, &base(path)).await;
    answers.insert(path, (status, message.clone()));
    (status, message)
}

#[test]
fn the_table_is_well_formed() {
    for line in published::lines() {
        let row = published::row(line).unwrap_or_else(|| panic!("no row: {line}"));
        let says_why = matches!(row.outcome, Outcome::Ignored | Outcome::Refused);
        assert!(!says_why || !row.reason.is_empty(), "no reason: {line}");
        for path in &row.endpoints {
            let found = routes::find(&Method::POST, path);
            assert!(found.is_some_and(|found| found.route.path == *path), "{path}: {line}");
        }
        assert!(!line.starts_with('\t') && row.endpoints.iter().all(|path| path.starts_with('/')), "{line}");
    }
    // New endpoints of other servers need rows for their fields.
    for route in ROUTES.iter().filter(|route| route.generates) {
        let described = published::rows().iter().any(|row| row.endpoints.contains(&route.path));
        let left = [
            "/embed_all",
            "/embed_sparse",
            "/similarity",
            "/api/pull",
            "/api/copy",
            "/api/create",
            "/v1/responses/input_tokens",
            "/responses/input_tokens",
            "/api/embeddings",
        ];
        assert!(described || left.contains(&route.path), "{}", route.path);
    }
}

#[test]
fn what_the_table_says_of_every_field_happens() {
    run(async {
        let app = app();
        let (mut wrong, mut answers) = (Vec::new(), HashMap::new());
        for row in published::rows() {
            for path in &row.endpoints {
                let (status, ignored, message) = ask(&app, path, &with(row, path)).await;
                let (usual, usually) = usual_of(&app, path, &mut answers).await;
                let as_usual = (status, &message) == (usual, &usually);
                let fits = match row.outcome {
                    Outcome::Honoured | Outcome::NoEffect => as_usual && ignored.is_empty(),
                    Outcome::Ignored => as_usual && ignored == row.field,
                    Outcome::Refused => {
                        status == 400 && message == format!("`{}`: {}", row.field, row.reason)
                    }
                };
                if !fits {
                    wrong.push(format!(
                        "{path} {}={}: {:?}, but {status} {message}, ignored: {ignored}",
                        row.field, row.value, row.outcome
                    ));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn null_is_harmless_everywhere() {
    run(async {
        let app = app();
        let mut answers = HashMap::new();
        for row in published::rows() {
            for path in &row.endpoints {
                let mut body = with(&Row { value: Value::Null, ..row.clone() }, path);
                // Required fields must be present.
                for (name, value) in base(path).as_object().unwrap() {
                    match (body.get_mut(name), value) {
                        (Some(Value::Object(given)), Value::Object(usual)) => {
                            for (name, value) in usual {
                                given.entry(name).or_insert_with(|| value.clone());
                            }
                        }
                        (Some(given), _) if !given.is_null() => {}
                        _ => body[name] = value.clone(),
                    }
                }
                let (status, ignored, message) = ask(&app, path, &body).await;
                let (usual, usually) = usual_of(&app, path, &mut answers).await;
                assert_eq!((status, &message), (usual, &usually), "{path} {}: null", row.field);
                assert_eq!(ignored, "", "{path} {}: null", row.field);
            }
        }
    });
}

#[test]
fn what_is_ignored_is_refused_where_the_server_is_strict() {
    run(async {
        let (app, _) = start(worker_options(), ServerOptions { strict: true, ..ServerOptions::default() });
        let mut done = 0;
        for row in published::rows().iter().filter(|row| row.endpoints[0] == "/v1/chat/completions") {
            let (status, ignored, message) = ask(&app, row.endpoints[0], &with(row, row.endpoints[0])).await;
            let refused = matches!(row.outcome, Outcome::Ignored | Outcome::Refused);
            assert_eq!(status, if refused { 400 } else { 200 }, "{} {}: {message}", row.field, row.value);
            assert_eq!(ignored, "");
            done += usize::from(row.outcome == Outcome::Ignored);
        }
        assert!(done > 20, "{done}");
    });
}
