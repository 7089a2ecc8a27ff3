//! Names of models in requests and answers, and the descriptions of models in Ollama's API.

use super::{CHAT, COMPLETIONS, EMBEDDINGS, Lines, app, ask, get, model, post, run, worker_options};
use crate::app::App;
use crate::log::{Log, LogFormat};
use crate::{NameFinder, ServerOptions};
use serde_json::{Value, json};
use std::sync::Arc;

/// A server of the storyteller that finds it by two more texts, and by one that fits another model too.
fn app_with_names() -> Arc<App> {
    let names: NameFinder = Arc::new(|text| match text {
        "hf.co/org/story:Q8_0" | "story.gguf" => vec!["storyteller".to_owned()],
        "story" => vec!["storyteller".to_owned(), "other".to_owned()],
        _ => Vec::new(),
    });
    let log = Log::new(LogFormat::Json, Box::new(Lines::default())).unwrap();
    let options = ServerOptions { names: Some(names), ..ServerOptions::default() };
    App::start(vec![model(worker_options())], options, log).unwrap()
}

#[test]
fn a_model_answers_to_every_name_and_by_the_name_that_was_asked_for() {
    run(async {
        let app = app_with_names();
        let chat = |name: &str| {
            json!({ "model": name, "messages": [{ "role": "user", "content": "Once" }], "max_tokens": 2,
                "max_output_tokens": 2, "options": { "num_predict": 2 }, "stream": false, "input": "Once", "prompt": "Once" })
        };
        for name in ["storyteller", "storyteller:latest", "gpt-4o", "hf.co/org/story:Q8_0", "story.gguf"] {
            for path in [
                CHAT,
                COMPLETIONS,
                EMBEDDINGS,
                "/v1/messages",
                "/v1/responses",
                "/api/chat",
                "/api/generate",
                "/api/embed",
            ] {
                let mut body = chat(name);
                if path == "/v1/responses" {
                    // Here the field means a stored template.
                    body.as_object_mut().unwrap().shift_remove("prompt");
                }
                if path == EMBEDDINGS {
                    body.as_object_mut().unwrap().shift_remove("messages");
                }
                let answer = ask(&app, path, body).await;
                assert_eq!(answer["model"], name, "{path}: {answer}");
            }
            assert_eq!(ask(&app, "/completion", chat(name)).await["model"], name);
            assert_eq!(post(&app, "/api/show", json!({ "model": name })).await.0, 200);
            let path = format!("/v1/models/{name}");
            let one: Value = serde_json::from_str(&get(&app, &path).await.1).unwrap();
            assert_eq!((&one["id"], &one["root"]), (&json!(name), &json!("storyteller")));
        }
        let (status, answer) = post(&app, CHAT, chat("story")).await;
        assert!(status == 404 && answer.to_string().contains("is ambiguous; use one of: storyteller, other"));
        let (status, answer) = post(&app, CHAT, chat("storey")).await;
        assert!(status == 404 && answer.to_string().contains("known names: storyteller, gpt-4o"), "{answer}");
        // Without a name in the request the answer has the model's own name.
        let body = json!({ "prompt": "Once", "max_tokens": 2 });
        assert_eq!(ask(&app, COMPLETIONS, body).await["model"], "storyteller");
    });
}

