//! Classification heads: by the class of a Hugging Face configuration, or by the keys of a GGUF file.

use super::hf::HfConfig;
use super::{ClassifierConfig, DenseActivation, DenseConfig, HeadConfig, Labelled, Scores};
use crate::error::Error;
use crate::pooling::{Pooling, ranks};
use leyden_tensor::{Escaped, Metadata};

/// Maximum number of labels.
const MAX_LABELS: usize = 1 << 16;

/// Structure of the classification heads of a model type.
#[derive(Clone, Copy)]
pub(crate) struct HeadClass {
    /// Pooling for labels of a text.
    pub(crate) pooling: Pooling,
    /// Dense layer before the classifier, if any.
    pub(crate) dense: Option<DenseConfig>,
    /// True if token classifiers have the dense layer, too.
    pub(crate) of_tokens: bool,
}

impl HeadClass {
    /// Creates heads with one classifier matrix, which for labels of texts follows a dense layer with the activation
    /// `dense`, if given.
    pub(crate) fn new(pooling: Pooling, dense: Option<DenseActivation>) -> HeadClass {
        let dense = dense.map(|activation| DenseConfig { activation, norm: false, optional: false });
        HeadClass { pooling, dense, of_tokens: false }
    }
}

/// Returns the head of the class that a `config.json` names; for a class without labels, the hidden states are the
/// result.
pub(crate) fn hf_head(hf: &HfConfig<'_>, class: HeadClass) -> Result<HeadConfig, Error> {
    let json = hf.json();
    let classes = json.opt_array_str("architectures")?.unwrap_or_default();
    let is = |end: &str| classes.iter().any(|class| class.ends_with(end));
    if is("ForTokenClassification") {
        let (labels, scores) = (labels(hf)?, Scores::Softmax);
        let dense = class.dense.filter(|_| class.of_tokens);
        let config = ClassifierConfig { labels, of: Labelled::Tokens, dense, scores, prompt: None };
        return Ok(HeadConfig::Classifier(config));
    }
    if !is("ForSequenceClassification") {
        return Ok(HeadConfig::States);
    }
    let labels = labels(hf)?;
    let kind = "problem_type";
    let scores = match (json.opt_str(kind)?, labels.len()) {
        (Some("regression"), _) => Scores::Raw,
        (Some("multi_label_classification"), _) | (None, 1) => Scores::Sigmoid,
        (Some("single_label_classification") | None, _) => Scores::Softmax,
        (Some(other), _) => {
            return Err(hf.invalid(kind, format!("`{}` is not supported", Escaped(other))));
        }
    };
    let dense = class.dense;
    let of = Labelled::Text(class.pooling);
    Ok(HeadConfig::Classifier(ClassifierConfig { labels, of, dense, scores, prompt: None }))
}

/// Returns the label names from `id2label`. Without it, there are `num_labels` labels, 2 by default, named `LABEL_0`
/// and so on.
fn labels(hf: &HfConfig<'_>) -> Result<Vec<String>, Error> {
    const KEY: &str = "id2label";
    const DEFAULT_LABELS: usize = 2;
    let Some(names) = hf.json().get(KEY) else {
        let count = hf.opt_size("num_labels")?.unwrap_or(DEFAULT_LABELS);
        if count > MAX_LABELS {
            return Err(hf.invalid("num_labels", format!("{count} is not between 1 and {MAX_LABELS}")));
        }
        return Ok((0..count).map(|i| format!("LABEL_{i}")).collect());
    };
    let names = names.as_object().ok_or_else(|| hf.json().wrong_type(KEY, "object"))?;
    if names.is_empty() || names.len() > MAX_LABELS {
        return Err(hf.invalid(KEY, format!("{} labels, not between 1 and {MAX_LABELS}", names.len())));
    }
    let name = |i: usize| match names.get(&i.to_string()).map(|name| name.as_str()) {
        Some(Some(name)) => Ok(name.to_owned()),
        Some(None) => Err(hf.invalid(KEY, format!("the name of label {i} is not a string"))),
        None => Err(hf.invalid(KEY, format!("{} labels, but none has the number {i}", names.len()))),
    };
    (0..names.len()).map(name).collect()
}

/// Returns the head of a GGUF file that is a reranker or has labels for texts.
pub(crate) fn gguf_head(
    meta: &Metadata,
    architecture: &str,
    pooling: Pooling,
) -> Result<Option<HeadConfig>, Error> {
    const KEY: &str = "classifier.output_labels";
    let key = format!("{architecture}.{KEY}");
    let names = meta.opt_array_str(&key)?;
    if !ranks(meta)? {
        return match names {
            Some(names) if !names.is_empty() => {
                Err(Error::invalid(meta.file(), &key, "labels, but the key pooling_type is not 4 (rank)"))
            }
            _ => Ok(None),
        };
    }
    let mut labels = Vec::new();
    for name in names.iter().flat_map(|names| names.iter()).take(MAX_LABELS) {
        labels.push(String::from_utf8_lossy(name).into_owned());
    }
    if labels.is_empty() {
        labels.push("LABEL_0".to_owned());
    }
    let scores = match labels.len() {
        1 => Scores::Sigmoid,
        _ => Scores::Softmax,
    };
    // Converters write the dense layer if there is one; no key says so.
    let dense = Some(DenseConfig { activation: DenseActivation::Tanh, norm: false, optional: true });
    let prompt = meta.opt_str("tokenizer.chat_template.rerank")?.map(str::to_owned);
    Ok(Some(HeadConfig::Classifier(ClassifierConfig {
        labels,
        of: Labelled::Text(pooling),
        dense,
        scores,
        prompt,
    })))
}
