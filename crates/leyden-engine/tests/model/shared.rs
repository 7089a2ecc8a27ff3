//! Files the tests read, and engines made from them.

use leyden_engine::{Engine, EngineOptions, Outputs, SequenceId, StepEntry, StepPlan};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_tensor::{Gguf, WeightSource};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of this package.
pub(crate) fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The model that the program carries.
pub(crate) fn embedded() -> PathBuf {
    own("../leyden/model/storyteller-q8_0.gguf")
}

/// An engine with room for several sequences.
pub(crate) fn engine(source: Arc<dyn WeightSource>, tier: Tier, threads: usize, kv_type: KvType) -> Engine {
    engine_on(source, Cpu::new(tier, threads).unwrap(), kv_type)
}

/// As [`engine`], on a processor that may be exact.
pub(crate) fn engine_on(source: Arc<dyn WeightSource>, cpu: Cpu, kv_type: KvType) -> Engine {
    let cpu = Arc::new(cpu);
    let model = leyden_models::load(source, &cpu, &mut |_, _| {}).unwrap();
    let context = model.config().context;
    let options = EngineOptions { kv_type, context, cache_tokens: 8 * context, step_tokens: 2048 };
    Engine::new(model, cpu, options).unwrap()
}

/// An engine for a file, on the best tier.
pub(crate) fn engine_of(path: &Path) -> Engine {
    engine(Arc::new(Gguf::open(path).unwrap()), Tier::best(), 2, KvType::F16)
}

/// One step of one sequence.
pub(crate) fn one(sequence: SequenceId, tokens: &[u32], outputs: Outputs) -> StepPlan {
    StepPlan { entries: vec![StepEntry { sequence, tokens: tokens.to_vec(), outputs }] }
}

/// The best token, its logit, and the second best logit.
pub(crate) fn best(logits: &[f32]) -> (u32, f32, f32) {
    let mut best = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
    for (id, &l) in (0_u32..).zip(logits) {
        if l > best.1 {
            best = (id, l, best.1);
        } else if l > best.2 {
            best.2 = l;
        }
    }
    best
}

/// An array of numbers.
pub(crate) fn numbers(v: &Json) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// Feeds a text, the first tokens of it as a prompt and the rest one by one, and gives the logits after each.
pub(crate) fn rows_of_split(e: &mut Engine, tokens: &[u32], prompt: usize) -> Vec<Vec<f32>> {
    let sequence = e.open();
    let mut rows = Vec::new();
    for part in [&tokens[..prompt]].into_iter().chain(tokens[prompt..].chunks(1)) {
        let output = e.step(&one(sequence, part, Outputs::From(0))).unwrap();
        rows.extend(output.rows().map(|r| r.logits.to_vec()));
    }
    e.close(sequence);
    rows
}

/// The largest relative difference of logits from those that `want` has under their positions.
pub(crate) fn difference(rows: &[Vec<f32>], want: &Json) -> f64 {
    let off = |(at, want): (&String, &Json)| {
        let (want, got) = (numbers(want), &rows[at.parse::<usize>().unwrap()]);
        let size = want.iter().map(|x| x * x).sum::<f64>().sqrt();
        let error: f64 = want.iter().zip(got).map(|(w, g)| (w - f64::from(*g)).powi(2)).sum();
        let off = error.sqrt() / size;
        if off.is_nan() { f64::INFINITY } else { off }
    };
    want.as_object().unwrap().iter().map(off).fold(0.0, f64::max)
}

/// Feeds a text of 100 tokens, the first 100, 50 and 1 of them as a prompt and the rest one by one, and compares the
/// logits after three of its tokens with those that `want` has for their positions.
pub(crate) fn at_every_split(e: &mut Engine, tokens: &[u32], want: &Json, name: &str) {
    for prompt in [100, 50, 1] {
        let relative = difference(&rows_of_split(e, tokens, prompt), want);
        assert!(relative < 1e-4, "{name} split {prompt}: {relative:e}");
    }
}

/// Greedy continuation of a prompt in a sequence of its own.
pub(crate) fn greedy(engine: &mut Engine, prompt: &[u32], n: usize) -> Vec<u32> {
    let sequence = engine.open();
    let mut tokens = Vec::new();
    let mut next = prompt.to_vec();
    while tokens.len() < n {
        let output = engine.step(&one(sequence, &next, Outputs::Last)).unwrap();
        let token = best(output.rows().next().unwrap().logits).0;
        tokens.push(token);
        next = vec![token];
    }
    engine.close(sequence);
    tokens
}
