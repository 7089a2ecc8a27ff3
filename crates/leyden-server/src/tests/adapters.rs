//! LoRA adapters: by request, by default, by name.

use super::{CHAT, COMPLETIONS, ask, get, model, post, request, run, story, whole, worker_options};
use crate::app::App;
use crate::auth::ApiKeys;
use crate::log::{Log, LogFormat};
use crate::route::RequestBody;
use crate::routes::ROUTES;
use crate::{Model, ServedAdapter, ServerOptions};
use hyper::header::AUTHORIZATION;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Returns the storyteller with two adapters: one for all requests, one with a name.
fn adapted() -> Model {
    let folder = tempfile::tempdir().unwrap();
    let model = model(worker_options());
    let one = |seed: u64, name: Option<&str>, scale| {
        let path = folder.path().join(seed.to_string());
        leyden_testkit::storyteller_adapter(&path, seed).unwrap();
        let adapter = Arc::new(model.network.adapter(&model.cpus[0], &path).unwrap());
        ServedAdapter {
            name: name.map(str::to_owned),
            path: format!("/srv/secret/{seed}"),
            scale,
            adapter,
            digest: crate::Fingerprint::known("ad".repeat(32)),
        }
    };
    let adapters = vec![one(1, None, 0.5), one(2, Some("pirate"), 0.0)];
    Model { adapters, ..model }
}

fn app(models: Vec<Model>) -> Arc<App> {
    let log = Log::new(LogFormat::Off, Box::new(std::io::sink())).unwrap();
    App::start(models, ServerOptions::default(), log).unwrap()
}

fn lora(scales: [f32; 2]) -> Value {
    json!([{ "id": 1, "scale": scales[1] }, { "id": 0, "scale": scales[0] }])
}

