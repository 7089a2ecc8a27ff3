//! [`InputForm`]: input settings of sentence-transformers from `sentence_bert_config.json`, and the maximum number of
//! tokens from `tokenizer_config.json`.
//!
//! Lowercasing, if the file requests it, is a step of the tokenizer's normalizer, which `leyden-text` adds.

use crate::error::{Error, checked};
use leyden_tensor::{
    Escaped, HfFile, HfFolder, Json, KnownKeys, Metadata, Value, choice_key, empty_key, harmless_key,
    read_key,
};
use serde_json::{Map, Value as JsonValue};

/// Keys of the file, from version 2 of sentence-transformers to version 6.
const KEYS: KnownKeys = KnownKeys(&[
    read_key("max_seq_length"),
    // Read with the tokenizer.
    read_key("do_lower_case"),
    choice_key(
        "transformer_task",
        &["feature-extraction", "fill-mask", "sequence-classification"],
        "another task",
    ),
    read_key("modality_config"),
    choice_key("module_output_name", &["token_embeddings", "scores"], "another result of the model"),
    read_key("processing_kwargs"),
    read_key("model_args"),
    read_key("model_kwargs"),
    read_key("tokenizer_args"),
    read_key("processor_kwargs"),
    read_key("config_args"),
    read_key("config_kwargs"),
    harmless_key("unpad_inputs"),
    empty_key("query_length", "a length of its own for questions"),
    empty_key("document_length", "a length of its own for documents"),
    empty_key("query_expansion", "tokens that are added to questions"),
    empty_key("tokenizer_name_or_path", "the tokenizer of another folder"),
]);

/// Arguments with which sentence-transformers loads the model, its tokenizer and its configuration.
const LOADING: [(&str, KnownKeys); 6] = [
    ("model_args", MODEL),
    ("model_kwargs", MODEL),
    ("tokenizer_args", TOKENIZER),
    ("processor_kwargs", TOKENIZER),
    ("config_args", CONFIG),
    ("config_kwargs", CONFIG),
];

const MODEL: KnownKeys = KnownKeys(&[
    harmless_key("add_pooling_layer"),
    harmless_key("attn_implementation"),
    harmless_key("cache_dir"),
    harmless_key("device_map"),
    harmless_key("dtype"),
    harmless_key("local_files_only"),
    harmless_key("low_cpu_mem_usage"),
    harmless_key("revision"),
    harmless_key("token"),
    harmless_key("torch_dtype"),
    harmless_key("trust_remote_code"),
    harmless_key("use_safetensors"),
]);

const TOKENIZER: KnownKeys = KnownKeys(&[
    harmless_key("cache_dir"),
    harmless_key("local_files_only"),
    read_key("model_max_length"),
    // Batches are not padded.
    harmless_key("padding_side"),
    harmless_key("revision"),
    harmless_key("token"),
    harmless_key("trust_remote_code"),
    harmless_key("use_fast"),
]);

const CONFIG: KnownKeys = KnownKeys(&[
    harmless_key("cache_dir"),
    harmless_key("local_files_only"),
    harmless_key("output_attentions"),
    harmless_key("output_hidden_states"),
    harmless_key("revision"),
    harmless_key("token"),
    harmless_key("trust_remote_code"),
    harmless_key("use_cache"),
]);

/// Keys of an entry in `modality_config`.
const MODALITY: KnownKeys = KnownKeys(&[
    choice_key("method", &["forward"], "another method of the model"),
    choice_key("method_output_name", &["last_hidden_state", "logits"], "another result of the model"),
    choice_key("format", &["auto", "flat", "structured"], "another form of messages"),
]);
/// Modalities other than text.
const OTHER_MODALITIES: [&str; 3] = ["image", "audio", "video"];

const PROCESSING: KnownKeys = KnownKeys(&[
    read_key("text"),
    read_key("chat_template"),
    read_key("common"),
    harmless_key("audio"),
    harmless_key("image"),
    harmless_key("video"),
]);

const TEXT: KnownKeys = KnownKeys(&[
    read_key("max_length"),
    harmless_key("logits_to_keep"),
    harmless_key("pad_to_multiple_of"),
    harmless_key("padding"),
    harmless_key("padding_side"),
    harmless_key("return_attention_mask"),
    harmless_key("return_tensors"),
    // A text that is too long is an error unless the request asks for truncation.
    harmless_key("truncation"),
]);

