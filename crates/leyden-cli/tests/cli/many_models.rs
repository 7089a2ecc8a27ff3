//! Models that a server loads on demand: named in a file, pulled before, or pulled by a client.

use serde_json::Value;

use crate::models::program;
use crate::models::server::{Hub, Repository};
use crate::program::{Files, command, finish, leyden, storyteller_with_template, vocabulary};
use crate::serve::{Server, post};

fn ps(server: &Server, more: &[&str]) -> Value {
    leyden(&[&["ps", "--url", &server.address, "--json"], more].concat()).json()
}

fn loaded(server: &Server) -> Vec<String> {
    let all = ps(server, &[]);
    let models = all["models"].as_array().unwrap().iter();
    models.filter(|m| m["loaded"] == true).map(|m| m["name"].as_str().unwrap().to_owned()).collect()
}

const ASK: &str = r#"{"model":"NAME","prompt":"Once","max_tokens":3,"temperature":0,"ignore_eos":true}"#;

#[test]
fn a_file_names_models_and_their_settings() {
    let files = Files::new();
    let path = files.add("toy.gguf", &storyteller_with_template("{{ messages[-1].content }}"));
    let config = format!(
        "[models.first]\nmodel = \"{path}\"\naliases = [\"gpt-4o\"]\nctx = 128\npreload = true\n\
         [models.second]\nmodel = \"{path}\"\nidle_unload = \"0s\"\n"
    );
    let config = files.add("models.toml", config.as_bytes());
    let server = Server::start(&["--config", &config, "--memory", "1GiB"]);
    while loaded(&server) != ["first"] {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let all = ps(&server, &[]);
    assert_eq!(
        (&all["models"][0]["context"], &all["models"][0]["aliases"][0]),
        (&128.into(), &"gpt-4o".into())
    );
    assert!(all["models"][0]["bytes"].as_u64() < all["models"][0]["reserved_bytes"].as_u64(), "{all}");
    assert!(all["models"][0]["bytes"].as_u64().is_some() && all["models"][1]["bytes"].is_null(), "{all}");
    let answer = server.exchange(post("/v1/completions", &ASK.replace("NAME", "second")));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"model\":\"second\""), "{answer}");
    // It stays for no time.
    while loaded(&server) != ["first"] {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    ps(&server, &["--unload", "first"]);
    while !loaded(&server).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let url = format!("http://{}", server.address);
    let error = leyden(&["ps", "--url", &url, "--unload", "first"]).failed(1);
    assert!(error.contains("first is not in memory"), "{error}");
    let table = leyden(&["ps", "--url", &url]).ok();
    assert!(
        table.starts_with("NAME ") && table.contains("gpt-4o") && table.contains("not loaded"),
        "{table}"
    );
    assert_eq!(leyden(&["ps", "--ready", "--url", &url]).ok(), "ready\n");
    let (code, log) = server.end();
    assert!(code == Some(0) && log.contains("event=\"model_unloaded\""), "{log}");
    assert!(leyden(&["ps", "--ready", "--url", &url]).failed(1).contains("cannot connect"));
    let wrong = files.add("wrong.toml", b"[models.a]\nmodle = \"x\"\n");
    let error = leyden(&["serve", "--config", &wrong]).failed(1);
    assert!(error.contains("models.a.modle: unknown setting; did you mean `model`?"), "{error}");
    let error = leyden(&["ps", "--url", "http://127.0.0.1:9"]).failed(1);
    assert!(error.contains("start a server with `leyden serve`"), "{error}");
}

#[test]
fn clients_pull_models_where_they_may() {
    let model = storyteller_with_template("{{ messages[-1].content }}");
    let hub = Hub::start(&Repository::new(&[
        ("Tiny-Q8_0.gguf", &model),
        ("Vocabulary.gguf", &vocabulary().to_vec().unwrap()),
    ]));
    let (files, url) = (Files::new(), hub.api.url());
    assert_eq!(
        finish(&mut program(&files, &url, &["pull", "hf:org/repo:Vocabulary", "--quiet"]), b"").code,
        Some(0)
    );
    let start = |more: &[&str]| {
        let all = ["serve", "--port", "0", "--threads", "1", "--lame-duck", "0", "--memory", "1G", "--all"];
        Server::of(&mut program(&files, &url, &[&all, more].concat()))
    };
    let server = start(&["--allow-pull"]);
    let answer = server.exchange(post("/api/pull", r#"{"model":"org/repo:Q8_0"}"#));
    assert!(
        answer.contains("pulling Tiny-Q8_0.gguf") && answer.contains(r#"{"status":"success"}"#),
        "{answer}"
    );
    let answer = server.exchange(post("/v1/completions", &ASK.replace("NAME", "org/repo:Q8_0")));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = server.exchange(post("/api/pull", r#"{"model":"org/nothing","stream":false}"#));
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("\"error\":\""), "{answer}");
    let (_, log) = server.end();
    // What cannot run here is left out, and says why.
    assert!(log.contains("request="), "{log}");
    // Another start knows it, and lets nobody pull.
    let server = start(&[]);
    assert_eq!(ps(&server, &[])["models"][0]["name"], "org/repo:Q8_0");
    let answer = server.exchange(post("/api/pull", r#"{"model":"org/other"}"#));
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("--allow-pull"), "{answer}");
}

#[test]
fn models_named_on_the_command_line_may_come_and_go_too() {
    let files = Files::new();
    let path = files.add("toy.gguf", &storyteller_with_template("{{ messages[-1].content }}"));
    let server = Server::start(&[&path, "--on-demand", "--alias", "a"]);
    assert!(loaded(&server).is_empty());
    let answer = server.exchange(post("/v1/completions", &ASK.replace("NAME", "a")));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(loaded(&server), ["toy"]);
    let (code, log) = server.end();
    assert!(code == Some(0), "{log}");
    let error = finish(&mut command(&["serve", "--on-demand", "--memory", "16Q", &path]), b"").failed(2);
    assert!(error.contains("not a size such as 500MB, 4.5G or 16GiB"), "{error}");
}
