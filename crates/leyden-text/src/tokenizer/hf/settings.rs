//! Files beside `tokenizer.json` that modify it: `tokenizer_config.json`, `special_tokens_map.json`,
//! `generation_config.json` and those of sentence-transformers.
//!
//! Some classes of transformers rebuild a step of the tokenizer from arguments in `tokenizer_config.json`,
//! regardless of `tokenizer.json`. The explicit arguments here are applied likewise; the class
//! `PreTrainedTokenizerFast` ignores them.

use leyden_tensor::{
    FolderFiles, HfFile, HfFolder, Json, KnownKeys, choice_key, empty_key, harmless_key, read_key,
};
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind};

/// Keys of `tokenizer_config.json`.
const TOKENIZER: KnownKeys = KnownKeys(&[
    read_key("add_bos_token"),
    read_key("add_eos_token"),
    read_key("add_prefix_space"),
    read_key("added_tokens_decoder"),
    read_key("additional_special_tokens"),
    read_key("extra_special_tokens"),
    read_key("model_specific_special_tokens"),
    read_key("bos_token"),
    read_key("cls_token"),
    read_key("eos_token"),
    read_key("mask_token"),
    read_key("pad_token"),
    read_key("sep_token"),
    read_key("unk_token"),
    read_key("chat_template"),
    read_key("do_lower_case"),
    read_key("strip_accents"),
    read_key("tokenize_chinese_chars"),
    read_key("model_input_names"),
    // Read for encoders, by the model.
    read_key("model_max_length"),
    read_key("tokenizer_class"),
    empty_key("split_special_tokens", "names of special tokens in texts as text"),
    empty_key("sp_model_kwargs", "another way to sample pieces"),
    choice_key("truncation_side", &["right", "left"], "another side"),
    choice_key("padding_side", &["right", "left"], "another side"),
    // Settings of decoding, which `tokenizer.json` states.
    harmless_key("clean_up_tokenization_spaces"),
    harmless_key("decode_with_prefix_space"),
    harmless_key("spaces_between_special_tokens"),
    // Settings of tokenizers built from other files.
    harmless_key("auto_map"),
    harmless_key("backend"),
    harmless_key("do_basic_tokenize"),
    harmless_key("from_slow"),
    harmless_key("legacy"),
    harmless_key("never_split"),
    harmless_key("slow_tokenizer_class"),
    harmless_key("sp_model_file"),
    harmless_key("split_by_punct"),
    harmless_key("tokenizer_file"),
    harmless_key("trim_offsets"),
    harmless_key("unk_id"),
    harmless_key("use_fast"),
    harmless_key("vocab_file"),
    harmless_key("vocab_type"),
    harmless_key("wordpieces_prefix"),
    // Settings of padding and of calls, and remarks.
    harmless_key("_commit_hash"),
    harmless_key("errors"),
    harmless_key("full_tokenizer_file"),
    harmless_key("is_local"),
    harmless_key("local_files_only"),
    harmless_key("max_len"),
    harmless_key("max_length"),
    harmless_key("name_or_path"),
    harmless_key("pad_to_multiple_of"),
    harmless_key("pad_token_type_id"),
    harmless_key("processor_class"),
    harmless_key("return_token_type_ids"),
    harmless_key("special_tokens_map_file"),
    harmless_key("stride"),
    harmless_key("truncation_strategy"),
    harmless_key("use_default_system_prompt"),
    harmless_key("verbose"),
]);

/// Keys of `special_tokens_map.json`.
const SPECIAL: KnownKeys = KnownKeys(&[
    read_key("additional_special_tokens"),
    read_key("extra_special_tokens"),
    read_key("bos_token"),
    read_key("cls_token"),
    read_key("eos_token"),
    read_key("mask_token"),
    read_key("pad_token"),
    read_key("sep_token"),
    read_key("unk_token"),
]);

