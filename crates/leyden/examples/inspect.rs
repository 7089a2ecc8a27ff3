//! Lists a model's sizes and metadata: `cargo run --release --example inspect -- [MODEL.gguf]`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{Error, LoadOptions, Model};

fn main() -> Result<(), Error> {
    let model = match std::env::args_os().nth(1) {
        Some(path) => Model::open(path, &LoadOptions::default())?,
        None => Model::embedded(&LoadOptions::default())?,
    };
    // Every known value is checked and is a field of the configuration ...
    println!("{:#?}", model.config());
    println!("chat template: {}", if model.has_chat_template() { "yes" } else { "no" });
    println!("weights in memory: {} bytes", model.network().weight_bytes());
    // ... and other metadata of the file can be read by key.
    let meta = model.metadata();
    println!("name: {}", meta.opt_str("general.name")?.unwrap_or("none"));
    println!("keys:");
    for (key, value) in meta.iter() {
        println!("  {key}: {}", value.value_type());
    }
    Ok(())
}
