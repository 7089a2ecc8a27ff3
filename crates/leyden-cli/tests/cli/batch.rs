//! `leyden batch`: formats, errors, resumption, shards.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::encoders::model;
use super::program::{Files, command, leyden};

/// Lines of JSON.
fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn read(path: &str) -> Vec<Value> {
    objects(&fs::read_to_string(path).unwrap())
}

/// Rows for the embedded model.
fn prompts(n: usize) -> String {
    (0..n)
        .map(|i| {
            json!({ "custom_id": format!("r{i}"), "prompt": format!("Once upon a time {i}") }).to_string()
                + "\n"
        })
        .collect()
}

#[test]
fn prompts_become_answers_in_their_order() {
    let files = Files::new();
    let rows =
        prompts(20) + "{\"custom_id\":\"long\",\"prompt\":\"The king\",\"max_tokens\":3,\"temperature\":0}\n";
    let (input, out) = (files.add("in.jsonl", rows.as_bytes()), files.path("out.jsonl"));
    let ask = ["batch", &input, &out, "--task", "complete", "-n", "6", "--temp", "1", "-q", "--json"];
    let counts: Value = serde_json::from_str(&leyden(&ask).ok()).unwrap();
    assert_eq!((&counts["read"], &counts["done"], &counts["failed"]), (&json!(21), &json!(21), &json!(0)));
    let answers = read(&out);
    let ids: Vec<&str> = answers.iter().map(|row| row["custom_id"].as_str().unwrap()).collect();
    assert_eq!((ids[3], ids[20], ids.len()), ("r3", "long", 21));
    assert_eq!(
        (&answers[20]["completion_tokens"], &answers[20]["finish_reason"]),
        (&json!(3), &json!("length"))
    );
    let greedy = leyden(&["run", "The king", "-q", "--raw", "-n", "3", "--temp", "0"]).ok();
    assert_eq!(answers[20]["output"].as_str().unwrap().trim(), greedy.trim());
    // The output is not replaced, and --restart gives the same in another order with fewer at a time.
    let told = leyden(&ask).failed(1);
    assert!(told.contains("is there already") && told.contains("--restart"), "{told}");
    let turned: String = rows.lines().rev().map(|line| format!("{line}\n")).collect();
    let (turned, other) = (files.add("turned.jsonl", turned.as_bytes()), files.path("other.jsonl"));
    let again =
        ["batch", &turned, &other, "--task", "complete", "-n", "6", "--temp", "1", "--parallel", "3", "-q"];
    leyden(&again).ok();
    let mut others = read(&other);
    others.reverse();
    assert_eq!(others, answers);
    leyden(&[&ask[..9], &["--restart", "-q"]].concat()).ok();
    assert_eq!(read(&out), answers);
}

#[test]
fn templates_tables_and_schemas() {
    let files = Files::new();
    let table = files.add("in.csv", b"name,place,max_tokens\nAnna,a wood,4\nTom,the sea,2\n");
    let out = files.path("out.csv");
    let template = "{{ name }} went to {{ place }}";
    leyden(&[
        "batch",
        &table,
        &out,
        "--task",
        "chat",
        "--prompt-template",
        template,
        "--system",
        "Tell.",
        "-q",
    ])
    .ok();
    let text = fs::read_to_string(&out).unwrap();
    assert!(
        text.starts_with(
            "name,place,max_tokens,output,finish_reason,prompt_tokens,completion_tokens\nAnna,a wood,4,"
        ),
        "{text}"
    );
    let schema =
        json!({ "type": "object", "properties": { "a": { "enum": ["x", "y"] } }, "required": ["a"] })
            .to_string();
    let out = files.path("schema.jsonl");
    leyden(&[
        "batch",
        &table,
        &out,
        "--task",
        "chat",
        "--prompt-template",
        template,
        "--schema",
        &schema,
        "-q",
    ])
    .failed(1);
    // The limits of the rows are too short for the JSON.
    assert!(
        read(&out).iter().all(|row| row["error"].as_str().unwrap().contains("before its JSON was complete"))
    );
    let table = files.add("free.csv", b"name,place\nAnna,a wood\nTom,the sea\n");
    let ask = [
        "batch",
        &table,
        &out,
        "--task",
        "chat",
        "--prompt-template",
        template,
        "--schema",
        &schema,
        "-q",
        "--restart",
    ];
    leyden(&ask).ok();
    for row in read(&out) {
        let answer: Value = serde_json::from_str(row["output"].as_str().unwrap()).unwrap();
        assert!(answer == json!({ "a": "x" }) || answer == json!({ "a": "y" }), "{answer}");
    }
    let told = leyden(&[
        "batch",
        &table,
        &out,
        "--task",
        "chat",
        "--prompt-template",
        "{{ nobody }}",
        "--restart",
        "-q",
    ])
    .failed(1);
    assert!(told.contains("field `nobody`: missing"), "{told}");
}

