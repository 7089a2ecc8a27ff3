//! Classes of BERT and RoBERTa in Hugging Face's libraries, on which those of other encoders are based.

use super::{ATTENTION, DECODER, HfClass};
use leyden_kernels::ops::Activation;

pub(super) const BERT: HfClass = HfClass {
    model_type: "bert",
    classes: &[
        "BertModel",
        "BertForMaskedLM",
        "BertForPreTraining",
        "BertForSequenceClassification",
        "BertForTokenClassification",
    ],
    activations: &[
        ("gelu", Activation::Gelu),
        ("gelu_new", Activation::GeluTanh),
        ("gelu_pytorch_tanh", Activation::GeluTanh),
    ],
    biases: |_| Ok([&ATTENTION[..], &OTHER_BIASES].concat()),
    prefix: "bert.",
    layers: "encoder.layer",
    tensors: BERT_TENSORS,
    head: &[
        ("cls.output", "classifier"),
        ("cls.tokens", "classifier"),
        ("mlm.dense", "cls.predictions.transform.dense"),
        ("mlm.norm", "cls.predictions.transform.LayerNorm"),
        ("mlm.decoder", "cls.predictions.decoder"),
        ("mlm.output", "cls.predictions"),
    ],
    // Position ids, and the heads of pretraining.
    unused: &["embeddings.position_ids", "pooler.", "cls.", "lm_head.", "vocab_"],
    ..DECODER
};

pub(super) const OTHER_BIASES: [&str; 11] = [
    "token_embd_norm",
    "attn_output_norm",
    "ffn_up",
    "ffn_down",
    "layer_output_norm",
    "cls",
    "cls.output",
    "cls.tokens",
    "mlm.dense",
    "mlm.norm",
    "mlm.output",
];

/// Tensor names: GGUF's, and the class's.
const BERT_TENSORS: &[(&str, &str)] = &[
    // Projection of embeddings that are narrower than the layers.
    ("token_embd_proj", "embeddings_project"),
    ("token_embd", "embeddings.word_embeddings"),
    ("position_embd", "embeddings.position_embeddings"),
    ("token_types", "embeddings.token_type_embeddings"),
    ("token_embd_norm", "embeddings.LayerNorm"),
    ("attn_q", "attention.self.query"),
    ("attn_k", "attention.self.key"),
    ("attn_v", "attention.self.value"),
    ("attn_output", "attention.output.dense"),
    ("attn_output_norm", "attention.output.LayerNorm"),
    ("ffn_up", "intermediate.dense"),
    ("ffn_down", "output.dense"),
    ("layer_output_norm", "output.LayerNorm"),
    ("cls", "pooler.dense"),
];

pub(super) const ROBERTA_HEAD: &[(&str, &str)] = &[
    ("cls", "classifier.dense"),
    ("cls.output", "classifier.out_proj"),
    ("cls.tokens", "classifier"),
    ("mlm.dense", "lm_head.dense"),
    ("mlm.norm", "lm_head.layer_norm"),
    ("mlm.decoder", "lm_head.decoder"),
    ("mlm.output", "lm_head"),
];
