//! `pull`, `list` and `rm`, against a hub on the loopback interface.

#[path = "../../../leyden-hub/tests/hub/server.rs"]
#[allow(dead_code, reason = "the hub's own tests use more of it")]
pub(crate) mod server;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::folders::{TOKENIZER_CONFIG, checkpoint, tokenizer};
use crate::program::{Files, Run, command, finish, storyteller_with_template, vocabulary};
use server::{Hub, Repository};

/// The program with a store of its own and without the user's settings.
pub(crate) fn program(files: &Files, endpoint: &str, args: &[&str]) -> Command {
    let mut command = command(args);
    for name in [
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HF_TOKEN_PATH",
        "HF_HUB_OFFLINE",
        "LEYDEN_OFFLINE",
        "XDG_CACHE_HOME",
        "http_proxy",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ] {
        command.env_remove(name);
    }
    command
        .env("LEYDEN_MODELS", files.path("models"))
        .env("HF_HOME", files.path("hf"))
        .env("HF_ENDPOINT", endpoint);
    command
}

fn run(files: &Files, endpoint: &str, args: &[&str]) -> Run {
    finish(&mut program(files, endpoint, args), b"")
}

fn repository() -> Repository {
    let model = vocabulary().to_vec().unwrap();
    Repository::new(&[("Tiny-Q8_0.gguf", &model), ("Tiny-F16.gguf", &model), ("README.md", b"# Tiny")])
}

