//! GLiNER (Zaratiana et al., 2023): named-entity recognition with labels given at inference. A folder has
//! `gliner_config.json` and an encoder whose tensors have their own prefix. An LSTM over words, span representations,
//! and a product with the label representations follow the encoder.

use crate::config::{ModelConfig, SpanConfig};
use crate::error::Error;
use crate::pooling::Pooling;
use leyden_tensor::{
    Escaped, HfFile, HfFolder, Json, KnownKeys, Value, WeightSource, harmless_key, read_key,
};

/// Prefix of the names of the encoder's tensors.
pub(crate) const ENCODER: &str = "token_rep_layer.bert_layer.model.";

/// Prefixes of the head's tensors: the internal one, and the one in the files.
const TENSORS: [(&str, &str); 6] = [
    ("spans.projection.", "token_rep_layer.projection."),
    ("spans.rnn.", "rnn.lstm."),
    ("spans.start.", "span_rep_layer.span_rep_layer.project_start."),
    ("spans.end.", "span_rep_layer.span_rep_layer.project_end."),
    ("spans.out.", "span_rep_layer.span_rep_layer.out_project."),
    ("spans.label.", "prompt_rep_layer."),
];

/// Maximum values in the files.
const MAX_WIDTH: u32 = 64;
const MAX_WORDS: u32 = 1 << 16;
const MAX_RNN_LAYERS: u32 = 16;
const MAX_HIDDEN: u32 = 1 << 14;
/// Context in tokens for a window of words and labels: `TOKENS_PER_WORD` per word, at most `MAX_TOKENS` in all.
/// Encoders with relative positions alone accept more tokens than their configuration says, and GLiNER uses that.
const TOKENS_PER_WORD: usize = 4;
const MAX_TOKENS: usize = 1 << 13;

/// Keys of `gliner_config.json` that are not refused by name; other keys are reported as unknown.
const KEYS: KnownKeys = KnownKeys(&[
    read_key("class_token_index"),
    read_key("embed_ent_token"),
    read_key("encoder_config"),
    read_key("ent_token"),
    read_key("hidden_size"),
    read_key("max_len"),
    read_key("max_width"),
    read_key("model_type"),
    read_key("num_rnn_layers"),
    read_key("sep_token"),
    read_key("span_mode"),
    read_key("subtoken_pooling"),
    read_key("vocab_size"),
    read_key("words_splitter_type"),
    // Implied by the tensors, or by a key that is refused.
    harmless_key("has_rnn"),
    harmless_key("num_post_fusion_layers"),
    // Settings of training, and remarks.
    harmless_key("_attn_implementation"),
    harmless_key("dropout"),
    harmless_key("dtype"),
    harmless_key("eval_every"),
    harmless_key("fine_tune"),
    harmless_key("freeze_token_rep"),
    harmless_key("log_dir"),
    harmless_key("loss_alpha"),
    harmless_key("loss_gamma"),
    harmless_key("loss_reduction"),
    harmless_key("lr_encoder"),
    harmless_key("lr_others"),
    harmless_key("max_grad_norm"),
    harmless_key("max_neg_type_ratio"),
    harmless_key("max_types"),
    harmless_key("model_name"),
    harmless_key("name"),
    harmless_key("num_steps"),
    harmless_key("prev_path"),
    harmless_key("random_drop"),
    harmless_key("root_dir"),
    harmless_key("save_total_limit"),
    harmless_key("scheduler_type"),
    harmless_key("shuffle_types"),
    harmless_key("size_sup"),
    harmless_key("torch_dtype"),
    harmless_key("train_batch_size"),
    harmless_key("train_data"),
    harmless_key("transformers_version"),
    harmless_key("val_data_dir"),
    harmless_key("warmup_ratio"),
    harmless_key("weight_decay_encoder"),
    harmless_key("weight_decay_other"),
    harmless_key("weight_decay_others"),
]);

/// Pooling of a word's token states, by name.
const POOLINGS: [(&str, Pooling); 4] =
    [("first", Pooling::Cls), ("last", Pooling::Last), ("mean", Pooling::Mean), ("max", Pooling::Max)];

