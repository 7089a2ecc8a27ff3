//! Folders in the layout of the Hugging Face hub, as MODEL of every command.

use leyden_testkit::shared;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::{Files, leyden};

/// A checkpoint of the fixtures.
pub(crate) fn checkpoint(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../leyden-engine/tests/fixtures/hf").join(name)
}

/// A tokenizer with a token for every ASCII letter and mark, and two special ones: 97 of the 128 that the
/// checkpoints know.
pub(crate) fn tokenizer() -> Vec<u8> {
    let mut vocabulary = serde_json::Map::new();
    for (id, c) in (0u32..).zip(('!'..='~').chain(['\u{120}'])) {
        vocabulary.insert(c.to_string(), json!(id));
    }
    let special = |id: u32, name: &str| {
        json!({ "id": id, "content": name, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false })
    };
    let bytes =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [special(95, "<s>"), special(96, "</s>")],
        "normalizer": null,
        "pre_tokenizer": bytes,
        "post_processor": null,
        "decoder": bytes,
        "model": { "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": [] }
    });
    tokenizer.to_string().into_bytes()
}

pub(crate) const TOKENIZER_CONFIG: &str = r#"{"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": false,
    "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"}"#;

/// A whole model: the `qwen3` checkpoint with that tokenizer.
pub(super) fn model(files: &Files) -> String {
    for file in fs::read_dir(checkpoint("qwen3")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), files.folder().join(file.file_name())).unwrap();
    }
    files.add("tokenizer.json", &tokenizer());
    files.add("tokenizer_config.json", TOKENIZER_CONFIG.as_bytes());
    files.folder().to_str().unwrap().to_owned()
}

