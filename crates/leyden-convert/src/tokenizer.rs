//! Vocabulary and rules of byte-level BPE in either layout.

use crate::error::Error;
use leyden_tensor::{Array, HfFile, HfFolder, Metadata, Value};
use leyden_text::{Special, Tokenizer};
use serde_json::{Map, Value as Json, json};
use std::path::Path;

/// Hard cases of cutting texts into words.
pub(crate) const SAMPLE: &str = "Hello  World\n\n\n 3.14159 1234567 don't DON'T I'll We'Ve he'd\t\ttab  \r\n  end \n x\n\
    多国語テスト русский ñandú é naïve ÀÉÎ ﬁ 🚀🦙👩‍🚀 `{code}`; x_y!=z... ??? \u{a0}\u{3000} 123abc ABC123 AbcDEF <b> '''' \
    \"quoted\" https://a.b/c?d=e&f=1 ... 1,000.5% $5 #tag @x 0x1F ½ ² ١٢٣ हिन्दी ภาษาไทย    four spaces\r\r\n\u{200b}z  ";

/// The rules that are tried, by GGUF's names.
const RULES: [&str; 11] = [
    "gpt-2",
    "smollm",
    "llama-bpe",
    "qwen2",
    "starcoder",
    "falcon",
    "gpt-4o",
    "tekken",
    "dbrx",
    "olmo",
    "command-r",
];

/// Kinds of tokens in GGUF.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// The tokenizer of a folder under GGUF's keys, for a vocabulary of `rows`.
pub(crate) fn of_folder(folder: &HfFolder, rows: usize) -> Result<(Vec<(String, Value)>, String), Error> {
    let path = folder.path().join(HfFile::Tokenizer.name());
    let wrong = |what: String| Error::unlike(&path, what);
    let bytes = folder.read(HfFile::Tokenizer)?.ok_or_else(|| wrong("missing".to_owned()))?;
    let document: Json = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let model = &document["model"];
    let vocabulary = model["vocab"].as_object().filter(|_| model["type"].as_str() != Some("WordPiece"));
    let (Some(vocabulary), Some(merges)) = (vocabulary, model["merges"].as_array()) else {
        let kind = model["type"].as_str().unwrap_or("unknown");
        return Err(wrong(format!("model.type: {kind}: only byte-level BPE is converted yet")));
    };
    if !document.to_string().contains("\"ByteLevel\"") {
        return Err(wrong("only byte-level BPE is converted yet".to_owned()));
    }
    let mut tokens: Vec<Option<String>> = vec![None; rows];
    let mut kinds = vec![UNUSED; rows];
    let place = |id: &Json| id.as_u64().and_then(|id| usize::try_from(id).ok()).filter(|id| *id < rows);
    for (text, id) in vocabulary {
        let id = place(id).ok_or_else(|| wrong(format!("model.vocab: {text}: {id} of {rows}")))?;
        (tokens[id], kinds[id]) = (Some(text.clone()), NORMAL);
    }
    for added in document["added_tokens"].as_array().into_iter().flatten() {
        let text = added["content"].as_str().unwrap_or_default();
        let id = place(&added["id"])
            .ok_or_else(|| wrong(format!("added_tokens: {text}: {} of {rows}", added["id"])))?;
        let special = added["special"].as_bool().unwrap_or(false);
        (tokens[id], kinds[id]) = (Some(text.to_owned()), if special { CONTROL } else { USER_DEFINED });
    }
    let pair = |merge: &Json| match merge {
        Json::String(text) => Ok(text.clone()),
        Json::Array(two) => match &two[..] {
            [Json::String(a), Json::String(b)] => Ok(format!("{a} {b}")),
            _ => Err(wrong("model.merges: want pairs of texts".to_owned())),
        },
        _ => Err(wrong("model.merges: want texts".to_owned())),
    };
    let merges = merges.iter().map(pair).collect::<Result<Vec<String>, Error>>()?;
    let texts =
        tokens.iter().enumerate().map(|(i, text)| text.clone().unwrap_or_else(|| format!("[PAD{i}]")));
    let texts: Vec<String> = texts.collect();
    let ours = leyden_text::from_hf(folder)?;
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let mut entries = vec![
        (key("model"), Value::from("gpt2")),
        (key("tokens"), Value::Array(Array::from_strs(texts.iter().map(String::as_str)))),
        (key("token_type"), Value::Array(Array::from_i32(&kinds))),
        (key("merges"), Value::Array(Array::from_strs(merges.iter().map(String::as_str)))),
        (key("add_bos_token"), Value::Bool(ours.add_bos())),
    ];
    entries.extend(ours.bos().map(|id| (key("bos_token_id"), Value::U32(id))));
    entries.extend(ours.eos().map(|id| (key("eos_token_id"), Value::U32(id))));
    let wanted = sampled(ours.as_ref())?;
    for rule in RULES {
        let with: Vec<(String, Value)> =
            entries.iter().cloned().chain([(key("pre"), Value::from(rule))]).collect();
        let label = path.display().to_string();
        let metadata = Metadata::new(&label, with.clone())?;
        let Ok(theirs) = leyden_text::from_gguf(&metadata, &label) else { continue };
        if sampled(theirs.as_ref()).is_ok_and(|found| found == wanted) {
            return Ok((with, rule.to_owned()));
        }
    }
    Err(wrong("pre_tokenizer: cuts texts by a rule that GGUF has no name for here".to_owned()))
}

/// Tokens of the sample, and of a text with the first special token in it.
fn sampled(tokenizer: &dyn Tokenizer) -> Result<Vec<u32>, Error> {
    let mut tokens = leyden_text::encode_prompt(tokenizer, SAMPLE)?;
    for line in SAMPLE.split(' ') {
        tokens.extend(tokenizer.encode(line, Special::Parse)?);
    }
    Ok(tokens)
}

/// What cuts texts into words, as `tokenizer.json` says it: a rule's names, the steps, and whether whole words that are
/// tokens are taken as they are.
fn steps(rule: &str) -> Option<(Json, bool)> {
    let byte_level = |regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex });
    let split = |pattern: &str| {
        let split = json!({
            "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false,
        });
        json!({ "type": "Sequence", "pretokenizers": [split, byte_level(false)] })
    };
    let words = |digits: &str| {
        format!(
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{{L}}\\p{{N}}]?\\p{{L}}+|{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
        )
    };
    Some(match rule {
        "gpt-2" | "phi-2" | "olmo" => (byte_level(true), false),
        "smollm" | "starcoder" | "refact" | "command-r" => {
            let digits = json!({ "type": "Digits", "individual_digits": true });
            (json!({ "type": "Sequence", "pretokenizers": [digits, byte_level(true)] }), false)
        }
        "llama-bpe" | "llama3" | "llama-v3" => (split(&words("\\p{N}{1,3}")), true),
        "dbrx" | "smaug-bpe" => (split(&words("\\p{N}{1,3}")), false),
        "qwen2" | "deepseek-r1-qwen" => (split(&words("\\p{N}")), false),
        _ => return None,
    })
}

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