#[test]
fn requests_of_openai_get_responses() {
    let files = Files::new();
    let request = |id: &str, url: &str, body: Value| {
        json!({ "custom_id": id, "method": "POST", "url": url, "body": body }).to_string() + "\n"
    };
    let rows = [
        request(
            "a",
            "/v1/chat/completions",
            json!({ "model": "gpt", "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 4 }),
        ),
        request("b", "/v1/completions", json!({ "prompt": "The king", "max_tokens": 4, "temperature": 0 })),
        request("c", "/v1/embeddings", json!({ "input": "a fox" })),
        request("d", "/v1/chat/completions", json!({ "messages": [], "temperature": 9 })),
        request("e", "/v1/images", json!({})),
        request("a", "/v1/completions", json!({ "prompt": "x" })),
    ];
    let (input, out) = (files.add("in.jsonl", rows.concat().as_bytes()), files.path("out.jsonl"));
    let told = leyden(&["batch", &input, &out, "-q"]).failed(1);
    assert!(told.contains("rows without a result: 3 of 6"), "{told}");
    let lines = read(&out);
    let body = |i: usize| &lines[i]["response"]["body"];
    assert_eq!((lines[0]["custom_id"].as_str(), &lines[0]["error"]), (Some("a"), &Value::Null));
    assert_eq!((&body(0)["object"], &body(0)["model"]), (&json!("chat.completion"), &json!("gpt")));
    assert_eq!(
        (&body(0)["usage"]["completion_tokens"], &body(1)["object"]),
        (&json!(4), &json!("text_completion"))
    );
    assert!(body(2)["data"][0]["embedding"].is_array(), "{}", body(2));
    assert!(
        lines[3]["response"]["status_code"].as_u64().unwrap() >= 400
            && body(3)["error"]["message"].is_string()
    );
    assert!(lines[4]["error"]["message"].as_str().unwrap().contains("field `url`"), "{}", lines[4]);
    assert!(lines[5]["error"]["message"].as_str().unwrap().contains("custom_id `a`: row 1"), "{}", lines[5]);
    let told = leyden(&["batch", &input, &files.path("out.csv")]).failed(2);
    assert!(told.contains("as JSON lines"), "{told}");
}

#[test]
fn documents_of_a_folder_are_rows() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert, labels");
    fs::create_dir_all(files.path("docs/sub")).unwrap();
    files.add("docs/b.txt", b"w5 w6");
    files.add("docs/a.md", b"# w7\n\nw8");
    files.add("docs/sub/c.html", b"<p>w9</p>");
    files.add("docs/bad.txt", b"");
    let out = files.path("out.jsonl");
    let told = leyden(&["batch", &files.path("docs"), &out, "--task", "classify", "--model", &folder, "-q"])
        .failed(1);
    assert!(told.contains("bad.txt: empty file"), "{told}");
    let rows = read(&out);
    let paths: Vec<&str> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a.md", "b.txt", "bad.txt", "sub/c.html"]);
    assert!(rows[3]["label"].is_string() && rows[2]["error"].is_string(), "{rows:?}");
}

#[test]
fn encoders_answer_as_their_commands_do() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert, labels");
    let input = files.add("in.jsonl", b"{\"text\":\"w5 w6\"}\n{\"text\":7}\n{\"text\":\"w7\"}\n");
    // The folder of the first files is the model.
    let outputs = Files::new();
    let (out, other) = (outputs.path("a.jsonl"), outputs.path("b.jsonl"));
    leyden(&["batch", &input, &out, "--task", "classify", "-m", &folder, "-q"]).failed(1);
    leyden(&["classify", &folder, "--file", &input, "-o", &other, "-q"]).failed(1);
    assert_eq!(read(&out), read(&other));
    leyden(&["batch", &input, &out, "--task", "embed", "-m", &folder, "-q", "--restart"]).failed(1);
    leyden(&["embed", &folder, "--file", &input, "-o", &other, "-q"]).failed(1);
    assert_eq!(read(&out), read(&other));
    let (rank, _) = model(&files, "bert, rank");
    let input = files.add("pairs.jsonl", b"{\"query\":\"w13 w24\",\"documents\":[\"w1 w2\",\"w46 w57\"]}\n{\"query\":\"w13 w24\",\"text\":\"w46 w57\"}\n");
    leyden(&["batch", &input, &out, "--task", "rerank", "-m", &rank, "-q", "--restart"]).ok();
    let rows = read(&out);
    let results = rows[0]["results"].as_array().unwrap();
    assert!(results[0]["score"].as_f64() >= results[1]["score"].as_f64());
    let second = results.iter().find(|result| result["index"] == 1).unwrap();
    assert_eq!(rows[1]["score"], second["score"]);
}

