//! `leyden load`, against servers on the loopback interface.

#[path = "../../../leyden-load/tests/load/server.rs"]
#[allow(dead_code, reason = "the generator's own tests use more of it")]
mod server;

use leyden_testkit::shared;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::program::{Files, Run, command, finish, leyden};
use serde_json::Value;
use server::{STREAM, Server, Step, chunk, document, token};

/// The document and the code of a run that may warn of a busy machine.
fn document_of(run: &Run) -> (Value, Option<i32>) {
    let document = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    (document, run.code)
}

fn load(url: &str, more: &[&str]) -> Run {
    let mut command = command(&[&["load", "--url", url], more].concat());
    finish(command.env_remove("LEYDEN_API_KEY"), b"")
}

#[test]
fn figures_are_printed_as_a_table_as_json_and_as_a_page() {
    let (files, server) = (Files::new(), Server::good());
    let page = files.path("load.html");
    let more = ["--users", "2", "--requests", "30", "--seed", "7", "--slo", "ttft_p95=60s,user_tps>=0.001"];
    let run = load(&server.url(), &[&more[..], &["--report", &page]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    for wanted in [
        "2 users, 30 requests",
        "30 complete, 0 failed",
        "time to first token",
        "inter-token",
        "PASS",
        "seed    7",
    ] {
        assert!(run.out.contains(wanted), "{wanted}: {}", run.out);
    }
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("ttft_p95&lt;=60s"));
    assert_eq!(std::fs::read_dir(files.folder()).unwrap().count(), 1, "no temporary file is left");

    let (json, code) = document_of(&load(&server.url(), &[&more[..], &["--json"]].concat()));
    assert_eq!((code, &json["kind"], &json["server"]["model"]), (Some(0), &"run".into(), &"tiny".into()));
    assert_eq!(json["server"]["calibration"]["source"], "tokenize");
    assert_eq!((&json["workload"]["arrivals"]["users"], &json["workload"]["seed"]), (&2.into(), &7.into()));
    let summary = &json["summary"];
    assert_eq!((&summary["requests"]["completed"], &summary["requests"]["failed"]), (&30.into(), &0.into()));
    assert_eq!((&summary["ttft_s"]["count"], &summary["slo"]["verdict"]), (&30.into(), &"pass".into()));
    assert!(summary["output_tps"].as_f64().unwrap() > 0.0 && json["generator"]["cpu_s"].is_f64());
}

#[test]
fn the_exit_code_tells_what_came_of_it() {
    let good = Server::good();
    let broken = Server::start(|request| match request.path.as_str() {
        "/v1/chat/completions" if request.body["max_tokens"] != 1 => {
            document(500, "", &serde_json::json!({ "error": { "message": "\u{1b}[31mout of memory" } }))
        }
        _ => Vec::new(),
    });
    let few = ["--users", "2", "--requests", "4"];
    for (server, more, code, wanted) in [
        (&broken, &few[..], 1, "error: 4 of 4 requests failed"),
        (
            &good,
            &["--users", "2", "--requests", "4", "--slo", "e2e_p50=0.001ms"],
            1,
            "error: the SLO was missed: e2e_p50",
        ),
        (&good, &["--users", "2", "--requests", "4", "--slo", "e2e_p95=10m"], 3, "error: too few samples"),
        (
            &good,
            &["--users", "2", "--requests", "4", "--warmup", "1h", "--duration", "1ms", "--trace", "x"],
            2,
            "cannot be used",
        ),
    ] {
        let run = load(&server.url(), more);
        assert!(run.code == Some(code) && run.err.contains(wanted), "{more:?}: {run:?}");
        assert!(!run.out.contains('\u{1b}') && !run.err.contains("panicked"), "{run:?}");
    }
    let run = load(&broken.url(), &few);
    assert!(run.out.contains("http5xx") && run.out.contains("status 500:  [31mout of memory"), "{}", run.out);
}

#[test]
fn users_are_searched_for() {
    // Up to three at a time are answered at once; a fourth waits for a second.
    let running = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let server = Server::start(move |request| {
        if request.path == "/v1/chat/completions" && request.body["max_tokens"] != 1 {
            let ahead = running.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            thread::sleep(Duration::from_millis(if ahead >= 3 { 1000 } else { 10 }));
            running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        }
        Vec::new()
    });
    let files = Files::new();
    let page = files.path("load.html");
    let search =
        ["--slo", "ttft_p90=700ms", "--duration", "250ms", "--warmup", "50ms", "--html", &page, "--json"];
    let (json, code) = document_of(&load(&server.url(), &search));
    let users = json["users"].as_u64().unwrap();
    // On a machine that is slow enough fewer hold.
    assert!(json["kind"] == "find_users" && users <= 4, "{json}");
    assert!(json["workload"]["arrivals"]["users"].is_null());
    let steps: Vec<u64> =
        json["steps"].as_array().unwrap().iter().map(|s| s["users"].as_u64().unwrap()).collect();
    assert!(steps[0] == 1 && steps.len() >= 2 || users == 0, "{steps:?}");
    assert!(matches!((users, code), (0, Some(1)) | (1.., Some(0 | 3))), "{users} {code:?}");
    assert!(json["fails_at"].as_u64().is_some_and(|fails| fails > users), "{json}");
    assert!(std::fs::read_to_string(page).unwrap().contains("within the SLO"));
}

#[test]
fn servers_are_compared_in_turns() {
    let (first, second) = (Server::good(), Server::good());
    let more =
        ["--users", "1", "--requests", "3", "--turns", "2", "--compare", &second.url(), "--ignore-eos"];
    let run = load(&first.url(), &more);
    assert!(run.code == Some(0) && run.out.contains("A/B") && run.out.contains("ttft p50"), "{run:?}");
    let (json, _) = document_of(&load(&first.url(), &[&more[..], &["--json"]].concat()));
    assert_eq!((&json["kind"], json["turns"].as_array().unwrap().len()), (&"compare".into(), 2));
    assert!(json["ratios"][0]["ratio"].as_f64().unwrap() > 0.0);
    // Both got the same.
    let bodies = |server: &Server| {
        let mut all: Vec<String> =
            server.seen("/chat/completions").iter().map(|r| r.body.to_string()).collect();
        all.sort();
        all
    };
    let prompts = |server: &Server| bodies(server).len();
    assert_eq!(prompts(&first), prompts(&second));
}

#[test]
fn recorded_arrivals_are_replayed() {
    let (files, server) = (Files::new(), Server::good());
    let csv = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,40,3\n2023-11-16 18:15:47,60,5\n";
    let trace = files.add("trace.csv", csv.as_bytes());
    let (json, code) = document_of(&load(&server.url(), &["--trace", &trace, "--scale", "10", "--json"]));
    assert_eq!(code, Some(0));
    assert_eq!(
        (&json["summary"]["output_tokens"]["max"], &json["summary"]["requests"]["measured"]),
        (&5.0.into(), &2.into())
    );
    let sent = server.seen("/chat/completions");
    let asked: Vec<u64> = sent.iter().map(|r| r.body["max_tokens"].as_u64().unwrap()).collect();
    assert!(asked.ends_with(&[3, 5]), "{asked:?}");

    let Some(azure) = shared("data/traces/AzureLLMInferenceTrace_conv.csv.gz") else { return };
    let more = [
        "--trace",
        azure.to_str().unwrap(),
        "--scale",
        "40",
        "--length-scale",
        "0.01",
        "--duration",
        "1s",
        "--json",
    ];
    let (json, code) = document_of(&load(&server.url(), &more));
    assert!(code == Some(0) && json["summary"]["requests"]["measured"].as_u64().unwrap() > 20, "{json}");
}

#[test]
fn keys_come_from_the_environment_or_a_file() {
    let (files, server, other) = (Files::new(), Server::good(), Server::good());
    let url = server.url();
    let few = ["load", "--url", &url, "--users", "1", "--requests", "2"];
    let keyed = |key: &str, more: &[&str]| {
        finish(command(&[&few[..], more].concat()).env("LEYDEN_API_KEY", key), b"")
    };
    assert_eq!(keyed("sk-env", &["--compare", &other.url(), "--turns", "1"]).code, Some(0));
    assert!(server.seen("").iter().all(|r| r.head.contains("\r\nAuthorization: Bearer sk-env\r\n")));
    assert!(other.seen("").iter().all(|r| !r.head.contains("sk-env")), "a key is for one server");
    let file = files.add("key", b"sk-file\n");
    let run = keyed("sk-env", &["--api-key-file", &file, "--json"]);
    assert!(run.code == Some(0) && !run.out.contains("sk-") && !run.err.contains("sk-"));
    assert!(server.seen("").last().unwrap().head.contains("Bearer sk-file\r\n"));
    assert!(keyed("a b", &[]).failed(2).starts_with("error: LEYDEN_API_KEY: the key is empty"));
    assert!(keyed("", &["--api-key-file", &files.path("none")]).failed(1).contains("cannot read the key"));
}

#[test]
fn wrong_usage_says_what_is_wanted() {
    let files = Files::new();
    let trace = files.add("bad.csv", b"a,b\n1,2\n");
    for (arguments, code, wanted) in [
        (&[][..], 2, "no users or arrivals given"),
        (&["--url", "ftp://localhost", "--users", "1"], 2, "http://"),
        (&["--url", "http://user@host", "--users", "1"], 2, "user name"),
        (&["--users", "0"], 2, "users: not from 1 to 4096"),
        (&["--users", "1", "--rate", "1"], 2, "cannot be used with"),
        (&["--rate", "0"], 2, "rate: not above 0"),
        (&["--rate", "nan"], 2, "rate: not above 0"),
        (&["--users", "1", "--prompt-tokens", "9..3"], 2, "the range is empty"),
        (&["--users", "1", "--duration", "0"], 2, "duration: nothing can be measured"),
        (&["--users", "1", "--duration", "1 week"], 2, "not a duration"),
        (&["--users", "1", "--endpoint", "images"], 2, "neither `chat` nor `completions`"),
        (&["--users", "1", "--slo", "speed=3"], 2, "none of ttft, itl"),
        (&["--users", "1", "--body", "[1]"], 2, "--body: not a JSON object"),
        (&["--users", "1", "--compare", "http://h", "--turns", "0"], 2, "--turns"),
        (&["--users", "1", "--scale", "2"], 2, "--trace"),
        (&["--find-users"], 2, "--slo"),
        (&["--slo", "ttft_p95=1s", "--max-users", "0"], 2, "--max-users"),
        (&["--trace", &trace], 1, "bad.csv: line 1: no columns"),
        (&["--trace", &files.path("none.csv")], 1, "none.csv: cannot open"),
    ] {
        // Where the arguments pass, the server is missing.
        let mut all = vec!["load"];
        let server = Server::good();
        let url = server.url();
        if !arguments.contains(&"--url") {
            all.extend(["--url", &url]);
        }
        all.extend(arguments);
        let said = leyden(&all).failed(code);
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
    let said = leyden(&["load", "--users", "1", "--url", "http://127.0.0.1:1"]).failed(1);
    assert!(said.contains("http://127.0.0.1:1: /v1/models: cannot connect"), "{said}");
    let (server, page) = (Server::good(), files.path("no/where.html"));
    let said = load(&server.url(), &["--users", "1", "--requests", "1", "--html", &page]).err;
    assert!(said.contains("no/where.html: cannot write"), "{said}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_reports_what_was_measured() {
    let server = Server::start(|request| match request.path.as_str() {
        "/v1/chat/completions" if request.body["max_tokens"] != 1 => {
            vec![
                Step::Bytes(STREAM.into()),
                Step::Bytes(chunk(&token("x"))),
                Step::Pause(Duration::from_secs(600)),
            ]
        }
        _ => Vec::new(),
    });
    let url = server.url();
    let mut command = command(&["load", "--url", &url, "--users", "2", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while server.seen("/chat/completions").len() < 3 {
        thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["summary"]["interrupted"] == true && json["summary"]["requests"]["completed"] == 0);
}
