//! Random strings of mixed scripts, emoji and controls get the ids of llama.cpp (see `data/random_ids.py`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod shared;

use leyden_tensor::{Gguf, WeightSource};
use leyden_text::{Special, from_gguf};
use serde_json::Value;
use shared::shared;

fn data(name: &str) -> Value {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn fnv1a(ids: &[u32]) -> String {
    let hash = ids
        .iter()
        .flat_map(|id| id.to_le_bytes())
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

#[test]
fn ids_equal_those_of_llama_cpp() {
    let strings = data("random_strings.json");
    let strings: Vec<&str> = strings.as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
    assert_eq!(strings.len(), 2000);
    let golden = data("random_ids.json");
    for (name, hashes) in golden["hashes"].as_object().unwrap() {
        let path = match name.as_str() {
            "storyteller" => "demo-model/storyteller-f16.gguf".to_string(),
            name => format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf"),
        };
        let Some(path) = shared(&path) else { return };
        let gguf = Gguf::open(&path).unwrap();
        let tokenizer = from_gguf(gguf.metadata(), name).unwrap();
        let hashes: Vec<&str> = hashes.as_str().unwrap().split(' ').collect();
        assert_eq!(hashes.len(), strings.len());
        let mut failures = Vec::new();
        for (string, want) in strings.iter().zip(hashes) {
            let parsed = tokenizer.encode(string, Special::Parse).unwrap();
            let text = tokenizer.encode(string, Special::AsText).unwrap();
            for ids in [&parsed, &text] {
                let bytes: Vec<u8> =
                    ids.iter().flat_map(|&id| tokenizer.token_bytes(id).unwrap()).copied().collect();
                assert_eq!(bytes, string.as_bytes(), "{name}");
            }
            let got = fnv1a(&[&parsed[..], &[u32::MAX], &text[..]].concat());
            if got != want {
                failures.push(format!("{string:?}: {parsed:?}, {text:?}"));
            }
        }
        assert!(failures.is_empty(), "{name}: {} differ:\n{}", failures.len(), failures.join("\n"));
    }
}
