//! Every name by which `leyden run` finds a pulled model, on the server and in commands.

use std::fs;

use serde_json::Value;

use crate::models::program;
use crate::models::server::{Hub, Repository, sha256};
use crate::program::{Files, Run, finish, leyden, storyteller_with_template};
use crate::serve::{Server, post};

/// A store with one repository of the hub, under the name of one that has short names: the usual quantisation and another.
struct Shelf {
    files: Files,
    hub: Hub,
    model: Vec<u8>,
}

const REPO: &str = "bartowski/SmolLM2-135M-Instruct-GGUF";

impl Shelf {
    fn new() -> Shelf {
        let model = storyteller_with_template("{{ messages[-1].content }}");
        let named = |kind: &str| format!("SmolLM2-135M-Instruct-{kind}.gguf");
        let hub = Hub::start(&Repository::new(&[(&named("Q4_K_M"), &model), (&named("Q8_0"), &model)]));
        let shelf = Shelf { files: Files::new(), hub, model };
        for kind in ["Q4_K_M", "Q8_0"] {
            assert_eq!(shelf.run(&["pull", &format!("org/repo:{kind}"), "--quiet"]).code, Some(0));
        }
        // The hub of the tests has one repository; a record says nothing of its name.
        let repo = shelf.files.path(&format!("models/hf/{REPO}"));
        fs::create_dir_all(shelf.files.path("models/hf/bartowski")).unwrap();
        fs::rename(shelf.files.path("models/hf/org/repo"), repo).unwrap();
        shelf
    }

    fn run(&self, args: &[&str]) -> Run {
        finish(&mut program(&self.files, &self.hub.api.url(), args), b"")
    }

    fn serve(&self, args: &[&str]) -> Server {
        let all = ["serve", "--port", "0", "--threads", "1", "--lame-duck", "0", "--memory", "1G"];
        Server::of(&mut program(&self.files, &self.hub.api.url(), &[&all, args].concat()))
    }

    fn path(&self, kind: &str) -> String {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        self.files.path(&format!("models/hf/{REPO}/{commit}/SmolLM2-135M-Instruct-{kind}.gguf"))
    }

    /// Every text that means one of the two models.
    fn names(&self, kind: &str) -> Vec<String> {
        let short: &[&str] = match kind {
            "Q4_K_M" => &["smollm2:135m", "SmolLM2:135M", "smollm2:135m-q4_k_m"],
            _ => &["smollm2:135m-q8_0"],
        };
        let file = format!("SmolLM2-135M-Instruct-{kind}");
        let mut all: Vec<String> = short.iter().map(|name| (*name).to_owned()).collect();
        all.extend(["", "hf:", "hf.co/", "huggingface.co/"].map(|scheme| format!("{scheme}{REPO}:{kind}")));
        all.extend([format!("{REPO}:{file}.gguf"), format!("{file}.gguf"), file, self.path(kind)]);
        all
    }
}