#[test]
fn shards_together_are_the_whole() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert, labels");
    let rows: String = (0..100).map(|i| format!("{{\"n\":{i},\"text\":\"w{}\"}}\n", i % 40 + 3)).collect();
    let (input, whole) = (files.add("in.jsonl", rows.as_bytes()), files.path("whole.jsonl"));
    let ask = |out: &str, more: &[&str]| {
        leyden(&[&["batch", &input, out, "--task", "classify", "-m", &folder, "--json", "-q"], more].concat())
            .ok()
    };
    ask(&whole, &[]);
    let mut union = Vec::new();
    for k in 1..=3 {
        let out = files.path(&format!("{k}.jsonl"));
        let counts: Value = serde_json::from_str(&ask(&out, &["--shard", &format!("{k}/3")])).unwrap();
        assert_eq!(counts["done"].as_u64().unwrap() + counts["skipped"].as_u64().unwrap(), 100);
        union.extend(read(&out));
    }
    union.sort_by_key(|row| row["n"].as_u64());
    assert_eq!(union, read(&whole));
}

#[test]
fn wrong_usage_says_what_to_do() {
    let files = Files::new();
    let input = files.add("in.jsonl", b"{\"text\":\"w5\"}\n");
    let empty = files.add("empty.jsonl", b"");
    let (out, npy, text) = (files.path("out.jsonl"), files.path("out.npy"), files.path("out.txt"));
    for (arguments, words) in [
        (vec![&input[..], &out], "--task is missing"),
        (vec![&input, &input, "--task", "chat"], "this is the input"),
        (vec![&input, &npy, "--task", "chat"], "a .npy file has vectors"),
        (vec![&input, &text, "--task", "chat"], "line breaks"),
        (vec![&input, &out, "--task", "embed", "--row-timeout", "3"], "--row-timeout"),
        (vec![&input, &out, "--task", "chat", "--shard", "4/3"], "K/N"),
        (vec![&input, &out, "--task", "chat", "--window", "9"], "--window: only with"),
        (vec![&input, &npy, "--task", "embed", "--window", "9"], "one vector for each window"),
        (vec![&input, &out, "--task", "chat", "--prompt-template", "nothing"], "names no field"),
    ] {
        let told = leyden(&[vec!["batch"], arguments.clone()].concat()).failed(2);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    leyden(&["batch", &empty, &out, "--task", "complete", "-q"]).ok();
    assert_eq!(fs::read_to_string(&out).unwrap(), "");
}

/// Windows of a text give what rows with their parts give.
#[test]
fn long_texts_are_read_in_windows() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert, labels");
    // The folder of the first files is the model.
    let outputs = Files::new();
    // The third text is too long for the model in windows of 4000 characters, and has no window too long in those of 10.
    let long = "w5 w6 ".repeat(1000);
    let rows =
        format!("{{\"text\":\"w5 w6 w7 w8 w9 w10 w11\"}}\n{{\"text\":\"w9\"}}\n{{\"text\":\"{long}\"}}\n");
    let input = files.add("in.jsonl", rows.as_bytes());
    let ask = |input: &str, task: &str, more: &[&str]| {
        let out = outputs.path("out.jsonl");
        leyden(&[&["batch", input, &out, "--task", task, "-m", &folder, "-q", "--restart"], more].concat())
            .ok();
        read(&out)
    };
    let labelled = ask(&input, "classify", &["--window", "10", "--top", "9"]);
    let vectors = ask(&input, "embed", &["--window", "10"]);
    let text = "w5 w6 w7 w8 w9 w10 w11";
    let windows = vectors[0]["windows"].as_array().unwrap();
    let places: Vec<(u64, u64)> =
        windows.iter().map(|w| (w["start"].as_u64().unwrap(), w["end"].as_u64().unwrap())).collect();
    assert_eq!(places, [(0, 11), (10, 21), (20, 22)]);
    let parts: String = places
        .iter()
        .map(|(a, b)| format!("{{\"text\":\"{}\"}}\n", &text[*a as usize..*b as usize]))
        .collect();
    let parts = files.add("parts.jsonl", parts.as_bytes());
    for (window, part) in windows.iter().zip(ask(&parts, "embed", &[])) {
        assert_eq!(window["embedding"], part["embedding"]);
    }
    let of_parts = ask(&parts, "classify", &["--top", "9"]);
    let labels = labelled[0]["labels"].as_array().unwrap();
    assert_eq!(labels.len(), of_parts[0]["labels"].as_array().unwrap().len());
    assert_eq!((&labelled[0]["label"], &labelled[0]["start"]), (&labels[0]["label"], &labels[0]["start"]));
    for label in labels {
        let at = places.iter().position(|place| place.0 == label["start"].as_u64().unwrap()).unwrap();
        let scores = |part: &Value| {
            let all = part["labels"].as_array().unwrap();
            all.iter().find(|one| one["label"] == label["label"]).unwrap()["score"].as_f64().unwrap()
        };
        assert_eq!(label["score"].as_f64().unwrap(), scores(&of_parts[at]));
        assert!(of_parts.iter().all(|part| scores(part) <= scores(&of_parts[at])));
    }
    assert_eq!((labelled[1]["start"].as_u64(), labelled[1]["end"].as_u64()), (Some(0), Some(2)));
    assert_eq!(vectors[2]["windows"].as_array().unwrap().len(), 600);
    let out = outputs.path("out.jsonl");
    let told = leyden(&[
        "batch",
        &input,
        &out,
        "--task",
        "embed",
        "-m",
        &folder,
        "-q",
        "--restart",
        "--window",
        "4000",
    ])
    .failed(1);
    assert!(told.contains("line 3") && told.contains(" tokens, but the model takes "), "{told}");
    assert!(read(&out)[1]["windows"].is_array());
}

