//! Whole models in every weight type: the embedded storyteller, written anew with our encoder.
//!
//! Bits must not depend on tier and team. And rounding the activations must not cost more than it costs llama.cpp on
//! the same file: what is compared is the mean Kullback-Leibler divergence of the next token's distribution from that
//! of the same weights with F32 activations (`tests/golden/make/divergence.py`).

use super::shared::{embedded, engine, engine_on, one, own};
use leyden_engine::Outputs;
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_tensor::{DType, Gguf, GgufWriter, WeightSource, quant};
use leyden_testkit::{emulated, shared};
use leyden_text::Special;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// Tokens of a window, begin of text included. Every position counts.
const WINDOW: usize = 256;
const WINDOWS: usize = 40;
/// Neighbouring positions are alike, so deviations are those of the means of so many.
const PART: usize = 32;

/// The storyteller with its matrices in one type.
struct Storyteller {
    dtype: DType,
    /// File in the type.
    file: Vec<u8>,
    /// The same numbers as F32, which is computed with F32 activations.
    decoded: Vec<u8>,
}

fn storyteller(dtype: DType) -> Storyteller {
    let from = Gguf::open(&embedded()).unwrap();
    let (mut file, mut decoded) = (GgufWriter::new(), GgufWriter::new());
    for (key, value) in from.metadata().iter() {
        file.set(key, value.clone());
        decoded.set(key, value.clone());
    }
    for name in from.tensor_names() {
        let t = from.require(name).unwrap();
        // Vectors, which are norms here, are F32 in every file.
        let dtype = if t.shape().len() == 2 { dtype } else { DType::F32 };
        let (cols, encoded) = (t.cols(), dtype.row_bytes(t.cols()).unwrap());
        let (mut bytes, mut floats) = (vec![0; t.rows() * encoded], vec![0; t.rows() * cols * 4]);
        // Finding the best codes takes most of these tests' time, minutes of an emulator's.
        let each = t.rows().div_ceil(thread::available_parallelism().unwrap().get());
        let parts = bytes.chunks_mut(each * encoded).zip(floats.chunks_mut(each * cols * 4));
        thread::scope(|scope| {
            for (part, (bytes, floats)) in parts.enumerate() {
                let t = &t;
                scope.spawn(move || {
                    let mut row = vec![0.0; cols];
                    let rows = bytes.chunks_mut(encoded).zip(floats.chunks_mut(cols * 4));
                    for (i, (bytes, floats)) in rows.enumerate() {
                        quant::decode_row(t.dtype(), t.row(part * each + i), &mut row);
                        quant::encode_row(dtype, &row, bytes);
                        quant::decode_row(dtype, bytes, &mut row);
                        floats.as_chunks_mut().0.iter_mut().zip(&row).for_each(|(f, x)| *f = x.to_le_bytes());
                    }
                });
            }
        });
        file.add_tensor(name, dtype, t.shape(), bytes).unwrap();
        decoded.add_tensor(name, DType::F32, t.shape(), floats).unwrap();
    }
    Storyteller { dtype, file: file.to_vec().unwrap(), decoded: decoded.to_vec().unwrap() }
}

fn source(bytes: &[u8], name: &str) -> Arc<dyn WeightSource> {
    Arc::new(Gguf::from_vec(bytes.to_vec(), name).unwrap())
}

/// The types whose activations are rounded or might be: all but F32.
fn types() -> impl Iterator<Item = DType> {
    DType::encodable().filter(|t| *t != DType::F32)
}