/// Keys of `generation_config.json`. Sampling is chosen by the user; other unknown keys are reported.
const GENERATION: KnownKeys = KnownKeys(&[
    read_key("bos_token_id"),
    read_key("eos_token_id"),
    harmless_key("pad_token_id"),
    // Sampling settings, chosen by the user.
    harmless_key("do_sample"),
    harmless_key("epsilon_cutoff"),
    harmless_key("eta_cutoff"),
    harmless_key("max_length"),
    harmless_key("max_new_tokens"),
    harmless_key("min_length"),
    harmless_key("min_p"),
    harmless_key("repetition_penalty"),
    harmless_key("temperature"),
    harmless_key("top_h"),
    harmless_key("top_k"),
    harmless_key("top_p"),
    harmless_key("typical_p"),
    // Settings of beam search, draft models and returned values, and remarks.
    harmless_key("_from_model_config"),
    harmless_key("assistant_confidence_threshold"),
    harmless_key("cache_implementation"),
    harmless_key("decoder_start_token_id"),
    harmless_key("diversity_penalty"),
    harmless_key("early_stopping"),
    harmless_key("length_penalty"),
    harmless_key("low_memory"),
    harmless_key("num_assistant_tokens"),
    harmless_key("num_assistant_tokens_schedule"),
    harmless_key("num_beam_groups"),
    harmless_key("num_beams"),
    harmless_key("num_return_sequences"),
    harmless_key("output_attentions"),
    harmless_key("output_hidden_states"),
    harmless_key("output_logits"),
    harmless_key("output_scores"),
    harmless_key("prompt_lookup_num_tokens"),
    harmless_key("remove_invalid_values"),
    harmless_key("renormalize_logits"),
    harmless_key("return_dict_in_generate"),
    harmless_key("transformers_version"),
    harmless_key("trust_remote_code"),
    harmless_key("use_cache"),
]);

/// Files with their tables of keys.
const FILES: [(HfFile, KnownKeys); 3] = [
    (HfFile::TokenizerConfig, TOKENIZER),
    (HfFile::SpecialTokensMap, SPECIAL),
    (HfFile::GenerationConfig, GENERATION),
];

/// Classes that rebuild their normalizer, without the suffix `Fast`.
const BERTS: [&str; 9] = [
    "BertTokenizer",
    "ConvBertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "FunnelTokenizer",
    "LayoutLMTokenizer",
    "MobileBertTokenizer",
    "MPNetTokenizer",
    "SqueezeBertTokenizer",
];
/// Classes that rebuild their pre-tokenizer.
const BYTE_LEVELS: [&str; 7] = [
    "BartTokenizer",
    "BlenderbotTokenizer",
    "CodeGenTokenizer",
    "GPT2Tokenizer",
    "LEDTokenizer",
    "LongformerTokenizer",
    "RobertaTokenizer",
];
/// Classes that give both texts of a pair the same type, unless `model_input_names` lists `token_type_ids`.
const ONE_TYPE: [&str; 7] = [
    "BartTokenizer",
    "CamembertTokenizer",
    "DistilBertTokenizer",
    "MPNetTokenizer",
    "RobertaTokenizer",
    // Class that transformers 5 writes for models without one of their own.
    "TokenizersBackend",
    "XLMRobertaTokenizer",
];
/// Default classes by model type, if the file names none.
const CLASSES: [(&str, &str); 6] = [
    ("bert", "BertTokenizer"),
    ("distilbert", "DistilBertTokenizer"),
    ("electra", "ElectraTokenizer"),
    ("gpt2", "GPT2Tokenizer"),
    ("mpnet", "MPNetTokenizer"),
    ("roberta", "RobertaTokenizer"),
];

/// Source of the files: a folder, or texts in a GGUF file.
pub(super) trait Settings {
    /// Returns a file that is a JSON object, if it exists.
    fn json(&self, file: HfFile) -> Result<Option<Json>, Error>;

    /// Returns the configuration of the model, if it exists.
    fn config(&self) -> Option<&Json>;

