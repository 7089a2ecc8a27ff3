//! The sampling steps against llama.cpp's: the same tokens are left, with the same probabilities
//! (`tests/golden/make/samplers.py`).

use super::shared::{embedded, numbers, own};
use leyden_engine::sample::{
    Dry, DynamicTemperature, Mirostat, MirostatVersion, Penalties, Sampler, SamplingParams, SamplingStep,
    SequenceBreakers, Xtc,
};
use leyden_kernels::Tier;
use leyden_tensor::{Gguf, WeightSource};
use leyden_text::{Special, Tokenizer};
use serde_json::Value as Json;

/// Number of seeds tried until our draw is llama.cpp's.
const SEEDS: u64 = 200_000;

/// Probabilities below are compared no further.
const TINY: f64 = 1e-30;

fn ids(v: &Json) -> Vec<u32> {
    numbers(v).into_iter().map(|x| x as u32).collect()
}

/// The formula of `samplers.py`.
fn logits(case: &Json, step: u64) -> Vec<f32> {
    let scale = case["scale"].as_f64().unwrap();
    let seed = case["seed"].as_u64().unwrap() + step;
    let all: Vec<f32> = (0..case["n"].as_u64().unwrap())
        .map(|i| {
            let x = (i * 747_796_405 + seed * 2_891_336_453) % (1 << 32);
            let x = ((x ^ (x >> 15)) * 2_246_822_519) % (1 << 32);
            let x = x ^ (x >> 13);
            let x = (x >> 8) as f64 / f64::from(1 << 24) - 0.5;
            (scale * 8.0 * x * x * x) as f32
        })
        .collect();
    let Some(_) = case.get("ids") else { return all };
    let mut some = vec![f32::NEG_INFINITY; all.len()];
    ids(&case["ids"]).into_iter().for_each(|i| some[i as usize] = all[i as usize]);
    some
}

fn params(case: &Json, tokenizer: &dyn Tokenizer) -> SamplingParams {
    let mut p = SamplingParams { order: Vec::new(), ..SamplingParams::default() };
    for step in case["steps"].as_array().unwrap() {
        let step = step.as_array().unwrap();
        let v: Vec<f32> = step[1..].iter().map(|x| x.as_f64().unwrap() as f32).collect();
        let mirostat = |version| Some(Mirostat { version, entropy: v[0], rate: v[1] });
        let name = step[0].as_str().unwrap();
        match name {
            "penalties" => {
                p.penalties =
                    Penalties { window: v[0] as usize, repeat: v[1], frequency: v[2], presence: v[3] };
            }
            "dry" => {
                let texts = case["breakers"].as_array().unwrap();
                let texts: Vec<String> = texts.iter().map(|t| t.as_str().unwrap().to_owned()).collect();
                p.dry = Dry {
                    multiplier: v[0],
                    base: v[1],
                    allowed_length: v[2] as usize,
                    window: v[3] as usize,
                    breakers: SequenceBreakers::new(
                        &texts,
                        tokenizer.vocab_size(),
                        |id| tokenizer.token_bytes(id),
                        |text| tokenizer.encode(text, Special::AsText),
                    )
                    .unwrap(),
                };
            }
            "top_n_sigma" => p.top_n_sigma = v[0],
            "top_k" => p.top_k = v[0] as usize,
            "typ_p" => p.typical = v[0],
            "top_p" => p.top_p = v[0],
            "min_p" => p.min_p = v[0],
            "xtc" => p.xtc = Xtc { probability: v[0], threshold: v[1] },
            "temperature" => {
                p.temperature = v[0];
                p.dynamic_temperature = DynamicTemperature { range: v[1], exponent: v[2] };
            }
            "mirostat_1" => p.mirostat = mirostat(MirostatVersion::V1),
            "mirostat_2" => p.mirostat = mirostat(MirostatVersion::V2),
            other => panic!("{other}"),
        }
        p.order.extend(SamplingStep::from_name(name));
    }
    p
}

#[test]
fn the_same_tokens_are_left_with_the_same_probabilities() {
    let golden: Json =
        serde_json::from_str(&std::fs::read_to_string(own("tests/golden/samplers.json")).unwrap()).unwrap();
    let tokenizer =
        leyden_text::from_gguf(Gguf::open(&embedded()).unwrap().metadata(), "storyteller").unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 208);
    for case in cases {
        let about = format!("{} n {} seed {}", case["steps"], case["n"], case["seed"]);
        let n = logits(case, 0).len();
        let drawn = ids(&case["drawn"]);
        let sampler = |seed| {
            let mut s =
                Sampler::new(SamplingParams { seed, ..params(case, tokenizer.as_ref()) }, 0, Tier::best(), n)
                    .unwrap();
            s.accept(&ids(&case["history"]));
            s
        };
        // Mirostat continues from llama.cpp's draw, so a seed is searched with which ours is the same.
        let steps = case["left"].as_array().unwrap().len();
        let rows: Vec<Vec<f32>> = (0..steps as u64).map(|k| logits(case, k)).collect();
        let follows = |seed: &u64| {
            let mut s = sampler(*seed);
            (0..drawn.len().saturating_sub(1)).all(|k| s.sample(&rows[k], k).unwrap() == drawn[k])
        };
        let seed = (0..SEEDS).find(follows).unwrap_or_else(|| panic!("{about}: {drawn:?} is never drawn"));
        let mut s = sampler(seed);
        for (k, want) in case["left"].as_array().unwrap().iter().enumerate() {
            let mut got = s.distribution(&rows[k], k).unwrap();
            got.sort_by_key(|(id, _)| *id);
            let mut want: Vec<Vec<f64>> = want.as_array().unwrap().iter().map(numbers).collect();
            // Below the range of f32, llama.cpp's values become zero; ours are clamped before.
            got.retain(|g| g.1 > TINY);
            want.retain(|w| w[1] > TINY);
            let tokens: Vec<u32> = want.iter().map(|w| w[0] as u32).collect();
            assert_eq!(got.iter().map(|g| g.0).collect::<Vec<_>>(), tokens, "{about}, token {k}");
            for (g, w) in got.iter().zip(&want) {
                assert!((g.1 - w[1]).abs() < 1e-5, "{about}, token {k}: {g:?}, want {w:?}");
            }
            s.sample(&rows[k], k).unwrap();
        }
    }
}
