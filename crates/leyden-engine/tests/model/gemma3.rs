//! Gemma 3 compared with transformers, on tiny folders whose weights follow from a formula
//! (`tests/golden/make/gemma3.py`).

use super::architectures::noise;
use super::decoders::same_among_others;
use super::shared::{at_every_split, engine_on, numbers, one, own};
use leyden_engine::{Engine, Outputs};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::HfModel;
use serde_json::{Value as Json, json};
use std::sync::Arc;

pub(crate) fn golden() -> Json {
    let path = own("tests/golden/gemma3.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The folder of a configuration.
pub(crate) fn folder(config: &Json) -> tempfile::TempDir {
    let size = |key: &str| config[key].as_u64().unwrap() as usize;
    let (width, ffn, dim) = (size("hidden_size"), size("intermediate_size"), size("head_dim"));
    let (q, kv) = (size("num_attention_heads") * dim, size("num_key_value_heads") * dim);
    let mut tensors = vec![
        ("model.embed_tokens".to_owned(), vec![size("vocab_size"), width]),
        ("model.norm".to_owned(), vec![width]),
    ];
    for i in 0..size("num_hidden_layers") {
        for (part, shape) in [
            ("input_layernorm", vec![width]),
            ("mlp.down_proj", vec![width, ffn]),
            ("mlp.gate_proj", vec![ffn, width]),
            ("mlp.up_proj", vec![ffn, width]),
            ("post_attention_layernorm", vec![width]),
            ("post_feedforward_layernorm", vec![width]),
            ("pre_feedforward_layernorm", vec![width]),
            ("self_attn.k_norm", vec![dim]),
            ("self_attn.k_proj", vec![kv, width]),
            ("self_attn.o_proj", vec![width, q]),
            ("self_attn.q_norm", vec![dim]),
            ("self_attn.q_proj", vec![q, width]),
            ("self_attn.v_proj", vec![kv, width]),
        ] {
            tensors.push((format!("model.layers.{i}.{part}"), shape));
        }
    }
    tensors.sort();
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (seed, (name, shape)) in (1..).zip(&tensors) {
        let scale = match shape[..] {
            [_] => 0.4,
            _ if name.contains("embed") => 2.0,
            _ => 4.0 / (shape[1] as f64).sqrt(),
        };
        let start = data.len();
        for i in 0..shape.iter().product::<usize>() {
            data.extend(noise(i as u64, seed, 0.0, scale).to_le_bytes());
        }
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(format!("{name}.weight"), entry);
    }
    let header = Json::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

/// An engine that computes as torch does, which rounds no activation of these in F32.
fn engine(folder: &tempfile::TempDir, tier: Tier, kv_type: KvType) -> Engine {
    let source = Arc::new(HfModel::open(folder.path()).unwrap());
    engine_on(source, Cpu::new(tier, 2).unwrap().with_exact(true), kv_type)
}

#[test]
fn logits_are_those_of_transformers_at_every_split_and_beside_others() {
    let golden = golden();
    let tokens: Vec<u32> = numbers(&golden["tokens"]).iter().map(|t| *t as u32).collect();
    for model in golden["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        let folder = folder(&model["config"]);
        let mut e = engine(&folder, Tier::best(), KvType::F32);
        at_every_split(&mut e, &tokens, &model["logits"], name);
        assert!(same_among_others(&mut e, &tokens), "{name} among others");
    }
}

#[test]
fn every_tier_gives_the_same_bits() {
    let golden = golden();
    let tokens: Vec<u32> = numbers(&golden["tokens"]).iter().map(|t| *t as u32).collect();
    for model in golden["models"].as_array().unwrap() {
        let folder = folder(&model["config"]);
        let run = |tier| {
            let mut e = engine(&folder, tier, KvType::F16);
            let sequence = e.open();
            let output = e.step(&one(sequence, &tokens, Outputs::From(0))).unwrap();
            output
                .rows()
                .flat_map(|r| r.logits.iter().map(|l| l.to_bits()).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        let want = run(Tier::SCALAR);
        for tier in Tier::available() {
            assert!(run(tier) == want, "{} on {}", model["name"], tier.level());
        }
    }
}

#[test]
fn impossible_options_are_errors_that_name_the_key() {
    let config = &golden()["models"][0]["config"];
    for (key, value, want) in [
        ("sliding_window", json!(0), "sliding_window: 0 is not between"),
        ("sliding_window", Json::Null, "sliding_window: "),
        ("query_pre_attn_scalar", json!(-1), "query_pre_attn_scalar: -1 is not a positive number"),
        ("hidden_activation", json!("relu"), "hidden_activation: only gelu_pytorch_tanh"),
        (
            "attn_logit_softcapping",
            json!(50),
            "attn_logit_softcapping: 50 asks for a cap on attention's scores",
        ),
        ("layer_types", json!(["full_attention"]), "layer_types: 1 types for 7 layers"),
        ("attention_bias", json!(true), "attention_bias: "),
    ] {
        let mut config = config.clone();
        config[key] = value;
        let changed = folder(&golden()["models"][0]["config"]);
        std::fs::write(changed.path().join("config.json"), config.to_string()).unwrap();
        let error = HfModel::open(changed.path()).unwrap_err().to_string();
        assert!(error.contains(want), "{key}: {error}");
    }
}
