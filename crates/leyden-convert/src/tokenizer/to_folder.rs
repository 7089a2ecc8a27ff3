//! The tokenizer of a GGUF file as `tokenizer.json`.

use super::sample::{around, sampled};
use super::steps::steps;
use super::{BYTE, CONTROL, MARK, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, base64};
use crate::error::Error;
use leyden_tensor::{HfFolder, Metadata, Value};
use leyden_text::Tokenizer;
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use std::path::Path;

/// A tokenizer in the Hugging Face layout.
pub(crate) struct Document {
    /// `tokenizer.json`.
    pub(crate) tokenizer: Json,
    /// `tokenizer_config.json`.
    pub(crate) settings: Json,
    /// Name of the pre-tokenizer, for messages.
    pub(crate) rule: String,
    /// Padding token.
    pub(crate) padding: Option<u32>,
}

/// Tokenizer of a GGUF file.
struct Source<'a> {
    metadata: &'a Metadata,
    path: &'a Path,
    tokens: Vec<String>,
    kinds: Vec<i32>,
    ours: Box<dyn Tokenizer>,
}

/// Converts the tokenizer of a GGUF file.
pub(crate) fn of_gguf(metadata: &Metadata, path: &Path) -> Result<Document, Error> {
    let source = Source {
        metadata,
        path,
        tokens: list(metadata, "tokenizer.ggml.tokens", path)?,
        kinds: metadata.opt_array_i32("tokenizer.ggml.token_type")?.unwrap_or_default(),
        ours: leyden_text::from_gguf(metadata, &path.display().to_string())?,
    };
    let model = metadata.opt_str("tokenizer.ggml.model")?.unwrap_or("none");
    let (rule, document) = match model {
        "gpt2" => source.byte_level()?,
        "llama" => source.sentencepiece()?,
        "t5" => source.unigram()?,
        other => {
            let what = format!("tokenizer.ggml.model: {other}: gpt2, llama and t5 are converted");
            return Err(Error::unlike(path, what));
        }
    };
    let settings = source.settings()?;
    let padding = source.id("tokenizer.ggml.padding_token_id");
    Ok(Document { tokenizer: source.whole(&document), settings, rule, padding })
}

/// Compares the tokens of the sample from a folder's tokenizer and from a GGUF file's. Returns `None` if they differ,
/// else a note if texts that begin with a space or follow special tokens are tokenised differently.
pub(crate) fn same(
    folder: &HfFolder,
    metadata: &Metadata,
    path: &Path,
) -> Result<Option<Option<String>>, Error> {
    let ours = leyden_text::from_gguf(metadata, &path.display().to_string())?;
    let theirs = leyden_text::from_hf(folder)?;
    if sampled(ours.as_ref())? != sampled(theirs.as_ref())? {
        return Ok(None);
    }
    let tokens = list(metadata, "tokenizer.ggml.tokens", path)?;
    let special: Vec<&str> = (0..)
        .zip(&tokens)
        .filter(|(id, _)| ours.is_special(*id))
        .map(|(_, text)| &text[..])
        .take(3)
        .collect();
    let alike = around(ours.as_ref(), &special)? == around(theirs.as_ref(), &special)?;
    let what =
        "texts that begin with a space, or stand behind special tokens, are cut in another way in the folder";
    Ok(Some((!alike).then(|| what.to_owned())))
}

fn list(metadata: &Metadata, key: &str, path: &Path) -> Result<Vec<String>, Error> {
    let all = metadata.opt_array_str(key)?.ok_or_else(|| Error::unlike(path, format!("{key}: missing")))?;
    let text = |(i, text): (usize, &[u8])| {
        let text = std::str::from_utf8(text).map(str::to_owned);
        text.map_err(|_| Error::unlike(path, format!("{key}: {i}: not valid UTF-8")))
    };
    all.iter().enumerate().map(text).collect()
}

/// The parts of `tokenizer.json` that differ between kinds of tokenizers.
struct Parts {
    normalizer: Json,
    pre_tokenizer: Json,
    decoder: Json,
    model: Json,
}

