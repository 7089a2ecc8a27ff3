//! Heads that give labels scores: what a class of Hugging Face's libraries has, what a GGUF file says.

use super::hf::HfConfig;
use super::{ClassifierConfig, DenseActivation, DenseConfig, Head, Labelled, Scores};
use crate::error::Error;
use crate::pooling::{Pooling, ranks};
use leyden_tensor::{Escaped, Metadata};

/// The most labels that are believed.
const MOST: usize = 1 << 16;

/// How the classes of one type of model make heads.
#[derive(Clone, Copy)]
pub(crate) struct HeadClass {
    /// What a text's labels are given by.
    pub(crate) pooling: Pooling,
    /// The matrix that comes first, if there is one.
    pub(crate) dense: Option<DenseConfig>,
    /// Whether it comes first for the labels of tokens, too.
    pub(crate) of_tokens: bool,
}

impl HeadClass {
    /// Labels by one matrix, those of texts behind another one with a function.
    pub(crate) fn new(pooling: Pooling, dense: Option<DenseActivation>) -> HeadClass {
        let dense = dense.map(|activation| DenseConfig { activation, norm: false, optional: false });
        HeadClass { pooling, dense, of_tokens: false }
    }
}

/// The head that the class named in a `config.json` has; of one without labels the states are the result.
pub(crate) fn hf_head(hf: &HfConfig<'_>, class: HeadClass) -> Result<Head, Error> {
    let json = hf.json();
    let classes = json.opt_array_str("architectures")?.unwrap_or_default();
    let is = |end: &str| classes.iter().any(|class| class.ends_with(end));
    if is("ForTokenClassification") {
        let (labels, scores) = (labels(hf)?, Scores::Softmax);
        let dense = class.dense.filter(|_| class.of_tokens);
        let config = ClassifierConfig { labels, of: Labelled::Tokens, dense, scores, prompt: None };
        return Ok(Head::Classifier(config));
    }
    if !is("ForSequenceClassification") {
        return Ok(Head::States);
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
    Ok(Head::Classifier(ClassifierConfig { labels, of, dense, scores, prompt: None }))
}

/// The names of labels: those of `id2label`, whose keys are their numbers. Without any there are as many as `num_labels`
/// says, or two, and the numbers are the names.
fn labels(hf: &HfConfig<'_>) -> Result<Vec<String>, Error> {
    const KEY: &str = "id2label";
    const DEFAULT_LABELS: usize = 2;
    let Some(names) = hf.json().get(KEY) else {
        let count = hf.opt_size("num_labels")?.unwrap_or(DEFAULT_LABELS);
        if count > MOST {
            return Err(hf.invalid("num_labels", format!("{count} is not between 1 and {MOST}")));
        }
        return Ok((0..count).map(|i| format!("LABEL_{i}")).collect());
    };
    let names = names.as_object().ok_or_else(|| hf.json().wrong_type(KEY, "object"))?;
    if names.is_empty() || names.len() > MOST {
        return Err(hf.invalid(KEY, format!("{} labels, not between 1 and {MOST}", names.len())));
    }
    let name = |i: usize| match names.get(&i.to_string()).map(|name| name.as_str()) {
        Some(Some(name)) => Ok(name.to_owned()),
        Some(None) => Err(hf.invalid(KEY, format!("the name of label {i} is no text"))),
        None => Err(hf.invalid(KEY, format!("{} labels, but none has the number {i}", names.len()))),
    };
    (0..names.len()).map(name).collect()
}

/// The head of a GGUF file that says it ranks, or has labels for texts.
pub(crate) fn gguf_head(
    meta: &Metadata,
    architecture: &str,
    pooling: Pooling,
) -> Result<Option<Head>, Error> {
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
    for name in names.iter().flat_map(|names| names.iter()).take(MOST) {
        labels.push(String::from_utf8_lossy(name).into_owned());
    }
    if labels.is_empty() {
        labels.push("LABEL_0".to_owned());
    }
    let scores = match labels.len() {
        1 => Scores::Sigmoid,
        _ => Scores::Softmax,
    };
    // Converters write the matrix before the scores where there is one, and no key says so.
    let dense = Some(DenseConfig { activation: DenseActivation::Tanh, norm: false, optional: true });
    let prompt = meta.opt_str("tokenizer.chat_template.rerank")?.map(str::to_owned);
    Ok(Some(Head::Classifier(ClassifierConfig {
        labels,
        of: Labelled::Text(pooling),
        dense,
        scores,
        prompt,
    })))
}
