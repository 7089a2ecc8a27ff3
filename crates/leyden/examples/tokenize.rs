//! Turns text into token ids and back: `cargo run --release --example tokenize -- [MODEL.gguf] TEXT`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{LoadOptions, Model, Special};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (first, second) = (words.next(), words.next());
    let (model, text) = match (first, second) {
        (Some(path), Some(text)) => (Model::open(path, &LoadOptions::default())?, text),
        (text, _) => (Model::embedded(&LoadOptions::default())?, text.unwrap_or("Hello, wörld".into())),
    };
    // With the token that the model expects at the beginning, if it has one ...
    println!("as a prompt: {:?}", model.tokenize(&text)?);
    // ... and the text alone, with special tokens as plain text.
    let tokenizer = model.tokenizer();
    let ids = tokenizer.encode(&text, Special::AsText)?;
    for &id in &ids {
        // Tokens are bytes; a character may span several tokens.
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        println!("{id:>6} {:?}", String::from_utf8_lossy(bytes));
    }
    let mut bytes = Vec::new();
    let mut previous = None;
    for &id in &ids {
        // The text of a token may depend on whether it is the first.
        bytes.extend_from_slice(&tokenizer.bytes_after(previous, id).unwrap_or_default());
        previous = Some(id);
    }
    println!("and back: {}", String::from_utf8(bytes)?);
    Ok(())
}