/// Keys of `processing_kwargs.chat_template`; other keys are variables of the template.
const TEMPLATE: KnownKeys = KnownKeys(&[
    read_key("add_generation_prompt"),
    read_key("max_length"),
    read_key("restore_suffix"),
    empty_key("chat_template", "another chat template"),
    empty_key("continue_final_message", "a message that goes on"),
    empty_key("documents", "documents beside the messages"),
    empty_key("tools", "tools"),
    harmless_key("padding"),
    harmless_key("return_dict"),
    harmless_key("return_tensors"),
    harmless_key("tokenize"),
    harmless_key("truncation"),
]);

/// User message that each text is wrapped in by the model's chat template. A prompt becomes the system message before
/// it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageForm {
    /// True if the content is a list with one part of type `text`; `None` to decide by the template's source.
    pub in_parts: Option<bool>,
    /// True if the prompt for the assistant's answer is appended.
    pub add_generation_prompt: bool,
    /// True if the template's tokens after the text are kept when the text is truncated.
    pub keep_tail: bool,
    /// Additional variables of the template.
    pub variables: Map<String, JsonValue>,
}

/// Input settings of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InputForm {
    /// Maximum number of tokens in a text, if the files limit it.
    pub(crate) max_tokens: Option<usize>,
    /// Message that a text is wrapped in, if any.
    pub(crate) message: Option<MessageForm>,
}

/// GGUF keys, after the architecture's name.
const IN_PARTS: &str = "message.in_parts";
const GENERATION: &str = "message.add_generation_prompt";
const KEEP_TAIL: &str = "message.keep_tail";
const VARIABLES: &str = "message.variables";

impl InputForm {
    /// Reads the settings from a folder. `sentence` is true if the folder was made by sentence-transformers; only
    /// then does the tokenizer's `model_max_length` apply to every model.
    ///
    /// # Errors
    /// A file is damaged, or requests something that is not supported; the error names the key.
    pub(crate) fn of_folder(folder: &HfFolder, sentence: bool) -> Result<InputForm, Error> {
        let mut form = InputForm::default();
        if let Some(json) = folder.sentence_settings()? {
            form = InputForm::read(&json, model_type(folder))?;
        }
        if form.max_tokens.is_none() && sentence {
            form.max_tokens = tokenizer_length(folder)?;
        }
        Ok(form)
    }

    fn read(json: &Json, model_type: &str) -> Result<InputForm, Error> {
        checked(json, KEYS)?;
        for (key, known) in LOADING {
            if let Some(inner) = json.nested(key)? {
                checked(&inner, known)?;
            }
        }
        let mut max_tokens = None;
        for key in ["max_seq_length", "tokenizer_args.model_max_length", "processor_kwargs.model_max_length"]
        {
            max_tokens = length(json, key)?.or(max_tokens);
        }
        json.opt_bool("do_lower_case")?;
        let mut form = InputForm { max_tokens, message: message(json, model_type)? };
        form.take_processing(json)?;
        Ok(form)
    }

    /// Reads the arguments of tokenizer and chat template in `processing_kwargs`.
    fn take_processing(&mut self, json: &Json) -> Result<(), Error> {
        const KEY: &str = "processing_kwargs";
        let Some(all) = json.nested(KEY)? else { return Ok(()) };
        checked(&all, PROCESSING)?;
        for key in ["text", "common"] {
            if let Some(text) = all.nested(key)? {
                checked(&text, TEXT)?;
                self.shorten(length(&text, "max_length")?);
            }
        }
        let Some(template) = all.nested("chat_template")? else { return Ok(()) };
        let Some(message) = &mut self.message else { return Ok(()) };
        let variables =
            TEMPLATE.check(&template).map_err(|refused| Error::refused(template.file(), refused))?;
        message.add_generation_prompt = template.opt_bool("add_generation_prompt")?.unwrap_or(false);
        message.keep_tail = template.opt_bool("restore_suffix")?.unwrap_or(true);
        let is_variable = |key: &str| !TEMPLATE.0.iter().any(|row| row.key == key);
        debug_assert!(variables.iter().all(|key| is_variable(key)));
        let own = template.object().iter().filter(|(key, _)| is_variable(key));
        message.variables = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        let length = length(&template, "max_length")?;
        self.shorten(length);
        Ok(())
    }

    fn shorten(&mut self, length: Option<usize>) {
        if let Some(length) = length {
            self.max_tokens = Some(self.max_tokens.map_or(length, |known| known.min(length)));
        }
    }

