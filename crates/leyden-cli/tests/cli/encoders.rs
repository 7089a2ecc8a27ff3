//! Encoders as a user meets them: `leyden embed`, `leyden classify`, and the server's vectors. The model is one of those that
//! the engine's tests compare with transformers; its tokens are the words w0 to w95.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::program::{Files, leyden, leyden_with_input};
use super::serve::{Server, post};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../leyden-engine/tests/golden/encoders.json");

/// A value of the formula that the weights follow from (`leyden-engine/tests/golden/make/encoders.py`).
fn noise(i: u64, seed: u64, base: f32, scale: f64) -> f32 {
    let x = (i * 747_796_405 + seed * 2_891_336_453) % (1 << 32);
    let x = ((x ^ (x >> 15)) * 2_246_822_519) % (1 << 32);
    let x = x ^ (x >> 13);
    (((x >> 8) as f64 / f64::from(1 << 24) - 0.5) * scale) as f32 + base
}

/// A folder with one of those models, and what transformers computes of it.
fn model(files: &Files, name: &str) -> (String, Value) {
    let golden: Value = serde_json::from_str(&fs::read_to_string(Path::new(GOLDEN)).unwrap()).unwrap();
    let model = golden["models"].as_array().unwrap().iter().find(|m| m["name"] == name).unwrap().clone();
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (seed, tensor) in (1..).zip(model["tensors"].as_array().unwrap()) {
        let name = tensor[0].as_str().unwrap();
        let shape: Vec<u64> = tensor[1].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let (base, scale) = match shape[..] {
            [_] if name.to_lowercase().ends_with("norm.weight") => (1.0, 0.4),
            [_] => (0.0, 0.4),
            _ if name.contains("embeddings") => (0.0, 2.0),
            _ => (0.0, 4.0 / (shape[1] as f64).sqrt()),
        };
        let start = data.len();
        for i in 0..shape.iter().product() {
            data.extend(noise(i, seed, base, scale).to_le_bytes());
        }
        header.insert(
            name.to_owned(),
            json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] }),
        );
    }
    let header = Value::Object(header).to_string();
    let weights = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    let vocabulary: serde_json::Map<String, Value> = (0..96).map(|i| (format!("w{i}"), i.into())).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": { "max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right" },
        "padding": null, "added_tokens": [],
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" }, "post_processor": null,
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": { "type": "WordPiece", "unk_token": "w0", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary }
    });
    files.add("model.safetensors", &weights);
    files.add("config.json", model["config"].to_string().as_bytes());
    files.add("tokenizer.json", tokenizer.to_string().as_bytes());
    let mut wanted = model;
    wanted["ids"] = golden["texts"].clone();
    (files.folder().to_str().unwrap().to_owned(), wanted)
}

