//! Measures the speed of an encoder: `cargo run --release --example encoder_bench -- MODEL THREADS [--int8]`.
//!
//! Input lines are `{"seconds": 3, "batches": [[[101, 7592, 102], ...], ...]}`: tokenized texts, computed repeatedly for
//! this time. Answers are lines of sequences and multiply-accumulates per second. `bench/encoders.py` runs it.
#![expect(clippy::print_stdout, reason = "a program for people")]
use leyden::{BatchOptions, LoadOptions, Model};
use leyden_kernels::{Ceilings, Cpu};
use serde_json::{Value, json};
use std::{error::Error, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: encoder_bench MODEL THREADS [--int8]")?;
    let threads: usize = args.next().ok_or("how many threads?")?.parse()?;
    let int8 = args.next().is_some_and(|option| option == "--int8");
    let model = Model::open(path, &LoadOptions::default().threads(threads).int8(int8))?;
    let mut batch = model.batch(&BatchOptions::new().parallel(64).cache_tokens(16 << 10))?;
    let cpu = Cpu::new(Cpu::default_tier()?, threads)?;
    for line in std::io::stdin().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let batches: Vec<Vec<Vec<u32>>> = serde_json::from_value(asked["batches"].clone())?;
        batch.embed(batches.first().ok_or("no batches")?)?;
        let (mut texts, mut tokens, start) = (0, 0, Instant::now());
        for some in batches.iter().cycle() {
            batch.embed(some)?;
            (texts, tokens) = (texts + some.len(), tokens + some.iter().map(Vec::len).sum::<usize>());
            if start.elapsed().as_secs_f64() >= asked["seconds"].as_f64().unwrap_or(3.0) {
                break;
            }
        }
        let elapsed = start.elapsed().as_secs_f64();
        let macs = model.network().step_macs(tokens, tokens) as f64;
        let peak = if int8 { Ceilings::products(&cpu).int8_macs } else { Ceilings::products(&cpu).f32_macs };
        println!(
            "{}",
            json!({"sequences_per_second": texts as f64 / elapsed, "macs": macs / elapsed, "peak": peak})
        );
    }
    Ok(())
}
