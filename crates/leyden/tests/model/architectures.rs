//! Every architecture and every scaling of positions against llama.cpp, on tiny models whose weights follow from a
//! formula (`tests/golden/make/architectures.py`).

use super::shared::{engine, one, own};
use leyden_engine::Outputs;
use leyden_kernels::Tier;
use leyden_kernels::attention::KvType;
use leyden_tensor::{DType, Gguf, GgufWriter, Value};
use serde_json::Value as Json;
use std::sync::Arc;

const WIDTH: usize = 32;
const HEADS: usize = 2;
const KV: usize = 1;
const FF: usize = 64;
const LAYERS: usize = 2;
const VOCAB: usize = 128;
const CONTEXT: u32 = 256;

/// What differs between the models.
#[derive(Default)]
struct Variant {
    name: &'static str,
    arch: &'static str,
    head_dim: Option<usize>,
    scaling: Option<(&'static str, f32)>,
    freqs: bool,
    bias: bool,
    head_norm: bool,
}

fn variants() -> Vec<Variant> {
    let llama = |name| Variant { name, arch: "llama", ..Variant::default() };
    vec![
        llama("llama"),
        Variant { freqs: true, ..llama("llama rope_freqs") },
        Variant { scaling: Some(("linear", 4.0)), ..llama("llama linear") },
        Variant { scaling: Some(("yarn", 4.0)), ..llama("llama yarn") },
        Variant { head_dim: Some(32), ..llama("llama head_dim 32") },
        Variant { name: "qwen2", arch: "qwen2", bias: true, ..Variant::default() },
        Variant { name: "qwen3", arch: "qwen3", head_dim: Some(32), head_norm: true, ..Variant::default() },
    ]
}

/// Writes tensors of the formula's noise, counting seeds.
#[derive(Default)]
struct Writer {
    file: GgufWriter<'static>,
    seed: u64,
}

impl Writer {
    fn tensor(&mut self, name: &str, shape: &[usize], base: f32, scale: f64) {
        self.seed += 1;
        let value = |i: u64| {
            let x = (i * 747_796_405 + self.seed * 2_891_336_453) % (1 << 32);
            let x = ((x ^ (x >> 15)) * 2_246_822_519) % (1 << 32);
            let x = x ^ (x >> 13);
            (((x >> 8) as f64 / f64::from(1 << 24) - 0.5) * scale) as f32 + base
        };
        let n = shape.iter().product::<usize>() as u64;
        let bytes: Vec<u8> = (0..n).flat_map(|i| value(i).to_le_bytes()).collect();
        self.file.add_tensor(name, DType::F32, shape, bytes).unwrap();
    }

    fn matrix(&mut self, name: &str, rows: usize, cols: usize) {
        self.tensor(name, &[rows, cols], 0.0, 2.0 / (cols as f64).sqrt());
    }

    fn norm(&mut self, name: &str, n: usize) {
        self.tensor(name, &[n], 1.0, 0.2);
    }
}

fn model(v: &Variant) -> Vec<u8> {
    let mut w = Writer::default();
    let dim = v.head_dim.unwrap_or(WIDTH / HEADS);
    let u = |n: usize| Value::U32(u32::try_from(n).unwrap());
    w.file.set("general.architecture", Value::String(v.arch.into()));
    for (key, value) in [
        ("block_count", u(LAYERS)),
        ("context_length", Value::U32(CONTEXT)),
        ("embedding_length", u(WIDTH)),
        ("feed_forward_length", u(FF)),
        ("attention.head_count", u(HEADS)),
        ("attention.head_count_kv", u(KV)),
        ("attention.key_length", u(dim)),
        ("attention.value_length", u(dim)),
        ("rope.dimension_count", u(dim)),
        ("rope.freq_base", Value::F32(10_000.0)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
    ] {
        w.file.set(&format!("{}.{key}", v.arch), value);
    }
    if let Some((kind, factor)) = v.scaling {
        w.file.set(&format!("{}.rope.scaling.type", v.arch), Value::String(kind.into()));
        w.file.set(&format!("{}.rope.scaling.factor", v.arch), Value::F32(factor));
        w.file.set(&format!("{}.rope.scaling.original_context_length", v.arch), Value::U32(CONTEXT / 4));
    }
    w.tensor("token_embd.weight", &[VOCAB, WIDTH], 0.0, 2.0);
    for i in 0..LAYERS {
        let name = |part: &str| format!("blk.{i}.{part}");
        w.norm(&name("attn_norm.weight"), WIDTH);
        for (part, rows) in [("q", HEADS * dim), ("k", KV * dim), ("v", KV * dim)] {
            w.matrix(&name(&format!("attn_{part}.weight")), rows, WIDTH);
            if v.bias {
                w.tensor(&name(&format!("attn_{part}.bias")), &[rows], 0.0, 1.0);
            }
        }
        if v.head_norm {
            w.norm(&name("attn_q_norm.weight"), dim);
            w.norm(&name("attn_k_norm.weight"), dim);
        }
        w.matrix(&name("attn_output.weight"), WIDTH, HEADS * dim);
        w.norm(&name("ffn_norm.weight"), WIDTH);
        w.matrix(&name("ffn_gate.weight"), FF, WIDTH);
        w.matrix(&name("ffn_up.weight"), FF, WIDTH);
        w.matrix(&name("ffn_down.weight"), WIDTH, FF);
    }
    w.norm("output_norm.weight", WIDTH);
    w.matrix("output.weight", VOCAB, WIDTH);
    if v.freqs {
        w.tensor("rope_freqs.weight", &[dim / 2], 4.0, 6.0);
    }
    w.file.to_vec().unwrap()
}

#[test]
fn logits_are_llama_cpps_at_every_split_of_prompt_and_decode() {
    let path = own("tests/golden/architectures.json");
    let golden: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let numbers =
        |v: &Json| -> Vec<f64> { v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect() };
    let tokens: Vec<u32> = numbers(&golden["tokens"]).iter().map(|t| *t as u32).collect();
    let models = golden["models"].as_array().unwrap();
    assert_eq!(models.len(), variants().len());
    for v in variants() {
        let want = &models.iter().find(|m| m["name"] == v.name).unwrap()["logits"];
        let file = Gguf::from_vec(model(&v), v.name).unwrap();
        let mut e = engine(Arc::new(file), Tier::best(), 2, KvType::F32);
        for prompt in [100, 50, 1] {
            let sequence = e.open();
            let mut rows: Vec<Vec<f32>> = Vec::new();
            for part in [&tokens[..prompt]].into_iter().chain(tokens[prompt..].chunks(1)) {
                let output = e.step(&one(sequence, part, Outputs::All)).unwrap();
                rows.extend(output.rows().map(|r| r.logits.to_vec()));
            }
            e.close(sequence);
            for at in [0, 49, 99] {
                let want = numbers(&want[at.to_string()]);
                let size = want.iter().map(|x| x * x).sum::<f64>().sqrt();
                let error: f64 = want.iter().zip(&rows[at]).map(|(w, g)| (w - f64::from(*g)).powi(2)).sum();
                let relative = error.sqrt() / size;
                assert!(relative < 1e-4, "{} split {prompt} position {at}: {relative:e}", v.name);
            }
        }
    }
}