    /// Returns the tokenizer settings of sentence-transformers, if they exist.
    fn sentence(&self) -> Result<Option<Json>, Error>;
}

impl Settings for HfFolder {
    fn json(&self, file: HfFile) -> Result<Option<Json>, Error> {
        HfFolder::json(self, file).map_err(|error| Error::new(file.name(), None, ErrorKind::Metadata(error)))
    }

    fn config(&self) -> Option<&Json> {
        Some(HfFolder::config(self))
    }

    fn sentence(&self) -> Result<Option<Json>, Error> {
        let found = self.sentence_settings();
        found.map_err(|error| Error::new("sentence_bert_config.json", None, ErrorKind::Metadata(error)))
    }
}

/// Files embedded in a GGUF file, and its configuration.
pub(super) struct Embedded<'a> {
    pub(super) files: &'a FolderFiles,
    pub(super) config: Option<Json>,
}

impl Settings for Embedded<'_> {
    fn json(&self, file: HfFile) -> Result<Option<Json>, Error> {
        let found = self.files.json(file.name());
        found.map_err(|error| Error::new(file.name(), None, ErrorKind::Metadata(error)))
    }

    fn config(&self) -> Option<&Json> {
        self.config.as_ref()
    }

    fn sentence(&self) -> Result<Option<Json>, Error> {
        let is_it = |name: &&str| name.starts_with("sentence_") && name.ends_with("_config.json");
        let Some(name) = self.files.iter().map(|row| row.0).find(is_it) else { return Ok(None) };
        let found = self.files.json(name);
        found.map_err(|error| Error::new("sentence_bert_config.json", None, ErrorKind::Metadata(error)))
    }
}

/// Modifications of `tokenizer.json` by the other files.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    /// Keys of BERT's normalizer.
    bert: Map<String, Value>,
    /// Setting of whether byte-level tokenizers add a space before texts.
    prefix_space: Option<bool>,
    /// True if texts are lowercased before all other steps.
    lower_case: bool,
    /// True if both texts of a pair have the same token type.
    pub(super) one_type: bool,
    /// The side that texts lose where they are too long, if the files name it: true for the beginning.
    pub(super) drops_beginning: Option<bool>,
}

/// Returns the unknown keys of these files, with the names of the files.
///
/// # Errors
/// A file is malformed, or a key has an unsupported value.
pub(super) fn unread(settings: &dyn Settings) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    for (file, known) in FILES {
        if let Some(json) = settings.json(file)? {
            let unknown = checked(&json, known)?;
            all.extend(unknown.into_iter().map(|key| format!("{}: {key}", file.name())));
        }
    }
    Ok(all)
}

fn checked(json: &Json, known: KnownKeys) -> Result<Vec<String>, Error> {
    known
        .check(json)
        .map_err(|refused| Error::at(json.file(), &refused.key, ErrorKind::Invalid(refused.what)))
}

impl Changes {
    /// Reads the modifications from the files.
    pub(super) fn of(settings: &dyn Settings) -> Result<Changes, Error> {
        unread(settings)?;
        let mut changes = match settings.json(HfFile::TokenizerConfig)? {
            Some(json) => {
                let named = settings.config().and_then(|config| config.opt_str("model_type").ok().flatten());
                Changes::read(&json, named.unwrap_or_default())?
            }
            None => Changes::default(),
        };
        if let Some(json) = settings.sentence()? {
            let flag = json.opt_bool("do_lower_case");
            let flag = flag.map_err(|error| Error::new(json.file(), None, ErrorKind::Metadata(error)))?;
            changes.lower_case = flag.unwrap_or(false);
        }
        Ok(changes)
    }

