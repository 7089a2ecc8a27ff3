//! OLMo 2 (OLMo team, 2024) and OLMo 3: norms on the outputs of a block's halves only, queries and keys normalised
//! over all heads. In OLMo 3, three of four layers have a sliding window, with RoPE without scaling.

use super::gemma2::TENSORS;
use super::{Architecture, Conversion, DECODER, HfClass, attention_biases};
use crate::config::{Field, ModelConfig, NormPlacement, QkNorm, Reader, RopeScaling, field};
use crate::error::Error;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "olmo2",
    models: "OLMo 2, OLMo 3",
    config,
    conversion: Conversion::Both,
    own_keys: &["attention.sliding_window", "attention.sliding_window_pattern"],
    hf: &[
        OLMO2,
        HfClass {
            model_type: OLMO3,
            classes: &["Olmo3ForCausalLM"],
            defaults: &[("sliding_window", 4096)],
            ..OLMO2
        },
    ],
};

const OLMO3: &str = "olmo3";

const OLMO2: HfClass = HfClass {
    model_type: "olmo2",
    classes: &["Olmo2ForCausalLM"],
    biases: attention_biases,
    tensors: TENSORS,
    ..DECODER
};

const WINDOW: Field = field("attention.sliding_window", "sliding_window");
/// Default period of full-attention layers in models with sliding windows.
const DEFAULT_PATTERN: usize = 4;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut local_base = None;
    let (config, has_windows) = match r {
        Reader::Gguf(..) => (r.decoder(RopePairs::Halves)?, r.opt_u32(WINDOW)?.is_some_and(|size| size > 0)),
        Reader::Hf(config, name) if config.json().str("model_type")? == OLMO3 => {
            local_base = config.local_base("rope_parameters.sliding_attention")?;
            (Reader::Hf(config.with_rotations_by_kind(), name).decoder(RopePairs::Halves)?, true)
        }
        Reader::Hf(..) => (r.decoder(RopePairs::Halves)?, false),
    };
    let windows = match has_windows {
        true => Some((Mask::Window(r.size(WINDOW)?), r.windowed(config.layers.len(), DEFAULT_PATTERN)?)),
        false => None,
    };
    Ok(config.each(|i, layer| {
        layer.norms = NormPlacement::Output;
        layer.qk_norm = QkNorm::Whole;
        if let Some((window, windowed)) = &windows
            && windowed[i]
        {
            layer.mask = *window;
            if let Some(rope) = &mut layer.rope {
                rope.scaling = RopeScaling::None;
                rope.base = local_base.unwrap_or(rope.base);
            }
        }
    }))
}