/// Configuration in `gliner_config.json`.
#[derive(Debug)]
pub(crate) struct Gliner {
    file: String,
    config: SpanConfig,
    /// Vocabulary size of the encoder, if the file gives it.
    vocabulary: Option<u32>,
    /// Unknown keys.
    pub(crate) unread: Vec<String>,
}

/// Returns the name in the files of a head's tensor; `None` if the tensor is not the head's.
pub(crate) fn tensor_name(name: &str) -> Option<String> {
    let row = TENSORS.iter().find_map(|(ours, theirs)| Some((theirs, name.strip_prefix(ours)?)));
    row.map(|(theirs, rest)| format!("{theirs}{rest}"))
}

/// Returns the internal name of a head's tensor in the files; `None` if the tensor is not the head's.
pub(crate) fn name_of_tensor(name: &str) -> Option<String> {
    let row = TENSORS.iter().find_map(|(ours, theirs)| Some((ours, name.strip_prefix(theirs)?)));
    row.map(|(ours, rest)| format!("{ours}{rest}"))
}

impl Gliner {
    /// Reads a folder's `gliner_config.json`, if it has one.
    ///
    /// # Errors
    /// The file requests something that is not supported, or a value is impossible; the error names the key.
    pub(crate) fn of_folder(folder: &HfFolder) -> Result<Option<Gliner>, Error> {
        let Some(json) = folder.json(HfFile::Gliner)? else { return Ok(None) };
        if folder.onnx().is_some() {
            let what = "its exports as ONNX models are not read; the folder needs model.safetensors or pytorch_model.bin";
            return Err(Error::invalid(json.file(), "", what));
        }
        Gliner::read(&json).map(Some)
    }

    fn read(json: &Json) -> Result<Gliner, Error> {
        refuse(json)?;
        let size = |key: &str, default: u32, least: u32, most: u32| {
            let n = json.opt_u32(key)?.unwrap_or(default);
            match (least..=most).contains(&n) {
                true => Ok(n as usize),
                false => {
                    Err(Error::invalid(json.file(), key, format!("{n} is not between {least} and {most}")))
                }
            }
        };
        // -1 means unknown.
        let number = |key: &str| match json.get(key).and_then(|value| value.as_i64()) {
            Some(-1) => Ok(None),
            _ => json.opt_u32(key),
        };
        let hidden = size("hidden_size", 512, 1, MAX_HIDDEN)?;
        let rnn_layers = size("num_rnn_layers", 1, 0, MAX_RNN_LAYERS)?;
        if rnn_layers > 0 && !hidden.is_multiple_of(2) {
            let what = format!("{hidden} is odd, and an LSTM in two directions takes half of it for each");
            return Err(Error::invalid(json.file(), "hidden_size", what));
        }
        let key = "subtoken_pooling";
        let name = json.opt_str(key)?.unwrap_or("first");
        let pooling = POOLINGS.iter().find(|(known, _)| *known == name).map(|(_, pooling)| *pooling);
        let pooling = pooling.ok_or_else(|| unsupported(json, key, name, &POOLINGS.map(|(name, _)| name)))?;
        let token = |key: &str, default: &str| match json.opt_str(key)?.unwrap_or(default) {
            "" => Err(Error::invalid(json.file(), key, "is empty")),
            token => Ok(token.to_owned()),
        };
        Ok(Gliner {
            file: json.file().to_owned(),
            config: SpanConfig {
                hidden,
                max_width: size("max_width", 12, 1, MAX_WIDTH)?,
                max_words: size("max_len", 384, 1, MAX_WORDS)?,
                rnn_layers,
                pooling,
                mark: token("ent_token", "<<ENT>>")?,
                mark_id: number("class_token_index")?,
                of_mark: json.opt_bool("embed_ent_token")?.unwrap_or(true),
                separator: token("sep_token", "<<SEP>>")?,
            },
            vocabulary: number("vocab_size")?,
            unread: KEYS.check(json).map_err(|refused| Error::refused(json.file(), refused))?,
        })
    }

