//! Every architecture and every scaling of positions against llama.cpp, on tiny models whose weights follow from a
//! formula (`tests/golden/make/architectures.py`).

use super::shared::{at_every_split, engine, numbers, one, own};
use leyden_engine::{Engine, EngineOptions, Outputs, StepEntry};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::{Make, PackCache, load_with};
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
const EXPERTS: usize = 11;
const USED: usize = 3;
const EXPERT_FF: usize = 24;

/// Differences between the models.
#[derive(Default)]
struct Variant {
    name: &'static str,
    arch: &'static str,
    head_dim: Option<usize>,
    scaling: Option<(&'static str, f32)>,
    freqs: bool,
    bias: bool,
    head_norm: bool,
    experts: bool,
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
        mixture(),
    ]
}

fn mixture() -> Variant {
    let (name, head_dim) = ("qwen3moe", Some(32));
    Variant { name, arch: name, head_dim, head_norm: true, experts: true, ..Variant::default() }
}

/// Weight `i` of the tensor with a seed.
pub(crate) fn noise(i: u64, seed: u64, base: f32, scale: f64) -> f32 {
    let x = (i * 747_796_405 + seed * 2_891_336_453) % (1 << 32);
    let x = ((x ^ (x >> 15)) * 2_246_822_519) % (1 << 32);
    let x = x ^ (x >> 13);
    (((x >> 8) as f64 / f64::from(1 << 24) - 0.5) * scale) as f32 + base
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
        let n = shape.iter().product::<usize>() as u64;
        let bytes: Vec<u8> = (0..n).flat_map(|i| noise(i, self.seed, base, scale).to_le_bytes()).collect();
        self.file.add_tensor(name, DType::F32, shape, bytes).unwrap();
    }

    fn matrix(&mut self, name: &str, rows: usize, cols: usize) {
        self.tensor(name, &[rows, cols], 0.0, 2.0 / (cols as f64).sqrt());
    }

    fn stack(&mut self, name: &str, rows: usize, cols: usize) {
        self.tensor(name, &[EXPERTS, rows, cols], 0.0, 2.0 / (cols as f64).sqrt());
    }

    fn norm(&mut self, name: &str, n: usize) {
        self.tensor(name, &[n], 1.0, 0.2);
    }
}

fn model(v: &Variant) -> Vec<u8> {
    model_of(v).file.to_vec().unwrap()
}

fn model_of(v: &Variant) -> Writer {
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
    if v.experts {
        w.file.set(&format!("{}.expert_count", v.arch), u(EXPERTS));
        w.file.set(&format!("{}.expert_used_count", v.arch), u(USED));
        w.file.set(&format!("{}.expert_feed_forward_length", v.arch), u(EXPERT_FF));
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
        if v.experts {
            w.matrix(&name("ffn_gate_inp.weight"), EXPERTS, WIDTH);
            w.stack(&name("ffn_gate_exps.weight"), EXPERT_FF, WIDTH);
            w.stack(&name("ffn_up_exps.weight"), EXPERT_FF, WIDTH);
            w.stack(&name("ffn_down_exps.weight"), WIDTH, EXPERT_FF);
            continue;
        }
        w.matrix(&name("ffn_gate.weight"), FF, WIDTH);
        w.matrix(&name("ffn_up.weight"), FF, WIDTH);
        w.matrix(&name("ffn_down.weight"), WIDTH, FF);
    }
    w.norm("output_norm.weight", WIDTH);
    w.matrix("output.weight", VOCAB, WIDTH);
    if v.freqs {
        w.tensor("rope_freqs.weight", &[dim / 2], 4.0, 6.0);
    }
    w
}

#[test]
fn logits_are_llama_cpps_at_every_split_of_prompt_and_decode() {
    let path = own("tests/golden/architectures.json");
    let golden: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let tokens: Vec<u32> = numbers(&golden["tokens"]).iter().map(|t| *t as u32).collect();
    let models = golden["models"].as_array().unwrap();
    assert_eq!(models.len(), variants().len());
    for v in variants() {
        let want = &models.iter().find(|m| m["name"] == v.name).unwrap()["logits"];
        let file = Gguf::from_vec(model(&v), v.name).unwrap();
        let mut e = engine(Arc::new(file), Tier::best(), 2, KvType::F32);
        at_every_split(&mut e, &tokens, want, v.name);
    }
}

/// The bits of all logits of a text of one sequence, fed in pieces, with others in the same step.
fn bits(file: &[u8], cpu: (Tier, usize), piece: usize, others: usize) -> Vec<u32> {
    let mut e =
        engine(Arc::new(Gguf::from_vec(file.to_vec(), "mixture").unwrap()), cpu.0, cpu.1, KvType::F16);
    let tokens: Vec<u32> = (0..60).map(|i| (i * 37 + i * i) % 128).collect();
    let sequences: Vec<_> = (0..=others).map(|_| e.open()).collect();
    let mut bits = Vec::new();
    for part in tokens.chunks(piece) {
        let mut plan = one(sequences[others], part, Outputs::From(0));
        for (i, &other) in sequences[..others].iter().enumerate() {
            let tokens = part.iter().map(|t| (t * 3 + i as u32) % 128).collect();
            plan.entries.insert(0, StepEntry { sequence: other, tokens, outputs: Outputs::None });
        }
        let output = e.step(&plan).unwrap();
        output.rows().for_each(|r| bits.extend(r.logits.iter().map(|l| l.to_bits())));
    }
    bits
}