#[test]
fn a_folder_runs_as_it_is() {
    let files = Files::new();
    let folder = model(&files);
    let answer = |more: &[&str]| {
        let run = leyden(&[&["run", &folder, "Hello", "-n", "8", "--temp", "0", "--json"], more].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
        serde_json::from_str::<Value>(&run.out).unwrap()
    };
    // The template puts a token in front.
    assert_eq!(answer(&[])["prompt_tokens"], 6);
    assert_eq!(answer(&["--raw"])["prompt_tokens"], 5);
    assert_eq!(answer(&[])["text"], answer(&["--threads", "1", "--isa", "scalar"])["text"]);
    assert_eq!(leyden(&["tokenize", &folder, "Hi <s>"]).ok(), "39 72 94 95\n");
    assert_eq!(leyden(&["tokenize", &folder, "--decode", "39 72 94"]).ok(), "Hi ");
}

/// Published models for vectors were saved without their heads, and so without the prefix of all other names.
#[test]
fn names_may_lack_the_prefix_of_a_model_within_one_with_a_head() {
    let files = Files::new();
    let answer = |bare: bool| {
        let folder = files.path(if bare { "bare" } else { "whole" });
        fs::create_dir(&folder).unwrap();
        let folder = Path::new(&folder);
        fs::copy(checkpoint("llama").join("config.json"), folder.join("config.json")).unwrap();
        fs::write(folder.join("tokenizer.json"), tokenizer()).unwrap();
        let weights = fs::read(checkpoint("llama").join("model.safetensors")).unwrap();
        let end = 8 + usize::try_from(u64::from_le_bytes(weights[..8].try_into().unwrap())).unwrap();
        let header: serde_json::Map<String, Value> = serde_json::from_slice(&weights[8..end]).unwrap();
        let renamed = |(name, value): (String, Value)| {
            (name.strip_prefix("model.").filter(|_| bare).map(str::to_owned).unwrap_or(name), value)
        };
        let header: serde_json::Map<String, Value> = header.into_iter().map(renamed).collect();
        // As long as before, so that nothing behind it moves.
        let header = format!("{:1$}", Value::from(header).to_string(), end - 8);
        let weights = [&weights[..8], header.as_bytes(), &weights[end..]].concat();
        fs::write(folder.join("model.safetensors"), weights).unwrap();
        let folder = folder.to_str().unwrap();
        assert_eq!(leyden(&["inspect", folder, "--json"]).json()["problems"], json!([]));
        let run = leyden(&["run", folder, "Hello", "--raw", "-n", "8", "--temp", "0", "--threads", "1"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        run.out
    };
    assert_eq!(answer(true), answer(false));
}

#[test]
fn exact_products_of_bf16_weights_are_other_ones_and_the_same_on_every_tier() {
    let files = Files::new();
    let folder = model(&files);
    // Random weights are sure of nothing: among so many short answers some are on an edge.
    let answers = |more: &[&str]| -> Vec<Value> {
        let answer = |prompt: char| {
            let prompt = prompt.to_string();
            let run = ["run", &folder, &prompt, "--raw", "-n", "64", "--temp", "0", "--json"];
            let run = leyden(&[&run, more].concat());
            assert_eq!(run.code, Some(0), "{run:?}");
            serde_json::from_str::<Value>(&run.out).unwrap()["text"].clone()
        };
        ('A'..='Z').map(answer).collect()
    };
    let exact = answers(&["--exact"]);
    assert_eq!(exact, answers(&["--exact", "--isa", "scalar"]));
    assert_ne!(exact, answers(&[]));
}

#[test]
fn a_folder_is_inspected() {
    let files = Files::new();
    let folder = model(&files);
    let report = leyden(&["inspect", "--json", "--tensors", &folder]).json();
    assert_eq!(report["problems"], json!([]));
    assert_eq!(report["format"], json!({ "name": "safetensors" }));
    assert_eq!((&report["architecture"], &report["context_length"]), (&json!("qwen3"), &json!(256)));
    assert_eq!(report["hyperparameters"]["head_dim"], 32);
    assert_eq!(report["metadata"]["torch_dtype"], "bfloat16");
    assert_eq!(report["types"][0]["type"], "BF16");
    assert_eq!(
        (&report["tokenizer"]["vocabulary"], &report["tokenizer"]["eos"]["id"]),
        (&json!(97), &json!(96))
    );
    let names = report["tensors"].to_string();
    assert!(names.contains("\"model.layers.1.self_attn.q_norm.weight\""), "{names}");
    let size = |name: &str| fs::metadata(files.path(name)).unwrap().len();
    let weights = size("model-00001-of-00002.safetensors") + size("model-00002-of-00002.safetensors");
    assert_eq!(report["bytes"], weights);
    let out = leyden(&["inspect", &folder]).ok();
    for part in ["safetensors", "qwen3", "256 tokens", "tokenizer.json, 97 tokens", "rms_norm_eps"] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let template = leyden(&["inspect", "--template", &folder]).ok();
    assert_eq!(template, "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}\n");
}

/// Errors in a folder name its files and keys, in every command.
#[test]
fn broken_folders_are_refused_by_file_and_key() {
    let config: Value =
        serde_json::from_slice(&fs::read(checkpoint("qwen3").join("config.json")).unwrap()).unwrap();
    let with = |key: &str, value: Value| {
        let mut config = config.clone();
        config[key] = value;
        Some(config.to_string())
    };
    for (file, content, wanted) in [
        ("config.json", None, ": the folder has no config.json\nhint: a model is a .gguf file, or a folder"),
        ("config.json", Some("{".to_owned()), "/config.json: line 1 column 1: EOF"),
        (
            "config.json",
            with("model_type", json!("mamba")),
            "/config.json: model_type: architecture `mamba` is not",
        ),
        (
            "config.json",
            with("num_key_value_heads", json!(3)),
            "/config.json: num_key_value_heads: 3 does not divide",
        ),
        (
            "config.json",
            with("num_key_value_heads", json!(2)),
            "/model-00001-of-00002.safetensors: model.layers.0.self_attn.v_proj.weight: shape [32, 48] does not match",
        ),
        (
            "config.json",
            with("num_hidden_layers", json!(3)),
            ": model.layers.2.input_layernorm.weight: required",
        ),
        (
            "config.json",
            with("num_hidden_layers", json!(1)),
            "/model-00001-of-00002.safetensors: model.layers.1.self_attn.q_proj.weight: architecture `qwen3` has no use",
        ),
        (
            "config.json",
            with("attention_bias", json!(true)),
            ": model.layers.0.self_attn.v_proj.bias: required tensor",
        ),
        (
            "config.json",
            with("vocab_size", json!(127)),
            "/config.json: vocab_size: 127 differs from the 128 rows of",
        ),
        (
            "config.json",
            with("quantization_config", json!({ "quant_method": "bitsandbytes" })),
            "/config.json: quantization_config.quant_method: weights quantised by bitsandbytes are not supported",
        ),
        ("model-00002-of-00002.safetensors", None, "/model-00002-of-00002.safetensors: cannot open"),
        ("tokenizer.json", None, "tokenizer.json: "),
        ("tokenizer.json", Some("[]".to_owned()), "/tokenizer.json: "),
    ] {
        let files = Files::new();
        let folder = model(&files);
        match &content {
            Some(text) => drop(files.add(file, text.as_bytes())),
            None => fs::remove_file(files.path(file)).unwrap(),
        }
        let err = leyden(&["run", "-n", "1", &folder, "Hello"]).failed(1);
        assert!(
            err.starts_with(&format!("error: {folder}")) && err.contains(wanted),
            "{file} {content:?}: {err}"
        );
        // What can be opened is inspected, and its problem listed.
        let inspected = leyden(&["inspect", "--json", &folder]);
        let found = match inspected.code {
            Some(0) => inspected.json()["problems"].to_string(),
            _ => inspected.failed(1),
        };
        let first = err.lines().next().unwrap().trim_start_matches("error: ");
        // Tensors are looked at when they are loaded.
        let unseen = ["shape [32, 48]", "has no use", "required tensor", "required"]
            .iter()
            .any(|w| wanted.contains(w));
        assert!(unseen || found.contains(first), "{file}: {found}\n{first}");
    }
}

#[test]
fn tinystories_writes_its_reference() {
    let Some(folder) = shared("data/llm/TinyStories-656K") else { return };
    let folder = folder.to_str().unwrap();
    let reference: Value =
        serde_json::from_slice(&fs::read(format!("{folder}/reference_greedy.json")).unwrap()).unwrap();
    let (prompt, wanted) =
        (reference["prompt"].as_str().unwrap(), reference["greedy_text"].as_str().unwrap());
    let ids: Vec<String> = reference["prompt_ids"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(leyden(&["tokenize", folder, prompt]).ok(), format!("{}\n", ids.join(" ")));
    let run = leyden(&["run", folder, prompt, "--raw", "--temp", "0", "-n", "96"]);
    assert_eq!((run.code, run.out.trim_end()), (Some(0), wanted.trim_end()), "{run:?}");
    let report = leyden(&["inspect", "--json", folder]).json();
    assert_eq!((&report["problems"], &report["architecture"]), (&json!([]), &json!("llama")));
}
