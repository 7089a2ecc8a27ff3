//! BERT (Devlin et al., 2018), RoBERTa (Liu et al., 2019), DistilBERT (Sanh et al., 2019) and what is built like them: MiniLM, BGE,
//! E5 and most models that make vectors of texts.

use super::{ATTENTION, Architecture, DECODER, HfClass};
use crate::config::{
    ClassifierConfig, DenseActivation, Field, Head, HfConfig, ModelConfig, Reader, Scores, field,
};
use crate::error::Error;
use leyden_kernels::ops::Activation;
use leyden_tensor::Escaped;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "bert",
    models: "BERT, RoBERTa, XLM-RoBERTa, DistilBERT, MiniLM, BGE, E5",
    config,
    own_keys: &["attention.causal", "attention.layer_norm_epsilon", "layer_norm_eps", "type_vocab_size"],
    hf: &[
        BERT,
        HfClass {
            model_type: ROBERTA,
            classes: &["RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification"],
            prefix: "roberta.",
            head: ROBERTA_HEAD,
            ..BERT
        },
        HfClass {
            model_type: XLM_ROBERTA,
            classes: &["XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification"],
            prefix: "roberta.",
            head: ROBERTA_HEAD,
            ..BERT
        },
        HfClass {
            model_type: DISTILBERT,
            classes: &["DistilBertModel", "DistilBertForMaskedLM", "DistilBertForSequenceClassification"],
            keys: DISTILBERT_KEYS,
            prefix: "distilbert.",
            layers: "transformer.layer",
            tensors: DISTILBERT_TENSORS,
            head: &[("cls", "pre_classifier"), ("cls.output", "classifier")],
            ..BERT
        },
    ],
};

const ROBERTA: &str = "roberta";
const XLM_ROBERTA: &str = "xlm-roberta";
const DISTILBERT: &str = "distilbert";

const BERT: HfClass = HfClass {
    model_type: "bert",
    classes: &["BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification"],
    activations: &[
        ("gelu", Activation::Gelu),
        ("gelu_new", Activation::GeluTanh),
        ("gelu_pytorch_tanh", Activation::GeluTanh),
    ],
    biases: |_| Ok([&ATTENTION[..], &OTHER_BIASES].concat()),
    prefix: "bert.",
    layers: "encoder.layer",
    tensors: BERT_TENSORS,
    head: &[("cls.output", "classifier")],
    // Positions by number, and the heads that the model was first trained with.
    unused: &["embeddings.position_ids", "pooler.", "cls.", "lm_head.", "vocab_"],
    ..DECODER
};

const OTHER_BIASES: [&str; 7] =
    ["token_embd_norm", "attn_output_norm", "ffn_up", "ffn_down", "layer_output_norm", "cls", "cls.output"];

/// GGUF's name, theirs.
const BERT_TENSORS: &[(&str, &str)] = &[
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

const ROBERTA_HEAD: &[(&str, &str)] = &[("cls", "classifier.dense"), ("cls.output", "classifier.out_proj")];

const DISTILBERT_TENSORS: &[(&str, &str)] = &[
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

const DISTILBERT_KEYS: &[(&str, &str)] = &[
    ("hidden_size", "dim"),
    ("num_attention_heads", "n_heads"),
    ("num_hidden_layers", "n_layers"),
    ("intermediate_size", "hidden_dim"),
    ("hidden_act", "activation"),
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
            if let Some(classifier) = classifier(hf)? {
                config.head = Head::Classifier(classifier);
            }
        }
    }
    config.learned_positions = Some(first);
    // The table has rows before the first position, too.
    config.context -= first;
    Ok(config)
}

/// The classifier that the class has, if it has one.
fn classifier(hf: &HfConfig<'_>) -> Result<Option<ClassifierConfig>, Error> {
    let json = hf.json();
    let classes = json.opt_array_str("architectures")?.unwrap_or_default();
    if !classes.iter().any(|class| class.ends_with("ForSequenceClassification")) {
        return Ok(None);
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
    let activation = match json.str("model_type")? {
        DISTILBERT => DenseActivation::Relu,
        _ => DenseActivation::Tanh,
    };
    Ok(Some(ClassifierConfig { labels, activation, scores }))
}

/// The names of labels: those of `id2label`, whose keys are their numbers. Without any there are as many as `num_labels`
/// says, or two, and the numbers are the names.
fn labels(hf: &HfConfig<'_>) -> Result<Vec<String>, Error> {
    const KEY: &str = "id2label";
    const DEFAULT_LABELS: usize = 2;
    const MOST: usize = 1 << 16;
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
