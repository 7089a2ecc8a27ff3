//! Times the work of `bench/python.py` without Python and prints the median seconds of a call. Arguments: MODEL ENCODER REPEATS.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{BatchOptions, EmbedOptions, Error, GenerateOptions, LoadOptions, Model};
use std::time::Instant;

const ANIMALS: [&str; 8] = ["king", "queen", "fox", "bear", "girl", "boy", "cat", "dog"];

/// Returns the median seconds of `repeats` calls, after one that is not counted.
fn median(repeats: usize, mut work: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    work()?;
    let mut times = Vec::new();
    for _ in 0..repeats {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, encoder, repeats] = &arguments[..] else { panic!("usage: overhead MODEL ENCODER REPEATS") };
    let repeats = repeats.parse().unwrap_or(3);
    let prompts = ANIMALS.map(|who| format!("The story of a {who} who lived near the sea begins"));
    let texts = prompts.clone().map(|p| format!("{p} on a cold morning, before anybody was awake."));
    let model = Model::open(model, &LoadOptions::new())?;
    let mut batch = model.batch(&BatchOptions::new().context(512).cache_tokens(4096).parallel(8))?;
    let options = GenerateOptions::new().max_tokens(64).temperature(0.0);
    let generate = median(repeats, || {
        let tokens = prompts.iter().map(|text| model.tokenize(text)).collect::<Result<Vec<_>, _>>()?;
        batch.generate(&tokens, &options).map(drop)
    })?;
    let model = Model::open(encoder, &LoadOptions::new())?;
    let mut embedder = model.embedder(&EmbedOptions::default())?;
    let embed = median(40 * repeats, || embedder.embed(&texts).map(drop))?;
    println!("{{\"generate\": {generate}, \"embed\": {embed}}}");
    Ok(())
}