/// A llama whose layers differ in heads and width, with keys of 32 numbers and values of 16; or the same with values of
/// 32, the last 16 of which are zero and so do not change the result.
fn uneven(padded: bool) -> Vec<u8> {
    const HEADS: [(usize, usize, usize); 3] = [(4, 2, 64), (2, 1, 32), (3, 3, 48)];
    const K: usize = 32;
    const V: usize = 16;
    let value = if padded { 2 * V } else { V };
    let list = |of: fn(&(usize, usize, usize)) -> usize| {
        Value::Array(leyden_tensor::Array::from_i32(&HEADS.map(|h| i32::try_from(of(&h)).unwrap())))
    };
    let mut w = Writer::default();
    w.file.set("general.architecture", "llama".into());
    for (key, value) in [
        ("block_count", Value::U32(3)),
        ("context_length", Value::U32(CONTEXT)),
        ("embedding_length", Value::U32(WIDTH as u32)),
        ("feed_forward_length", list(|h| h.2)),
        ("attention.head_count", list(|h| h.0)),
        ("attention.head_count_kv", list(|h| h.1)),
        ("attention.key_length", Value::U32(K as u32)),
        ("attention.value_length", Value::U32(value as u32)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
    ] {
        w.file.set(&format!("llama.{key}"), value);
    }
    // Number i of a matrix whose rows or columns are heads of values, if it is not one of the added ones.
    let of_value = |i: usize, along: usize| {
        let (head, d) = (i / along / value, i / along % value);
        (d < V).then_some((head * V + d) * along + i % along)
    };
    w.tensor("token_embd.weight", &[VOCAB, WIDTH], 0.0, 2.0);
    for (i, (heads, kv, ffn)) in HEADS.into_iter().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}.weight");
        w.norm(&name("attn_norm"), WIDTH);
        w.matrix(&name("attn_q"), heads * K, WIDTH);
        w.matrix(&name("attn_k"), kv * K, WIDTH);
        w.seed += 1;
        let seed = w.seed;
        let number = |at: Option<usize>, seed| at.map_or(0.0, |at| noise(at as u64, seed, 0.0, 0.4));
        let v: Vec<u8> =
            (0..kv * value * WIDTH).flat_map(|i| number(of_value(i, WIDTH), seed).to_le_bytes()).collect();
        w.file.add_tensor(&name("attn_v"), DType::F32, &[kv * value, WIDTH], v).unwrap();
        w.seed += 1;
        let seed = w.seed;
        let o = (0..WIDTH * heads * value).flat_map(|i| {
            let (row, column) = (i / (heads * value), i % (heads * value));
            number(of_value(column, 1).map(|c| row * heads * V + c), seed).to_le_bytes()
        });
        let o: Vec<u8> = o.collect();
        w.file.add_tensor(&name("attn_output"), DType::F32, &[WIDTH, heads * value], o).unwrap();
        w.norm(&name("ffn_norm"), WIDTH);
        w.matrix(&name("ffn_gate"), ffn, WIDTH);
        w.matrix(&name("ffn_up"), ffn, WIDTH);
        w.matrix(&name("ffn_down"), WIDTH, ffn);
    }
    w.norm("output_norm.weight", WIDTH);
    w.matrix("output.weight", VOCAB, WIDTH);
    w.file.to_vec().unwrap()
}

#[test]
fn layers_may_differ_and_values_be_smaller_than_keys() {
    let tokens: Vec<u32> = (0..150).map(|i| (i * 37 + i * i) % 128).collect();
    let logits = |padded: bool, piece: usize| {
        let file = Arc::new(Gguf::from_vec(uneven(padded), "uneven").unwrap());
        let mut e = engine(file, Tier::best(), 2, KvType::F32);
        let sequence = e.open();
        let mut logits = Vec::new();
        for part in tokens.chunks(piece) {
            let output = e.step(&one(sequence, part, Outputs::From(0))).unwrap();
            output.rows().for_each(|r| logits.extend_from_slice(r.logits));
        }
        logits
    };
    let (want, got) = (logits(true, 150), logits(false, 150));
    let size = want.iter().map(|x| x * x).sum::<f32>().sqrt();
    let off = want.iter().zip(&got).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt() / size;
    assert!(size > 1.0 && off < 1e-5, "{off:e} of {size}");
    // Also with the text divided differently.
    assert!(got.iter().zip(&logits(false, 37)).all(|(a, b)| a.to_bits() == b.to_bits()));
}

