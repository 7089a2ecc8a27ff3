//! Costs of vocabularies, compiling and masks: figures for `docs/constrained.md`, on which nothing depends.
use leyden_testkit::shared;
use std::time::{Duration, Instant};

use crate::vocabularies::{gguf_tokenizer, storyteller};
use leyden_constrain::{Grammar, Vocabulary};
use leyden_text::Tokenizer;
use serde_json::Value;

fn shares(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    eprintln!("  {name}: {} times, p50 {:?}, p99 {:?}, most {:?}", times.len(), at(0.5), at(0.99), at(1.0));
}

fn measure(name: &str, tokenizer: &dyn Tokenizer, schemas: &[Value]) {
    let start = Instant::now();
    let vocabulary = Vocabulary::new(tokenizer).unwrap();
    eprintln!("{name}: {} tokens, vocabulary ready in {:?}", tokenizer.vocab_size(), start.elapsed());
    let (mut compiling, mut masking, mut accepting) = (Vec::new(), Vec::new(), Vec::new());
    for (number, schema) in schemas.iter().enumerate() {
        let start = Instant::now();
        let Ok(compiled) = Grammar::json_schema(schema).and_then(|grammar| vocabulary.compile(&grammar))
        else {
            continue;
        };
        compiling.push(start.elapsed());
        let mut constraint = compiled.start();
        for step in 0..60_usize {
            let start = Instant::now();
            let Ok(mask) = constraint.mask() else { break };
            masking.push(start.elapsed());
            let count = mask.len();
            let token = mask.iter().nth((number * 7919 + step * 104_729) % count).unwrap();
            let start = Instant::now();
            constraint.accept(token).unwrap();
            accepting.push(start.elapsed());
            if constraint.is_complete() {
                break;
            }
        }
    }
    shares("compile", compiling);
    shares("mask", masking);
    shares("accept", accepting);
}

#[test]
#[ignore = "prints times"]
fn times_on_two_vocabularies() {
    let Some(path) = shared("data/schemas/jsonschemabench-sample.jsonl") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let schemas: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["json"].clone()).collect();
    measure("embedded", storyteller().as_ref(), &schemas);
    let Some(path) = shared("data/tokenizers/ggml-vocab/ggml-vocab-llama-bpe.gguf") else { return };
    measure("llama-bpe", gguf_tokenizer(&path).as_ref(), &schemas);
}

/// Difference between the estimate of [`leyden_constrain::Compiled::bytes`] and the growth of the process.
#[test]
#[ignore = "prints sizes, and needs the shared data"]
fn sizes_of_compiled_schemas() {
    let Some(path) = shared("data/schemas/jsonschemabench-sample.jsonl") else { return };
    let vocabulary = Vocabulary::new(storyteller().as_ref()).unwrap();
    let resident = || -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() >> 10
    };
    let text = std::fs::read_to_string(path).unwrap();
    let before = resident();
    let mut kept = Vec::new();
    let (mut estimate, mut source) = (0, 0);
    for line in text.lines() {
        let schema = serde_json::from_str::<Value>(line).unwrap()["json"].clone();
        let Ok(grammar) = Grammar::json_schema(&schema) else { continue };
        let Ok(compiled) = vocabulary.compile(&grammar) else { continue };
        estimate += compiled.bytes();
        source += schema.to_string().len();
        kept.push(compiled);
    }
    eprintln!(
        "{} schemas of {source} bytes: {estimate} bytes estimated, {} MiB grown",
        kept.len(),
        resident() - before
    );
}
