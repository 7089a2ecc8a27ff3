//! ELECTRA (Clark et al., 2020): BERT with embeddings that may be narrower than the layers.

use super::bert_class::{BERT, ROBERTA_HEAD};
use super::{Architecture, Conversion, HfClass};
use crate::config::{DenseActivation, Field, HeadClass, ModelConfig, Reader, field, hf_head};
use crate::error::Error;
use crate::pooling::Pooling;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "electra",
    models: "ELECTRA",
    config,
    conversion: Conversion::Both,
    own_keys: &["embedding_size", "layer_norm_eps", "type_vocab_size"],
    hf: &[HfClass {
        model_type: "electra",
        classes: &[
            "ElectraModel",
            "ElectraForPreTraining",
            "ElectraForSequenceClassification",
            "ElectraForTokenClassification",
        ],
        biases: |config| Ok([&(BERT.biases)(config)?[..], &["token_embd_proj"]].concat()),
        prefix: "electra.",
        head: ROBERTA_HEAD,
        unused: &["embeddings.position_ids", "discriminator_predictions.", "generator_"],
        ..BERT
    }],
};

const EMBEDDING: Field = field("", "embedding_size");

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = r.encoder()?;
    let Reader::Hf(hf, _) = r else { return Ok(config) };
    let activation = hf.activation()?;
    config = config.each(|_, layer| layer.activation = activation);
    let width = r.opt_size(EMBEDDING)?;
    config.embedding_width = width.filter(|width| *width != config.width);
    config.learned_positions = Some(0);
    config.head = hf_head(hf, HeadClass::new(Pooling::Cls, Some(DenseActivation::Gelu)))?;
    Ok(config)
}
