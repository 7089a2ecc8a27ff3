//! EuroBERT (Boizard et al., 2025): Llama's blocks with bidirectional attention.

use super::{ATTENTION, Architecture, Conversion, DECODER, FFN, HfClass};
use crate::config::{DenseActivation, HeadClass, HeadConfig, ModelConfig, Reader, hf_head};
use crate::error::Error;
use crate::pooling::Pooling;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::RopePairs;
use leyden_tensor::Escaped;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "eurobert",
    models: "EuroBERT",
    config,
    conversion: Conversion::Both,
    own_keys: &["attention.causal", "classifier_pooling"],
    hf: &[HfClass {
        model_type: "eurobert",
        classes: &[
            "EuroBertModel",
            "EuroBertForMaskedLM",
            "EuroBertForSequenceClassification",
            "EuroBertForTokenClassification",
        ],
        biases: |config| {
            let mut biases = vec!["cls", "cls.output", "cls.tokens"];
            if config.flag("attention_bias")? {
                biases.extend(ATTENTION);
            }
            if config.flag("mlp_bias")? {
                biases.extend(FFN);
            }
            Ok(biases)
        },
        head: &[("cls", "dense"), ("cls.output", "classifier"), ("cls.tokens", "classifier")],
        unused: &["lm_head."],
        ..DECODER
    }],
};

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = r.decoder(RopePairs::Halves)?.each(|_, layer| layer.mask = Mask::Full);
    config.head = HeadConfig::States;
    if let Reader::Hf(hf, _) = r {
        let key = "classifier_pooling";
        let ranks = hf.json().opt_str(key)?;
        let classes = hf.json().opt_array_str("architectures")?.unwrap_or_default();
        let pooling = match ranks {
            Some("bos") => Pooling::Cls,
            Some("mean") => Pooling::Mean,
            other if classes.iter().any(|class| class.ends_with("ForSequenceClassification")) => {
                let other = Escaped(other.unwrap_or("late"));
                return Err(hf.invalid(key, format!("`{other}` is not supported; supported: bos, mean")));
            }
            _ => Pooling::Mean,
        };
        config.head = hf_head(hf, HeadClass::new(pooling, Some(DenseActivation::Gelu)))?;
    }
    Ok(config)
}
