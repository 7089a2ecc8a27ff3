//! BERT (Devlin et al., 2018), RoBERTa (Liu et al., 2019), DistilBERT (Sanh et al., 2019) and models built like them:
//! MiniLM, BGE, E5 and most embedding models.

use super::bert_class::{BERT, ROBERTA_HEAD};
use super::{Architecture, Conversion, HfClass, distilbert};
use crate::config::{DenseActivation, Field, HeadClass, ModelConfig, Reader, field, gguf_head, hf_head};
use crate::error::Error;
use crate::pooling::Pooling;

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

const CAUSAL: Field = field("attention.causal", "is_decoder");
const PADDING: Field = field("", "pad_token_id");

/// Default of `pad_token_id`, after which RoBERTa's positions begin.
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
    // The position table has rows before the first position.
    config.context -= first;
    Ok(config)
}
