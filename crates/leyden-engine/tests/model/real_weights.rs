//! Published models compared with llama.cpp on the same file, if they are present: in `../models`, where
//! `../shared/tools/fetch_models.py` puts them. They are not part of the shared data, so their absence is no failure.

use super::shared::{best, engine_of, greedy, numbers, one, own};
use leyden_engine::{Engine, Outputs};
use leyden_kernels::{Tier, ops};
use leyden_tensor::{Gguf, WeightSource};
use leyden_testkit::{emulated, shared};
use leyden_text::Special;
use serde_json::Value as Json;
use std::io::Write;

/// Gap between llama.cpp's two best logits that rounding of activations to 8 bits does not close: three standard
/// deviations of that rounding (`tests/golden/README.md`, Q4_K_M).
const WIDE: f64 = 0.52;
const CONTEXT: usize = 512;

fn ids(list: &Json) -> Vec<u32> {
    numbers(list).iter().map(|id| *id as u32).collect()
}

/// The perplexity in windows of 512 without overlap, of which the second half counts.
fn perplexity(e: &mut Engine, tokens: &[u32], bos: Option<u32>) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for window in tokens.chunks_exact(CONTEXT) {
        let mut fed = window.to_vec();
        fed[0] = bos.unwrap_or(fed[0]);
        let sequence = e.open();
        let output = e.step(&one(sequence, &fed, Outputs::From(CONTEXT / 2))).unwrap();
        let targets = &window[CONTEXT / 2 + 1..];
        for (row, &target) in output.rows().zip(targets) {
            let (max, total) = ops::log_sum_exp(Tier::best(), row.logits);
            sum += f64::from(max) + f64::from(total).ln() - f64::from(row.logits[target as usize]);
            count += 1;
        }
        e.close(sequence);
    }
    (sum / f64::from(count)).exp()
}

#[test]
fn greedy_text_and_perplexity_are_llama_cpps() {
    if emulated() {
        return;
    }
    let Some(text) = shared("data/text/wikitext-2/test.txt") else { return };
    let golden = std::fs::read_to_string(own("tests/golden/real_weights.json")).unwrap();
    let golden: Json = serde_json::from_str(&golden).unwrap();
    let text = std::fs::read(text).unwrap();
    let text = std::str::from_utf8(&text[..golden["text_bytes"].as_u64().unwrap() as usize]).unwrap();
    for model in golden["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        let path = own("../../../models").join(model["file"].as_str().unwrap());
        if !path.exists() {
            // Not `eprintln!`, which a test that passes keeps to itself.
            let _ = writeln!(std::io::stderr(), "skipped: ../models has no {name} (fetch_models.py)");
            continue;
        }
        let file = Gguf::open(&path).unwrap();
        let tokenizer = leyden_text::from_gguf(file.metadata(), name).unwrap();
        let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
        let encode = |text| {
            let ids = tokenizer.encode(text, Special::AsText).unwrap();
            bos.into_iter().chain(ids).collect::<Vec<u32>>()
        };
        // A window at a time, as the golden's.
        let mut e = engine_of(&path);
        for prompt in model["prompts"].as_array().unwrap() {
            let prompt_ids = encode(prompt["text"].as_str().unwrap());
            assert_eq!(prompt_ids, ids(&prompt["ids"]), "{name}");
            let (tokens, gaps) = (ids(&prompt["tokens"]), numbers(&prompt["gaps"]));
            let sure = gaps.iter().take_while(|gap| **gap > WIDE).count();
            assert_eq!(greedy(&mut e, &prompt_ids, sure), tokens[..sure], "{name}");
            // After llama.cpp's own choices, wherever the gap is wide.
            let forced = [&prompt_ids[..], &tokens].concat();
            let sequence = e.open();
            let output = e.step(&one(sequence, &forced, Outputs::From(prompt_ids.len() - 1))).unwrap();
            for ((row, token), gap) in output.rows().zip(&tokens).zip(&gaps) {
                assert!(*gap <= WIDE || best(row.logits).0 == *token, "{name}: gap {gap}");
            }
            e.close(sequence);
        }
        let tokens = encode(text);
        assert_eq!(tokens.len() as u64, model["tokens"].as_u64().unwrap(), "{name}");
        let (ours, theirs) = (perplexity(&mut e, &tokens, bos), model["perplexity"].as_f64().unwrap());
        eprintln!("{name}: perplexity {ours:.4}, llama.cpp {theirs:.4}, ratio {:.5}", ours / theirs);
        assert!((ours / theirs - 1.0).abs() < 0.005, "{name}: {ours}, llama.cpp {theirs}");
    }
}
