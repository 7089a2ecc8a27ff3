//! Lets a model call functions of this program: `cargo run --release --example tools -- [MODEL.gguf]`.
//!
//! A grammar makes the answer a call, so that any model can make one, and its arguments are always valid.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{GenerateOptions, Grammar, LoadOptions, Model, SessionOptions};
use serde_json::{Value, json};
use std::ops::ControlFlow;

fn object(properties: &Value) -> Value {
    let names: Vec<&String> = properties.as_object().into_iter().flat_map(|fields| fields.keys()).collect();
    json!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = LoadOptions::default();
    let model = match std::env::args_os().nth(1) {
        Some(path) => Model::open(path, &options)?,
        None => Model::embedded(&options)?,
    };
    let tool = |name: &str, arguments: &Value| {
        object(&json!({ "tool": { "const": name }, "arguments": object(arguments) }))
    };
    let number = json!({ "type": "integer", "minimum": 0, "maximum": 99 });
    let add = tool("add", &json!({ "a": number, "b": number }));
    let weather = tool("weather", &json!({ "city": { "enum": ["Leyden", "Delft"] } }));
    let shape = model.compile(&Grammar::json_schema(&json!({ "anyOf": [add, weather] }))?)?;
    for seed in 1..=4 {
        let options = GenerateOptions::new().follow(&shape).seed(seed);
        let mut session = model.session(&SessionOptions::new())?;
        let answer = session.chat("What are two and three?", &options, &mut |_| ControlFlow::Continue(()))?;
        let call: Value = serde_json::from_str(&answer.text)?;
        let number = |name: &str| call["arguments"][name].as_u64().unwrap_or_default();
        match call["tool"].as_str() {
            Some("add") => println!("add: {}", number("a") + number("b")),
            _ => println!("weather: rain in {}", call["arguments"]["city"]),
        }
    }
    Ok(())
}
