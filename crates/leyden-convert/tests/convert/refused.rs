//! Unsupported models are refused by name, and no file is left.

use super::folder::{config, folder, size, tokenizer};
use leyden_convert::to_gguf;
use serde_json::{Value as Json, json};
use std::ops::ControlFlow;

fn refused(change: impl FnOnce(&mut Json)) -> String {
    let document = tokenizer("llama3");
    let mut config = config(size(&document));
    change(&mut config);
    let made = folder(&config, &document, &json!({}));
    let to = made.path().join("model.gguf");
    let error = to_gguf(made.path(), &to, None, &mut |_, _| ControlFlow::Continue(())).unwrap_err();
    let left: Vec<_> =
        std::fs::read_dir(made.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
    error.to_string()
}

#[test]
fn what_gguf_has_no_key_for_is_named() {
    let told = refused(|config| {
        config["model_type"] = json!("mistral");
        config["architectures"] = json!(["MistralForCausalLM"]);
        config["sliding_window"] = json!(16);
    });
    assert!(told.contains("config.json: sliding_window: ") && told.contains("no key for"), "{told}");
    let told = refused(|config| {
        config["rope_scaling"] = json!({ "rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5, "original_max_position_embeddings": 16 });
    });
    assert!(told.contains("rope_parameters") && told.contains("no key for"), "{told}");
}

#[test]
fn an_interrupted_conversion_leaves_nothing() {
    let document = tokenizer("llama3");
    let made = folder(&config(size(&document)), &document, &json!({}));
    let to = made.path().join("model.gguf");
    let error = to_gguf(made.path(), &to, None, &mut |_, _| ControlFlow::Break(())).unwrap_err();
    assert_eq!(error.to_string(), "stopped");
    assert!(!to.exists());
    assert_eq!(std::fs::read_dir(made.path()).unwrap().count(), 4);
}