impl Source<'_> {
    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::unlike(self.path, what)
    }

    fn kind(&self, id: usize) -> i32 {
        self.kinds.get(id).copied().unwrap_or(NORMAL)
    }

    fn id(&self, key: &str) -> Option<u32> {
        let id = self.metadata.get(key).and_then(Value::as_integer).and_then(|id| u32::try_from(id).ok());
        id.filter(|id| (*id as usize) < self.tokens.len())
    }

    fn text(&self, id: Option<u32>) -> Option<&str> {
        id.and_then(|id| self.tokens.get(id as usize)).map(String::as_str)
    }

    /// Returns the unknown token.
    fn unknown(&self) -> Option<usize> {
        let named = self.id("tokenizer.ggml.unknown_token_id").map(|id| id as usize);
        named.or_else(|| self.kinds.iter().position(|kind| *kind == UNKNOWN))
    }

    fn vocabulary(&self) -> Map<String, Json> {
        self.tokens.iter().enumerate().map(|(id, text)| (text.clone(), json!(id))).collect()
    }

    /// Converts byte-level BPE.
    fn byte_level(&self) -> Result<(String, Parts), Error> {
        let rule = self.metadata.opt_str("tokenizer.ggml.pre")?.unwrap_or("gpt-2").to_owned();
        let (pre_tokenizer, ignore_merges) = steps(&rule)
            .ok_or_else(|| self.wrong(format!("tokenizer.ggml.pre: {rule}: this rule is not converted")))?;
        let merges = list(self.metadata, "tokenizer.ggml.merges", self.path)?;
        let model = json!({
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": ignore_merges,
            "vocab": self.vocabulary(), "merges": merges,
        });
        let decoder = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
        Ok((rule, Parts { normalizer: Json::Null, pre_tokenizer, decoder, model }))
    }

    fn scores(&self) -> Result<Vec<f32>, Error> {
        let key = "tokenizer.ggml.scores";
        let scores = self.metadata.opt_array_f32(key)?;
        let scores = scores.ok_or_else(|| self.wrong(format!("{key}: missing")))?;
        if scores.len() != self.tokens.len() || !scores.iter().all(|score| score.is_finite()) {
            return Err(
                self.wrong(format!("{key}: want a finite number for each of {} tokens", self.tokens.len()))
            );
        }
        Ok(scores)
    }

    fn prefix(&self, default: bool) -> Result<bool, Error> {
        Ok(self.metadata.opt_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(default))
    }

    /// Converts SentencePiece's BPE; merges are ordered by the scores of their results.
    fn sentencepiece(&self) -> Result<(String, Parts), Error> {
        let scores = self.scores()?;
        let ids: HashMap<&str, usize> =
            self.tokens.iter().enumerate().map(|(id, text)| (text.as_str(), id)).collect();
        let mut merges: Vec<(f32, usize, usize, &str, &str)> = Vec::new();
        for (id, text) in self.tokens.iter().enumerate() {
            if ![NORMAL, USER_DEFINED].contains(&self.kind(id)) {
                continue;
            }
            for (at, _) in text.char_indices().skip(1) {
                let (a, b) = text.split_at(at);
                if let (Some(left), Some(right)) = (ids.get(a), ids.get(b)) {
                    merges.push((scores[id], *left, *right, a, b));
                }
            }
        }
        // The highest score first; pairs with the same result in transformers' order.
        merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((b.3.len(), b.4.len()).cmp(&(a.3.len(), a.4.len()))));
        let merges: Vec<Json> = merges.iter().map(|merge| json!([merge.3, merge.4])).collect();
        let prefix = self.prefix(true)?;
        let replace =
            |from: &str, to: &str| json!({ "type": "Replace", "pattern": { "String": from }, "content": to });
        let (mark, mut decoders) = (
            replace(" ", MARK),
            vec![replace(MARK, " "), json!({ "type": "ByteFallback" }), json!({ "type": "Fuse" })],
        );
        let normalizer = match prefix {
            true => {
                json!({ "type": "Sequence", "normalizers": [{ "type": "Prepend", "prepend": MARK }, mark] })
            }
            false => mark,
        };
        if prefix {
            decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
        }
        let unknown = self.unknown().map(|id| &self.tokens[id]);
        let model = json!({
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": self.kinds.contains(&BYTE),
            "ignore_merges": false, "vocab": self.vocabulary(), "merges": merges,
        });
        let decoder = json!({ "type": "Sequence", "decoders": decoders });
        Ok(("SentencePiece".to_owned(), Parts { normalizer, pre_tokenizer: Json::Null, decoder, model }))
    }

    fn unigram(&self) -> Result<(String, Parts), Error> {
        let scores = self.scores()?;
        let vocabulary: Vec<Json> =
            self.tokens.iter().zip(&scores).map(|(text, score)| json!([text, f64::from(*score)])).collect();
        let mut normalizers = Vec::new();
        if let Some(Value::Array(map)) = self.metadata.get("tokenizer.ggml.precompiled_charsmap")
            && !map.is_empty()
        {
            // Some files have signed bytes.
            let map: Vec<u8> =
                map.iter().filter_map(|byte| byte.as_integer()).map(|byte| byte as u8).collect();
            normalizers.push(json!({ "type": "Precompiled", "precompiled_charsmap": base64::encode(&map) }));
        }
        let extra = self.metadata.opt_bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false);
        if extra {
            normalizers.push(json!({ "type": "Strip", "strip_left": true, "strip_right": true }));
            normalizers.push(json!({ "type": "Replace", "pattern": { "Regex": " {2,}" }, "content": " " }));
        }
        // GGUF adds the space to every text, whatever its first character, and does not split at spaces.
        if self.prefix(false)? || extra {
            normalizers.push(json!({ "type": "Prepend", "prepend": MARK }));
        }
        normalizers.push(json!({ "type": "Replace", "pattern": { "String": " " }, "content": MARK }));
        let normalizer = json!({ "type": "Sequence", "normalizers": normalizers });
        let decoder =
            json!({ "type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": false });
        let model = json!({
            "type": "Unigram", "unk_id": self.unknown(), "vocab": vocabulary, "byte_fallback": false,
        });
        let rule = "Unigram".to_owned();
        Ok((rule, Parts { normalizer, pre_tokenizer: Json::Null, decoder, model }))
    }

    /// Returns `tokenizer.json`, with added tokens and the special tokens around every text.
    fn whole(&self, parts: &Parts) -> Json {
        let mut added = Vec::new();
        for (id, text) in self.tokens.iter().enumerate() {
            let kind = self.kind(id);
            if [CONTROL, UNKNOWN, USER_DEFINED].contains(&kind) {
                added.push(json!({
                    "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": kind != USER_DEFINED,
                }));
            }
        }
        let mark = |id: Option<u32>, wanted: bool| self.text(id).filter(|_| wanted).zip(id);
        let begin = mark(self.ours.bos(), self.ours.add_bos());
        let end = mark(self.ours.eos(), self.ours.add_eos());
        let token = |text: &str, kind: u8| json!({ "SpecialToken": { "id": text, "type_id": kind } });
        let sequence = |name: &str, kind: u8| json!({ "Sequence": { "id": name, "type_id": kind } });
        let around = |name: &str, kind: u8| {
            let before = begin.iter().map(|(text, _)| token(text, kind));
            let behind = end.iter().map(|(text, _)| token(text, kind));
            before.chain([sequence(name, kind)]).chain(behind).collect::<Vec<Json>>()
        };
        let special: Map<String, Json> = begin
            .iter()
            .chain(&end)
            .map(|(text, id)| ((*text).to_owned(), json!({ "id": text, "ids": [id], "tokens": [text] })))
            .collect();
        let pair = [around("A", 0), around("B", 1)].concat();
        let post = match special.is_empty() {
            true => Json::Null,
            false => json!({
                "type": "TemplateProcessing", "single": around("A", 0),
                "pair": pair, "special_tokens": special,
            }),
        };
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
            "normalizer": parts.normalizer, "pre_tokenizer": parts.pre_tokenizer, "post_processor": post,
            "decoder": parts.decoder, "model": parts.model,
        })
    }

    fn settings(&self) -> Result<Json, Error> {
        let mut settings = json!({
            "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
            "add_bos_token": self.ours.add_bos(), "add_eos_token": self.ours.add_eos(),
            "bos_token": self.text(self.ours.bos()), "eos_token": self.text(self.ours.eos()),
        });
        let unknown = self.unknown().and_then(|id| u32::try_from(id).ok());
        for (name, id) in [("unk_token", unknown), ("pad_token", self.id("tokenizer.ggml.padding_token_id"))]
        {
            if let Some(text) = self.text(id).filter(|_| id.is_none_or(|id| self.kind(id as usize) != UNUSED))
            {
                settings[name] = json!(text);
            }
        }
        if let Some(template) = self.metadata.opt_str("tokenizer.chat_template")? {
            settings["chat_template"] = json!(template);
        }
        Ok(settings)
    }
}
