//! Names in configurations: keys with different names in releases of transformers, and classes that are bodies of
//! others.

use leyden_models::{ARCHITECTURES, HeadConfig, ModelConfig, config_of_json};
use leyden_tensor::Json;
use serde_json::{Value, json};

fn read(config: &Value) -> Result<ModelConfig, String> {
    let json = Json::parse(config.to_string().as_bytes(), "config.json").map_err(|e| e.to_string())?;
    config_of_json(&json).map_err(|e| e.to_string())
}

/// Returns a configuration of a decoder of a type.
fn decoder(model_type: &str, class: &str) -> Value {
    let mut config = json!({
        "model_type": model_type, "architectures": [class], "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128, "vocab_size": 64,
        "rms_norm_eps": 1e-5, "sliding_window": null,
    });
    if model_type.ends_with("_moe") || model_type == "mixtral" {
        config["num_experts_per_tok"] = json!(2);
        config["moe_intermediate_size"] = json!(32);
    }
    match model_type {
        "qwen2_moe" => config["shared_expert_intermediate_size"] = json!(32),
        "glm4_moe" => config["n_shared_experts"] = json!(1),
        _ => {}
    }
    config
}

#[test]
fn counts_of_experts_have_the_names_of_all_releases() {
    for (model_type, class, names) in [
        ("qwen3_moe", "Qwen3MoeForCausalLM", ["num_experts", "num_local_experts"]),
        ("qwen2_moe", "Qwen2MoeForCausalLM", ["num_experts", "num_local_experts"]),
        ("mixtral", "MixtralForCausalLM", ["num_local_experts", "num_experts"]),
        ("glm4_moe", "Glm4MoeForCausalLM", ["n_routed_experts", "num_local_experts"]),
    ] {
        let with = |names: &[(&str, usize)]| {
            let mut config = decoder(model_type, class);
            names.iter().for_each(|(name, count)| config[*name] = json!(count));
            read(&config)
        };
        let [usual, other] = names.map(|name| with(&[(name, 8)]).unwrap_or_else(|e| panic!("{name}: {e}")));
        assert_eq!(usual, other, "{model_type}");
        assert_eq!(usual.experts().map(|experts| experts.count), Some(8));
        assert_eq!(with(&[(names[0], 8), (names[1], 8)]).as_ref(), Ok(&usual));
        let error = with(&[(names[0], 8), (names[1], 4)]).unwrap_err();
        assert!(error.contains("differs from"), "{error}");
    }
}

#[test]
fn bodies_of_decoders_have_states() {
    for (model_type, class, body) in [
        ("qwen3", "Qwen3ForCausalLM", "Qwen3Model"),
        ("qwen2", "Qwen2ForCausalLM", "Qwen2Model"),
        ("llama", "LlamaForCausalLM", "LlamaModel"),
        ("mistral", "MistralForCausalLM", "MistralModel"),
        ("gemma3_text", "Gemma3ForCausalLM", "Gemma3TextModel"),
    ] {
        let config = |class: &str| {
            let mut config = decoder(model_type, class);
            config["sliding_window"] = json!(128);
            read(&config).unwrap_or_else(|e| panic!("{class}: {e}"))
        };
        let (whole, alone) = (config(class), config(body));
        assert_eq!((&whole.head, &alone.head), (&HeadConfig::Logits, &HeadConfig::States), "{body}");
        assert_eq!(ModelConfig { head: HeadConfig::States, ..whole }, alone, "{body}");
        let error = read(&decoder(model_type, "WarpModel")).unwrap_err();
        assert!(error.starts_with("config.json: architectures: WarpModel is not supported"), "{error}");
    }
    assert!(ARCHITECTURES.iter().any(|arch| arch.name == "qwen3"));
}
