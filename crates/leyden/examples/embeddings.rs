//! Prints how similar texts are: `cargo run --release --example embeddings -- [MODEL.gguf]`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{LoadOptions, Model};

fn main() -> Result<(), leyden::Error> {
    let options = LoadOptions::default();
    let model = match std::env::args_os().nth(1) {
        Some(path) => Model::open(path, &options)?,
        None => Model::embedded(&options)?,
    };
    let texts = ["The fox ran into the wood.", "A fox ran out of the wood.", "The king counted his gold."];
    let vectors = model.embed(&texts)?;
    for (text, vector) in texts.iter().zip(&vectors) {
        // Vectors have length 1, so their product is the cosine.
        let cosine: f32 = vectors[0].iter().zip(vector).map(|(a, b)| a * b).sum();
        println!("{cosine:.3} {text}");
    }
    Ok(())
}
