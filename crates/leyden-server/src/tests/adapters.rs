//! LoRA adapters: by request, by default, by name.

use super::{CHAT, COMPLETIONS, ask, get, model, post, request, run, story, whole, worker_options};
use crate::app::App;
use crate::auth::ApiKeys;
use crate::log::{Log, LogFormat};
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
        ServedAdapter { name: name.map(str::to_owned), path: format!("/srv/secret/{seed}"), scale, adapter }
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