fn document(answer: &str) -> Value {
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn get(server: &Server, path: &str) -> Value {
    document(&server.exchange(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")))
}

#[test]
fn a_server_of_all_models_answers_to_every_name_also_after_a_restart() {
    let shelf = Shelf::new();
    for _ in 0..2 {
        let server = shelf.serve(&["--all"]);
        let listed = get(&server, "/api/tags");
        let listed: Vec<(&str, &str)> = listed["models"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| (model["name"].as_str().unwrap(), model["digest"].as_str().unwrap()))
            .collect();
        // A model is described without being loaded.
        let body = serde_json::json!({ "model": "smollm2:135m" }).to_string();
        let shown = document(&server.exchange(post("/api/show", &body)));
        assert_eq!(shown["template"], "{{ messages[-1].content }}");
        assert_eq!(get(&server, "/api/ps")["models"], serde_json::json!([]));
        let digest = sha256(&shelf.model);
        assert_eq!(listed, [("smollm2:135m", digest.as_str()), ("smollm2:135m-q8_0", digest.as_str())]);
        for (kind, own) in [("Q4_K_M", "smollm2:135m"), ("Q8_0", "smollm2:135m-q8_0")] {
            for name in shelf.names(kind) {
                let body = serde_json::json!({
                    "model": name, "prompt": "Once", "stream": false, "options": { "num_predict": 1 }
                });
                let answer = document(&server.exchange(post("/api/generate", &body.to_string())));
                assert_eq!(answer["model"], name.as_str());
                let body = serde_json::json!({ "model": name });
                document(&server.exchange(post("/api/show", &body.to_string())));
                let loaded = get(&server, "/api/ps");
                assert!(
                    loaded["models"].as_array().unwrap().iter().any(|m| m["name"] == own),
                    "{name}: {loaded}"
                );
            }
            let last = shelf.names(kind).pop().unwrap();
            leyden(&["ps", "--url", &server.address, "--unload", &last]).ok();
        }
        let body = serde_json::json!({ "model": REPO, "prompt": "Once" }).to_string();
        let answer = server.exchange(post("/api/generate", &body));
        assert!(
            answer.starts_with("HTTP/1.1 404") && answer.contains("smollm2:135m, smollm2:135m-q8_0"),
            "{answer}"
        );
        assert_eq!(server.end().0, Some(0));
    }
}

#[test]
fn a_named_model_is_found_by_what_it_is_and_not_served_twice() {
    let shelf = Shelf::new();
    let file = shelf.files.add("toy.gguf", &shelf.model);
    let config = format!("[models.chat]\nmodel = \"smollm2:135m\"\n[models.toy]\nmodel = \"{file}\"\n");
    let config = shelf.files.add("models.toml", config.as_bytes());
    let server = shelf.serve(&["--config", &config, "--all"]);
    let listed = get(&server, "/v1/models");
    let ids: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["chat", "toy", "smollm2:135m-q8_0"]);
    for (name, root) in [("smollm2:135m", "chat"), ("chat", "chat"), ("toy.gguf", "toy"), (&file, "toy")] {
        let name: String = name.bytes().map(|b| format!("%{b:02X}")).collect();
        assert_eq!(get(&server, &format!("/v1/models/{name}"))["root"], root);
    }
    // Computed once, and kept in the store.
    let digest = &get(&server, "/api/tags")["models"][1]["digest"];
    assert_eq!(*digest, sha256(&shelf.model));
    assert_eq!(fs::read_dir(shelf.files.path("models/digests")).unwrap().count(), 1);
}

#[test]
fn commands_take_every_name_too() {
    let shelf = Shelf::new();
    for name in shelf.names("Q8_0") {
        assert_eq!(shelf.run(&["show", &name, "--json"]).json()["supported"], true, "{name}");
    }
    let list = shelf.run(&["list", "--json"]).json();
    assert_eq!(list["models"][1]["short_name"], "smollm2:135m-q8_0");
    let ambiguous = shelf.run(&["rm", REPO]).failed(1);
    assert!(ambiguous.contains("several models fit"), "{ambiguous}");
    assert!(shelf.run(&["rm", "smollm2:135m-q8_0"]).err.contains("-Q8_0.gguf"));
    assert!(shelf.run(&["rm", &format!("hf.co/{REPO}:Q4_K_M")]).err.contains("-Q4_K_M.gguf"));
    let none = shelf.run(&["serve", "--all", "--port", "0"]).failed(1);
    assert!(
        none.contains("--all: no model in ") && none.contains("hint: `leyden pull smollm2:135m`"),
        "{none}"
    );
    // A server that clients may fill begins empty.
    let server = shelf.serve(&["--all", "--allow-pull"]);
    let answer = server.exchange(post("/api/generate", r#"{"model":"smollm2:135m"}"#));
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("no model yet"), "{answer}");
    let answer = server.exchange(post("/api/pull", r#"{"model":"org/repo:Q8_0","stream":false}"#));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(get(&server, "/api/tags")["models"][0]["name"], "org/repo:Q8_0");
}

#[test]
fn files_get_names_by_commands_and_by_the_server() {
    let shelf = Shelf::new();
    let file = shelf.files.add("toy.gguf", &shelf.model);
    assert!(shelf.run(&["import", &file, "mine:v1"]).err.contains(&sha256(&shelf.model)));
    assert!(shelf.run(&["cp", "smollm2:135m", "me/small"]).err.starts_with("me/small: "));
    fs::remove_file(&file).unwrap();
    let modelfile =
        "FROM mine:v1\nSYSTEM \"\"\"Tell of foxes.\"\"\"\nPARAMETER num_predict 3\nPARAMETER temperature 0\n";
    let modelfile = shelf.files.add("Modelfile", modelfile.as_bytes());
    assert_eq!(shelf.run(&["create", "fox", "--file", &modelfile]).code, Some(0));
    let refused = shelf.run(&["import", &modelfile, "x"]).failed(1);
    assert!(refused.contains("Modelfile"), "{refused}");
    let refused = shelf.run(&["cp", "mine:v1", "smollm2"]).failed(2);
    assert!(refused.contains("it is the short name of a model on the hub"), "{refused}");
    assert!(
        shelf.run(&["rm", "mine:v1"]).err.starts_with("removed mine:v1, 0 "),
        "the other names have the data"
    );
    let list = shelf.run(&["list"]).ok();
    assert!(list.contains("\nfox ") && list.contains("\nme/small ") && !list.contains("mine:v1  "), "{list}");

    let server = shelf.serve(&["--all"]);
    let ask = |server: &Server, path: &str, body: Value| server.exchange(post(path, &body.to_string()));
    let answer = ask(&server, "/api/copy", serde_json::json!({ "source": "fox", "destination": "x" }));
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("--allow-manage"), "{answer}");
    assert_eq!(server.end().0, Some(0));

    let server = shelf.serve(&["--all", "--allow-manage"]);
    // The defaults hold in every dialect, unless a request says otherwise.
    let messages = serde_json::json!([{ "role": "user", "content": "Once" }]);
    let chat = |server: &Server, model: &str, more: Value| {
        let mut body = serde_json::json!({ "model": model, "messages": messages, "ignore_eos": true });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        document(&ask(server, "/v1/chat/completions", body))["usage"].clone()
    };
    let (fox, small) = (
        chat(&server, "fox", serde_json::json!({})),
        chat(&server, "me/small", serde_json::json!({ "max_tokens": 3 })),
    );
    assert_eq!(fox["completion_tokens"], 3);
    assert_eq!(chat(&server, "fox", serde_json::json!({ "max_tokens": 5 }))["completion_tokens"], 5);
    // The template of the test shows the last message alone.
    assert_eq!(fox["prompt_tokens"], small["prompt_tokens"]);

    document(&ask(&server, "/api/copy", serde_json::json!({ "source": "fox", "destination": "wolf" })));
    assert_eq!(chat(&server, "wolf", serde_json::json!({}))["completion_tokens"], 3);
    let made = ask(
        &server,
        "/api/create",
        serde_json::json!({ "model": "crow", "from": "hf.co/bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0",
            "system": "Caw.", "parameters": { "num_predict": 2, "stop": ["x"], "num_ctx": 64 }, "stream": false,
            "license": "none", "messages": [{ "role": "user", "content": "Hi" }] }),
    );
    assert!(made.contains("x-leyden-ignored: license, parameters.num_ctx"), "{made}");
    assert_eq!(document(&made)["status"], "success");
    let shown = document(&ask(&server, "/api/show", serde_json::json!({ "model": "crow" })));
    assert_eq!(
        (&shown["system"], &shown["parameters"]),
        (&"Caw.".into(), &"num_predict 2\nstop \"x\"".into())
    );
    assert_eq!(shown["messages"][0]["content"], "Hi");
    assert_eq!(chat(&server, "crow", serde_json::json!({}))["completion_tokens"], 2);
    for (body, wanted) in [
        (
            serde_json::json!({ "model": "y", "from": "crow", "template": "{{ .Prompt }}" }),
            "`template` is not supported",
        ),
        (
            serde_json::json!({ "model": "y", "files": { "a": "sha256:0" } }),
            "`files` is not supported: use `leyden import",
        ),
        (
            serde_json::json!({ "model": "y", "from": "crow", "parameters": { "temperature": 9 } }),
            "parameters.temperature",
        ),
        (serde_json::json!({ "model": "smollm2", "from": "crow" }), "this cannot be a model's name"),
        (serde_json::json!({ "model": "y", "from": "/etc/passwd" }), "does not exist"),
        (serde_json::json!({ "model": "../y", "from": "crow" }), "this cannot be a model's name"),
        (serde_json::json!({ "model": "/etc/y", "from": "crow" }), "this cannot be a model's name"),
        (serde_json::json!({ "model": "\u{e4}\u{202e}", "from": "crow" }), "this cannot be a model's name"),
        (serde_json::json!({ "model": "y".repeat(200), "from": "crow" }), "this cannot be a model's name"),
        (serde_json::json!({ "from": "crow" }), "`model` is missing"),
    ] {
        let answer = ask(&server, "/api/create", body);
        assert!(answer.starts_with("HTTP/1.1 4") && answer.contains(wanted), "{answer}");
    }
    let delete = |name: &str| {
        let body = serde_json::json!({ "model": name }).to_string();
        let request = String::from_utf8(post("/api/delete", &body)).unwrap().replacen("POST", "DELETE", 1);
        server.exchange(request)
    };
    assert!(delete("wolf").starts_with("HTTP/1.1 200"));
    assert!(delete("wolf").starts_with("HTTP/1.1 404"));
    assert!(delete("smollm2:135m").starts_with("HTTP/1.1 200"));
    assert!(!fs::exists(shelf.path("Q4_K_M")).unwrap());
    let listed = get(&server, "/api/tags");
    let names: Vec<&str> =
        listed["models"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["smollm2:135m-q8_0", "fox", "me/small", "crow"]);
}

#[test]
fn a_server_of_all_models_follows_the_store() {
    let shelf = Shelf::new();
    let server = shelf.serve(&["--all"]);
    let names = || -> Vec<String> {
        let listed = get(&server, "/v1/models");
        let ids = listed["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().to_owned());
        ids.collect()
    };
    let said = |model: &str| {
        let body = serde_json::json!({ "model": model, "prompt": "Once", "stream": false });
        let answer = server.exchange(post("/api/generate", &body.to_string()));
        let count = answer.starts_with("HTTP/1.1 200").then(|| document(&answer)["eval_count"].clone());
        (answer[9..12].to_owned(), count)
    };
    assert_eq!(names(), ["smollm2:135m", "smollm2:135m-q8_0"]);
    // A request by the name of a model that came meanwhile finds it.
    let modelfile = |tokens: u32| {
        let text = format!("FROM smollm2:135m-q8_0\nPARAMETER num_predict {tokens}\n");
        shelf.files.add("Modelfile", text.as_bytes())
    };
    for tokens in [2, 4] {
        assert_eq!(shelf.run(&["create", "Fox", "--file", &modelfile(tokens)]).code, Some(0));
        if tokens == 4 {
            // A model that was made again is found in a list; a request alone keeps the one that is served.
            assert_eq!(names(), ["smollm2:135m", "smollm2:135m-q8_0", "Fox"]);
        }
        for name in ["Fox", "fox", "FOX:latest"] {
            assert_eq!(said(name), ("200".to_owned(), Some(tokens.into())), "{name}");
        }
    }
    assert_eq!(shelf.run(&["pull", "org/repo:Q8_0", "--quiet"]).code, Some(0));
    assert_eq!(said("org/repo").0, "200");
    assert_eq!(shelf.run(&["rm", "smollm2:135m"]).code, Some(0));
    assert_eq!(shelf.run(&["rm", "fox"]).code, Some(0));
    assert_eq!(names(), ["smollm2:135m-q8_0", "org/repo:Q8_0"]);
    assert_eq!(said("fox").0, "404");
}