/// One of the texts.
fn text(wanted: &Value, i: usize) -> String {
    let words = wanted["ids"][i].as_array().unwrap().iter().map(|id| format!("w{id}"));
    words.collect::<Vec<_>>().join(" ")
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn embed_makes_a_vector_of_each_row_in_order() {
    let files = Files::new();
    let (folder, wanted) = model(&files, "bert");
    let texts = [text(&wanted, 0), text(&wanted, 1)];
    let row = |text: &String| json!({ "id": 7, "text": text }).to_string();
    let rows = files.add("rows.jsonl", format!("{}\n\n\"{}\"\r\n", row(&texts[0]), texts[1]).as_bytes());
    let run = |args: &[&str]| {
        let out = leyden(&[&["embed", &folder, "--json", "--pooling", "cls"], args].concat()).ok();
        let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|object| numbers(&object["embedding"])).collect::<Vec<_>>()
    };
    let both = run(&["--file", &rows]);
    assert_eq!(both.len(), 2);
    for (i, vector) in both.iter().enumerate() {
        let wanted = numbers(&wanted["texts"][i]["states"]["0"]);
        assert!(cosine(vector, &wanted) > 1.0 - 1e-8);
        assert!((vector.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-6);
        assert_eq!(run(&[&texts[i]])[0], *vector);
        assert_eq!(run(&[&texts[i], "--dimensions", "3"])[0].len(), 3);
    }
    // Lines of standard input, and numbers instead of objects.
    let lines = leyden_with_input(&["embed", &folder, "--no-normalize"], texts.join("\n").as_bytes()).ok();
    let lines: Vec<Vec<f64>> =
        lines.lines().map(|line| line.split(' ').map(|x| x.parse().unwrap()).collect()).collect();
    assert!(lines.len() == 2 && lines.iter().all(|vector| vector.len() == 32));
}

#[test]
fn classify_gives_the_labels_of_transformers() {
    let files = Files::new();
    let (folder, wanted) = model(&files, "bert, labels");
    let names = ["lost card", "card arrival", "top up"];
    for i in 0..2 {
        let scores = numbers(&wanted["texts"][i]["scores"]);
        let best = (0..3).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
        let answer = leyden(&["classify", &folder, &text(&wanted, i), "--json", "--top", "9"]).json();
        assert_eq!(answer["label"], names[best]);
        assert!((answer["score"].as_f64().unwrap() - scores[best]).abs() < 1e-4, "{answer} {scores:?}");
        assert_eq!(answer["labels"].as_array().unwrap().len(), 3);
        let line = leyden(&["classify", &folder, &text(&wanted, i)]).ok();
        assert_eq!(line.split('\t').next(), Some(names[best]));
    }
}

#[test]
fn what_cannot_be_embedded_or_generated_is_told() {
    let files = Files::new();
    let (folder, wanted) = model(&files, "bert");
    let long = vec!["w5"; 129].join(" ");
    let rows =
        files.add("rows.jsonl", format!("{{\"text\": \"w1\"}}\n{{\"text\": \"{long}\"}}\n").as_bytes());
    let error = leyden(&["embed", &folder, "--file", &rows]).failed(1);
    assert!(error.contains("rows.jsonl: line 2: 129 tokens, but the model takes 128\nhint: "), "{error}");
    assert_eq!(leyden(&["embed", &folder, "--truncate", "--file", &rows]).ok().lines().count(), 2);
    for (line, wrong) in [
        ("{\"txt\": \"w1\"}", "field `text`: missing"),
        ("{\"text\": 1}", "field `text`: not a text"),
        ("[1]", "neither an object"),
        ("{", "not JSON"),
    ] {
        let rows = files.add("wrong.jsonl", line.as_bytes());
        let error = leyden(&["embed", &folder, "--file", &rows]).failed(1);
        assert!(error.contains(&format!("wrong.jsonl: line 1: {wrong}")), "{error}");
    }
    let error = leyden(&["classify", &folder, "w1"]).failed(1);
    assert!(error.contains("the model does not classify"), "{error}");
    let error = leyden(&["run", &folder, "w1"]).failed(1);
    assert!(error.contains("an encoder") && error.contains("leyden embed"), "{error}");
    let error = leyden(&["embed", &folder, "w1", "--dimensions", "33"]).failed(2);
    assert!(error.contains("dimensions: 33 is not between 1 and 32"), "{error}");

    let server = Server::start(&[&folder]);
    let ask = |path: &str, body: Value| {
        let answer = server.exchange(post(path, &body.to_string()));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str::<Value>(body).unwrap())
    };
    // Texts as long as the model takes, more than go into a step, as `leyden embed` computes them.
    let whole = vec!["w5"; 128].join(" ");
    let mut texts = vec![text(&wanted, 0), text(&wanted, 1)];
    texts.extend((0..5).map(|_| whole.clone()));
    let (status, answer) = ask("/v1/embeddings", json!({ "input": texts }));
    assert_eq!(status, 200, "{answer}");
    for (i, text) in texts.iter().enumerate().take(3) {
        let alone = leyden(&["embed", &folder, text, "--json"]).json();
        assert!(
            cosine(&numbers(&answer["data"][i]["embedding"]), &numbers(&alone["embedding"])) > 1.0 - 1e-12
        );
    }
    assert_eq!(answer["data"][2]["embedding"], answer["data"][6]["embedding"]);
    let (status, answer) = ask("/v1/embeddings", json!({ "input": long }));
    assert_eq!((status, &answer["error"]["code"]), (400, &"context_length_exceeded".into()), "{answer}");
    let chat = json!({ "messages": [{ "role": "user", "content": "w1" }] });
    for (path, body) in [("/v1/chat/completions", chat), ("/v1/completions", json!({ "prompt": "w1" }))] {
        let (status, answer) = ask(path, body);
        assert_eq!((status, &answer["error"]["param"]), (400, &"model".into()), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("/v1/embeddings"), "{answer}");
    }
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
}