    /// Checks that the embedding matrix has as many rows as `vocab_size`.
    pub(crate) fn check_vocabulary(&self, rows: usize) -> Result<(), Error> {
        match self.vocabulary {
            Some(n) if n as usize != rows => {
                let what = format!("{n} differs from the {rows} rows of the encoder's embeddings");
                Err(Error::invalid(&self.file, "vocab_size", what))
            }
            _ => Ok(()),
        }
    }

    /// Returns the configuration as metadata entries, whose keys lack the architecture's name.
    pub(crate) fn entries(&self) -> Vec<(&'static str, Value)> {
        let c = &self.config;
        let pooling = POOLINGS.iter().find(|(_, pooling)| *pooling == c.pooling).map_or("", |(name, _)| name);
        let size = |n: usize| Value::U32(u32::try_from(n).unwrap_or(u32::MAX));
        let mut entries = vec![
            (HIDDEN, size(c.hidden)),
            ("spans.max_width", size(c.max_width)),
            ("spans.max_words", size(c.max_words)),
            ("spans.rnn_layers", size(c.rnn_layers)),
            ("spans.pooling", Value::from(pooling)),
            ("spans.mark", Value::from(c.mark.as_str())),
            ("spans.of_mark", Value::Bool(c.of_mark)),
            ("spans.separator", Value::from(c.separator.as_str())),
        ];
        entries.extend(c.mark_id.map(|id| ("spans.mark_id", Value::U32(id))));
        entries
    }
}

const HIDDEN: &str = "spans.hidden";

fn unsupported(json: &Json, key: &str, name: &str, known: &[&str]) -> Error {
    let what = format!("`{}` is not supported; supported: {}", Escaped(name), known.join(", "));
    Error::invalid(json.file(), key, what)
}

/// Refuses a GLiNER2 model, recognised by its `config.json`.
pub(crate) fn refuse_gliner2(json: &Json) -> Result<(), Error> {
    const KEY: &str = "model_type";
    if json.get(KEY).is_some_and(|name| name == "extractor") && json.get("counting_layer").is_some() {
        let what =
            "GLiNER2, another model than GLiNER, is not supported; folders with gliner_config.json are";
        return Err(Error::invalid(json.file(), KEY, what));
    }
    Ok(())
}

/// Refuses variants of GLiNER that compute something else.
fn refuse(json: &Json) -> Result<(), Error> {
    const OTHERS: [(&str, &str); 8] = [
        ("labels_encoder", "a second encoder for labels is not supported"),
        ("labels_encoder_config", "a second encoder for labels is not supported"),
        ("labels_decoder", "a decoder that writes labels is not supported"),
        ("relations_layer", "relations between entities are not supported"),
        ("span_encoder_config", "an encoder over words is not supported; an LSTM is (num_rnn_layers)"),
        ("post_fusion_schema", "attention between words and labels is not supported"),
        ("fuse_layers", "a mixture of the encoder's layers is not supported"),
        ("precomputed_prompts_mode", "labels that were computed beforehand are not supported"),
    ];
    let is_off = |value: &serde_json::Value| {
        value.as_bool() == Some(false) || value.as_str().is_some_and(|text| text.is_empty() || text == "none")
    };
    for (key, what) in OTHERS {
        if json.get(key).is_some_and(|value| !is_off(value)) {
            return Err(Error::invalid(json.file(), key, what));
        }
    }
    let only = |key: &str, supported: &[&str]| match json.opt_str(key)? {
        Some(name) if !supported.contains(&name) => Err(unsupported(json, key, name, supported)),
        _ => Ok(()),
    };
    only("model_type", &["gliner", "gliner_uni_encoder_span"])?;
    only("span_mode", &["markerV0"])?;
    only("words_splitter_type", &["whitespace"])
}