#[test]
fn every_type_gives_the_same_bits_on_every_tier_and_team() {
    let tokens: Vec<u32> = (0..13).map(|i| (i * 2_654_435 + i * i) % 4096).collect();
    let stored = json("tests/golden/logits.json");
    let mut others = Vec::new();
    let exact = [(DType::BF16, true)];
    for (dtype, exact) in types().map(|dtype| (dtype, false)).chain(exact) {
        let name = format!("{dtype}{}", if exact { " exact" } else { "" });
        let file = source(&storyteller(dtype).file, dtype.name());
        let bits = |tier, threads| {
            let cpu = Cpu::new(tier, threads).unwrap().with_exact(exact);
            let mut e = engine_on(Arc::clone(&file), cpu, KvType::F16);
            let s = e.open();
            // A batch, then tokens one by one.
            let mut bits: Vec<u32> = Vec::new();
            for part in [&tokens[..11], &tokens[11..12], &tokens[12..]] {
                let output = e.step(&one(s, part, Outputs::From(0))).unwrap();
                output.rows().for_each(|r| bits.extend(r.logits.iter().map(|l| l.to_bits())));
            }
            bits
        };
        // An emulator skips the plain path, which is slow there: the digest has its bits.
        let tiers = Tier::available().into_iter().filter(|tier| !emulated() || *tier != Tier::SCALAR);
        let mut seen = BTreeSet::new();
        for tier in tiers {
            // One thread everywhere, and three on the best tier and the plain one.
            let both = !emulated() && (tier.level() == Tier::best().level() || tier == Tier::SCALAR);
            for &threads in if both { &[1, 3][..] } else { &[1] } {
                let bits = bits(tier, threads);
                let digest = hex(&bits.iter().flat_map(|b| b.to_le_bytes()).collect::<Vec<u8>>());
                if stored["digests"][&name] != digest {
                    eprintln!("{name} differs on {} with {threads} threads", tier.level());
                }
                seen.insert(digest);
            }
        }
        assert_eq!(seen.len(), 1, "{name}: the same logits on every tier and team");
        // Every processor of every architecture gives the same bits.
        others.extend(
            seen.iter()
                .filter(|seen| stored["digests"][&name] != **seen)
                .map(|seen| format!("\"{name}\": \"{seen}\"")),
        );
    }
    let levels: Vec<&str> = Tier::available().iter().map(|t| t.level().name()).collect();
    eprintln!("{} weight types, the same logits on {}", types().count(), levels.join(", "));
    assert!(others.is_empty(), "other logits than tests/golden/logits.json has:\n{}", others.join(",\n"));
}

/// Logits after every token of the first windows of a text.
fn logits(file: &[u8], tokens: &[u32], windows: usize) -> Vec<Vec<f32>> {
    let mut e = engine(source(file, "storyteller"), Tier::best(), 2, KvType::F32);
    let mut rows = Vec::new();
    for window in tokens.chunks_exact(WINDOW).take(windows) {
        let s = e.open();
        let output = e.step(&one(s, window, Outputs::From(0))).unwrap();
        rows.extend(output.rows().map(|r| r.logits.to_vec()));
        e.close(s);
    }
    rows
}

/// Returns the Kullback-Leibler divergence of the distribution of `q` from that of `p`, both given as logits, in nats.
fn divergence(p: &[f32], q: &[f32]) -> f64 {
    let normaliser = |l: &[f32]| {
        let max = f64::from(l.iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x)));
        max + l.iter().map(|x| (f64::from(*x) - max).exp()).sum::<f64>().ln()
    };
    let (np, nq) = (normaliser(p), normaliser(q));
    p.iter()
        .zip(q)
        .map(|(p, q)| {
            let (p, q) = (f64::from(*p) - np, f64::from(*q) - nq);
            p.exp() * (p - q)
        })
        .sum()
}

