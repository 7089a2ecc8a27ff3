//! DistilBERT (Sanh et al., 2019): BERT's computation under other names.

use super::HfClass;
use super::bert_class::BERT;

/// Value of `model_type`.
pub(super) const TYPE: &str = "distilbert";

pub(super) const CLASS: HfClass = HfClass {
    model_type: TYPE,
    classes: &[
        "DistilBertModel",
        "DistilBertForMaskedLM",
        "DistilBertForSequenceClassification",
        "DistilBertForTokenClassification",
    ],
    keys: KEYS,
    aliases: &[
        ("hidden_size", "hidden_size"),
        ("num_attention_heads", "num_attention_heads"),
        ("num_hidden_layers", "num_hidden_layers"),
    ],
    prefix: "distilbert.",
    layers: "transformer.layer",
    tensors: TENSORS,
    head: &[
        ("cls", "pre_classifier"),
        ("cls.output", "classifier"),
        ("cls.tokens", "classifier"),
        ("mlm.dense", "vocab_transform"),
        ("mlm.norm", "vocab_layer_norm"),
        ("mlm.output", "vocab_projector"),
    ],
    ..BERT
};

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embeddings.word_embeddings"),
    ("position_embd", "embeddings.position_embeddings"),
    ("token_embd_norm", "embeddings.LayerNorm"),
    ("attn_q", "attention.q_lin"),
    ("attn_k", "attention.k_lin"),
    ("attn_v", "attention.v_lin"),
    ("attn_output", "attention.out_lin"),
    ("attn_output_norm", "sa_layer_norm"),
    ("ffn_up", "ffn.lin1"),
    ("ffn_down", "ffn.lin2"),
    ("layer_output_norm", "output_layer_norm"),
];

const KEYS: &[(&str, &str)] = &[
    ("hidden_size", "dim"),
    ("num_attention_heads", "n_heads"),
    ("num_hidden_layers", "n_layers"),
    ("intermediate_size", "hidden_dim"),
    ("hidden_act", "activation"),
];
