//! Prints the log probabilities of texts: `cargo run --release --example scoring -- [MODEL.gguf]`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{BatchOptions, LoadOptions, Model};

fn main() -> Result<(), leyden::Error> {
    let options = LoadOptions::default();
    let model = match std::env::args_os().nth(1) {
        Some(path) => Model::open(path, &options)?,
        None => Model::embedded(&options)?,
    };
    let texts = ["Once upon a time there was a king.", "Once upon a king there was a time."];
    let tokens: Vec<Vec<u32>> = texts.iter().map(|text| model.tokenize(text)).collect::<Result<_, _>>()?;
    let scores = model.batch(&BatchOptions::new())?.score(&tokens, 1)?;
    for (text, scores) in texts.iter().zip(&scores) {
        let sum: f64 = scores.iter().map(|token| f64::from(token.logprob)).sum();
        let best = scores.iter().filter(|token| token.top[0].0 == token.token).count();
        let perplexity = (-sum / scores.len() as f64).exp();
        println!("perplexity {perplexity:.2}, {best} of {} tokens were the best: {text}", scores.len());
    }
    Ok(())
}