#[test]
fn a_model_is_pulled_listed_used_and_removed() {
    let (files, hub) = (Files::new(), Hub::start(&repository()));
    let url = hub.api.url();
    let pulled = run(&files, &url, &["pull", "hf:org/repo:Q8_0"]);
    assert_eq!(pulled.code, Some(0), "{pulled:?}");
    let path = pulled.out.trim_end();
    assert!(path.ends_with("/Tiny-Q8_0.gguf") && pulled.out.lines().count() == 1, "{pulled:?}");
    let lines: Vec<&str> = pulled.err.lines().collect();
    assert!(
        lines[0].starts_with("1 file, ") && lines[1].starts_with("downloading Tiny-Q8_0.gguf ("),
        "{lines:?}"
    );
    assert!(lines[2].starts_with("org/repo:Tiny-Q8_0.gguf: "), "{lines:?}");
    assert_eq!(lines[3..], ["next: leyden run org/repo:Tiny-Q8_0.gguf"]);
    assert!(run(&files, &url, &["inspect", path]).ok().contains("Tiny-Q8_0.gguf"));

    let again = run(&files, &url, &["pull", "hf:org/repo:Q8_0", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((json["downloaded_bytes"].as_u64(), json["path"].as_str()), (Some(0), Some(path)));
    assert_eq!(json["files"][0]["sha256"], server::sha256(&fs::read(path).unwrap()));
    assert!(again.err.contains("checking Tiny-Q8_0.gguf"));

    let list = run(&files, &url, &["list"]).ok();
    assert!(list.starts_with("NAME ") && list.contains("\norg/repo:Q8_0  "), "{list}");
    assert!(
        list.contains(" 01234567  20") && list.trim_end().ends_with("  whole  org/repo:Tiny-Q8_0.gguf"),
        "{list}"
    );
    let json = run(&files, &url, &["list", "--json"]).json();
    assert_eq!(
        (json["models"][0]["name"].as_str(), json["problems"][0].as_str()),
        (Some("org/repo:Tiny-Q8_0.gguf"), None)
    );

    let removed = run(&files, &url, &["rm", "repo"]);
    assert!(removed.err.starts_with("removed org/repo:Tiny-Q8_0.gguf, "), "{removed:?}");
    assert!(!fs::exists(path).unwrap());
    let list = run(&files, &url, &["list"]);
    assert_eq!((list.code, list.out.as_str()), (Some(0), ""));
    assert!(list.err.starts_with("no models in ") && list.err.contains("leyden pull"), "{list:?}");
    let message = run(&files, &url, &["rm", "repo"]).failed(1);
    assert!(
        message.contains("error: repo: no such model in the store\nhint: leyden list shows"),
        "{message}"
    );
}

#[test]
fn run_and_serve_pull_what_is_not_there() {
    let model = storyteller_with_template("{{ messages[-1].content }}");
    let hub = Hub::start(&Repository::new(&[
        ("Tiny-F16.gguf", b"not this one"),
        ("Tiny-Q8_0.gguf", &model),
        ("model.safetensors", b"nor this"),
    ]));
    let (files, url) = (Files::new(), hub.api.url());
    let ask = |more: &[&str]| run(&files, &url, &[more, &["-n", "2", "--temp", "0"]].concat());
    let message = ask(&["run", "org/repo", "Hello", "--offline"]).failed(1);
    assert!(message.contains("hf:org/repo: not in the store, and the network may not be used"), "{message}");
    let first = ask(&["run", "org/repo", "Once", "upon", "a", "time"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(first.err.contains("org/repo: no such file; pulling hf:org/repo\n"), "{first:?}");
    assert!(first.err.contains("Tiny-Q8_0.gguf: chosen from 2;"), "{first:?}");
    let n = hub.api.seen().len();
    for words in [
        &["run", "repo", "Once upon a time"][..],
        &["run", "-hf", "org/repo", "-p", "Once upon a time"],
        &["run", "hf.co/org/repo:Q8_0", "Once upon a time", "--quiet"],
    ] {
        let again = ask(words);
        assert_eq!(again.out, first.out, "{again:?}");
        assert_eq!((hub.api.seen().len(), again.err.as_str()), (n, ""));
    }
    // The hub has no other repository.
    for command in [&["run", "smollm2", "Hi"][..], &["serve", "--port", "0", "smollm2"]] {
        let failed = run(&files, &url, command);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        let told = "smollm2: pulling hf:bartowski/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M\n";
        assert!(failed.err.starts_with(told) && failed.err.contains("(404)"), "{failed:?}");
    }
}

#[test]
fn a_lone_word_is_a_model_or_an_error() {
    let (files, hub) = (Files::new(), Hub::start(&repository()));
    let fail = |args: &[&str]| run(&files, &hub.api.url(), args).failed(1);
    let message = fail(&["run", "lama3.2"]);
    assert!(
        message.starts_with("error: lama3.2: no such file, and no such model in the store\n"),
        "{message}"
    );
    assert!(message.contains("hint: did you mean llama3.2? leyden models lists short names"), "{message}");
    let message = fail(&["run", "hello"]);
    assert!(message.contains("hint: leyden models lists short names"), "{message}");
    let json = run(&files, &hub.api.url(), &["run", "hello", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!(error["error"]["message"], "hello: no such file, and no such model in the store");
    assert!(hub.api.seen().is_empty(), "a word is not looked up on the hub");
}

#[test]
fn short_names_are_listed() {
    let (files, hub) = (Files::new(), Hub::start(&repository()));
    let list = run(&files, &hub.api.url(), &["models"]).ok();
    let line = list.lines().find(|line| line.starts_with("gemma3:270m ")).unwrap();
    assert!(line.ends_with("hf:unsloth/gemma-3-270m-it-GGUF:Q4_K_M"), "{list}");
    assert_eq!(line.split_whitespace().nth(1), Some("241"), "MiB of the download: {line}");
    let few = run(&files, &hub.api.url(), &["models", "Rerank", "bge"]).ok();
    assert!(few.lines().count() == 3 && few.contains("\nbge-reranker ") && few.contains(" rerank "), "{few}");
    let none = run(&files, &hub.api.url(), &["models", "nonsense"]).failed(1);
    assert!(none.contains("no model with a short name matches: nonsense"), "{none}");
    let json = run(&files, &hub.api.url(), &["models", "--json"]).json();
    let models = json["models"].as_array().unwrap();
    assert_eq!(models.len(), list.lines().count() - 1);
    let small = models.iter().find(|model| model["names"][0] == "smollm2:135m").unwrap();
    assert_eq!((&small["supported"], &small["path"]), (&true.into(), &serde_json::Value::Null));
    assert!(hub.api.seen().is_empty(), "the list needs no network");
}

#[test]
fn wrong_usage_is_told_from_failure() {
    let (files, hub) = (Files::new(), Hub::start(&repository()));
    let url = hub.api.url();
    let pull = ["pull", "hf:org/repo:Q8_0"];
    for (code, args, wanted) in [
        (2, &["pull"][..], "hf:ORG/REPO[:FILE]"),
        (2, &["pull", "repo"], "error: repo: not a reference to a model on the hub: no `/`"),
        (2, &["pull", "hf:../repo"], "hint: write hf:ORG/REPO or hf:ORG/REPO:FILE"),
        (2, &["pull", "hf:org/repo@v1", "--revision", "v2"], "--revision names another"),
        (2, &["pull", "hf:org/repo", "--revision", "../x"], "a part of the revision"),
        (1, &["pull", "hf:org/repo:Q2_K"], "no such file in this repository"),
        (1, &["pull", "hf:org/none"], "(404)"),
        (1, &["pull", "hf:org/repo", "--offline"], "the network may not be used"),
        (2, &["rm"], "NAME"),
        (2, &["list", "x"], "unexpected argument"),
    ] {
        // The unknown repository is answered like an unknown file.
        let run = run(&files, &url, args);
        assert_eq!((run.code, run.out.as_str()), (Some(code), ""), "{run:?}");
        assert!(run.err.contains(wanted), "{args:?}: {}", run.err);
    }
    for (name, value, wanted) in [
        ("HF_ENDPOINT", "nowhere", "HF_ENDPOINT: not the address of a hub"),
        ("LEYDEN_OFFLINE", "maybe", "LEYDEN_OFFLINE: the value is neither 1 nor 0"),
        ("HF_TOKEN", "with blank", "HF_TOKEN: the token is empty or holds"),
        ("http_proxy", "socks5://localhost", "http_proxy: only proxies"),
    ] {
        let message = finish(program(&files, &url, &pull).env(name, value), b"").failed(2);
        assert!(message.contains(wanted), "{message}");
    }
    for name in ["LEYDEN_OFFLINE", "HF_HUB_OFFLINE"] {
        let n = hub.api.seen().len();
        let message = finish(program(&files, &url, &pull).env(name, "1"), b"").failed(1);
        assert!(message.contains("network") && hub.api.seen().len() == n, "{message}");
    }
}

#[test]
fn a_safetensors_checkpoint_is_pulled_and_runs() {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(checkpoint("qwen3"))
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
        .collect();
    files.push(("tokenizer.json".to_owned(), tokenizer()));
    files.push(("tokenizer_config.json".to_owned(), TOKENIZER_CONFIG.into()));
    files.push(("README.md".to_owned(), b"# Tiny".to_vec()));
    let listed: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    let hub = Hub::start(&Repository::new(&listed));
    let (files, url) = (Files::new(), hub.api.url());
    let pulled = run(&files, &url, &["pull", "hf:org/repo"]);
    assert_eq!(pulled.code, Some(0), "{pulled:?}");
    for model in ["hf:org/repo", "org/repo", pulled.out.trim_end()] {
        let answer = run(&files, &url, &["run", model, "Hello", "-n", "4", "--temp", "0", "--json"]);
        assert_eq!(answer.code, Some(0), "{model}: {answer:?}");
        assert_eq!(run(&files, &url, &["tokenize", model, "Hi"]).ok(), "39 72\n");
        let report = run(&files, &url, &["inspect", model, "--json"]).json();
        assert_eq!(
            (&report["problems"], &report["format"]["name"]),
            (&serde_json::json!([]), &serde_json::json!("safetensors"))
        );
    }
}

#[test]
fn the_token_comes_from_the_environment_or_the_token_file() {
    let (files, hub) = (Files::new(), Hub::start(&repository()));
    let last = || hub.api.seen().last().unwrap().header("authorization").map(str::to_owned);
    let url = hub.api.url();
    let pull = ["pull", "hf:org/repo:F16"];
    run(&files, &url, &pull);
    assert_eq!(last(), None);
    fs::create_dir(files.path("hf")).unwrap();
    fs::write(files.path("hf/token"), "hf_file\n").unwrap();
    run(&files, &url, &pull);
    assert_eq!(last().as_deref(), Some("Bearer hf_file"));
    finish(program(&files, &url, &pull).env("HF_TOKEN", "hf_env"), b"");
    assert_eq!(last().as_deref(), Some("Bearer hf_env"));
    // Settings are shown, secrets are not.
    let doctor = finish(program(&files, &url, &["doctor"]).env("HF_TOKEN", "hf_env"), b"").ok();
    assert!(
        doctor.contains("LEYDEN_MODELS") && doctor.contains(&url) && !doctor.contains("hf_env"),
        "{doctor}"
    );
}

#[test]
fn an_interrupted_pull_ends_with_130_and_is_resumed() {
    let big: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let n = AtomicUsize::new(0);
    let hub = Hub::spoilt(&Repository::new(&[("m.gguf", &big)]), move |request, mut reply| {
        if request.path.starts_with("/cdn/") && n.fetch_add(1, Ordering::SeqCst) == 0 {
            reply.stall = Some((1_000_000, Duration::from_secs(20)));
        }
        reply
    });
    let files = Files::new();
    let url = hub.api.url();
    let mut child = program(&files, &url, &["pull", "hf:org/repo"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("downloading") {
        line.clear();
        assert_ne!(err.read_line(&mut line).unwrap(), 0);
    }
    let partial = || {
        let entry = fs::read_dir(files.path("models/hf/org/repo/partial")).ok()?.next()?.ok()?;
        Some(entry.metadata().ok()?.len())
    };
    while partial() != Some(1_000_000) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "stopped; the same command continues the download\n");
    let list = run(&files, &url, &["list"]).ok();
    assert!(list.contains("org/repo  977 KiB  -") && list.contains("unfinished"), "{list}");
    let pulled = run(&files, &url, &["pull", "hf:org/repo"]);
    assert!(pulled.err.contains("2.86 MiB, 1.91 MiB of it downloaded now"), "{pulled:?}");
    assert_eq!(fs::read(pulled.out.trim_end()).unwrap(), big);
}
