//! Jina's BERT (Günther et al., 2023): BERT with ALiBi instead of position embeddings, and a gated feed-forward
//! layer. Its folders have custom code and BERT's `model_type`.

use super::bert_class::{BERT, OTHER_BIASES};
use super::{ATTENTION, Architecture, Conversion, HfClass};
use crate::config::{
    DenseActivation, Field, HeadClass, ModelConfig, PositionBias, Reader, field, gguf_head, hf_head,
};
use crate::error::Error;
use crate::pooling::Pooling;
use leyden_kernels::ops::Activation;
use leyden_tensor::Escaped;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "jina-bert-v2",
    models: "Jina Embeddings v2 (but for code), Jina Reranker v1",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "attention.causal",
        "attention.layer_norm_epsilon",
        "classifier.output_labels",
        "emb_pooler",
        "feed_forward_type",
        "layer_norm_eps",
        "model_max_length",
        "position_embedding_type",
        "type_vocab_size",
    ],
    hf: &[HfClass {
        when: |json| json.get("position_embedding_type").is_some_and(|kind| kind.as_str() == Some("alibi")),
        classes: &["JinaBertModel", "JinaBertForMaskedLM", "JinaBertForSequenceClassification"],
        biases: |_| {
            // The gate and up projections have no bias.
            let others = OTHER_BIASES.iter().filter(|name| **name != "ffn_up");
            Ok(ATTENTION.iter().chain(others).copied().collect())
        },
        tensors: TENSORS,
        ..BERT
    }],
};

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embeddings.word_embeddings"),
    ("token_types", "embeddings.token_type_embeddings"),
    ("token_embd_norm", "embeddings.LayerNorm"),
    ("attn_q", "attention.self.query"),
    ("attn_k", "attention.self.key"),
    ("attn_v", "attention.self.value"),
    ("attn_output", "attention.output.dense"),
    ("attn_output_norm", "attention.output.LayerNorm"),
    ("ffn_up", "mlp.gated_layers"),
    ("ffn_down", "mlp.wo"),
    ("layer_output_norm", "mlp.layernorm"),
    ("cls", "pooler.dense"),
];

const CAUSAL: Field = field("attention.causal", "is_decoder");

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = r.encoder()?;
    match r {
        Reader::Gguf(meta, _) => {
            if r.opt_bool(CAUSAL)?.unwrap_or(false) {
                return Err(r.invalid(CAUSAL, "true is not supported: this is an encoder"));
            }
            if let Some(head) = gguf_head(meta, r.name(), Pooling::Cls)? {
                config.head = head;
            }
        }
        Reader::Hf(hf, _) => {
            let key = "feed_forward_type";
            let kind = hf.json().opt_str(key)?.unwrap_or("original");
            if kind != "geglu" {
                let what = format!("`{}` is not supported; supported: geglu", Escaped(kind));
                return Err(hf.invalid(key, what));
            }
            if hf.flag("is_decoder")? {
                return Err(r.invalid(CAUSAL, "true is not supported: only encoders are"));
            }
            config.head = hf_head(hf, HeadClass::new(Pooling::Cls, Some(DenseActivation::Tanh)))?;
        }
    }
    Ok(config.each(|_, layer| {
        layer.gated = true;
        layer.activation = Activation::Gelu;
        layer.position_bias = Some(PositionBias::Alibi);
    }))
}