#[test]
fn models_are_told_as_ollamas_clients_want_them() {
    run(async {
        let app = app();
        for path in ["/api/tags", "/api/ps"] {
            let all: Value = serde_json::from_str(&get(&app, path).await.1).unwrap();
            let digest = all["models"][0]["digest"].as_str().unwrap();
            assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()), "{path}: {digest}");
        }
        let all: Value = serde_json::from_str(&get(&app, "/api/ps").await.1).unwrap();
        let (used, reserved) = (all["models"][0]["size"].as_u64(), all["models"][0]["reserved"].as_u64());
        assert!(used.is_some_and(|used| used > 1_000_000) && used < reserved, "{all}");
        let shown = ask(&app, "/api/show", json!({ "model": "storyteller" })).await;
        assert_eq!(shown["capabilities"], json!(["completion", "tools"]));
        // Without text there are no vectors.
        for input in [json!([]), json!("")] {
            let answer = ask(&app, "/api/embed", json!({ "model": "storyteller", "input": input })).await;
            assert_eq!((&answer["embeddings"], &answer["model"]), (&json!([]), &json!("storyteller")));
        }
        let vector = |answer: &Value| answer["embedding"].as_array().unwrap().len();
        let older = |prompt: &str| json!({ "model": "storyteller", "prompt": prompt });
        assert_eq!(vector(&ask(&app, "/api/embeddings", older("")).await), 0);
        let long = ask(&app, "/api/embeddings", older("A fox.")).await;
        let new = ask(&app, "/api/embed", json!({ "model": "storyteller", "input": "A fox." })).await;
        let length = |vector: &Value| {
            vector.as_array().unwrap().iter().map(|x| x.as_f64().unwrap().powi(2)).sum::<f64>().sqrt()
        };
        let (long, new) = (&long["embedding"], &new["embeddings"][0]);
        assert!((length(new) - 1.0).abs() < 1e-4 && (length(long) - 1.0).abs() > 1e-2);
        let ratio = long[0].as_f64().unwrap() / new[0].as_f64().unwrap();
        assert!((ratio / length(long) - 1.0).abs() < 1e-3, "the same direction");
        // A model that stays is not unloaded, and the answer does not claim it.
        let now = json!({ "model": "storyteller", "keep_alive": 0 });
        assert_eq!(ask(&app, "/api/generate", now).await["done_reason"], "load");
    });
}

#[test]
fn unknown_paths_answer_in_the_form_of_their_family() {
    run(async {
        let app = app();
        for path in ["/api/nothing", "/api/blobs/sha256:0", "/api"] {
            let (status, text) = get(&app, path).await;
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((status, answer["error"].is_string()), (404, path != "/api"), "{path}: {text}");
        }
        let (status, answer) = post(&app, "/v1/messages/batches", json!({})).await;
        assert_eq!((status, &answer["type"]), (404, &json!("error")), "{answer}");
    });
}

/// Every way in which a dialect sends pictures, sound and files.
#[test]
fn media_are_refused_by_what_they_are() {
    run(async {
        let app = app();
        let part =
            |part: Value| json!({ "messages": [{ "role": "user", "content": [part] }], "max_tokens": 1 });
        let input = |part: Value| json!({ "input": [{ "role": "user", "content": [part] }] });
        let url = json!({ "url": "http://x/y.png" });
        let source = json!({ "type": "base64", "media_type": "image/png", "data": "aGk=" });
        for (path, body, field, what) in [
            (CHAT, part(json!({ "type": "image_url", "image_url": url })), "content[0].type", "images are"),
            (CHAT, part(json!({ "type": "input_audio", "input_audio": {} })), "content[0].type", "audio is"),
            (CHAT, part(json!({ "type": "video_url", "video_url": url })), "content[0].type", "videos are"),
            (CHAT, part(json!({ "type": "file", "file": {} })), "content[0].type", "files are"),
            (
                "/v1/messages",
                part(json!({ "type": "image", "source": source })),
                "content[0].type",
                "images are",
            ),
            (
                "/v1/messages",
                part(json!({ "type": "document", "source": source })),
                "content[0].source.type",
                "files are",
            ),
            (
                "/v1/responses",
                input(json!({ "type": "input_image", "image_url": "x" })),
                "content[0].type",
                "images are",
            ),
            (
                "/v1/responses",
                input(json!({ "type": "input_file", "file_id": "x" })),
                "content[0].type",
                "files are",
            ),
            (
                "/api/chat",
                json!({ "model": "storyteller", "messages": [{ "role": "user", "content": "x", "images": ["aGk="] }] }),
                "messages[0].images",
                "images are",
            ),
            (
                "/api/generate",
                json!({ "model": "storyteller", "prompt": "x", "images": ["aGk="] }),
                "images",
                "images are",
            ),
            (
                "/completion",
                json!({ "prompt": "x", "image_data": [{ "data": "aGk=", "id": 1 }] }),
                "image_data",
                "images are",
            ),
        ] {
            let (status, answer) = post(&app, path, body).await;
            let text = answer.to_string();
            assert_eq!(status, 400, "{path}: {text}");
            assert!(
                text.contains(field) && text.contains(what) && text.contains("not supported"),
                "{path}: {text}"
            );
        }
        // An empty list is accepted.
        let none = json!({ "model": "storyteller", "prompt": "x", "images": [], "stream": false, "options": { "num_predict": 1 } });
        assert_eq!(post(&app, "/api/generate", none).await.0, 200);
    });
}
