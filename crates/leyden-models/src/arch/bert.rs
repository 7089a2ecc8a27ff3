//! BERT (Devlin et al., 2018), RoBERTa (Liu et al., 2019), DistilBERT (Sanh et al., 2019) and what is built like them: MiniLM, BGE,
//! E5 and most models that make vectors of texts.

use super::{ATTENTION, Architecture, Conversion, DECODER, HfClass, distilbert};
use crate::config::{DenseActivation, Field, HeadClass, ModelConfig, Reader, field, gguf_head, hf_head};
use crate::error::Error;
use crate::pooling::Pooling;
use leyden_kernels::ops::Activation;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "bert",
    models: "BERT, RoBERTa, XLM-RoBERTa, DistilBERT, MiniLM, BGE, E5",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "attention.causal",
        "attention.layer_norm_epsilon",
        "classifier.output_labels",
        "layer_norm_eps",
        "type_vocab_size",
    ],
    hf: &[
        BERT,
        HfClass {
            model_type: ROBERTA,
            classes: &[
                "RobertaModel",
                "RobertaForMaskedLM",
                "RobertaForSequenceClassification",
                "RobertaForTokenClassification",
            ],
            prefix: "roberta.",
            head: ROBERTA_HEAD,
            ..BERT
        },
        HfClass {
            model_type: XLM_ROBERTA,
            classes: &[
                "XLMRobertaModel",
                "XLMRobertaForMaskedLM",
                "XLMRobertaForSequenceClassification",
                "XLMRobertaForTokenClassification",
            ],
            prefix: "roberta.",
            head: ROBERTA_HEAD,
            ..BERT
        },
        distilbert::CLASS,
    ],
};

const ROBERTA: &str = "roberta";
const XLM_ROBERTA: &str = "xlm-roberta";

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
    // Positions by number, and the heads that the model was first trained with.
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

/// GGUF's name, theirs.
const BERT_TENSORS: &[(&str, &str)] = &[
    // Of embeddings that are narrower than the layers.
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

const CAUSAL: Field = field("attention.causal", "is_decoder");
const PADDING: Field = field("", "pad_token_id");

/// What RoBERTa counts positions from, behind that of padding, where a configuration does not say.
const DEFAULT_PADDING: u32 = 1;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = r.encoder()?;
    let mut first = 0;
    match r {
        Reader::Gguf(meta, _) => {
            if meta.opt_bool(&r.key(CAUSAL).unwrap_or_default())?.unwrap_or(false) {
                return Err(r.invalid(CAUSAL, "true is not supported: this is an encoder"));
            }
            if let Some(head) = gguf_head(meta, r.name(), Pooling::Cls)? {
                config.head = head;
            }
        }
        Reader::Hf(hf, _) => {
            if hf.flag("is_decoder")? {
                return Err(r.invalid(CAUSAL, "true is not supported: only encoders are"));
            }
            let activation = hf.activation()?;
            config = config.each(|_, layer| layer.activation = activation);
            if matches!(hf.json().str("model_type")?, ROBERTA | XLM_ROBERTA) {
                first = r.opt_u32(PADDING)?.unwrap_or(DEFAULT_PADDING) as usize + 1;
                if first >= config.context {
                    return Err(r.invalid(PADDING, "leaves no positions for texts"));
                }
            }
            let activation = match hf.json().str("model_type")? {
                distilbert::TYPE => DenseActivation::Relu,
                _ => DenseActivation::Tanh,
            };
            config.head = hf_head(hf, HeadClass::new(Pooling::Cls, Some(activation)))?;
        }
    }
    config.learned_positions = Some(first);
    // The table has rows before the first position, too.
    config.context -= first;
    Ok(config)
}