#[test]
fn multiplications_are_those_of_the_shapes() {
    for v in variants() {
        let source = Arc::new(Gguf::from_vec(model(&v), v.name).unwrap());
        let e = engine(source, Tier::best(), 1, KvType::F16);
        let dim = v.head_dim.unwrap_or(WIDTH / HEADS);
        let keys_and_values = 2 * KV * dim * WIDTH;
        let ffn = if v.experts { EXPERTS * WIDTH + USED * 3 * EXPERT_FF * WIDTH } else { 3 * FF * WIDTH };
        let rest = 2 * HEADS * dim * WIDTH + ffn;
        let stored = (LAYERS * keys_and_values + (LAYERS - 1) * rest) as u64;
        let whole = stored + (rest + VOCAB * WIDTH) as u64;
        assert_eq!(e.model().step_macs(1, 1), whole, "{}", v.name);
        assert_eq!(e.model().step_macs(9, 2), 7 * stored + 2 * whole, "{}", v.name);
    }
}

#[test]
fn a_mixture_gives_the_same_bits_on_every_tier_with_any_team_and_batch() {
    let file = model(&mixture());
    let want = bits(&file, (Tier::SCALAR, 1), 60, 0);
    assert_eq!(want.len(), 60 * VOCAB);
    for tier in Tier::available() {
        for (threads, piece, others) in [(1, 60, 0), (3, 60, 2), (2, 7, 0), (2, 1, 3)] {
            let got = bits(&file, (tier, threads), piece, others);
            assert!(got == want, "{} x{threads}, pieces of {piece}, {others} others", tier.level());
        }
    }
}

#[test]
fn impossible_mixtures_are_errors_that_name_the_key() {
    let open = |key: &str, value: Option<Value>| {
        let mut w = model_of(&mixture());
        match value {
            Some(value) => w.file.set(&format!("qwen3moe.{key}"), value),
            None => w.file.set("qwen3moe.nothing", Value::Bool(true)),
        };
        let file = Gguf::from_vec(w.file.to_vec().unwrap(), "m.gguf").unwrap();
        let cpu = Cpu::new(Tier::best(), 1).unwrap();
        leyden_models::load(Arc::new(file), &cpu, &mut |_, _| {}).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(open("", None), Ok(()));
    let used = EXPERTS as u32 + 1;
    for (key, value, want) in [
        ("expert_count", 0, "0 is not between 1 and 65536"),
        ("expert_count", u32::MAX, "4294967295 is not between 1 and 65536"),
        ("expert_used_count", 0, "0 is not between 1 and 65536"),
        ("expert_used_count", used, "12 of expert_count 11"),
        ("expert_used_count", u32::MAX, "4294967295 is not between 1 and 65536"),
        ("expert_feed_forward_length", 0, "0 is not between 1 and 16777216"),
        ("expert_feed_forward_length", u32::MAX, "4294967295 is not between 1 and 16777216"),
    ] {
        let error = open(key, Some(Value::U32(value))).unwrap_err();
        assert_eq!(error, format!("m.gguf: qwen3moe.{key}: {want}"));
    }
    for key in ["expert_count", "expert_used_count", "expert_feed_forward_length"] {
        let error = open(key, Some(Value::from("many"))).unwrap_err();
        assert!(error.starts_with(&format!("m.gguf: qwen3moe.{key}: ")), "{error}");
    }
    // Configurations that contradict the tensors.
    for (key, value, tensor) in [
        ("expert_count", 65536, "blk.0.ffn_gate_inp.weight"),
        ("expert_count", 12, "blk.0.ffn_gate_inp.weight"),
        ("expert_feed_forward_length", 25, "blk.0.ffn_gate_exps.weight"),
        ("expert_feed_forward_length", 1 << 24, "blk.0.ffn_gate_exps.weight"),
    ] {
        let error = open(key, Some(Value::U32(value))).unwrap_err();
        assert!(error.starts_with(&format!("m.gguf: {tensor}: shape ")), "{error}");
    }
}

#[test]
fn stacks_of_experts_are_kept_between_starts() {
    let folder = std::env::temp_dir().join(format!("leyden-mixture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("mixture.gguf");
    std::fs::write(&path, model(&mixture())).unwrap();
    let cpu = Arc::new(Cpu::new(Tier::best(), 2).unwrap());
    let load = |map| {
        let cache = PackCache::Folder { path: folder.join("packs"), make: Make::Missing, map };
        let source = Arc::new(Gguf::open(&path).unwrap());
        let (model, report) = load_with(source, &cpu, &cache, &mut |_, _| {}).unwrap();
        let options = EngineOptions { kv_type: KvType::F16, context: 64, cache_tokens: 64, step_tokens: 64 };
        let mut e = Engine::new(model, Arc::clone(&cpu), options).unwrap();
        let sequence = e.open();
        let output = e.step(&one(sequence, &[1, 2, 3, 4, 5], Outputs::From(0))).unwrap();
        let bits: Vec<u32> = output.rows().flat_map(|r| r.logits.iter().map(|l| l.to_bits())).collect();
        (bits, report)
    };
    let (want, made) = load(false);
    assert!(made.made.is_some() && made.notes.is_empty(), "{made:?}");
    for map in [false, true] {
        let (got, read) = load(map);
        assert!(read.read.is_some() && read.mapped == map && read.notes.is_empty(), "{read:?}");
        assert!(got == want, "mapped: {map}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
