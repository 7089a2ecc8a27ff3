//! TinyStories-656K: a Hugging Face checkpoint, as it is and converted here, reproduces its reference tokens.

use super::shared::{engine, greedy, one};
use leyden_engine::Outputs;
use leyden_kernels::Tier;
use leyden_kernels::attention::KvType;
use leyden_models::HfModel;
use leyden_tensor::{DType, Gguf, GgufWriter, Value, WeightSource};
use leyden_testkit::shared;
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

fn json(path: &Path) -> Json {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// GGUF's Llama keeps rotary pairs as neighbours; Hugging Face keeps them in halves. Rows are `bytes` long.
fn permute(data: &[u8], heads: usize, rows: usize, bytes: usize) -> Vec<u8> {
    let dim = rows / heads;
    let from = |row: usize| row / dim * dim + row % 2 * (dim / 2) + row % dim / 2;
    (0..rows).flat_map(|row| data[from(row) * bytes..][..bytes].to_vec()).collect()
}

/// The checkpoint as GGUF.
fn convert(folder: &Path) -> Vec<u8> {
    let config = json(&folder.join("config.json"));
    let n = |key: &str| u32::try_from(config[key].as_u64().unwrap()).unwrap();
    let mut w = GgufWriter::new();
    w.set("general.architecture", Value::String("llama".into()));
    for (key, from) in [
        ("block_count", "num_hidden_layers"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("context_length", "max_position_embeddings"),
    ] {
        w.set(&format!("llama.{key}"), Value::U32(n(from)));
    }
    let eps = config["rms_norm_eps"].as_f64().unwrap() as f32;
    w.set("llama.attention.layer_norm_rms_epsilon", Value::F32(eps));
    let file = std::fs::read(folder.join("model.safetensors")).unwrap();
    let header_bytes = usize::try_from(u64::from_le_bytes(file[..8].try_into().unwrap())).unwrap();
    let header: Json = serde_json::from_slice(&file[8..8 + header_bytes]).unwrap();
    for (name, t) in header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__") {
        assert_eq!(t["dtype"], "F32");
        let numbers = |key: &str| -> Vec<usize> {
            t[key].as_array().unwrap().iter().map(|v| usize::try_from(v.as_u64().unwrap()).unwrap()).collect()
        };
        let (shape, at) = (numbers("shape"), numbers("data_offsets"));
        let data = &file[8 + header_bytes..][at[0]..at[1]];
        let to = match name.split('.').collect::<Vec<_>>()[..] {
            ["lm_head", _] => "token_embd.weight".to_owned(),
            ["model", "norm", _] => "output_norm.weight".to_owned(),
            ["model", "layers", i, .., part, "weight"] => {
                let part = match part {
                    "input_layernorm" => "attn_norm",
                    "post_attention_layernorm" => "ffn_norm",
                    "q_proj" => "attn_q",
                    "k_proj" => "attn_k",
                    "v_proj" => "attn_v",
                    "o_proj" => "attn_output",
                    "gate_proj" => "ffn_gate",
                    "up_proj" => "ffn_up",
                    "down_proj" => "ffn_down",
                    other => panic!("{other}"),
                };
                format!("blk.{i}.{part}.weight")
            }
            _ => panic!("{name}"),
        };
        let heads = match () {
            () if to.ends_with("attn_q.weight") => Some(n("num_attention_heads")),
            () if to.ends_with("attn_k.weight") => Some(n("num_key_value_heads")),
            () => None,
        };
        let data = match heads {
            Some(heads) => permute(data, heads as usize, shape[0], shape[1] * 4),
            None => data.to_vec(),
        };
        w.add_tensor(&to, DType::F32, &shape, data).unwrap();
    }
    w.to_vec().unwrap()
}

#[test]
fn the_reference_tokens_are_reproduced() {
    let Some(folder) = shared("data/llm/TinyStories-656K") else { return };
    let reference = json(&folder.join("reference_greedy.json"));
    let ids = |key: &str| -> Vec<u32> {
        reference[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| u32::try_from(v.as_u64().unwrap()).unwrap())
            .collect()
    };
    let (prompt, want) = (ids("prompt_ids"), ids("greedy_ids"));
    let converted = Arc::new(Gguf::from_vec(convert(&folder), "TinyStories-656K").unwrap());
    let as_it_is = Arc::new(HfModel::open(&folder).unwrap());
    for tier in Tier::available() {
        for kv in [KvType::F32, KvType::F16] {
            for source in [converted.clone() as Arc<dyn WeightSource>, as_it_is.clone()] {
                let mut e = engine(source, tier, 2, kv);
                assert_eq!(greedy(&mut e, &prompt, want.len()), want, "{} {kv}", tier.level());
            }
        }
    }
    let mut e = engine(as_it_is, Tier::best(), 2, KvType::F32);
    let sequence = e.open();
    let output = e.step(&one(sequence, &prompt, Outputs::Last)).unwrap();
    let logits = output.rows().next().unwrap().logits;
    let top = reference["logits_after_prompt_top10"].as_array().unwrap();
    assert_eq!(top.len(), 10);
    for pair in top {
        let (id, wanted) = (pair[0].as_u64().unwrap() as usize, pair[1].as_f64().unwrap());
        assert!((f64::from(logits[id]) - wanted).abs() < 1e-4, "{id}: {} {wanted}", logits[id]);
    }
}