    /// Returns the settings as metadata entries, whose keys lack the architecture's name. The maximum number of
    /// tokens is not among them: it is added for every model.
    pub(crate) fn entries(&self) -> Vec<(&'static str, Value)> {
        let Some(message) = &self.message else { return Vec::new() };
        let mut entries = vec![
            (GENERATION, Value::Bool(message.add_generation_prompt)),
            (KEEP_TAIL, Value::Bool(message.keep_tail)),
            (VARIABLES, Value::from(&JsonValue::Object(message.variables.clone()).to_string()[..])),
        ];
        entries.extend(message.in_parts.map(|in_parts| (IN_PARTS, Value::Bool(in_parts))));
        entries
    }
}

impl MessageForm {
    /// Reads the message form from metadata; `None` if texts are not wrapped in messages.
    ///
    /// # Errors
    /// A key has a value of another type, or the variables are not a JSON object.
    pub(crate) fn of_metadata(meta: &Metadata) -> Result<Option<MessageForm>, Error> {
        let Some(architecture) = meta.opt_str("general.architecture")? else { return Ok(None) };
        let key = |name: &str| format!("{architecture}.{name}");
        let Some(add_generation_prompt) = meta.opt_bool(&key(GENERATION))? else { return Ok(None) };
        let variables = match meta.opt_str(&key(VARIABLES))? {
            Some(text) => Json::parse(text.as_bytes(), &format!("{}: {}", meta.file(), key(VARIABLES)))?,
            None => Json::parse(b"{}", meta.file())?,
        };
        Ok(Some(MessageForm {
            in_parts: meta.opt_bool(&key(IN_PARTS))?,
            add_generation_prompt,
            keep_tail: meta.opt_bool(&key(KEEP_TAIL))?.unwrap_or(true),
            variables: variables.object().clone(),
        }))
    }
}

fn model_type(folder: &HfFolder) -> &str {
    folder.config().opt_str("model_type").ok().flatten().unwrap_or_default()
}

/// Reads a number of tokens. Values beyond any model's context mean no limit, as in `tokenizer_config.json`.
fn length(json: &Json, key: &str) -> Result<Option<usize>, Error> {
    const MAX: f64 = (1 << 24) as f64;
    let Some(value) = json.get(key) else { return Ok(None) };
    match value.as_f64() {
        Some(n) if n > MAX => Ok(None),
        Some(n) if n >= 1.0 && n.fract() == 0.0 => Ok(json.opt_usize(key)?),
        Some(n) => Err(Error::invalid(json.file(), key, format!("{n} is not a number of tokens"))),
        None => Err(json.wrong_type(key, "integer").into()),
    }
}

/// Reads `model_max_length` from `tokenizer_config.json`.
fn tokenizer_length(folder: &HfFolder) -> Result<Option<usize>, Error> {
    let Some(json) = folder.json(HfFile::TokenizerConfig)? else { return Ok(None) };
    // transformers writes an unknown length as a float beyond all integers.
    length(&json, "model_max_length")
}