async fn said(app: &Arc<App>, more: Value) -> String {
    let mut body = json!({ "prompt": story(1, 80)["prompt"], "max_tokens": 12, "temperature": 0 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask(app, COMPLETIONS, body).await["choices"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn requests_say_which_adapters_they_are_computed_with() {
    run(async {
        let plain = said(&app(vec![model(worker_options())]), json!({})).await;
        let app = app(vec![adapted()]);
        let default = said(&app, json!({})).await;
        let named = said(&app, json!({ "model": "pirate" })).await;
        let whole = said(&app, json!({ "lora": [{ "id": 0, "scale": 1 }] })).await;
        let all = [&plain, &default, &named, &whole];
        assert!((0..4).all(|i| (0..i).all(|j| all[i] != all[j])), "{all:?}");
        assert_eq!(said(&app, json!({ "lora": [] })).await, plain);
        assert_eq!(said(&app, json!({ "lora": lora([0.5, 0.0]) })).await, default);
        assert_eq!(said(&app, json!({ "lora": lora([0.5, 1.0]) })).await, named);
        // Scales in the request override those of the name.
        assert_eq!(said(&app, json!({ "model": "pirate", "lora": lora([0.5, 0.0]) })).await, default);
        // All concurrently, and again with prefixes from the cache.
        for _ in 0..2 {
            let bodies = [json!({ "lora": [] }), json!({}), json!({ "model": "pirate" })];
            let [a, b, c] = bodies.map(|body| said(&app, body));
            let (a, b, c) = tokio::join!(a, b, c);
            assert_eq!([&a, &b, &c], [&plain, &default, &named]);
        }
        let (status, error) =
            post(&app, COMPLETIONS, json!({ "prompt": "x", "lora": [{ "id": 2, "scale": 1 }] })).await;
        assert_eq!((status, &error["error"]["param"]), (404, &json!("lora[0].id")));
        // For a repeated id the last scale counts.
        let twice = json!([{ "id": 0, "scale": 3 }, { "id": 0, "scale": 0.5 }]);
        assert_eq!(said(&app, json!({ "lora": twice })).await, default);
        let chat =
            json!({ "model": "pirate", "messages": [{ "role": "user", "content": "x" }], "max_tokens": 2 });
        let answer = post(&app, CHAT, chat).await;
        assert_eq!((answer.0, &answer.1["model"]), (200, &json!("pirate")));
        let vector = |body: Value| ask(&app, "/v1/embeddings", body);
        let (base, pirate) =
            tokio::join!(vector(json!({ "input": "x" })), vector(json!({ "input": "x", "model": "pirate" })));
        assert_ne!(base["data"], pirate["data"]);
        // The model's name in the answer is that of the request.
        assert_eq!((&base["model"], &pirate["model"]), (&json!("storyteller"), &json!("pirate")));
        let chat = |model: &str| {
            json!({ "model": model, "max_tokens": 1, "stream": false, "input": "x",
            "messages": [{ "role": "user", "content": "x" }] })
        };
        for path in ["/v1/messages", "/api/chat", "/api/embed", "/v1/responses", "/pooling"] {
            let mut body = chat("pirate");
            let fields: &[&str] = match path {
                "/v1/messages" => &["input"],
                "/api/chat" => &["input", "max_tokens"],
                "/v1/responses" => &["messages", "max_tokens"],
                _ => &["messages", "max_tokens", "stream"],
            };
            fields.iter().for_each(|name| drop(body.as_object_mut().unwrap().remove(*name)));
            let (status, answer) = post(&app, path, body).await;
            assert_eq!((status, &answer["model"]), (200, &json!("pirate")), "{path}: {answer}");
        }
        let body = json!({ "model": "storyteller", "prompt": "x", "max_tokens": 1 });
        assert_eq!(ask(&app, "/completion", body).await["model"], json!("storyteller"));
    });
}

#[test]
fn scales_of_all_requests_can_be_changed() {
    run(async {
        let app = app(vec![adapted()]);
        let listed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (status, text) = get(&app, "/lora-adapters").await;
        let all = listed(&text);
        assert_eq!((status, &all[0]["id"], &all[0]["scale"]), (200, &json!(0), &json!(0.5)));
        assert_eq!((&all[1]["name"], &all[1]["path"]), (&json!("pirate"), &json!("/srv/secret/2")));
        let before = said(&app, json!({})).await;
        let set = post(&app, "/lora-adapters", json!([{ "id": 1, "scale": 1 }])).await;
        assert_eq!(set, (200, json!({ "success": true })));
        assert_eq!(listed(&get(&app, "/lora-adapters").await.1)[0]["scale"], json!(0.0));
        let after = said(&app, json!({})).await;
        assert_eq!(after, said(&app, json!({ "lora": lora([0.0, 1.0]) })).await);
        assert_ne!(after, before);
        for wrong in
            [json!({ "id": 1, "scale": 1 }), json!([{ "id": 1, "scale": "1" }]), json!([1]), json!("x")]
        {
            let (status, error) = post(&app, "/lora-adapters", wrong.clone()).await;
            assert_eq!((status, &error["error"]["code"]), (400, &json!(400)), "{wrong}: {error}");
        }
        let (status, error) = post(&app, "/lora-adapters", json!([{ "id": 2, "scale": 1 }])).await;
        assert_eq!((status, &error["error"]["type"]), (404, &json!("not_found_error")));
        assert_eq!(said(&app, json!({})).await, after);
    });
}

#[test]
fn named_adapters_are_models() {
    run(async {
        let app = app(vec![adapted()]);
        let list: Value = serde_json::from_str(&get(&app, "/v1/models").await.1).unwrap();
        let find =
            |id: &str| list["data"].as_array().unwrap().iter().find(|m| m["id"] == id).unwrap().clone();
        assert_eq!(find("pirate")["parent"], json!("storyteller"));
        assert_eq!(find("storyteller")["parent"], Value::Null);
        assert_eq!(get(&app, "/v1/models/pirate").await.0, 200);
        // Without adapters the list is empty, and no scale can be set.
        let plain = self::app(vec![model(worker_options())]);
        assert_eq!(get(&plain, "/lora-adapters").await, (200, "[]".to_owned()));
        assert_eq!(post(&plain, "/lora-adapters", json!([])).await.0, 200);
        assert_eq!(post(&plain, "/lora-adapters", json!([{ "id": 0, "scale": 1 }])).await.0, 404);
        let two = self::app(vec![adapted(), Model { name: "b".to_owned(), aliases: Vec::new(), ..other() }]);
        assert_eq!(get(&two, "/lora-adapters").await.0, 409);
    });
}

/// Returns the same model with another name of the adapter.
fn other() -> Model {
    let mut model = adapted();
    model.adapters[1].name = Some("b-pirate".to_owned());
    model
}

/// The scales apply to all keys, so only an administrator may set them; other keys do not see the server's paths.
#[test]
fn keys_without_the_scope_admin_neither_set_scales_nor_see_paths() {
    run(async {
        let digest =
            |key: &str| Sha256::digest(key.as_bytes()).iter().map(|b| format!("{b:02x}")).collect::<String>();
        let keys = format!(
            "{{\"id\":\"ada\",\"sha256\":\"{}\"}}\n{{\"id\":\"root\",\"sha256\":\"{}\",\"scopes\":[\"inference\",\"admin\"]}}",
            digest("ada"),
            digest("root")
        );
        let options =
            ServerOptions { keys: Some(ApiKeys::parse(&keys).unwrap()), ..ServerOptions::default() };
        let log = Log::new(LogFormat::Off, Box::new(std::io::sink())).unwrap();
        let app = App::start(vec![adapted()], options, log).unwrap();
        let ask = async |method: &str, key: &str, body: &str| {
            let mut request = request(method, "/lora-adapters", body);
            request.headers_mut().insert(AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
            let response = app.respond(request).await;
            (response.status().as_u16(), whole(response).await)
        };
        let set = r#"[{"id":0,"scale":0.25}]"#;
        let (status, refused) = ask("POST", "ada", set).await;
        assert!(status == 403 && refused.contains("lacks the scope `admin`"), "{refused}");
        let (status, seen) = ask("GET", "ada", "").await;
        assert!(status == 200 && !seen.contains("secret") && seen.contains("\"path\":\"2\""), "{seen}");
        assert!(seen.contains("\"scale\":0.5"), "nothing was set: {seen}");
        assert_eq!(ask("POST", "root", set).await.0, 200);
        let (_, seen) = ask("GET", "root", "").await;
        assert!(seen.contains("/srv/secret/1") && seen.contains("\"scale\":0.25"), "{seen}");
    });
}

/// Effect of the adapters on an endpoint's answer.
enum Effect {
    /// The part of the answer at this JSON pointer depends on them.
    At(&'static str),
    /// No part: the endpoint computes no model.
    None,
    /// Unknown: the test's model lacks the endpoint's ability.
    Refused,
}

/// Returns a body for a route without `model`, and the effect of adapters on its answer.
fn example(path: &str) -> (Value, Effect) {
    let text = story(1, 80)["prompt"].clone();
    let messages = json!([{ "role": "user", "content": text }]);
    let options = json!({ "num_predict": 12, "temperature": 0 });
    match path.trim_start_matches("/v1").trim_start_matches("/v2") {
        "/chat/completions" => (
            json!({ "messages": messages, "max_tokens": 12, "temperature": 0 }),
            Effect::At("/choices/0/message/content"),
        ),
        "/completions" if path.starts_with("/v1") => {
            (json!({ "prompt": text, "max_tokens": 12, "temperature": 0 }), Effect::At("/choices/0/text"))
        }
        "/completion" | "/completions" => {
            (json!({ "prompt": text, "n_predict": 12, "temperature": 0 }), Effect::At("/content"))
        }
        "/messages" => (
            json!({ "messages": messages, "max_tokens": 12, "temperature": 0 }),
            Effect::At("/content/0/text"),
        ),
        "/responses" => (
            json!({ "input": text, "max_output_tokens": 12, "temperature": 0, "store": false }),
            Effect::At("/output/0/content"),
        ),
        "/responses/compact" => (json!({ "input": messages }), Effect::At("/output/0/encrypted_content")),
        "/api/chat" => (
            json!({ "messages": messages, "stream": false, "options": options }),
            Effect::At("/message/content"),
        ),
        "/api/generate" => {
            (json!({ "prompt": text, "stream": false, "options": options }), Effect::At("/response"))
        }
        "/api/embed" => (json!({ "input": text }), Effect::At("/embeddings")),
        "/api/embeddings" => (json!({ "prompt": text }), Effect::At("/embedding")),
        "/embeddings" if path.starts_with("/v1") => {
            (json!({ "input": text }), Effect::At("/data/0/embedding"))
        }
        "/embedding" | "/embeddings" => (json!({ "content": text }), Effect::At("/0/embedding")),
        "/embed" if path.starts_with("/v") => (json!({ "texts": [text] }), Effect::At("/embeddings")),
        "/embed" | "/embed_all" => (json!({ "inputs": text }), Effect::At("")),
        "/similarity" => {
            let inputs = json!({ "source_sentence": text, "sentences": ["The fox", "A queen"] });
            (json!({ "inputs": inputs }), Effect::At(""))
        }
        "/pooling" => (json!({ "input": text }), Effect::At("/data")),
        "/score" => (json!({ "text_1": text, "text_2": "The fox" }), Effect::At("/data")),
        "/tokenize" => (json!({ "content": text }), Effect::None),
        "/detokenize" => (json!({ "tokens": [5] }), Effect::None),
        "/apply-template" | "/chat/completions/input_tokens" | "/messages/count_tokens" => {
            (json!({ "messages": messages }), Effect::None)
        }
        "/responses/input_tokens" => (json!({ "input": text }), Effect::None),
        "/infill" => (json!({ "input_prefix": "a", "input_suffix": "b" }), Effect::Refused),
        "/rerank" | "/reranking" => (json!({ "query": "a", "documents": ["b"] }), Effect::Refused),
        "/classify" => (json!({ "input": "a" }), Effect::Refused),
        "/predict" | "/embed_sparse" => (json!({ "inputs": "a" }), Effect::Refused),
        _ => panic!("{path}: add a body that names a model, and the effect of adapters"),
    }
}

#[test]
fn every_route_of_a_model_applies_the_adapters_of_its_name_and_its_scales() {
    run(async {
        let app = app(vec![adapted()]);
        let (mut named, mut scaled) = (0, 0);
        for route in ROUTES.iter().filter(|route| matches!(route.body, RequestBody::Model(_))) {
            let path = route.path;
            let (body, effect) = example(path);
            let send = async |more: Value| {
                let mut body = body.clone();
                body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                post(&app, path, body).await
            };
            let properties = &app.body_schema(path).unwrap()["properties"];
            assert!(properties["model"].is_object(), "{path}: the body names no model");
            let has_scales = properties["lora"].is_object();
            if has_scales {
                let unknown =
                    send(json!({ "model": "storyteller", "lora": [{ "id": 2, "scale": 1 }] })).await;
                assert_eq!(unknown.0, 404, "{path}: {}", unknown.1);
                scaled += 1;
            }
            let (status, base) = send(json!({ "model": "storyteller" })).await;
            let wanted = if matches!(effect, Effect::Refused) { 400 } else { 200 };
            assert_eq!(status, wanted, "{path}: {base}");
            let Effect::At(place) = effect else { continue };
            let part = |answer: &Value| answer.pointer(place).cloned();
            assert!(part(&base).is_some(), "{path}: {base}");
            let (status, pirate) = send(json!({ "model": "pirate" })).await;
            // This adapter ends a summary before it begins.
            assert!(status == 200 || path.ends_with("/compact"), "{path}: {pirate}");
            assert_ne!(part(&base), part(&pirate), "{path}: the adapter of the name has no effect");
            named += 1;
            if has_scales {
                let plain = send(json!({ "model": "storyteller", "lora": [] })).await.1;
                assert_ne!(part(&base), part(&plain), "{path}: the scales have no effect");
            }
        }
        assert!(named > 20 && scaled > 5, "{named} routes with names, {scaled} with scales");
    });
}

/// The table of routes and the schemas agree about bodies and models.
#[test]
fn rows_of_routes_say_which_bodies_name_a_model() {
    let app = app(vec![adapted()]);
    for route in ROUTES {
        let operation = (route.describe)(&app);
        assert_eq!(route.has_body(), operation["requestBody"].is_object(), "{}", route.path);
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let names = schema["properties"]["model"].is_object();
        let computes = matches!(route.body, RequestBody::Model(_));
        assert!(!computes || names, "{}: no field names the model", route.path);
    }
}
