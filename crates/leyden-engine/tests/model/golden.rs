//! The embedded model (storyteller) compared with llama.cpp; `tests/golden/README.md` describes the figures.

use super::shared::{best, embedded, engine, engine_of, greedy, numbers, one, own};
use leyden_engine::{Engine, Outputs};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Tier, ops};
use leyden_tensor::{Gguf, WeightSource, quant};
use leyden_testkit::{emulated, shared};
use leyden_text::Special;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden(name: &str) -> Value {
    let path = own("tests/golden").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn ids(v: &Value) -> Vec<u32> {
    v.as_array().unwrap().iter().map(|x| u32::try_from(x.as_u64().unwrap()).unwrap()).collect()
}

/// The file of each quantisation, where it is at hand.
fn file(kind: &str) -> Option<PathBuf> {
    match kind {
        "f16" => shared("demo-model/storyteller-f16.gguf"),
        "q8_0" => Some(embedded()),
        _ => Some(own("tests/fixtures").join(format!("storyteller-{kind}.gguf"))),
    }
}

#[test]
fn f16_gives_the_same_64_greedy_tokens_on_ten_prompts() {
    let Some(path) = file("f16") else { return };
    let mut engine = engine_of(&path);
    let g = golden("f16_greedy.json");
    let prompts = g["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 10);
    for p in prompts.iter().take(if emulated() { 2 } else { 10 }) {
        assert_eq!(greedy(&mut engine, &ids(&p["ids"]), 64), ids(&p["tokens"]), "{}", p["name"]);
    }
}

/// Above this gap between the peer's two best logits the top token must be ours too.
///
/// `gap_rms` is the deviation of that gap from exact arithmetic on the same weights, which comes from rounding
/// activations to 8 bits. Ours are rounded too, so the gaps of two programs differ by sqrt(2) of it; the bound is
/// three such deviations.
fn bound(forced: &Value) -> f64 {
    3.0 * 2f64.sqrt() * forced["against_float64"]["gap_rms"].as_f64().unwrap()
}

#[test]
fn quantised_files_agree_wherever_the_gap_is_wide_enough() {
    let texts = golden("f16_greedy.json");
    for kind in ["f16", "q8_0", "q4_0", "q4_k_m", "q6_k"] {
        let Some(path) = file(kind) else { continue };
        let mut engine = engine_of(&path);
        let forced = golden(&format!("{kind}_forced.json"));
        let bound = bound(&forced);
        let mut positions = 0;
        let prompts = forced["prompts"].as_array().unwrap();
        for p in prompts.iter().take(if emulated() { 2 } else { prompts.len() }) {
            let text = texts["prompts"].as_array().unwrap().iter().find(|t| t["name"] == p["name"]).unwrap();
            let tokens = [ids(&text["ids"]), ids(&text["tokens"])].concat();
            let (first, high, low) =
                (ids(&p["first"]), numbers(&p["first_logit"]), numbers(&p["second_logit"]));
            let sequence = engine.open();
            let output = engine.step(&one(sequence, &tokens, Outputs::From(0))).unwrap();
            for (i, row) in output.rows().enumerate() {
                let gap = high[i] - low[i];
                let top = best(row.logits).0;
                assert!(
                    top == first[i] || gap <= bound,
                    "{kind}: {} position {i}: {top}, llama.cpp has {} with a gap of {gap}, bound {bound}",
                    p["name"],
                    first[i]
                );
                positions += 1;
            }
            engine.close(sequence);
        }
        assert!(emulated() || positions == 1090, "{kind}: {positions}");
    }
}

/// Perplexity over windows of 512 tokens, the second half scored, as `llama-perplexity` measures it.
fn perplexity(engine: &mut Engine, tokens: &[u32], bos: u32) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for window in tokens.chunks_exact(512) {
        let mut fed = window.to_vec();
        fed[0] = bos;
        let sequence = engine.open();
        let output = engine.step(&one(sequence, &fed, Outputs::From(0))).unwrap();
        for (i, row) in output.rows().enumerate().filter(|(i, _)| (256..511).contains(i)) {
            let (max, total) = ops::log_sum_exp(Tier::best(), row.logits);
            let target = row.logits[window[i + 1] as usize];
            sum += f64::from(max) + f64::from(total).ln() - f64::from(target);
            count += 1;
        }
        engine.close(sequence);
    }
    (sum / f64::from(count)).exp()
}

/// The tokens of the first bytes of a text, begin-of-text in front.
fn tokens(model: &Path, text: &Path, bytes: usize) -> (Vec<u32>, u32) {
    let file = Gguf::open(model).unwrap();
    let tokenizer = leyden_text::from_gguf(file.metadata(), "storyteller").unwrap();
    let text = std::fs::read(text).unwrap();
    let text = std::str::from_utf8(&text[..bytes.min(text.len())]).unwrap();
    let bos = tokenizer.bos().unwrap();
    ([vec![bos], tokenizer.encode(text, Special::AsText).unwrap()].concat(), bos)
}

#[test]
fn perplexity_is_within_half_a_percent_of_llama_cpp() {
    if emulated() {
        let why =
            "60,000 tokens take an emulator an hour; logits are those of every other processor, bit for bit";
        // Not `eprintln!`, which a test that passes keeps to itself.
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
        return;
    }
    let Some(text) = shared("demo-model/heldout.txt") else { return };
    let g = golden("perplexity.json");
    for f in g["files"].as_array().unwrap() {
        let kind = f["kind"].as_str().unwrap();
        let Some(path) = file(kind) else { continue };
        let (tokens, bos) = tokens(&path, &text, 120_000);
        assert_eq!(tokens.len() as u64, g["tokens"].as_u64().unwrap());
        let ours = perplexity(&mut engine_of(&path), &tokens, bos);
        let theirs = f["perplexity"].as_f64().unwrap();
        eprintln!("{kind}: perplexity {ours:.4}, llama.cpp {theirs:.4}, ratio {:.5}", ours / theirs);
        assert!((ours / theirs - 1.0).abs() < 0.005, "{kind}: {ours}, llama.cpp {theirs}");
    }
}

/// Perplexity on the first bytes of wikitext-2's test text is the plain path's on every tier, in all digits.
fn perplexity_on_wikitext(bytes: usize) {
    let Some(text) = shared("data/text/wikitext-2/test.txt") else { return };
    for kind in ["q8_0", "q4_k_m"] {
        let path = file(kind).unwrap();
        let (tokens, bos) = tokens(&path, &text, bytes);
        let on = |tier: Tier| {
            let source = Arc::new(Gguf::open(&path).unwrap());
            let mut e = engine(source, tier, 2, KvType::F16);
            let perplexity = perplexity(&mut e, &tokens, bos);
            eprintln!("{kind}, {} tokens on {}: perplexity {perplexity}", tokens.len(), tier.level());
            perplexity
        };
        let plain = on(Tier::SCALAR);
        for tier in Tier::available().into_iter().skip(1) {
            assert_eq!(on(tier).to_bits(), plain.to_bits(), "{kind} on {}", tier.level());
        }
    }
}

#[test]
fn perplexity_on_wikitext_is_the_plain_paths_on_every_tier() {
    if emulated() {
        let _ = writeln!(std::io::stderr(), "skipped: the plain path takes an emulator too long");
        return;
    }
    perplexity_on_wikitext(3_000);
}

#[test]
#[ignore = "takes the plain path long: cargo test --release -p leyden-engine --test model -- --ignored --nocapture whole_wikitext"]
fn perplexity_on_the_whole_wikitext_is_the_plain_paths() {
    perplexity_on_wikitext(usize::MAX);
}

#[test]
fn the_embedded_model_is_what_our_encoder_makes_of_the_f16_weights() {
    let Some(path) = file("f16") else { return };
    let (from, to) = (Gguf::open(&path).unwrap(), Gguf::open(&embedded()).unwrap());
    assert_eq!(from.tensor_names(), to.tensor_names());
    for name in from.tensor_names() {
        let (a, b) = (from.require(name).unwrap(), to.require(name).unwrap());
        let mut row = vec![0.0; a.cols()];
        let mut bytes = vec![0; b.row_bytes()];
        for i in 0..a.rows() {
            quant::decode_row(a.dtype(), a.row(i), &mut row);
            quant::encode_row(b.dtype(), &row, &mut bytes);
            assert_eq!(bytes, b.row(i), "{name} row {i}");
        }
    }
}