/// Divergences of a type's file from F32 activations: means over [`PART`] positions, of the first windows.
fn divergences(model: &Storyteller, tokens: &[u32], windows: usize) -> Vec<f64> {
    let exact = logits(&model.decoded, tokens, windows);
    let ours = logits(&model.file, tokens, windows);
    let all: Vec<f64> = exact.iter().zip(&ours).map(|(p, q)| divergence(p, q)).collect();
    all.chunks_exact(PART).map(mean).collect()
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// The standard deviation of the mean of `x`.
fn deviation(x: &[f64]) -> f64 {
    let m = mean(x);
    let n = x.len() as f64;
    (x.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / (n - 1.0) / n).sqrt()
}

fn json(path: &str) -> Json {
    serde_json::from_str(&std::fs::read_to_string(own(path)).unwrap()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn numbers(v: &Json) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// Compares with llama.cpp over the first windows and prints the table.
fn compare(windows: usize) {
    let golden = json("tests/golden/divergence.json");
    let tokens: Vec<u32> = numbers(&golden["tokens"]).iter().map(|t| *t as u32).collect();
    assert_eq!(tokens.len(), WINDOW * WINDOWS);
    eprintln!("| type | leyden | llama.cpp | ratio |\n|---|---|---|---|");
    // The logits are the same bits on every processor, so for an emulator, which takes some twenty times as long, one
    // type of each block length is enough.
    let some = |t: &DType| !emulated() || matches!(*t, DType::Q8_0 | DType::Q4K);
    for dtype in types().filter(some) {
        let model = storyteller(dtype);
        let row = golden["types"].as_array().unwrap().iter().find(|t| t["type"] == dtype.name()).unwrap();
        let digest = hex(&model.file);
        assert_eq!(digest, row["sha256"], "{dtype}: the golden is about another file");
        let ours = divergences(&model, &tokens, windows);
        let theirs = &numbers(&row["divergence"])[..ours.len()];
        let (a, b) = (mean(&ours), mean(theirs));
        eprintln!(
            "| {dtype} | {a:.2e} ± {:.1e} | {b:.2e} ± {:.1e} | {:.3} |",
            deviation(&ours),
            deviation(theirs),
            a / b
        );
        // The same text, so what counts is the deviation of the difference.
        let difference: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a - b).collect();
        let bound = 3.0 * deviation(&difference) + FLOOR;
        assert!(a - b <= bound, "{dtype}: {a:e} ± {:e}, llama.cpp {b:e}, bound {bound:e}", deviation(&ours));
    }
}

/// Divergence that F32 arithmetic itself leaves: rounding of sums in another order.
const FLOOR: f64 = 1e-9;

#[test]
fn rounded_activations_diverge_no_more_than_llama_cpps() {
    compare(if emulated() { 1 } else { 2 });
}

#[test]
#[ignore = "the table of docs/numerics.md: cargo test --release -p leyden-engine --test model -- --ignored --nocapture whole_text"]
fn divergence_over_the_whole_text() {
    compare(WINDOWS);
}

#[test]
#[ignore = "writes what tests/golden/make/divergence.py needs, into the temporary folder of the target directory"]
fn write_divergence_files() {
    let Some(text) = shared("demo-model/heldout.txt") else { return };
    let text = std::fs::read_to_string(text).unwrap();
    let from = Gguf::open(&embedded()).unwrap();
    let tokenizer = leyden_text::from_gguf(from.metadata(), "storyteller").unwrap();
    let ids = tokenizer.encode(&text, Special::AsText).unwrap();
    let bos = tokenizer.bos().unwrap();
    let tokens: Vec<u32> = ids
        .chunks_exact(WINDOW - 1)
        .take(WINDOWS)
        .flat_map(|part| [bos].into_iter().chain(part.iter().copied()))
        .collect();
    assert_eq!(tokens.len(), WINDOW * WINDOWS);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("divergence");
    std::fs::create_dir_all(&folder).unwrap();
    let bytes: Vec<u8> = tokens.iter().flat_map(|t| t.to_le_bytes()).collect();
    std::fs::write(folder.join("tokens.u32"), bytes).unwrap();
    // The logits are the same bits on every processor, so for an emulator, which takes some twenty times as long, one
    // type of each block length is enough.
    let some = |t: &DType| !emulated() || matches!(*t, DType::Q8_0 | DType::Q4K);
    for dtype in types().filter(some) {
        let model = storyteller(dtype);
        let exact = logits(&model.decoded, &tokens, WINDOWS);
        let bytes: Vec<u8> = exact.iter().flatten().flat_map(|l| l.to_le_bytes()).collect();
        std::fs::write(folder.join(format!("{}.f32", model.dtype.name())), bytes).unwrap();
        std::fs::write(folder.join(format!("{}.gguf", model.dtype.name())), &model.file).unwrap();
        std::fs::write(folder.join(format!("{}-decoded.gguf", model.dtype.name())), &model.decoded).unwrap();
    }
    eprintln!("{}", folder.display());
}