/// Adds the span head to the configuration of an encoder, if the source has one.
pub(crate) fn complete(config: &mut ModelConfig, source: &dyn WeightSource) -> Result<(), Error> {
    let meta = source.metadata();
    let key = |name: &str| format!("{}.{name}", config.architecture);
    if meta.get(&key(HIDDEN)).is_none() {
        return Ok(());
    }
    let size = |name: &str| -> Result<usize, Error> { Ok(meta.u32(&key(name))? as usize) };
    let text = |name: &str| -> Result<String, Error> { Ok(meta.str(&key(name))?.to_owned()) };
    let pooling = text("spans.pooling")?;
    let spans = SpanConfig {
        hidden: size(HIDDEN)?,
        max_width: size("spans.max_width")?,
        max_words: size("spans.max_words")?,
        rnn_layers: size("spans.rnn_layers")?,
        pooling: POOLINGS.iter().find(|(name, _)| *name == pooling).map_or(Pooling::Cls, |row| row.1),
        mark: text("spans.mark")?,
        mark_id: meta.opt_u32(&key("spans.mark_id"))?,
        of_mark: meta.bool(&key("spans.of_mark"))?,
        separator: text("spans.separator")?,
    };
    if !config.needs_whole_texts() {
        let what = "a decoder as the encoder of GLiNER is not supported";
        return Err(Error::invalid(meta.file(), "encoder_config", what));
    }
    if config.learned_positions.is_none() && config.layers.iter().all(|layer| layer.rope.is_none()) {
        let tokens = spans.max_words.saturating_mul(TOKENS_PER_WORD).min(MAX_TOKENS);
        config.context = config.context.max(tokens);
    }
    config.spans = Some(spans);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Gliner, String> {
        let json = Json::parse(text.as_bytes(), "gliner_config.json").unwrap();
        Gliner::read(&json).map_err(|e| e.to_string())
    }

    #[test]
    fn defaults_are_those_of_the_package() {
        let Gliner { config, vocabulary, .. } =
            read(r#"{"class_token_index": -1, "vocab_size": -1, "labels_encoder": null}"#).unwrap();
        assert_eq!((config.hidden, config.max_width, config.max_words, config.rnn_layers), (512, 12, 384, 1));
        assert_eq!((config.mark.as_str(), config.separator.as_str()), ("<<ENT>>", "<<SEP>>"));
        assert_eq!((config.pooling, config.of_mark), (Pooling::Cls, true));
        assert_eq!((config.mark_id, vocabulary), (None, None));
    }

    #[test]
    fn unknown_keys_are_reported() {
        let found =
            read(r#"{"name": "x", "lr_encoder": "1e-5", "warp": 3, "labels_encoder": null}"#).unwrap();
        assert_eq!(found.unread, ["warp"]);
    }

    #[test]
    fn unsupported_options_are_refused_by_key() {
        for (text, wanted) in [
            (r#"{"span_mode": "token_level"}"#, "span_mode: `token_level` is not supported"),
            (r#"{"labels_encoder": "x"}"#, "labels_encoder: a second encoder"),
            (r#"{"labels_decoder": "gpt2"}"#, "labels_decoder: a decoder"),
            (r#"{"relations_layer": "dot"}"#, "relations_layer: relations"),
            (r#"{"fuse_layers": true}"#, "fuse_layers: a mixture"),
            (r#"{"post_fusion_schema": "l2l"}"#, "post_fusion_schema: attention"),
            (r#"{"words_splitter_type": "jieba"}"#, "words_splitter_type: `jieba`"),
            (r#"{"subtoken_pooling": "sum"}"#, "subtoken_pooling: `sum`"),
            (r#"{"model_type": "gliner_streaming_span"}"#, "model_type: `gliner_streaming_span`"),
            (r#"{"max_width": -1}"#, "max_width: "),
            (r#"{"max_width": 0}"#, "max_width: 0 is not between 1 and 64"),
            (r#"{"max_len": 0}"#, "max_len: 0 is not between"),
            (r#"{"hidden_size": 33}"#, "hidden_size: 33 is odd"),
            (r#"{"num_rnn_layers": 17}"#, "num_rnn_layers: 17 is not between"),
            (r#"{"ent_token": ""}"#, "ent_token: is empty"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(&format!("gliner_config.json: {wanted}")), "{error}");
        }
    }
}
