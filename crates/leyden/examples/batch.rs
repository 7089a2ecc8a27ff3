//! Many answers at once: `cargo run --release --example batch -- [MODEL.gguf]`.
//!
//! Common prefixes of the prompts are computed once.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{BatchOptions, GenerateOptions, LoadOptions, Model};

fn main() -> Result<(), leyden::Error> {
    let options = LoadOptions::default();
    let model = match std::env::args_os().nth(1) {
        Some(path) => Model::open(path, &options)?,
        None => Model::embedded(&options)?,
    };
    let beginning = "In a great forest near the sea there lived a wise old woman who knew the speech of birds and \
                     beasts, and people came from far away to ask her. One day there came a young man and said to her: \
                     \"I have lost what I loved most, and have looked for it in every town. It was ";
    let things = ["a horse", "a ring", "a dog", "a book"];
    let prompts: Vec<Vec<u32>> = things
        .iter()
        .map(|thing| model.tokenize(&format!("{beginning}{thing}")))
        .collect::<Result<_, _>>()?;
    let mut batch = model.batch(&BatchOptions::new().context(512).cache_tokens(2048))?;
    let answers = batch.generate(&prompts, &GenerateOptions::new().max_tokens(12).temperature(0.0))?;
    for (thing, answer) in things.iter().zip(&answers) {
        println!("{thing}{}", answer.text.replace('\n', " "));
    }
    let cached: usize = answers.iter().map(|answer| answer.cached_tokens).sum();
    let all: usize = answers.iter().map(|answer| answer.prompt_tokens).sum();
    println!("{cached} of {all} prompt tokens were shared");
    Ok(())
}