    fn read(json: &Json, model_type: &str) -> Result<Changes, Error> {
        let metadata = |error| Error::new(json.file(), None, ErrorKind::Metadata(error));
        let usual = CLASSES.iter().find(|row| row.0 == model_type).map_or("", |row| row.1);
        let class = json.opt_str("tokenizer_class").map_err(metadata)?.unwrap_or(usual);
        let class = class.strip_suffix("Fast").unwrap_or(class);
        let mut changes = Changes::default();
        if BERTS.contains(&class) {
            for (key, theirs) in [
                ("do_lower_case", "lowercase"),
                ("strip_accents", "strip_accents"),
                ("tokenize_chinese_chars", "handle_chinese_chars"),
            ] {
                let flag = json.opt_bool(key).map_err(metadata)?;
                // `null` has a meaning for accents: strip them if texts are lowercased.
                if flag.is_some() || key == "strip_accents" && json.object().contains_key(key) {
                    changes.bert.insert(theirs.to_owned(), flag.map_or(Value::Null, Value::from));
                }
            }
        }
        if BYTE_LEVELS.contains(&class) {
            changes.prefix_space = json.opt_bool("add_prefix_space").map_err(metadata)?;
        }
        let names = json.opt_array_str("model_input_names").map_err(metadata)?;
        changes.one_type =
            names.map_or(ONE_TYPE.contains(&class), |names| !names.contains(&"token_type_ids"));
        changes.drops_beginning =
            json.opt_str("truncation_side").map_err(metadata)?.map(|side| side == "left");
        Ok(changes)
    }

    /// Returns a normalizer with the modifications.
    pub(super) fn normalizer(&self, normalizer: Option<Value>) -> Option<Value> {
        let normalizer = normalizer.map(|mut value| {
            each(&mut value, "BertNormalizer", "normalizers", &|object| {
                object.extend(self.bert.iter().map(|(key, value)| (key.clone(), value.clone())));
            });
            value
        });
        if !self.lower_case {
            return normalizer;
        }
        let lower = json!({ "type": "Lowercase" });
        Some(match normalizer {
            Some(value) => json!({ "type": "Sequence", "normalizers": [lower, value] }),
            None => lower,
        })
    }

    /// Returns a pre-tokenizer with the modifications.
    pub(super) fn pre_tokenizer(&self, pre_tokenizer: Option<Value>) -> Option<Value> {
        let mut pre_tokenizer = pre_tokenizer?;
        if let Some(flag) = self.prefix_space {
            each(&mut pre_tokenizer, "ByteLevel", "pretokenizers", &|object| {
                object.insert("add_prefix_space".to_owned(), Value::Bool(flag));
            });
        }
        Some(pre_tokenizer)
    }
}

