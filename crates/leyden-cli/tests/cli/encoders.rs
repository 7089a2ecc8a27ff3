//! Encoders as a user meets them: `leyden embed`, `leyden classify`, and the server's vectors. The model is one of those that
//! the engine's tests compare with transformers; its tokens are the words w0 to w95.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::program::{Files, leyden, leyden_with_input, storyteller_with_template};
use super::serve::{Server, post};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../leyden-engine/tests/golden/encoders.json");

/// A value of the formula that the weights follow from (`leyden-engine/tests/golden/make/encoders.py`).
fn noise(i: u64, seed: u64, base: f32, scale: f64) -> f32 {
    let x = (i * 747_796_405 + seed * 2_891_336_453) % (1 << 32);
    let x = ((x ^ (x >> 15)) * 2_246_822_519) % (1 << 32);
    let x = x ^ (x >> 13);
    (((x >> 8) as f64 / f64::from(1 << 24) - 0.5) * scale) as f32 + base
}

/// Returns true for the weights of a norm.
fn is_norm(name: &str) -> bool {
    let ends = ["norm.weight", "norm1.weight", "norm2.weight", "_ln.weight"];
    ends.iter().any(|end| name.to_lowercase().ends_with(end))
}

/// The weights of one of those models, as safetensors.
pub(super) fn weights(model: &Value) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (seed, tensor) in (1..).zip(model["tensors"].as_array().unwrap()) {
        let name = tensor[0].as_str().unwrap();
        let shape: Vec<u64> = tensor[1].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let (base, scale) = match shape[..] {
            [_] if is_norm(name) => (1.0, 0.4),
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
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// A folder with one of those models, and what transformers computes of it.
pub(super) fn model(files: &Files, name: &str) -> (String, Value) {
    let golden: Value = serde_json::from_str(&fs::read_to_string(Path::new(GOLDEN)).unwrap()).unwrap();
    let model = golden["models"].as_array().unwrap().iter().find(|m| m["name"] == name).unwrap().clone();
    let weights = weights(&model);
    let vocabulary: serde_json::Map<String, Value> = (0..96).map(|i| (format!("w{i}"), i.into())).collect();
    // A pair in the tokens of the second text of the goldens.
    let special = |id: u64| json!({ "SpecialToken": { "id": format!("w{id}"), "type_id": 0 } });
    let sequence = |id: &str, kind: u8| json!({ "Sequence": { "id": id, "type_id": kind } });
    let name_of = |id: u64| format!("w{id}");
    let entry = |id: u64| json!({ "id": name_of(id), "ids": [id], "tokens": [name_of(id)] });
    let named: serde_json::Map<_, _> = [2, 35, 90].map(|id| (name_of(id), entry(id))).into_iter().collect();
    let pairs = json!({
        "type": "TemplateProcessing",
        "single": [special(2), sequence("A", 0), special(90)],
        "pair": [special(2), sequence("A", 0), special(35), sequence("B", 1), special(90)],
        "special_tokens": named
    });
    let tokenizer = json!({
        "version": "1.0", "truncation": { "max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right" },
        "padding": null, "added_tokens": [],
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": if name == "bert, rank" { pairs } else { Value::Null },
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": { "type": "WordPiece", "unk_token": "w0", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary }
    });
    let tokenizer = model["entities"].get("tokenizer").cloned().unwrap_or(tokenizer);
    files.add("model.safetensors", &weights);
    files.add("config.json", model["config"].to_string().as_bytes());
    files.add("tokenizer.json", tokenizer.to_string().as_bytes());
    let mut wanted = model;
    wanted["ids"] = golden["texts"].clone();
    (files.folder().to_str().unwrap().to_owned(), wanted)
}

/// One of the texts.
pub(super) fn text(wanted: &Value, i: usize) -> String {
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

/// The end of a long text is left out, or its beginning where the tokenizer's files say so, as transformers has it.
#[test]
fn long_texts_lose_the_side_that_the_tokenizer_names() {
    let long = vec!["w5"; 127].join(" ");
    let text = format!("w6 w7 {long} w8 w9");
    let (first, last) =
        (format!("w6 w7 {}", vec!["w5"; 126].join(" ")), format!("{} w8 w9", vec!["w5"; 126].join(" ")));
    let vector = |folder: &str, text: &str| {
        numbers(&leyden(&["embed", folder, text, "--truncate", "--json"]).json()["embedding"])
    };
    for (of_config, of_tokenizer, wanted) in [
        (None, "Right", &first),
        (Some("right"), "Left", &first),
        (None, "Left", &last),
        (Some("left"), "Right", &last),
    ] {
        let files = Files::new();
        let (folder, _) = model(&files, "bert");
        let path = files.folder().join("tokenizer.json");
        let tokenizer = fs::read_to_string(&path).unwrap();
        fs::write(&path, tokenizer.replace("\"Right\"", &format!("\"{of_tokenizer}\""))).unwrap();
        if let Some(side) = of_config {
            files.add("tokenizer_config.json", json!({ "truncation_side": side }).to_string().as_bytes());
        }
        assert_eq!(vector(&folder, &text), vector(&folder, wanted), "{of_config:?} {of_tokenizer}");
        let server = Server::start(&[&folder]);
        let (_, cut) = ask(&server, "/embed", json!({ "inputs": text, "truncate": true }));
        assert_eq!(
            cut,
            ask(&server, "/embed", json!({ "inputs": wanted })).1,
            "{of_config:?} {of_tokenizer}"
        );
        // A request that names a side gets it.
        let right = json!({ "inputs": text, "truncate": true, "truncation_direction": "Right" });
        assert_eq!(ask(&server, "/embed", right).1, ask(&server, "/embed", json!({ "inputs": first })).1);
    }
    // The second text of a pair loses it.
    let files = Files::new();
    let (folder, _) = model(&files, "bert, rank");
    files.add("tokenizer_config.json", json!({ "truncation_side": "left" }).to_string().as_bytes());
    let server = Server::start(&[&folder]);
    let score = |document: &str, truncate: bool| {
        let body = json!({ "query": QUERY, "texts": [document], "truncate": truncate, "raw_scores": true });
        ask(&server, "/rerank", body).1[0]["score"].clone()
    };
    let tail = vec!["w5"; 123].join(" ");
    assert_eq!(score(&format!("w6 w7 w8 w9 {tail}"), true), score(&tail, false));
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
        // In integers it is nearly the same.
        let int8 = leyden(&["classify", &folder, &text(&wanted, i), "--json", "--top", "9", "--int8"]).json();
        let label = int8["labels"].as_array().unwrap().iter().find(|l| l["label"] == names[best]).unwrap();
        let score = label["score"].as_f64().unwrap();
        assert!((score - scores[best]).abs() < 0.05 && score != answer["score"], "{int8} {scores:?}");
        let line = leyden(&["classify", &folder, &text(&wanted, i)]).ok();
        assert_eq!(line.split('\t').next(), Some(names[best]));
    }
}

/// The question and the document whose tokens are those of a golden.
const QUERY: &str = "w13 w24";
const DOCUMENT: &str = "w46 w57 w68 w79";

#[expect(clippy::needless_pass_by_value, reason = "bodies are made where they are asked with")]
pub(super) fn ask(server: &Server, path: &str, body: Value) -> (u16, Value) {
    let answer = server.exchange(post(path, &body.to_string()));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str::<Value>(body).unwrap())
}

#[test]
fn documents_are_ranked_by_every_interface_alike() {
    let files = Files::new();
    let (folder, wanted) = model(&files, "bert, rank");
    let score = wanted["pair_score"].as_f64().unwrap();
    let near = |value: &Value| (value.as_f64().unwrap() - score).abs() < 1e-5;
    // The last is longer than the model, and has the document in its first part.
    let long = format!("{DOCUMENT} {}", ["w5 "; 200].concat());
    let documents = [DOCUMENT, "w1 w2 w3", &long];
    let rows: Vec<String> = documents.iter().map(|text| json!({ "text": text }).to_string()).collect();
    let rows = files.add("docs.jsonl", rows.join("\n").as_bytes());
    let out = leyden(&["rerank", &folder, QUERY, "--file", &rows, "--json"]).ok();
    let ranked: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |index: u64| ranked.iter().find(|row| row["index"] == index).unwrap();
    assert!(ranked.len() == 3 && near(&of(0)["score"]) && of(0)["text"] == DOCUMENT, "{ranked:?}");
    assert!(ranked.windows(2).all(|pair| pair[0]["score"].as_f64() >= pair[1]["score"].as_f64()));
    let first = leyden(&["rerank", &folder, QUERY, "--file", &rows, "--top", "1"]).ok();
    assert_eq!(first.split('\t').nth(1), ranked[0]["index"].as_u64().map(|i| i.to_string()).as_deref());

    let server = Server::start(&[&folder]);
    let request = json!({ "query": QUERY, "documents": documents, "top_n": 2, "return_documents": true });
    for path in ["/rerank", "/v1/rerank", "/v2/rerank"] {
        let (status, answer) = ask(&server, path, request.clone());
        assert_eq!(status, 200, "{answer}");
        for (result, row) in answer["results"].as_array().unwrap().iter().zip(&ranked) {
            assert_eq!((&result["index"], &result["document"]["text"]), (&row["index"], &row["text"]));
            let (a, b) = (result["relevance_score"].as_f64().unwrap(), row["score"].as_f64().unwrap());
            assert!((a - b).abs() < 1e-6, "{answer} {row}");
        }
        assert_eq!(answer["results"].as_array().unwrap().len(), 2);
    }
    // Objects, and a document that is cut.
    let body = json!({ "query": QUERY, "documents": [{ "text": format!("{DOCUMENT} w5 w6") }], "max_tokens_per_doc": 4 });
    assert!(near(&ask(&server, "/v1/rerank", body).1["results"][0]["relevance_score"]));
    // text-embeddings-inference.
    let texts = json!({ "query": QUERY, "texts": [DOCUMENT], "return_text": true });
    let (_, answer) = ask(&server, "/rerank", texts.clone());
    assert!(near(&answer[0]["score"]) && answer[0]["text"] == DOCUMENT, "{answer}");
    let mut raw = texts;
    raw["raw_scores"] = true.into();
    let logit = ask(&server, "/rerank", raw).1[0]["score"].as_f64().unwrap();
    assert!((1.0 / (1.0 + (-logit).exp()) - score).abs() < 1e-5);
    let too_long = json!({ "query": QUERY, "texts": [long] });
    assert_eq!(ask(&server, "/rerank", too_long.clone()).0, 400);
    let mut cut = too_long;
    cut["truncate"] = true.into();
    assert_eq!(ask(&server, "/rerank", cut).0, 200);
    // vLLM.
    let (_, answer) = ask(&server, "/score", json!({ "text_1": QUERY, "text_2": [DOCUMENT, "w1"] }));
    assert!(near(&answer["data"][0]["score"]) && answer["data"][1]["index"] == 1, "{answer}");
    let (_, answer) = ask(&server, "/predict", json!({ "inputs": [[QUERY, DOCUMENT]] }));
    assert!(near(&answer[0][0]["score"]) && answer[0][0]["label"] == "LABEL_0", "{answer}");
    let (_, answer) = ask(&server, "/predict", json!({ "inputs": [QUERY, DOCUMENT] }));
    assert!(near(&answer[0]["score"]), "{answer}");
    let (_, info) = {
        let answer = server.exchange("GET /info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        (0, serde_json::from_str::<Value>(answer.split_once("\r\n\r\n").unwrap().1).unwrap())
    };
    assert_eq!(info["model_type"]["reranker"]["id2label"]["0"], "LABEL_0");
    let endless = ["w5"; 300].join(" ");
    for (path, body, param) in [
        ("/rerank", json!({ "query": QUERY }), "documents"),
        ("/rerank", json!({ "query": QUERY, "documents": ["a"], "texts": ["a"] }), "texts"),
        ("/rerank", json!({ "query": endless, "documents": ["w1"] }), "query"),
        ("/rerank", json!({ "query": endless, "texts": ["w1"] }), "query"),
        ("/rerank", json!({ "query": endless, "texts": ["w1"], "truncate": true }), "query"),
        ("/rerank", json!({ "query": "w5 ".repeat(120), "documents": [endless] }), "query"),
        ("/rerank", json!({ "query": "w1", "texts": ["w1", endless] }), "texts[1]"),
        ("/score", json!({ "text_1": endless, "text_2": ["w1"] }), "text_1"),
        (
            "/score",
            json!({ "queries": ["w1", endless], "documents": ["w1", "w2"], "truncate": true }),
            "queries[1]",
        ),
        ("/score", json!({ "text_1": "w1", "text_2": ["w1", endless] }), "text_2[1]"),
        ("/v1/rerank", json!({ "query": "a", "documents": ["b"], "top_n": -1 }), "top_n"),
        ("/rerank", json!({ "query": ["a"], "texts": ["b"] }), "query"),
        ("/rerank", json!({ "query": "a", "texts": [] }), "texts"),
        ("/rerank", json!({ "query": "a", "texts": ["b", 3] }), "texts[1]"),
        ("/v1/rerank", json!({ "query": "a", "documents": [null] }), "documents[0]"),
        ("/v1/rerank", json!({ "query": "a", "documents": [{ "txt": "b" }] }), "documents[0].text"),
        ("/score", json!({ "text_1": ["a", "b"], "text_2": ["c", "d", "e"] }), "text_2"),
        ("/score", json!({ "text_1": "a", "text_2": [3] }), "text_2[0]"),
        ("/score", json!({ "text_1": null, "text_2": ["b"] }), "text_1"),
    ] {
        let (status, answer) = ask(&server, path, body);
        assert_eq!((status, &answer["error"]["param"]), (400, &param.into()), "{answer}");
    }
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn labels_and_states_come_in_the_words_of_other_servers() {
    let (files, plain) = (Files::new(), Files::new());
    let (folder, wanted) = model(&files, "bert, labels");
    let (states, _) = model(&plain, "bert");
    let server = Server::start(&[&folder, &states]);
    let (name, other) = (&name_of(&folder), &name_of(&states));
    let text = text(&wanted, 1);
    let scores = numbers(&wanted["texts"][1]["scores"]);
    let near = |found: &[f64], want: &[f64]| found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-4);
    let (_, answer) = ask(&server, "/classify", json!({ "model": name, "input": [text] }));
    assert!(near(&numbers(&answer["data"][0]["probs"]), &scores), "{answer}");
    let best = (0..3).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
    assert_eq!(answer["data"][0]["label"], ["lost card", "card arrival", "top up"][best]);
    let (_, answer) = ask(&server, "/predict", json!({ "model": name, "inputs": text }));
    assert_eq!(answer[0]["label"], ["lost card", "card arrival", "top up"][best]);
    assert!((answer[0]["score"].as_f64().unwrap() - scores[best]).abs() < 1e-4);
    let (_, answer) = ask(&server, "/pooling", json!({ "model": name, "input": text }));
    assert!(near(&numbers(&answer["data"][0]["data"]), &scores), "{answer}");
    let (status, answer) =
        ask(&server, "/rerank", json!({ "model": other, "query": "a", "documents": ["b"] }));
    assert_eq!((status, &answer["error"]["code"]), (400, &"unsupported_model".into()), "{answer}");

    let (_, all) = ask(&server, "/embed_all", json!({ "model": other, "inputs": text, "truncate": true }));
    let (_, pooled) = ask(&server, "/pooling", json!({ "model": other, "input": text }));
    assert_eq!((all[0].as_array().unwrap().len(), &all[0]), (9, &pooled["data"][0]["data"]));
    let mean = |rows: &Value| {
        let rows: Vec<Vec<f64>> = rows.as_array().unwrap().iter().map(numbers).collect();
        (0..32).map(|i| rows.iter().map(|row| row[i]).sum::<f64>() / rows.len() as f64).collect::<Vec<_>>()
    };
    let (_, embedded) =
        ask(&server, "/embed", json!({ "model": other, "inputs": [text, "w1"], "normalize": false }));
    assert!(cosine(&numbers(&embedded[0]), &mean(&all[0])) > 1.0 - 1e-9);
    let similar = json!({ "source_sentence": text, "sentences": ["w1", text] });
    let (_, answer) = ask(&server, "/similarity", json!({ "model": other, "inputs": similar }));
    let want = cosine(&numbers(&embedded[0]), &numbers(&embedded[1]));
    assert!(near(&numbers(&answer), &[want, 1.0]), "{answer}");
    let (_, answer) = ask(&server, "/score", json!({ "model": other, "text_1": text, "text_2": "w1" }));
    assert!((answer["data"][0]["score"].as_f64().unwrap() - want).abs() < 1e-6, "{answer}");
    // Cut at either end, where that is asked for.
    let long = vec!["w5"; 127].join(" ");
    let (ends, begins) = (format!("{long} w6 w7"), format!("w6 w7 {long}"));
    let (_, kept) = ask(
        &server,
        "/embed",
        json!({ "model": other, "inputs": [format!("{long} w6"), format!("w7 {long}")] }),
    );
    for (text, side, want) in [(&ends, "Right", 0), (&begins, "left", 1)] {
        let body = json!({ "model": other, "inputs": text, "truncate": true, "truncation_direction": side });
        assert_eq!(ask(&server, "/embed", body).1[0], kept[want], "{side}");
    }
    let (status, answer) = ask(&server, "/embed", json!({ "model": other, "inputs": ends }));
    assert_eq!((status, &answer["error_type"]), (400, &"Tokenizer".into()), "{answer}");
    let endless = "w5 ".repeat(300_000);
    for (path, body, wanted) in [
        ("/predict", json!({ "inputs": [] }), "`inputs` has 0 items"),
        ("/predict", json!({ "inputs": [["a", "b", "c"]] }), "`inputs[0]` has 3 items, not 1 to 2"),
        (
            "/predict",
            json!({ "inputs": [["a"], ["b", "c"]] }),
            "`inputs`: texts and pairs of texts exclude each other",
        ),
        ("/predict", json!({ "inputs": [[endless, "w1"]] }), "your inputs[0][0] resulted in 300"),
        ("/predict", json!({ "inputs": [["w1", endless]] }), "your inputs[0][1] resulted in 300"),
        ("/predict", json!({ "inputs": [["w1"], [endless]] }), "your inputs[1][0] resulted in "),
        ("/predict", json!({ "inputs": [3] }), "`inputs[0]` must be a text or a list, not an integer"),
        ("/predict", json!({ "inputs": endless }), "maximum context length is 128 tokens"),
        ("/similarity", json!({ "inputs": "a" }), "`inputs` must be an object, not a text"),
        (
            "/similarity",
            json!({ "inputs": { "source_sentence": "a", "sentences": [] } }),
            "`inputs.sentences` has 0 items",
        ),
        (
            "/similarity",
            json!({ "inputs": { "source_sentence": "w1", "sentences": ["w1", endless] } }),
            "your inputs.sentences[1] resulted in ",
        ),
        (
            "/similarity",
            json!({ "inputs": { "source_sentence": endless, "sentences": ["w1"] } }),
            "your inputs.source_sentence resulted in ",
        ),
        ("/score", json!({ "text_1": endless, "text_2": "w1" }), "your text_1 resulted in "),
        (
            "/score",
            json!({ "text_1": ["a", "b"], "documents": ["c"] }),
            "`text_1` has 2 texts and `documents` 1",
        ),
        ("/pooling", json!({ "input": "a", "task": "token_classify" }), "`task` `token_classify`"),
        ("/embed", json!({ "inputs": "a", "dimensions": 0 }), "`dimensions` is below 1"),
        ("/embed_sparse", json!({ "inputs": "a" }), "does not make sparse vectors"),
        ("/embed", json!({ "inputs": [[1], ["a"]] }), "`inputs[1][0]` must be an integer, not a text"),
        ("/embed", json!({ "inputs": [96] }), "`inputs[0]` is not between 0 and 95"),
        (
            "/embed",
            json!({ "inputs": "a", "prompt_name": "query" }),
            "`prompt_name`: the model does not have this prompt; it has: none",
        ),
        ("/classify", json!({ "input": [null] }), "`input[0]` must be "),
        ("/classify", json!({ "input": [[]] }), "`input[0]` has 0 items"),
        ("/pooling", json!({ "input": "a", "task": "words" }), "`task` is not one of embed"),
        ("/pooling", json!({ "input": endless, "task": "embed" }), "maximum context length is 128 tokens"),
    ] {
        let mut body = body;
        let model = if ["/predict", "/classify"].contains(&path) { name } else { other };
        body["model"] = model.as_str().into();
        let (status, answer) = ask(&server, path, body);
        let message = answer["error"].as_str().or(answer["error"]["message"].as_str()).unwrap();
        assert!(status == 400 && message.contains(wanted), "{path}: {status} {message}");
    }
    // An empty text is what the tokenizer puts around every text; this one puts nothing.
    for (path, key, model) in
        [("/predict", "inputs", name), ("/embed", "inputs", other), ("/classify", "input", name)]
    {
        let (status, answer) = ask(&server, path, json!({ "model": model, key: "" }));
        assert_eq!(status, 400, "{path}: {answer}");
    }
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
}

/// Sparse vectors and those of tokens by heads in the files that PyTorch writes, with weights of its own too.
#[test]
fn heads_of_tokens_are_served_and_printed() {
    let files = Files::new();
    let (folder, wanted) = model(&files, "xlm-roberta");
    let heads = Path::new(GOLDEN).parent().unwrap().join("../fixtures/m3");
    for name in ["sparse_linear.pt", "colbert_linear.pt"] {
        files.add(name, &fs::read(heads.join(name)).unwrap());
    }
    let text = text(&wanted, 0);
    let sparse = leyden(&["embed", &folder, &text, "--sparse", "--json"]).json();
    for row in wanted["m3"]["sparse"].as_array().unwrap() {
        let all = sparse["sparse"].as_array().unwrap();
        let found = all.iter().find(|number| number["index"] == row[0]).unwrap();
        assert!((found["value"].as_f64().unwrap() - row[1].as_f64().unwrap()).abs() < 1e-4, "{row} {found}");
    }
    let tokens = leyden(&["embed", &folder, &text, "--tokens", "--json"]).json()["token_embeddings"].clone();
    let vectors: Vec<Vec<f64>> = tokens.as_array().unwrap().iter().map(numbers).collect();
    assert_eq!((vectors.len(), vectors[0].len()), (99, 24));
    for (vector, want) in [&vectors[0], &vectors[98]].into_iter().zip([0, 1]) {
        assert!(cosine(vector, &numbers(&wanted["m3"]["vectors"][want])) > 1.0 - 1e-8);
    }
    let lines = leyden(&["embed", &folder, &text, "--tokens"]).ok();
    assert_eq!(lines.lines().count(), 100);
    let server = Server::start(&[&folder]);
    let (status, answer) = ask(&server, "/embed_sparse", json!({ "inputs": text }));
    assert_eq!((status, &answer[0]), (200, &sparse["sparse"]), "{answer}");
    let same = |found: &Value| {
        let found: Vec<Vec<f64>> = found.as_array().unwrap().iter().map(numbers).collect();
        found.iter().zip(&vectors).all(|(a, b)| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-7))
            && found.len() == vectors.len()
    };
    assert!(same(&ask(&server, "/embed_all", json!({ "inputs": [text] })).1[0]));
    let pooling = json!({ "input": text, "task": "token_embed" });
    assert!(same(&ask(&server, "/pooling", pooling).1["data"][0]["data"]));
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn requests_without_a_model_find_the_one_that_can() {
    let (plain, ranks, text) = (Files::new(), Files::new(), Files::new());
    let ((embedder, _), (reranker, _)) = (model(&plain, "bert"), model(&ranks, "bert, rank"));
    let writer = text.add("writer.gguf", &storyteller_with_template("{{ messages[0].content }}"));
    let server = Server::start(&[&embedder, &reranker, &writer, "--log-format", "json"]);
    let messages = json!([{ "role": "user", "content": "Once" }]);
    for (path, body, wanted) in [
        ("/embed", json!({ "inputs": "w1" }), &embedder),
        ("/v1/embeddings", json!({ "input": "w1" }), &embedder),
        ("/embedding", json!({ "content": "w1" }), &embedder),
        ("/v2/embed", json!({ "texts": ["w1"] }), &embedder),
        ("/similarity", json!({ "inputs": { "source_sentence": "w1", "sentences": ["w2"] } }), &embedder),
        ("/rerank", json!({ "query": "w1", "texts": ["w2"] }), &reranker),
        ("/v1/rerank", json!({ "query": "w1", "documents": ["w2"] }), &reranker),
        ("/score", json!({ "text_1": "w1", "text_2": "w2" }), &reranker),
        ("/predict", json!({ "inputs": "w1" }), &reranker),
        ("/v1/chat/completions", json!({ "messages": messages, "max_tokens": 2 }), &"writer".to_owned()),
        ("/completion", json!({ "prompt": "Once", "n_predict": 2 }), &"writer".to_owned()),
        ("/v1/messages", json!({ "messages": messages, "max_tokens": 2 }), &"writer".to_owned()),
        ("/v1/responses", json!({ "input": "Once", "max_output_tokens": 2 }), &"writer".to_owned()),
    ] {
        let (status, answer) = ask(&server, path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        if let Some(name) = answer["model"].as_str() {
            assert_eq!(name, name_of(wanted), "{path}");
        }
    }
    let (status, answer) = ask(&server, "/tokenize", json!({ "prompt": "w1" }));
    assert!(status == 400 && answer["error"]["message"].as_str().unwrap().contains("writer"), "{answer}");
    assert_eq!(server.end().0, Some(0));
}

/// Returns the name of a model.
fn name_of(folder: &str) -> String {
    Path::new(folder).file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn the_official_clients_for_vectors_and_ranks_are_content() {
    let package = "cohere, langchain_openai, llama_index.postprocessor.tei_rerank";
    let found = Command::new("python3").args(["-c", &format!("import {package}")]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("LEYDEN_CI").is_none(), "python3 with the packages {package}");
        let _ = writeln!(std::io::stderr(), "skipped: no python3 with the packages {package}");
        return;
    }
    let (ranks, plain) = (Files::new(), Files::new());
    let (reranker, wanted) = model(&ranks, "bert, rank");
    let (embedder, _) = model(&plain, "bert");
    let server = Server::start(&[&reranker, &embedder]);
    let alone = Server::start(&[&reranker]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/encoder_client.py");
    let mut python = Command::new("python3");
    python.env("LANGSMITH_TRACING", "false").env("LANGCHAIN_TRACING_V2", "false");
    python
        .arg(script)
        .args([&server, &alone].map(|server| format!("http://{}", server.address)))
        .args([name_of(&reranker), name_of(&embedder)]);
    let output = python.args([QUERY, DOCUMENT, &wanted["pair_score"].to_string()]).output().unwrap();
    assert_eq!(alone.end().0, Some(0));
    let (code, log) = server.end();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.ends_with("ok\n"), "{out}\n{err}\n{log}");
    assert_eq!(code, Some(0));
}

/// Texts of all lengths in company get what they get alone, whoever asks at the same time.
#[test]
fn two_hundred_clients_get_what_each_gets_alone() {
    let (plain, ranks) = (Files::new(), Files::new());
    let (embedder, _) = model(&plain, "bert");
    let (reranker, _) = model(&ranks, "bert, rank");
    let server = Server::start(&[&embedder, &reranker]);
    let (embedder, reranker) = (name_of(&embedder), name_of(&reranker));
    let text = |i: usize| {
        (0..1 + i * 37 % 120).map(|k| format!("w{}", (i * 7 + k * 11) % 90)).collect::<Vec<_>>().join(" ")
    };
    let request = |i: usize| match i % 3 {
        0 => ("/rerank", json!({ "model": reranker, "query": QUERY, "documents": [text(i), text(i + 1)] })),
        1 => ("/embed", json!({ "model": embedder, "inputs": [text(i)] })),
        _ => ("/v1/embeddings", json!({ "model": embedder, "input": [text(i), text(i + 5)] })),
    };
    // What does not depend on the request itself.
    let result = |answer: Value| match answer.get("results").or(answer.get("data")) {
        Some(part) => part.clone(),
        None => answer,
    };
    let asked = &|i: usize| {
        let (path, body) = request(i);
        let (status, answer) = ask(&server, path, body);
        assert_eq!(status, 200, "{answer}");
        result(answer)
    };
    let alone: Vec<Value> = (0..20).map(asked).collect();
    let together: Vec<Value> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..200).map(|i| scope.spawn(move || asked(i % 20))).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (i, answer) in together.iter().enumerate() {
        assert!(*answer == alone[i % 20], "{i}");
    }
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn entities_are_those_of_transformers() {
    let files = Files::new();
    let (folder, wanted) = model(&files, "bert, tokens");
    let text = wanted["entities"]["text"].as_str().unwrap();
    for (strategy, wanted) in wanted["entities"]["found"].as_object().unwrap() {
        let out = leyden(&["extract", &folder, text, "--json", "--aggregation", strategy]).json();
        let (found, wanted) = (out["entities"].as_array().unwrap(), wanted.as_array().unwrap());
        let key = if strategy == "none" { "entity" } else { "entity_group" };
        assert_eq!(found.len(), wanted.len(), "{strategy}: {out}");
        for (entity, want) in found.iter().zip(wanted) {
            assert_eq!(
                (&entity[key], &entity["start"], &entity["end"]),
                (&want["label"], &want["start"], &want["end"]),
                "{strategy}: {out}"
            );
            let (score, want) = (entity["score"].as_f64().unwrap(), want["score"].as_f64().unwrap());
            assert!((score - want).abs() < 1e-4, "{strategy}: {entity}");
        }
    }
    let refused = leyden(&["extract", &folder, text, "--labels", "person"]).failed(2);
    assert!(refused.contains("the model does not take labels: those of GLiNER do"), "{refused}");
    // A text of many windows has its entities to the end, with places in the whole.
    let long = format!("{text} {}", ["w35 ☃ w9 "; 150].concat()).replace('\n', " ");
    let rows = files.add("rows.txt", long.as_bytes());
    let out = leyden(&["extract", &folder, "--file", &rows, "--aggregation", "none"]).ok();
    assert!(out.ends_with("\n\n"));
    let characters: Vec<char> = long.chars().collect();
    let mut last = 0;
    for line in out.trim_end().lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [start, end] = [2, 3].map(|i| columns[i].parse::<usize>().unwrap());
        assert_eq!(characters[start..end].iter().collect::<String>(), columns[4], "{line}");
        assert!(start >= last);
        last = end;
    }
    assert!(last > long.chars().count() * 9 / 10, "{last}");
}

/// Texts go to the label whose description is nearest, with the cosine that the vectors of `leyden embed` have.
#[test]
fn texts_are_routed_by_descriptions_of_labels() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert");
    let labels = files.add("labels.txt", b"near\tw5 w6 w7\n\nfar\tw80 w81 w82\nnear\tw9\n");
    let vector = |text: &str| numbers(&leyden(&["embed", &folder, text, "--json"]).json()["embedding"]);
    let text = "w5 w6 w9";
    let of = |description: &str| cosine(&vector(text), &vector(description));
    let near = of("w5 w6 w7").max(of("w9"));
    let args = ["classify", &folder, text, "--labels-file", &labels, "--top", "2", "--json"];
    let answer = leyden(&args).json();
    let score = |label: &str| {
        let all = answer["labels"].as_array().unwrap();
        all.iter().find(|entry| entry["label"] == label).unwrap()["score"].as_f64().unwrap()
    };
    assert!(
        (score("near") - near).abs() < 1e-5 && (score("far") - of("w80 w81 w82")).abs() < 1e-5,
        "{answer}"
    );
    assert_eq!(answer["label"], if near >= score("far") { "near" } else { "far" });
    let empty = files.add("empty.txt", b"\n");
    assert!(
        leyden(&["classify", &folder, text, "--labels-file", &empty])
            .failed(1)
            .contains("empty.txt: no labels")
    );
    // The option means the same as of `leyden extract`: labels themselves.
    let answer = leyden(&["classify", &folder, text, "--labels", "w5 w6 w7,w80 w81 w82", "--json"]).json();
    assert!(["w5 w6 w7", "w80 w81 w82"].map(|label| answer["label"] == label).contains(&true), "{answer}");
    let told = leyden(&["classify", &folder, text, "--labels", &labels]).failed(2);
    assert!(told.contains("use --labels-file"), "{told}");
}

#[test]
fn what_cannot_be_embedded_or_generated_is_told() {
    let files = Files::new();
    let (folder, wanted) = model(&files, "bert");
    let long = vec!["w5"; 129].join(" ");
    let rows =
        files.add("rows.jsonl", format!("{{\"text\": \"w1\"}}\n{{\"text\": \"{long}\"}}\n").as_bytes());
    let run = leyden(&["embed", &folder, "--file", &rows]);
    let error = &run.err;
    assert!(run.code == Some(1) && run.out.lines().count() == 2 && run.out.contains("\nerror: 129 tokens"));
    assert!(error.contains("rows.jsonl: line 2: 129 tokens, but the model takes 128\nhint: "), "{error}");
    assert_eq!(leyden(&["embed", &folder, "--truncate", "--file", &rows]).ok().lines().count(), 2);
    for (line, wrong) in [
        ("{\"txt\": \"w1\"}", "field `text`: missing"),
        ("{\"text\": 1}", "field `text`: not a text"),
        ("[1]", "neither an object"),
        ("{", "not JSON"),
        (r#"{"text": "\ud800"}"#, "not JSON: half of a surrogate pair"),
    ] {
        let rows = files.add("wrong.jsonl", line.as_bytes());
        let run = leyden(&["embed", &folder, "--file", &rows]);
        let error = &run.err;
        assert!(run.code == Some(1) && run.out.starts_with("error: "), "{run:?}");
        assert!(error.contains(&format!("wrong.jsonl: line 1: {wrong}")), "{error}");
    }
    for (command, wanted) in
        [("classify", "does not classify"), ("rerank", "does not rank"), ("extract", "does not extract")]
    {
        let error = leyden_with_input(&[command, &folder, "w1"], b"w2").failed(1);
        assert!(error.contains(wanted), "{error}");
    }
    let error = leyden(&["run", &folder, "w1"]).failed(1);
    assert!(error.contains("an encoder") && error.contains("leyden embed"), "{error}");
    let error = leyden(&["embed", &folder, "w1", "--dimensions", "33"]).failed(2);
    assert!(error.contains("dimensions: 33 is not between 1 and 32"), "{error}");
    let error = leyden(&["embed", &folder, "w1", "--prompt-name", "query"]).failed(2);
    assert!(error.contains("no prompt `query`; it has none"), "{error}");
    for (command, option, value) in
        [("rerank", "--top", "0"), ("rerank", "--top", "-1"), ("embed", "--dimensions", "-1")]
    {
        let error = leyden(&[command, &folder, "w1", option, value]).failed(2);
        assert!(error.contains(&format!("invalid value '{value}' for '{option}")), "{error}");
    }

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

const ONNX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../leyden-engine/tests");

/// A folder as hubs have it whose only weights are a graph in ONNX, with what onnxruntime computes of it.
pub(super) fn onnx_model(files: &Files, file: &str) -> (String, Value) {
    let (folder, _) = model(files, "bert");
    fs::remove_file(files.folder().join("model.safetensors")).unwrap();
    let golden = fs::read_to_string(Path::new(ONNX).join("golden/onnx_encoders.json")).unwrap();
    let golden: Value = serde_json::from_str(&golden).unwrap();
    let mut found = golden["models"].as_array().unwrap().iter().find(|m| m["file"] == file).unwrap().clone();
    let vocabulary: serde_json::Map<String, Value> = (0..48).map(|i| (format!("w{i}"), i.into())).collect();
    let tokenizer = fs::read_to_string(files.folder().join("tokenizer.json")).unwrap();
    let mut tokenizer: Value = serde_json::from_str(&tokenizer).unwrap();
    tokenizer["model"]["vocab"] = vocabulary.into();
    tokenizer["truncation"] = Value::Null;
    files.add("tokenizer.json", tokenizer.to_string().as_bytes());
    files.add("config.json", found["config"].to_string().as_bytes());
    fs::create_dir_all(files.folder().join("onnx")).unwrap();
    fs::copy(
        Path::new(ONNX).join("fixtures/onnx").join(file),
        files.folder().join("onnx/model_quantized.onnx"),
    )
    .unwrap();
    found["ids"] = golden["texts"].clone();
    (folder, found)
}

/// An ONNX export by its folder and by its own path, in the commands and on the server.
#[test]
fn onnx_exports_are_models_like_any_other() {
    let files = Files::new();
    let (folder, wanted) = onnx_model(&files, "bert-int8.onnx");
    let file = format!("{folder}/onnx/model_quantized.onnx");
    let text = text(&wanted, 0);
    let first = numbers(&wanted["results"][0][0]);
    for path in [&folder, &file] {
        let out = leyden(&["embed", path, &text, "--json", "--pooling", "cls"]).ok();
        let found: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
        assert!(cosine(&numbers(&found["embedding"]), &first) > 0.999, "{out}");
        let shown: Value = serde_json::from_str(&leyden(&["inspect", path, "--json"]).ok()).unwrap();
        assert_eq!(
            (&shown["format"]["name"], &shown["supported"]),
            (&"onnx".into(), &true.into()),
            "{shown}"
        );
    }
    let server = Server::start(&[&folder]);
    let (status, answer) = ask(&server, "/embed_all", json!({ "inputs": text }));
    assert!(status == 200 && cosine(&numbers(&answer[0][0]), &first) > 0.999, "{answer}");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    // Another graph than the configuration says.
    let config = fs::read_to_string(files.folder().join("config.json")).unwrap();
    files.add("config.json", config.replace("\"gelu\"", "\"gelu_new\"").as_bytes());
    let refused = leyden(&["embed", &folder, "w1"]).failed(1);
    assert!(refused.contains("has the function Gelu, the configuration GeluTanh"), "{refused}");
}

#[test]
fn inspect_lists_the_layouts_of_an_encoder() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert");
    let report = leyden(&["inspect", &folder, "--layouts", "--json"]).json();
    let layouts = report["layouts"].as_array().unwrap();
    assert!(!layouts.is_empty());
    for layout in layouts {
        assert_eq!(layout["layout"], "int8-rows", "{layout}");
        assert!(
            layout["zeros"].as_f64().unwrap() < 0.1 && layout["rows"].as_u64().unwrap() >= 32,
            "{layout}"
        );
    }
    let table = leyden(&["inspect", &folder, "--layouts"]).ok();
    assert!(table.contains("matrices of INT8 rows") && table.contains("us per token"), "{table}");
    assert!(leyden(&["inspect", &folder, "--json"]).json().get("layouts").is_none());
}
