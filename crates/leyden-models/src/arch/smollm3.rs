//! SmolLM3 (Hugging Face, 2025): Llama's blocks; every fourth layer has no RoPE.

use super::llama::llama_biases;
use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{Field, ModelConfig, Reader, field};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "smollm3",
    models: "SmolLM3",
    config,
    conversion: Conversion::Both,
    own_keys: &["no_rope_layers", "no_rope_layer_interval"],
    hf: &[HfClass {
        model_type: "smollm3",
        classes: &["SmolLM3ForCausalLM"],
        defaults: &[("num_key_value_heads", 4)],
        interleaved: true,
        tied: true,
        biases: |config| {
            config.has_full_layers()?;
            if config.flag("use_sliding_window")?
                && let Some(size) = config.opt_size("sliding_window")?
            {
                config.refuse_window("sliding_window", size)?;
            }
            llama_biases(config)
        },
        ..DECODER
    }],
};

const INTERVAL: Field = field("", "no_rope_layer_interval");
/// Default period of layers without RoPE.
const DEFAULT_INTERVAL: usize = 4;
/// Default RoPE base in a folder.
const DEFAULT_BASE: f32 = 2_000_000.0;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let config = r.decoder(match r {
        Reader::Gguf(..) => RopePairs::Interleaved,
        Reader::Hf(..) => RopePairs::Halves,
    })?;
    let interval = r.opt_size(INTERVAL)?.unwrap_or(DEFAULT_INTERVAL);
    let (mut listed, mut base) = (None, None);
    if let Reader::Hf(config_json, _) = r {
        base = (!config_json.names_base()).then_some(DEFAULT_BASE);
        let key = "no_rope_layers";
        if let Some(list) = config_json.json().get(key).and_then(|list| list.as_array()) {
            // At least one number for each layer: 0 without RoPE.
            let turns: Option<Vec<bool>> = list.iter().map(|n| n.as_u64().map(|n| n != 0)).collect();
            match turns {
                Some(turns) if turns.len() >= config.layers.len() => listed = Some(turns),
                _ => return Err(config_json.invalid(key, "is not a list of a number for each layer")),
            }
        }
    }
    Ok(config.each(|i, layer| {
        let turns = listed.as_ref().map_or((i + 1) % interval != 0, |turns| turns[i]);
        if !turns {
            layer.rope = None;
        }
        if let (Some(rope), Some(base)) = (&mut layer.rope, base) {
            rope.base = base;
        }
    }))
}
