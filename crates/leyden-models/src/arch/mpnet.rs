//! MPNet (Song et al., 2020): RoBERTa with a learned position bias per bucket of distances.

use super::bert_class::{BERT, ROBERTA_HEAD};
use super::{Architecture, Conversion, HfClass};
use crate::config::{DenseActivation, Field, HeadClass, ModelConfig, PositionBias, Reader, field, hf_head};
use crate::error::Error;
use crate::pooling::Pooling;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "mpnet",
    models: "MPNet, all-mpnet-base",
    config,
    conversion: Conversion::Both,
    own_keys: &["layer_norm_eps", "relative_attention_num_buckets"],
    hf: &[HfClass {
        model_type: "mpnet",
        classes: &[
            "MPNetModel",
            "MPNetForMaskedLM",
            "MPNetForSequenceClassification",
            "MPNetForTokenClassification",
        ],
        prefix: "mpnet.",
        tensors: TENSORS,
        head: ROBERTA_HEAD,
        unused: &["embeddings.position_ids", "pooler.", "lm_head."],
        ..BERT
    }],
};

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embeddings.word_embeddings"),
    ("position_embd", "embeddings.position_embeddings"),
    ("token_embd_norm", "embeddings.LayerNorm"),
    ("rel_embd", "encoder.relative_attention_bias"),
    ("attn_q", "attention.attn.q"),
    ("attn_k", "attention.attn.k"),
    ("attn_v", "attention.attn.v"),
    ("attn_output", "attention.attn.o"),
    ("attn_output_norm", "attention.LayerNorm"),
    ("ffn_up", "intermediate.dense"),
    ("ffn_down", "output.dense"),
    ("layer_output_norm", "output.LayerNorm"),
];

const BUCKETS: Field = field("", "relative_attention_num_buckets");
const DEFAULT_BUCKETS: usize = 32;
/// Distance from which on all share one bucket; fixed in the class.
const LONGEST: usize = 128;
/// First position, after the padding's; fixed in the class.
const FIRST: usize = 2;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = r.encoder()?;
    let Reader::Hf(hf, _) = r else { return Ok(config) };
    let activation = hf.activation()?;
    let count = r.opt_size(BUCKETS)?.unwrap_or(DEFAULT_BUCKETS);
    if !count.is_multiple_of(4) || count / 4 >= LONGEST {
        return Err(r.invalid(BUCKETS, format!("{count} is not a multiple of 4 below {}", 4 * LONGEST)));
    }
    config = config.each(|_, layer| {
        layer.activation = activation;
        layer.position_bias = Some(PositionBias::Buckets { count, longest: LONGEST });
    });
    config.context = config.context.saturating_sub(FIRST).max(1);
    config.learned_positions = Some(FIRST);
    config.head = hf_head(hf, HeadClass::new(Pooling::Cls, Some(DenseActivation::Tanh)))?;
    Ok(config)
}
