//! Measures the cost of grammar masks and sampling in a step, for the figures in `docs/constrained.md`; no test depends
//! on it.

use leyden_constrain::{Constraint, Grammar, Vocabulary};
use leyden_engine::sample::{Sampler, SamplingParams, TokenSet};
use leyden_kernels::{Cpu, Tier};
use leyden_tensor::{Gguf, WeightSource};
use serde_json::Value;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const STREAMS: usize = 32;
const STEPS: usize = 40;

#[test]
#[ignore = "prints times, and needs the shared data"]
fn times_of_32_streams_under_schemas() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let (schemas, vocabulary) = (
        shared.join("schemas/jsonschemabench-sample.jsonl"),
        shared.join("tokenizers/ggml-vocab/ggml-vocab-llama-bpe.gguf"),
    );
    let file = Gguf::open(&vocabulary).unwrap();
    let tokenizer = leyden_text::from_gguf(file.metadata(), "llama-bpe").unwrap();
    let vocabulary = Vocabulary::new(tokenizer.as_ref()).unwrap();
    let text = std::fs::read_to_string(schemas).unwrap();
    let compiled: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let schema = serde_json::from_str::<Value>(line).unwrap()["json"].clone();
            vocabulary.compile(&Grammar::json_schema(&schema).ok()?).ok()
        })
        .step_by(7)
        .take(STREAMS)
        .collect();
    let size = vocabulary.size();
    let logits: Vec<f32> = (0..size).map(|i| ((i * 2_654_435_761) % 1000) as f32 / 100.0).collect();
    let mut chosen = Vec::new();
    for threads in [1, 2, 4] {
        let cpu = Cpu::new(Tier::best(), threads).unwrap();
        let stream = |(i, c): (usize, &leyden_constrain::Compiled)| {
            let params = SamplingParams { seed: i as u64, ..SamplingParams::default() };
            let sampler = Sampler::new(params, 0, Tier::best(), size).unwrap();
            Mutex::new((c.start(), sampler, Vec::<u32>::new()))
        };
        let streams: Vec<Mutex<(Constraint, Sampler, Vec<u32>)>> =
            compiled.iter().enumerate().map(stream).collect();
        let mut times: Vec<Duration> = Vec::new();
        for step in 0..STEPS {
            let begun = Instant::now();
            cpu.pool().run(streams.len(), |i| {
                let (constraint, sampler, tokens) = &mut *streams[i].lock().unwrap();
                if constraint.is_complete() {
                    *constraint = compiled[i].start();
                }
                let Ok(mask) = constraint.mask() else { return };
                let token = sampler.sample_masked(&logits, TokenSet::new(mask.words()), step).unwrap();
                constraint.accept(token).unwrap();
                tokens.push(token);
            });
            times.push(begun.elapsed());
        }
        times.sort();
        let at = |share: f64| times[((STEPS - 1) as f64 * share) as usize];
        eprintln!(
            "{} streams, {threads} threads: a step's choices take p50 {:?}, p95 {:?}, most {:?}",
            streams.len(),
            at(0.5),
            at(0.95),
            at(1.0)
        );
        let tokens: Vec<Vec<u32>> = streams.iter().map(|s| s.lock().unwrap().2.clone()).collect();
        chosen.push(tokens);
    }
    assert!(chosen.windows(2).all(|pair| pair[0] == pair[1]), "the same on any number of threads");
}