/// Applies a change to each component of a kind, also within sequences.
fn each(value: &mut Value, kind: &str, list: &str, change: &dyn Fn(&mut Map<String, Value>)) {
    let Some(object) = value.as_object_mut() else { return };
    if object.get("type").is_some_and(|found| found == kind) {
        change(object);
    }
    if let Some(Value::Array(items)) = object.get_mut(list) {
        items.iter_mut().for_each(|item| each(item, kind, list, change));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_tensor::KnownKey;
    use std::collections::HashSet;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), "tokenizer_config.json").unwrap()
    }

    #[test]
    fn every_key_has_one_row() {
        for (file, KnownKeys(rows)) in FILES {
            let keys: HashSet<&str> = rows.iter().map(|row: &KnownKey| row.key).collect();
            assert_eq!(keys.len(), rows.len(), "{}", file.name());
        }
    }

    #[test]
    fn keys_of_the_files_are_refused_or_told() {
        for (known, text, wanted) in [
            (TOKENIZER, r#"{"split_special_tokens": true}"#, Err("split_special_tokens")),
            (TOKENIZER, r#"{"sp_model_kwargs": {"enable_sampling": true}}"#, Err("sp_model_kwargs")),
            (TOKENIZER, r#"{"truncation_side": "middle"}"#, Err("truncation_side")),
            (TOKENIZER, r#"{"sp_model_kwargs": {}, "split_special_tokens": false}"#, Ok(vec![])),
            (TOKENIZER, r#"{"warp": true, "model_max_length": 512}"#, Ok(vec!["warp"])),
            (SPECIAL, r#"{"warp_token": "<w>", "cls_token": "<c>"}"#, Ok(vec!["warp_token"])),
            (GENERATION, r#"{"temperature": 0.7, "suppress_tokens": [3]}"#, Ok(vec!["suppress_tokens"])),
            (GENERATION, r#"{"suppress_tokens": []}"#, Ok(vec![])),
        ] {
            match (checked(&json(text), known), wanted) {
                (Ok(found), Ok(wanted)) => assert_eq!(found, wanted, "{text}"),
                (Err(error), Err(key)) => {
                    let begin = format!("tokenizer_config.json: {key}: ");
                    assert!(error.to_string().starts_with(&begin), "{error}");
                }
                (found, wanted) => panic!("{text}: {found:?}, not {wanted:?}"),
            }
        }
    }

    #[test]
    fn arguments_of_a_class_change_its_steps() {
        let normalizer = || json!({ "type": "BertNormalizer", "lowercase": true, "strip_accents": false });
        let read = |text: &str, model_type: &str| Changes::read(&json(text), model_type).unwrap();
        for (text, model_type, wanted) in [
            (
                r#"{"tokenizer_class": "BertTokenizerFast", "do_lower_case": false}"#,
                "",
                json!([false, false, null]),
            ),
            (r#"{"do_lower_case": false, "strip_accents": true}"#, "bert", json!([false, true, null])),
            (
                r#"{"tokenizer_class": "MPNetTokenizer", "strip_accents": null}"#,
                "",
                json!([true, null, null]),
            ),
            (
                r#"{"tokenizer_class": "BertTokenizer", "tokenize_chinese_chars": false}"#,
                "",
                json!([true, false, false]),
            ),
            // This class ignores the arguments.
            (
                r#"{"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": false}"#,
                "bert",
                json!([true, false, null]),
            ),
        ] {
            let changed = read(text, model_type).normalizer(Some(normalizer())).unwrap();
            let found = [&changed["lowercase"], &changed["strip_accents"], &changed["handle_chinese_chars"]];
            assert_eq!(json!(found), wanted, "{text}");
        }
        let words = || json!({ "type": "Sequence", "pretokenizers": [{ "type": "ByteLevel", "add_prefix_space": false }] });
        for (class, wanted) in [("RobertaTokenizerFast", true), ("Qwen2Tokenizer", false)] {
            let text = format!(r#"{{"tokenizer_class": "{class}", "add_prefix_space": true}}"#);
            let changed = read(&text, "").pre_tokenizer(Some(words())).unwrap();
            assert_eq!(changed["pretokenizers"][0]["add_prefix_space"], wanted, "{class}");
        }
        assert!(read(r#"{"model_input_names": ["input_ids", "attention_mask"]}"#, "").one_type);
        assert!(!read(r#"{"model_input_names": ["input_ids", "token_type_ids"]}"#, "").one_type);
        for (class, wanted) in [
            ("BertTokenizer", false),
            ("DebertaV2TokenizerFast", false),
            ("PreTrainedTokenizerFast", false),
            ("RobertaTokenizerFast", true),
            ("TokenizersBackend", true),
        ] {
            let text = format!(r#"{{"tokenizer_class": "{class}"}}"#);
            assert_eq!(read(&text, "").one_type, wanted, "{class}");
            let named =
                format!(r#"{{"tokenizer_class": "{class}", "model_input_names": ["token_type_ids"]}}"#);
            assert!(!read(&named, "").one_type, "{class}");
        }
        let side = |text: &str| read(text, "").drops_beginning;
        assert_eq!(side(r#"{"truncation_side": "left"}"#), Some(true));
        assert_eq!([side(r#"{"truncation_side": "right"}"#), side("{}")], [Some(false), None]);
        let lower = Changes { lower_case: true, ..Changes::default() };
        assert_eq!(lower.normalizer(None).unwrap()["type"], "Lowercase");
        assert_eq!(lower.normalizer(Some(normalizer())).unwrap()["normalizers"][1], normalizer());
    }
}