/// Reads the message that texts are wrapped in from `modality_config`; `None` if they are not.
fn message(json: &Json, model_type: &str) -> Result<Option<MessageForm>, Error> {
    const KEY: &str = "modality_config";
    /// Values of `model_type` for which sentence-transformers uses flat content without inspecting the template.
    const FLAT: [&str; 4] = ["apertus", "deepseek_v3", "gpt_oss", "seed_oss"];
    let Some(all) = json.nested(KEY)? else { return Ok(None) };
    let mut found = None;
    let mut takes_texts = false;
    for name in all.object().keys() {
        if name.split('+').any(|part| OTHER_MODALITIES.contains(&part)) {
            continue;
        }
        if name != "text" && name != "message" {
            let what = format!("`{}` is not supported; supported: text, message", Escaped(name));
            return Err(Error::invalid(json.file(), KEY, what));
        }
        takes_texts = true;
        let Some(form) = all.nested(name)? else { continue };
        checked(&form, MODALITY)?;
        if name == "message" {
            let in_parts = match form.opt_str("format")?.unwrap_or("auto") {
                "auto" if FLAT.contains(&model_type) => Some(false),
                "auto" => None,
                format => Some(format == "structured"),
            };
            found = Some(MessageForm { in_parts, keep_tail: true, ..MessageForm::default() });
        }
    }
    if !takes_texts && !all.object().is_empty() {
        return Err(Error::invalid(json.file(), KEY, "does not take texts"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<InputForm, String> {
        let json = Json::parse(text.as_bytes(), "sentence_bert_config.json").unwrap();
        InputForm::read(&json, "qwen3").map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_of_the_file_is_honoured() {
        let plain = read(r#"{"max_seq_length": 256, "do_lower_case": false}"#).unwrap();
        assert_eq!(plain, InputForm { max_tokens: Some(256), ..InputForm::default() });
        assert_eq!(read(r#"{"max_seq_length": null, "do_lower_case": true}"#).unwrap(), InputForm::default());
        let six = read(
            r#"{"transformer_task": "feature-extraction", "unpad_inputs": true, "module_output_name": "token_embeddings",
            "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"},
                "message": {"method": "forward", "method_output_name": "last_hidden_state", "format": "flat"}},
            "processing_kwargs": {"text": {"max_length": 64, "truncation": true},
                "chat_template": {"add_generation_prompt": true, "enable_thinking": false}},
            "tokenizer_args": {"padding_side": "left", "model_max_length": 128}, "model_args": {"torch_dtype": "auto"}}"#,
        )
        .unwrap();
        assert_eq!(six.max_tokens, Some(64));
        let message = six.message.unwrap();
        assert_eq!(
            (message.in_parts, message.add_generation_prompt, message.keep_tail),
            (Some(false), true, true)
        );
        assert_eq!(message.variables["enable_thinking"], false);
        let auto = read(r#"{"modality_config": {"message": {"method": "forward"}}}"#).unwrap();
        assert_eq!(auto.message.unwrap().in_parts, None);
    }

    #[test]
    fn unsupported_options_are_refused_by_key() {
        for (text, wanted) in [
            (r#"{"transformer_task": "text-generation"}"#, "transformer_task: `text-generation` asks for"),
            (
                r#"{"module_output_name": "sentence_embedding"}"#,
                "module_output_name: `sentence_embedding` asks",
            ),
            (r#"{"query_length": 32}"#, "query_length: 32 asks for"),
            (r#"{"document_length": 32}"#, "document_length: 32 asks for"),
            (r#"{"query_expansion": {"length": 32}}"#, "query_expansion: this value asks for"),
            (r#"{"tokenizer_name_or_path": "x"}"#, "tokenizer_name_or_path: `x` asks for"),
            (r#"{"max_seq_length": 0}"#, "max_seq_length: 0 is not a number of tokens"),
            (r#"{"max_seq_length": "long"}"#, "max_seq_length: want integer"),
            (r#"{"do_lower_case": "yes"}"#, "do_lower_case: want"),
            (r#"{"warp": 3}"#, "warp: is not a known key"),
            (
                r#"{"config_args": {"rotary_scaling_factor": 2}}"#,
                "config_args: rotary_scaling_factor: is not a known",
            ),
            (r#"{"model_kwargs": {"default_task": "x"}}"#, "model_kwargs: default_task: is not a known key"),
            (
                r#"{"tokenizer_args": {"add_eos_token": true}}"#,
                "tokenizer_args: add_eos_token: is not a known key",
            ),
            (
                r#"{"modality_config": {"image": {"method": "forward"}}}"#,
                "modality_config: does not take texts",
            ),
            (r#"{"modality_config": {"smell": {}}}"#, "modality_config: `smell` is not supported"),
            (
                r#"{"modality_config": {"text": {"method": "get_text_features"}}}"#,
                "modality_config: text: method: `get_text_features` asks for",
            ),
            (
                r#"{"modality_config": {"text": {"method_output_name": "pooler_output"}}}"#,
                "modality_config: text: method_output_name: `pooler_output` asks for",
            ),
            (
                r#"{"processing_kwargs": {"text": {"add_special_tokens": true}}}"#,
                "processing_kwargs: text: add_special",
            ),
            (r#"{"processing_kwargs": {"smell": {"x": 1}}}"#, "processing_kwargs: smell: is not a known key"),
            (
                r#"{"modality_config": {"message": {}}, "processing_kwargs": {"chat_template": {"tools": [1]}}}"#,
                "processing_kwargs: chat_template: tools: this value asks for tools",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(&format!("sentence_bert_config.json: {wanted}")), "{text}: {error}");
        }
    }

    #[test]
    fn metadata_round_trips() {
        let form = read(
            r#"{"modality_config": {"message": {"format": "structured"}},
            "processing_kwargs": {"chat_template": {"restore_suffix": false, "mood": "calm"}}}"#,
        )
        .unwrap();
        let entries = form.entries().into_iter().map(|(key, value)| (format!("qwen3.{key}"), value));
        let all = entries.chain([("general.architecture".to_owned(), Value::from("qwen3"))]);
        let meta = Metadata::new("m.gguf", all).unwrap();
        assert_eq!(MessageForm::of_metadata(&meta).unwrap(), form.message);
    }
}
