//! GLiNER as a user meets it: `leyden extract --labels`, and labels in a request to `/pooling`. The models are those that the engine's
//! tests compare with the package.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::encoders::{ask, weights};
use super::program::{Files, leyden};
use super::serve::Server;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../leyden-engine/tests/golden/gliner.json");

/// A folder with one of those models, and what the package finds with it.
fn model(files: &Files, name: &str) -> (String, Value) {
    let golden: Value = serde_json::from_str(&fs::read_to_string(Path::new(GOLDEN)).unwrap()).unwrap();
    let model = golden["models"].as_array().unwrap().iter().find(|m| m["name"] == name).unwrap().clone();
    files.add("model.safetensors", &weights(&model));
    files.add("gliner_config.json", model["config"].to_string().as_bytes());
    files.add("tokenizer.json", model["tokenizer"].to_string().as_bytes());
    (files.folder().to_str().unwrap().to_owned(), model)
}

fn labels(case: &Value) -> String {
    let labels: Vec<&str> = case["labels"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
    labels.join(",")
}

/// Checks the entities and their scores.
fn check(found: &Value, wanted: &Value, text: &str) {
    let (found, wanted) = (found.as_array().unwrap(), wanted.as_array().unwrap());
    assert_eq!(found.len(), wanted.len(), "{found:?}, not {wanted:?}");
    let characters: Vec<char> = text.chars().collect();
    for (entity, want) in found.iter().zip(wanted) {
        let place = [&entity["entity_group"], &entity["start"], &entity["end"]];
        assert_eq!(place, [&want[0], &want[2], &want[3]], "{entity}, not {want}");
        assert!((entity["score"].as_f64().unwrap() - want[1].as_f64().unwrap()).abs() < 1e-4, "{entity}");
        let [start, end] = ["start", "end"].map(|key| entity[key].as_u64().unwrap() as usize);
        assert_eq!(entity["word"], characters[start..end].iter().collect::<String>());
    }
}

#[test]
fn entities_of_given_labels_are_those_of_the_package() {
    let files = Files::new();
    let (folder, wanted) = model(&files, "deberta, no lstm");
    let cases = wanted["cases"].as_array().unwrap();
    for case in cases.iter().take(2) {
        let (text, labels) = (case["text"].as_str().unwrap(), labels(case));
        for (kind, options) in [("flat", &[][..]), ("nested", &["--nested"])] {
            let args = [&["extract", &folder, text, "--json", "--labels", &labels], options].concat();
            check(&leyden(&args).json()["entities"], &case[kind], text);
        }
    }
    // Several texts at a time, on more threads, and labels that stand there twice.
    let texts: Vec<&Value> = cases[..3].iter().map(|case| &case["text"]).collect();
    let rows: Vec<String> = texts.iter().map(ToString::to_string).collect();
    let rows = files.add("rows.jsonl", rows.join("\n").as_bytes());
    let labels = labels(&cases[0]);
    let extract = |options: &[&str]| {
        let args = ["extract", &folder, "--file", &rows, "--json", "--labels", &labels, "--labels", "city"];
        leyden(&[&args, options].concat()).ok()
    };
    let out = extract(&["--threads", "2"]);
    assert_eq!(out, extract(&["--threads", "1"]));
    for (line, case) in out.lines().zip(cases) {
        let found: Value = serde_json::from_str(line).unwrap();
        check(&found["entities"], &case["flat"], case["text"].as_str().unwrap());
    }
    // A text that is alone gives the same to the bit.
    let alone = leyden(&["extract", &folder, texts[1].as_str().unwrap(), "--json", "--labels", &labels]).ok();
    let second: Value = serde_json::from_str(out.lines().nth(1).unwrap()).unwrap();
    let alone: Value = serde_json::from_str(&alone).unwrap();
    assert_eq!(second["entities"], alone["entities"]);
    // A threshold, and lines for people.
    let most =
        leyden(&["extract", &folder, texts[0].as_str().unwrap(), "--labels", &labels, "--threshold", "1"])
            .ok();
    assert_eq!(most, "");
    let line = leyden(&["extract", &folder, texts[2].as_str().unwrap(), "--labels", &labels]).ok();
    let columns: Vec<&str> = line.trim_end().split('\t').collect();
    assert_eq!(
        (columns[0], &columns[2..]),
        (cases[2]["flat"][0][0].as_str().unwrap(), &["0", "3", "fly"][..])
    );
    let report = leyden(&["inspect", &folder]).ok();
    assert!(report.contains("GLiNER") && report.contains("context        256 tokens"), "{report}");
    // In integers it is nearly the same.
    let int8 = extract(&["--int8"]);
    let first = |out: &str| {
        let found: Value = serde_json::from_str(out.lines().nth(2).unwrap()).unwrap();
        found["entities"][0]["score"].as_f64().unwrap()
    };
    assert!((first(&int8) - first(&out)).abs() < 0.05 && int8 != out, "{int8} {out}");
}

/// Every part of a long text is found with its place in the whole, and so on the server.
#[test]
fn long_texts_and_requests_have_places_in_the_whole() {
    let files = Files::new();
    let (folder, wanted) = model(&files, "deberta, no lstm");
    let labels = &wanted["cases"][0]["labels"];
    let text = ["Angela lives in New York. \u{2603} caf\u{e9}\u{0301} "; 60].concat();
    let found = |options: &[&str]| {
        let args = ["extract", &folder, text.trim(), "--json", "--labels", "person,city,date of birth"];
        leyden(&[&args, options].concat()).json()["entities"].clone()
    };
    let (flat, nested) = (found(&[]), found(&["--nested"]));
    let characters: Vec<char> = text.chars().collect();
    let mut last = 0;
    for entity in flat.as_array().unwrap() {
        let [start, end] = ["start", "end"].map(|key| entity[key].as_u64().unwrap() as usize);
        assert!(start >= last && start < end, "{entity}");
        assert_eq!(entity["word"], characters[start..end].iter().collect::<String>());
        last = end;
    }
    assert!(last > characters.len() * 9 / 10, "{last} of {}", characters.len());
    assert!(nested.as_array().unwrap().len() > flat.as_array().unwrap().len());

    let server = Server::start(&[&folder]);
    let texts = json!([text.trim(), "", wanted["cases"][1]["text"]]);
    let body = json!({ "input": texts, "task": "token_classify", "labels": labels });
    let (status, answer) = ask(&server, "/pooling", body.clone());
    assert_eq!(
        (status, &answer["data"][0]["data"], &answer["data"][1]["data"]),
        (200, &flat, &json!([])),
        "{answer}"
    );
    check(&answer["data"][2]["data"], &wanted["cases"][1]["flat"], texts[2].as_str().unwrap());
    let with = |name: &str, value: Value| {
        let mut body = body.clone();
        body[name] = value;
        ask(&server, "/pooling", body)
    };
    assert_eq!(with("nested", true.into()).1["data"][0]["data"], nested);
    assert_eq!(with("threshold", 1.into()).1["data"][0]["data"], json!([]));
    for (name, value, wanted) in [
        ("labels", Value::Null, "`labels` must name some"),
        ("labels", json!([" "]), "a label is empty"),
        ("labels", json!(["person ".repeat(300)]), "tokens"),
        ("threshold", 1.5.into(), "threshold"),
        ("task", "embed".into(), "`labels` and the task `embed` exclude each other"),
        ("input", json!([[1, 2]]), "`input[0]` must be a text"),
    ] {
        let (status, answer) = with(name, value);
        assert!(status == 400 && answer["error"]["message"].as_str().unwrap().contains(wanted), "{answer}");
    }
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn what_is_wrong_with_labels_or_a_folder_is_told() {
    let files = Files::new();
    let (folder, wanted) = model(&files, "deberta");
    let text = wanted["cases"][0]["text"].as_str().unwrap();
    let refused = leyden(&["extract", &folder, text]).failed(2);
    assert!(
        refused.contains("no labels of its own") && refused.contains("--labels person,organisation"),
        "{refused}"
    );
    for (args, wanted) in [
        (&["--labels", "a,,b"][..], "labels: a label is empty"),
        (&["--labels", "a", "--threshold", "2"], "threshold: 2 is not between 0 and 1"),
        (&["--labels", "a", "--aggregation", "first"], "cannot be used with"),
        (&["--nested"], "--labels"),
    ] {
        let refused = leyden(&[&["extract", &folder, text][..], args].concat()).failed(2);
        assert!(refused.contains(wanted), "{refused}");
    }
    let many: Vec<String> = (0..200).map(|i| format!("label {i}")).collect();
    let refused = leyden(&["extract", &folder, text, "--labels", &many.join(",")]).failed(1);
    assert!(refused.contains("which leave no room for a text"), "{refused}");

    // The encoder's own tokenizer, to which the package adds three tokens.
    let entities = || leyden(&["extract", &folder, text, "--json", "--labels", "place"]).ok();
    let before = entities();
    let mut tokenizer = wanted["tokenizer"].clone();
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    added.truncate(added.len() - 3);
    files.add("tokenizer.json", tokenizer.to_string().as_bytes());
    assert_eq!(entities(), before);
    let config = |change: fn(&mut Value)| {
        let mut config = wanted["config"].clone();
        change(&mut config);
        files.add("gliner_config.json", config.to_string().as_bytes());
    };
    config(|config| config["class_token_index"] = 5.into());
    let refused = leyden(&["extract", &folder, text, "--labels", "place"]).failed(1);
    assert!(
        refused.contains("`<<ENT>>` is token 134, but class_token_index in gliner_config.json is 5"),
        "{refused}"
    );
    // The configuration of the encoder in a file of its own, with more tokens than it has.
    config(|config| config["encoder_config"] = Value::Null);
    let refused = leyden(&["extract", &folder, text, "--labels", "place"]).failed(1);
    assert!(refused.contains("encoder_config: missing") && refused.contains("save_pretrained"), "{refused}");
    let mut encoder = wanted["config"]["encoder_config"].clone();
    encoder["vocab_size"] = 133.into();
    encoder["architectures"] = json!(["DebertaV2ForMaskedLM"]);
    files.add("config.json", encoder.to_string().as_bytes());
    assert_eq!(entities(), before);

    let other = json!({ "model_type": "extractor", "counting_layer": "count_lstm", "max_width": 8 });
    fs::remove_file(files.folder().join("gliner_config.json")).unwrap();
    files.add("config.json", other.to_string().as_bytes());
    let refused = leyden(&["extract", &folder, text, "--labels", "place"]).failed(1);
    assert!(refused.contains("GLiNER2, another model than GLiNER, is not supported"), "{refused}");
}
