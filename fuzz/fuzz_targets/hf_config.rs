//! Any bytes as the `config.json` of a model are refused, or describe a decoder whose sizes fit together.
#![no_main]

use leyden_models::config_of_json;
use leyden_tensor::Json;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(json) = Json::parse(bytes, "config.json") else { return };
    match config_of_json(&json) {
        Ok(config) => {
            for layer in &config.layers {
                assert!(layer.heads.is_multiple_of(layer.kv_heads));
                if let Some(rope) = &layer.rope {
                    assert!(rope.dims <= layer.head_dim && rope.dims.is_multiple_of(2));
                }
                for size in [layer.ffn, layer.heads * layer.head_dim] {
                    assert!((1..=1 << 24).contains(&size));
                }
            }
            for size in [config.layers.len(), config.width, config.context] {
                assert!((1..=1 << 24).contains(&size));
            }
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("config.json: ") && !text.contains(char::is_control), "{text:?}");
        }
    }
});
