//! The tokenizer of a GGUF file as `tokenizer.json`.

use super::sample::sampled;
use super::steps::steps;
use super::{CONTROL, USER_DEFINED};
use crate::error::Error;
use leyden_tensor::{HfFolder, Metadata};
use serde_json::{Map, Value as Json, json};
use std::path::Path;

/// The tokenizer of a GGUF file as `tokenizer.json` and `tokenizer_config.json`, and its rule.
pub(crate) fn of_gguf(metadata: &Metadata, path: &Path) -> Result<(Json, Json, String), Error> {
    let wrong = |what: String| Error::unlike(path, what);
    let model = metadata.opt_str("tokenizer.ggml.model")?.unwrap_or("none");
    if model != "gpt2" {
        return Err(wrong(format!(
            "tokenizer.ggml.model: {model}: only byte-level BPE (gpt2) is converted yet"
        )));
    }
    let rule = metadata.opt_str("tokenizer.ggml.pre")?.unwrap_or("gpt-2").to_owned();
    let (steps, ignore_merges) = steps(&rule)
        .ok_or_else(|| wrong(format!("tokenizer.ggml.pre: {rule}: this rule is not converted yet")))?;
    let list = |key: &str| -> Result<Vec<String>, Error> {
        let all = metadata.opt_array_str(key)?.ok_or_else(|| wrong(format!("{key}: missing")))?;
        Ok(all.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    };
    let (tokens, merges) = (list("tokenizer.ggml.tokens")?, list("tokenizer.ggml.merges")?);
    let kinds = metadata.opt_array_i32("tokenizer.ggml.token_type")?.unwrap_or_default();
    let mut vocabulary = Map::new();
    let mut added = Vec::new();
    for (id, text) in tokens.iter().enumerate() {
        if let Some(&kind @ (CONTROL | USER_DEFINED)) = kinds.get(id) {
            added.push(json!({
                "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": kind == CONTROL,
            }));
        }
        vocabulary.insert(text.clone(), json!(id));
    }
    let ours = leyden_text::from_gguf(metadata, &path.display().to_string())?;
    let text = |id: Option<u32>| id.and_then(|id| tokens.get(id as usize)).cloned();
    let (bos, eos) = (text(ours.bos()), text(ours.eos()));
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    let post = match (&bos, ours.bos()) {
        (Some(text), Some(id)) if ours.add_bos() => json!({
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": text, "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { text: { "id": text, "ids": [id], "tokens": [text] } },
        }),
        _ => byte_level.clone(),
    };
    let document = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": steps, "post_processor": post, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": ignore_merges,
            "vocab": vocabulary, "merges": merges,
        },
    });
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
        "add_bos_token": ours.add_bos(), "bos_token": bos, "eos_token": eos,
    });
    if let Some(template) = metadata.opt_str("tokenizer.chat_template")? {
        config["chat_template"] = json!(template);
    }
    Ok((document, config, rule))
}

/// Whether the tokenizer of a folder makes of the sample what that of a GGUF file does.
pub(crate) fn same(folder: &HfFolder, metadata: &Metadata, path: &Path) -> Result<bool, Error> {
    let ours = leyden_text::from_gguf(metadata, &path.display().to_string())?;
    let theirs = leyden_text::from_hf(folder)?;
    Ok(sampled(ours.as_ref())? == sampled(theirs.as_ref())?)
}
