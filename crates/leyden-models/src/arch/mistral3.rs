//! Ministral 3 and Mistral Small 3.1 (Mistral AI, 2025): Llama's blocks with YaRN for longer contexts, and queries
//! scaled by position.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{Field, ModelConfig, Reader, RopeScaling, Temperature, field};
use crate::error::Error;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "mistral3",
    models: "Ministral 3, Mistral Small 3.1 and 3.2, Devstral",
    config,
    conversion: Conversion::Both,
    own_keys: &["attention.temperature_scale", "llama_4_scaling_beta"],
    hf: &[HfClass {
        model_type: "ministral3",
        classes: &["Ministral3ForCausalLM"],
        defaults: &[("num_key_value_heads", 8), ("head_dim", 128)],
        interleaved: true,
        ..DECODER
    }],
};

const SCALE: Field = field("attention.temperature_scale", "rope_parameters.llama_4_scaling_beta");
const WINDOW: Field = field("", "sliding_window");

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let config = r.decoder(match r {
        Reader::Gguf(..) => RopePairs::Interleaved,
        Reader::Hf(..) => RopePairs::Halves,
    })?;
    if let Reader::Hf(config, _) = r
        && !config.names_base()
    {
        return Err(config.invalid("rope_parameters", "is missing and has no default"));
    }
    let window = r.opt_size(WINDOW)?;
    let original = config.layers[0].rope.as_ref().and_then(|rope| match rope.scaling {
        RopeScaling::Yarn { original_context, .. } => Some(original_context),
        _ => None,
    });
    // Zero means none.
    let temperature = match (r.opt_number(SCALE)?.filter(|scale| *scale != 0.0), original) {
        (None, _) => None,
        (Some(scale), Some(length)) => Some(Temperature { length, scale }),
        (Some(_), None) => {
            return Err(r.invalid(SCALE, "needs RoPE scaling of the type yarn"));
        }
    };
    Ok(config.each(|_, layer| {
        layer.temperature = temperature;
        if let Some(window) = window {
            layer.mask = Mask::Window(window);
        }
    }))
}
