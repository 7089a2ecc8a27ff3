//! Generates JSON that follows a schema: `cargo run --release --example schema -- [MODEL.gguf]`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{GenerateOptions, Grammar, LoadOptions, Model, SessionOptions};
use serde_json::{Value, json};
use std::ops::ControlFlow;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = LoadOptions::default();
    let model = match std::env::args_os().nth(1) {
        Some(path) => Model::open(path, &options)?,
        None => Model::embedded(&options)?,
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 12 },
            "kind": { "enum": ["king", "queen", "fox"] },
            "age": { "type": "integer", "minimum": 0, "maximum": 120 }
        },
        "required": ["name", "kind", "age"],
        "additionalProperties": false
    });
    // Compiled once, it can be used for any number of answers.
    let shape = model.compile(&Grammar::json_schema(&schema)?)?;
    let mut session = model.session(&SessionOptions::new())?;
    for seed in 1..=3 {
        let options = GenerateOptions::new().follow(&shape).seed(seed);
        let prompt = model.tokenize("Who lived in the castle? ")?;
        let answer = session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))?;
        let person: Value = serde_json::from_str(&answer.text)?;
        println!("a {} of {} years", person["kind"].as_str().unwrap_or_default(), person["age"]);
    }
    Ok(())
}
