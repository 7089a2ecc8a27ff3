//! Gemma 3 (Gemma Team, 2025), text model: five of six layers have a sliding window with their own RoPE base; norms
//! before and after each half of a block, and per head on queries and keys.

use super::gemma2::{TENSORS, attention_scale};
use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{Field, HeadConfig, ModelConfig, NormPlacement, QkNorm, Reader, RopeScaling, field};
use crate::error::Error;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::{Activation, RopePairs};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "gemma3",
    models: "Gemma 3 (text)",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "final_logit_softcapping",
        "hidden_activation",
        "query_pre_attn_scalar",
        "sliding_window_pattern",
        "use_bidirectional_attention",
    ],
    hf: &[HfClass {
        model_type: "gemma3_text",
        classes: &["Gemma3ForCausalLM", "Gemma3TextModel"],
        biases: |config| config.refuse("attention_bias"),
        tied: true,
        tensors: TENSORS,
        ..DECODER
    }],
};

/// EmbeddingGemma (Vera et al., 2025): Gemma 3 with bidirectional attention, for embeddings only.
pub(super) const EMBEDDING: Architecture = Architecture {
    name: "gemma-embedding",
    models: "EmbeddingGemma",
    config: |r| Ok(bidirectional(config(r)?)),
    conversion: Conversion::ToGguf("files of other programs lack settings of their folders"),
    own_keys: &[
        "attention.causal",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "dense_2_feat_in",
        "dense_2_feat_out",
        "dense_3_feat_in",
        "dense_3_feat_out",
    ],
    hf: &[],
};

const WINDOW: Field = field("attention.sliding_window", "sliding_window");
const LOCAL_BASE: Field = field("rope.freq_base_swa", "rope_local_base_freq");
const LOGIT_SOFT_CAP: Field = field("final_logit_softcapping", "final_logit_softcapping");

/// Defaults: period of full-attention layers, RoPE base of sliding-window layers, and in a folder that of
/// full-attention layers.
const DEFAULT_PATTERN: usize = 6;
const DEFAULT_LOCAL_BASE: f32 = 10_000.0;
const DEFAULT_BASE: f32 = 1_000_000.0;
/// Number of layers of the 27B model, whose attention scale is by `hidden_size / heads` instead of the head
/// dimension. GGUF has no key for it.
const LAYERS_27B: usize = 62;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let config = blocks(r, DEFAULT_PATTERN)?;
    let scale = attention_scale(r, &config, LAYERS_27B)?;
    let mut config = config.each(|_, layer| layer.attention_scale = scale.unwrap_or(layer.attention_scale));
    if let Reader::Hf(hf, _) = r {
        // Conversion to GGUF adds the offset to the weights.
        config.norm.offset = 1.0;
        let classes = hf.json().opt_array_str("architectures")?.unwrap_or_default();
        if hf.flag("use_bidirectional_attention")? {
            return Ok(bidirectional(config));
        }
        if classes.contains(&"Gemma3TextModel") {
            config.head = HeadConfig::States;
        }
    }
    Ok(config)
}

/// Reads the blocks of this family; `default_pattern` is the default period of full-attention layers.
pub(super) fn blocks(r: &Reader<'_>, default_pattern: usize) -> Result<ModelConfig, Error> {
    let by_kind = match r {
        Reader::Gguf(meta, name) => Reader::Gguf(meta, name),
        Reader::Hf(config, name) => Reader::Hf(config.with_rotations_by_kind(), name),
    };
    let config = by_kind.decoder(RopePairs::Halves)?;
    let (width, count) = (config.width, config.layers.len());
    let window = Mask::Window(r.size(WINDOW)?);
    let windowed = r.windowed(count, default_pattern)?;
    let mut local_base = r.opt_positive(LOCAL_BASE)?.unwrap_or(DEFAULT_LOCAL_BASE);
    let mut base = None;
    if let Reader::Hf(config, _) = r {
        let json = config.json();
        match json.opt_str("hidden_activation")? {
            None | Some("gelu_pytorch_tanh") => {}
            Some(_) => return Err(config.invalid("hidden_activation", "only gelu_pytorch_tanh is supported")),
        }
        if let Some(local) = config.local_base("rope_parameters.sliding_attention")? {
            local_base = local;
        }
        if json.get("rope_theta").is_none() && json.get("rope_parameters").is_none() {
            base = Some(DEFAULT_BASE);
        }
    }
    let logit_soft_cap = r.opt_positive(LOGIT_SOFT_CAP)?;
    let mut config = config.each(|i, layer| {
        layer.qk_norm = QkNorm::Head;
        layer.norms = NormPlacement::Sandwich;
        layer.activation = Activation::GeluTanh;
        let Some(rope) = &mut layer.rope else { return };
        if !windowed[i] {
            rope.base = base.unwrap_or(rope.base);
        } else {
            layer.mask = window;
            rope.base = local_base;
            rope.scaling = RopeScaling::None;
        }
    });
    config.embedding_scale = (width as f32).sqrt();
    config.logit_soft_cap = logit_soft_cap;
    Ok(config)
}

/// Returns the embedding model, with bidirectional attention. Sliding windows reach half their size to either side.
fn bidirectional(mut config: ModelConfig) -> ModelConfig {
    config.head = HeadConfig::States;
    config.each(|_, layer| {
        layer.mask = match layer.mask {
            Mask::Window(tokens) => Mask::Around(tokens / 2),
            _ => Mask::Full,
        };
    })
}
