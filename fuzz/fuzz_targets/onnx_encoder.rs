//! Any bytes as an ONNX model with the configuration of a tiny BERT. If it is accepted as that encoder, it has all
//! weights.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use leyden_models::HfModel;
use leyden_tensor::{WeightSource, run_sequentially};

const CONFIG: &str = r#"{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 48, "hidden_size": 32,
    "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": 24,
    "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0, "hidden_act": "gelu"}"#;

fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("leyden-fuzz-onnx-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.json"), CONFIG).unwrap();
        folder
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    std::fs::write(folder().join("model.onnx"), bytes).unwrap();
    let Ok(model) = HfModel::open(folder()) else { return };
    for name in ["token_embd.weight", "position_embd.weight", "blk.0.attn_output_norm.bias"] {
        model.require(name).unwrap();
    }
    for part in ["attn_q", "attn_output", "ffn_up", "ffn_down"] {
        let name = format!("blk.0.{part}.weight");
        assert!(model.is_composed(&name) || model.optional(&name).unwrap().is_some());
        let _ = model.composed(&name, &[32, 32], &run_sequentially).unwrap();
    }
});
