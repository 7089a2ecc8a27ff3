//! A tiny decoder as a folder.

use serde_json::{Value as Json, json};
use std::path::Path;
use tempfile::TempDir;

const WIDTH: usize = 32;
const FFN: usize = 32;

/// Returns the configuration of a model with this many tokens.
pub(crate) fn config(vocabulary: usize) -> Json {
    json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": WIDTH, "intermediate_size": FFN,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "vocab_size": vocabulary, "tie_word_embeddings": true,
    })
}

/// Returns a folder of such a model with a tokenizer and its settings.
pub(crate) fn folder(config: &Json, tokenizer: &Json, settings: &Json) -> TempDir {
    let vocabulary = config["vocab_size"].as_u64().unwrap() as usize;
    let layer = |part: &str| format!("model.layers.0.{part}.weight");
    let tensors = [
        ("model.embed_tokens.weight".to_owned(), vec![vocabulary, WIDTH]),
        ("model.norm.weight".to_owned(), vec![WIDTH]),
        (layer("input_layernorm"), vec![WIDTH]),
        (layer("post_attention_layernorm"), vec![WIDTH]),
        (layer("self_attn.q_proj"), vec![WIDTH, WIDTH]),
        (layer("self_attn.k_proj"), vec![WIDTH / 2, WIDTH]),
        (layer("self_attn.v_proj"), vec![WIDTH / 2, WIDTH]),
        (layer("self_attn.o_proj"), vec![WIDTH, WIDTH]),
        (layer("mlp.gate_proj"), vec![FFN, WIDTH]),
        (layer("mlp.up_proj"), vec![FFN, WIDTH]),
        (layer("mlp.down_proj"), vec![WIDTH, FFN]),
    ];
    let (mut header, mut data) = (serde_json::Map::new(), Vec::<u8>::new());
    for (name, shape) in tensors {
        let (start, n) = (data.len(), shape.iter().product::<usize>());
        data.extend((0..n).flat_map(|i| ((i % 13) as f32 / 16.0 - 0.4).to_le_bytes()));
        header.insert(name, json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] }));
    }
    let header = Json::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    let made = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(made.path().join(name), bytes).unwrap();
    write("model.safetensors", &file);
    write("config.json", config.to_string().as_bytes());
    write("tokenizer.json", tokenizer.to_string().as_bytes());
    write("tokenizer_config.json", settings.to_string().as_bytes());
    made
}

/// Returns a tokenizer from the tests of `leyden-text`.
pub(crate) fn tokenizer(name: &str) -> Json {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../leyden-text/tests/data/hf");
    let found: Json =
        serde_json::from_str(&std::fs::read_to_string(path.join(format!("{name}.json"))).unwrap()).unwrap();
    if found.get("tokenizer").is_some() { found["tokenizer"].clone() } else { found }
}

/// Returns the number of its tokens.
pub(crate) fn size(tokenizer: &Json) -> usize {
    let vocabulary = &tokenizer["model"]["vocab"];
    let ids = vocabulary.as_object().into_iter().flatten().filter_map(|(_, id)| id.as_u64());
    let listed = vocabulary.as_array().map_or(0, Vec::len) as u64;
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten().filter_map(|t| t["id"].as_u64());
    ids.chain(added).map(|id| id + 1).max().unwrap_or(0).max(listed) as usize
}