/// A run is killed three times at random; nothing is lost, nothing is there twice, and the order is kept. Between the
/// kills another input and other settings are refused.
#[test]
fn a_killed_batch_resumes() {
    let files = Files::new();
    let (input, out, whole) =
        (files.add("in.jsonl", prompts(600).as_bytes()), files.path("out.jsonl"), files.path("whole.jsonl"));
    let ask = |out: &str| ["batch", &input, out, "--task", "complete", "-n", "2", "-q"].map(str::to_owned);
    let words = |ask: &[String]| ask.iter().map(String::as_str).collect::<Vec<&str>>().join("\n");
    let run = |text: &str| leyden(&text.split('\n').collect::<Vec<&str>>());
    run(&words(&ask(&whole))).ok();
    let unfinished = format!("{out}.unfinished");
    let lines = || fs::read_to_string(&unfinished).map_or(0, |text| text.lines().count());
    for kill in 1..=3 {
        let text = words(&ask(&out));
        let mut child =
            command(&text.split('\n').collect::<Vec<&str>>()).stderr(Stdio::null()).spawn().unwrap();
        let (begin, before) = (Instant::now(), lines());
        while lines() < before + 10 && child.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < Duration::from_secs(120));
            std::thread::sleep(Duration::from_millis(10 * kill));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if Path::new(&out).exists() {
            break;
        }
    }
    if !Path::new(&out).exists() {
        let changed = files.add("changed.jsonl", prompts(600).replace("time 599", "time 598").as_bytes());
        let told = leyden(&["batch", &changed, &out, "--task", "complete", "-n", "2"]).failed(1);
        assert!(told.contains("an interrupted run had other input"), "{told}");
        let told = leyden(&["batch", &input, &out, "--task", "complete", "-n", "3"]).failed(1);
        assert!(told.contains("an interrupted run had other settings"), "{told}");
        run(&words(&ask(&out))).ok();
    }
    assert_eq!(read(&out), read(&whole));
    assert!(!Path::new(&unfinished).exists());
    let ids: HashSet<String> = read(&out).iter().map(|row| row["custom_id"].to_string()).collect();
    assert_eq!(ids.len(), 600);
}

#[test]
fn a_row_that_takes_too_long_gets_an_error() {
    let files = Files::new();
    let rows = "{\"prompt\":\"a\",\"max_tokens\":1}\n{\"prompt\":\"Once\"}\n";
    let (input, out) = (files.add("in.jsonl", rows.as_bytes()), files.path("out.jsonl"));
    let long = files.add("long.jsonl", "{\"prompt\":\"Once\",\"min_p\":0}\n".repeat(400).as_bytes());
    leyden(&["batch", &input, &out, "--task", "complete", "--row-timeout", "600", "-n", "4", "-q"]).ok();
    // Hundreds of whole contexts take longer than a second together.
    let ask =
        ["batch", &long, &out, "--task", "complete", "--row-timeout", "1", "--restart", "--parallel", "400"];
    let run = leyden(&ask);
    if run.code == Some(1) {
        assert!(run.err.contains("took more than 1 s"), "{}", run.err);
    }
}

/// A row counts as done after its record.
#[test]
fn an_audited_batch_has_a_record_for_each_row() {
    let files = Files::new();
    let (input, out) = (files.add("in.jsonl", prompts(5).as_bytes()), files.path("out.jsonl"));
    let log = files.path("log");
    leyden(&["batch", &input, &out, "--task", "complete", "-n", "1", "-q", "--audit", &log]).ok();
    let written: String = fs::read_dir(&log)
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
        .collect();
    for i in 0..5 {
        assert!(written.contains(&format!("\"id\":\"r{i}\"")), "{written}");
    }
}
