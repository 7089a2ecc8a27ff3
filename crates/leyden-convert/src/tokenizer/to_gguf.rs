//! Conversion of a folder's tokenizer to GGUF's keys.

use super::sample::{around, sampled};
use super::steps;
use super::{BYTE, CONTROL, MARK, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, base64, byte_of};
use crate::error::Error;
use leyden_tensor::{Array, HfFile, HfFolder, Metadata, Value};
use leyden_text::Tokenizer;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::path::Path;

/// Pre-tokenizers to try for byte-level BPE, by GGUF's names; of equivalent names the best known.
const RULES: [&str; 27] = [
    "gpt-2",
    "smollm",
    "llama-bpe",
    "qwen2",
    "falcon",
    "gpt-4o",
    "tekken",
    "glm4",
    "dbrx",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
    "qwen35",
    "minicpm5",
    "kimi-k2",
    "bloom",
    "viking",
    "superbpe",
    "chameleon",
    "youtu",
    "tiny_aya",
    "afmoe",
    "seed-coder",
    "jais-2",
    "exaone-moe",
    "laguna",
    "granite-embed-multi-97m",
];

/// A candidate for the tokenizer in GGUF: its name and its keys.
type Candidate = (String, Vec<(String, Value)>);

/// A tokenizer in GGUF.
pub(crate) struct Described {
    /// Keys and values.
    pub(crate) entries: Vec<(String, Value)>,
    /// Name of the pre-tokenizer, for messages.
    pub(crate) rule: String,
    /// Description of a difference, if there is one.
    pub(crate) note: Option<String>,
}

/// A parsed `tokenizer.json`.
struct Document {
    label: String,
    json: Json,
    /// Texts and kinds of all tokens.
    tokens: Vec<String>,
    kinds: Vec<i32>,
}

/// Converts the tokenizer of a folder, for a vocabulary of `rows` tokens.
pub(crate) fn of_folder(folder: &HfFolder, rows: usize) -> Result<Described, Error> {
    let (document, found, _) = tried(folder, rows)?;
    found
        .ok_or_else(|| document.wrong("texts are cut and normalised by rules that GGUF has no name for here"))
}

/// Converts like [`of_folder`], for a file that also has the folder's `tokenizer.json`, from which leyden reads the
/// tokenizer: the keys are for other programs and need not be exact.
pub(crate) fn beside_files(folder: &HfFolder, rows: usize) -> Result<Described, Error> {
    let (document, found, first) = tried(folder, rows)?;
    if let Some(found) = found {
        return Ok(found);
    }
    let (rule, entries) = first.ok_or_else(|| document.wrong("GGUF has no kind of tokenizers like this"))?;
    let note = "programs that do not read leyden.folder keys cut some texts in another way: GGUF's own keys do not say all of \
                this tokenizer";
    Ok(Described { entries, rule, note: Some(note.to_owned()) })
}

/// The tokenizer file, its exact equivalent in GGUF, and the first candidate.
type Tried = (Document, Option<Described>, Option<Candidate>);

fn tried(folder: &HfFolder, rows: usize) -> Result<Tried, Error> {
    let document = Document::read(folder, rows)?;
    let ours = leyden_text::from_hf(folder)?;
    let mut shared = document.shared(ours.as_ref());
    for (name, token) in [
        ("unknown_token_id", "unk_token"),
        ("padding_token_id", "pad_token"),
        ("mask_token_id", "mask_token"),
        ("cls_token_id", "cls_token"),
        // GGUF's spelling.
        ("seperator_token_id", "sep_token"),
    ] {
        let of_encoders = ["mask_token_id", "cls_token_id", "seperator_token_id"].contains(&name);
        if let Some(id) = document.named(folder, token)?.filter(|_| !of_encoders || document.is_wordpiece()) {
            shared.push((key(name), Value::U32(id)));
        }
    }
    let wanted = sampled(ours.as_ref())?;
    let mut first = None;
    for (rule, own) in document.candidates()? {
        let entries: Vec<(String, Value)> = shared.iter().cloned().chain(own).collect();
        let metadata = Metadata::new(&document.label, entries.clone())?;
        let Ok(theirs) = leyden_text::from_gguf(&metadata, &document.label) else { continue };
        if sampled(theirs.as_ref()).is_ok_and(|found| found == wanted) {
            let note = document.note(ours.as_ref(), theirs.as_ref())?;
            return Ok((document, Some(Described { entries, rule, note }), None));
        }
        first.get_or_insert((rule, entries));
    }
    Ok((document, None, first))
}

fn key(name: &str) -> String {
    format!("tokenizer.ggml.{name}")
}

impl Document {
    fn read(folder: &HfFolder, rows: usize) -> Result<Document, Error> {
        let path = folder.path().join(HfFile::Tokenizer.name());
        let missing = || Error::unlike(&path, "missing; tokenizer.model alone is not converted");
        let bytes = folder.read(HfFile::Tokenizer)?.ok_or_else(missing)?;
        let json: Json = serde_json::from_slice(&bytes).map_err(|error| Error::unlike(&path, error))?;
        let texts = (0..rows).map(|id| format!("[PAD{id}]")).collect();
        let label = path.display().to_string();
        let mut document = Document { label, json: Json::Null, tokens: texts, kinds: vec![UNUSED; rows] };
        document.take(&json)?;
        document.json = json;
        Ok(document)
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::unlike(Path::new(&self.label), what)
    }

    /// Reads the tokens.
    fn take(&mut self, json: &Json) -> Result<(), Error> {
        let model = &json["model"];
        let bytes = model["byte_fallback"].as_bool().unwrap_or(false);
        let normal = |text: &str| if bytes && byte_of(text).is_some() { BYTE } else { NORMAL };
        match &model["vocab"] {
            Json::Object(vocabulary) => {
                for (text, id) in vocabulary {
                    self.place(id, text, normal(text), "model.vocab")?;
                }
            }
            Json::Array(pairs) => {
                for (id, pair) in pairs.iter().enumerate() {
                    let Some(text) = pair[0].as_str() else {
                        return Err(self.wrong("model.vocab: want pairs of a text and a score"));
                    };
                    self.place(&Json::from(id), text, normal(text), "model.vocab")?;
                }
            }
            _ => return Err(self.wrong("model.vocab: want a vocabulary")),
        }
        for added in json["added_tokens"].as_array().into_iter().flatten() {
            let text = added["content"].as_str().unwrap_or_default();
            let special = added["special"].as_bool().unwrap_or(false);
            self.place(&added["id"], text, if special { CONTROL } else { USER_DEFINED }, "added_tokens")?;
        }
        let unknown = match (&model["unk_token"], &model["unk_id"]) {
            (Json::String(text), _) => self.tokens.iter().position(|token| token == text),
            (_, id) => id.as_u64().and_then(|id| usize::try_from(id).ok()),
        };
        if let Some(kind) = unknown.and_then(|id| self.kinds.get_mut(id)) {
            *kind = UNKNOWN;
        }
        Ok(())
    }

    fn place(&mut self, id: &Json, text: &str, kind: i32, at: &str) -> Result<(), Error> {
        let rows = self.tokens.len();
        let place = id.as_u64().and_then(|id| usize::try_from(id).ok()).filter(|id| *id < rows);
        let Some(place) = place else {
            return Err(self.wrong(format!("{at}: {text}: {id} is no token of a model with {rows}")));
        };
        (self.tokens[place], self.kinds[place]) = (text.to_owned(), kind);
        Ok(())
    }

    /// Returns the keys that all kinds of tokenizers have.
    fn shared(&self, ours: &dyn Tokenizer) -> Vec<(String, Value)> {
        let mut entries = vec![
            (key("token_type"), Value::Array(Array::from_i32(&self.kinds))),
            (key("add_bos_token"), Value::Bool(ours.add_bos())),
            (key("add_eos_token"), Value::Bool(ours.add_eos())),
        ];
        entries.extend(ours.bos().map(|id| (key("bos_token_id"), Value::U32(id))));
        entries.extend(ours.eos().map(|id| (key("eos_token_id"), Value::U32(id))));
        entries
    }

    /// Returns the id of a special token that the settings name.
    fn named(&self, folder: &HfFolder, name: &str) -> Result<Option<u32>, Error> {
        let Some(settings) = folder.json(HfFile::TokenizerConfig)? else { return Ok(None) };
        let Some(value) = settings.get(name) else { return Ok(None) };
        let text = value.as_str().or_else(|| value.get("content")?.as_str());
        let found = text.and_then(|text| self.tokens.iter().position(|token| token == text));
        Ok(found.and_then(|id| u32::try_from(id).ok()))
    }

    /// Returns candidates in GGUF, one of which is chosen by comparison.
    fn candidates(&self) -> Result<Vec<Candidate>, Error> {
        let kind = self.json["model"]["type"].as_str().unwrap_or("BPE");
        match kind {
            "Unigram" => self.unigram(),
            "BPE" if self.json.to_string().contains("\"ByteLevel\"") => self.byte_level(),
            "BPE" => self.sentencepiece(),
            "WordPiece" => Ok(vec![self.wordpiece()]),
            other => Err(self.wrong(format!("model.type: {other}: want BPE, Unigram or WordPiece"))),
        }
    }

    /// Returns the model's name and the tokens. In user-defined tokens `▁` may stand for a space, or for itself.
    fn texts(&self, model: &str, spaces: bool) -> Vec<(String, Value)> {
        let text = |(text, kind): (&String, &i32)| match spaces && *kind == USER_DEFINED {
            true => text.replace(MARK, " "),
            false => text.clone(),
        };
        let texts: Vec<String> = self.tokens.iter().zip(&self.kinds).map(text).collect();
        vec![
            (key("model"), Value::from(model)),
            (key("tokens"), Value::Array(Array::from_strs(texts.iter().map(String::as_str)))),
        ]
    }

    fn merges(&self) -> Result<Vec<(&str, &str)>, Error> {
        fn pair(merge: &Json) -> Option<(&str, &str)> {
            match merge {
                Json::String(text) => text.split_once(' '),
                Json::Array(two) => match &two[..] {
                    [Json::String(a), Json::String(b)] => Some((a, b)),
                    _ => None,
                },
                _ => None,
            }
        }
        let all = self.json["model"]["merges"].as_array();
        let pairs = all.and_then(|all| all.iter().map(pair).collect());
        pairs.ok_or_else(|| self.wrong("model.merges: want pairs of texts"))
    }

    fn byte_level(&self) -> Result<Vec<Candidate>, Error> {
        let merges: Vec<String> = self.merges()?.into_iter().map(|(a, b)| format!("{a} {b}")).collect();
        let mut keys = self.texts("gpt2", false);
        keys.push((key("merges"), Value::Array(Array::from_strs(merges.iter().map(String::as_str)))));
        let with = |rule: &str| {
            let pre = (key("pre"), Value::from(rule));
            (rule.to_owned(), keys.iter().cloned().chain([pre]).collect())
        };
        // With a small vocabulary several rules give the same tokens; then the steps themselves decide, if spelt as
        // usual.
        let (first, others): (Vec<&str>, Vec<&str>) =
            RULES.iter().partition(|rule| steps::are_of(rule, &self.json["pre_tokenizer"]));
        Ok(first.into_iter().chain(others).map(with).collect())
    }

    /// Returns the candidates for BPE over characters, with `▁` for spaces. The scores of tokens follow from the
    /// order of the merges that make them; scores in SentencePiece's own file have the same order.
    fn sentencepiece(&self) -> Result<Vec<Candidate>, Error> {
        let merges = self.merges()?;
        let mut made: HashMap<String, f32> = HashMap::with_capacity(merges.len());
        for (a, b) in merges {
            let score = -(made.len() as f32);
            made.entry(format!("{a}{b}")).or_insert(score);
        }
        // Single characters are not the result of a merge, and get the lowest score.
        let worst = -(made.len() as f32);
        let score = |(text, kind): (&String, &i32)| match *kind {
            NORMAL => made.get(text).copied().unwrap_or(worst),
            _ => 0.0,
        };
        let scores: Vec<f32> = self.tokens.iter().zip(&self.kinds).map(score).collect();
        let mut all = Vec::new();
        // First as llama.cpp's converter does it, then as in the folder.
        for spaces in [true, false] {
            let mut keys = self.texts("llama", spaces);
            keys.push((key("pre"), Value::from("default")));
            keys.push((key("scores"), Value::Array(Array::from_f32(&scores))));
            all.extend(prefixed("SentencePiece", &keys));
        }
        Ok(all)
    }

    fn is_wordpiece(&self) -> bool {
        self.json["model"]["type"] == "WordPiece"
    }

    /// Returns the candidate for WordPiece (longest match first). Tokens that begin a word get a leading `▁`, others
    /// none.
    fn wordpiece(&self) -> Candidate {
        let prefix = self.json["model"]["continuing_subword_prefix"].as_str().unwrap_or("##");
        let text = |(text, kind): (&String, &i32)| match (*kind, text.strip_prefix(prefix)) {
            (NORMAL, Some(rest)) if !rest.is_empty() => rest.to_owned(),
            (NORMAL, _) => format!("{MARK}{text}"),
            _ => text.clone(),
        };
        let texts: Vec<String> = self.tokens.iter().zip(&self.kinds).map(text).collect();
        let normalizer = &self.json["normalizer"];
        let lowercase = normalizer["lowercase"].as_bool().unwrap_or(normalizer["type"] == "BertNormalizer");
        let strip = normalizer["strip_accents"].as_bool().unwrap_or(lowercase);
        let keys = vec![
            (key("model"), Value::from("bert")),
            (key("pre"), Value::from("default")),
            (key("tokens"), Value::Array(Array::from_strs(texts.iter().map(String::as_str)))),
            (key("normalizer.lowercase"), Value::Bool(lowercase)),
            (key("normalizer.strip_accents"), Value::Bool(strip)),
        ];
        ("WordPiece".to_owned(), keys)
    }

    fn unigram(&self) -> Result<Vec<Candidate>, Error> {
        let pairs = self.json["model"]["vocab"].as_array().into_iter().flatten();
        let mut scores: Vec<f32> = pairs.map(|pair| pair[1].as_f64().unwrap_or(0.0) as f32).collect();
        scores.resize(self.tokens.len(), 0.0);
        let mut keys = self.texts("t5", true);
        keys.push((key("pre"), Value::from("default")));
        keys.push((key("scores"), Value::Array(Array::from_f32(&scores))));
        if let Some(map) = self.charsmap()? {
            keys.push((key("precompiled_charsmap"), Value::Array(Array::from_u8(&map))));
        }
        let mut all = Vec::new();
        for extra in [false, true] {
            let flag = (key("remove_extra_whitespaces"), Value::Bool(extra));
            let keys: Vec<_> = keys.iter().cloned().chain([flag]).collect();
            all.extend(prefixed("Unigram", &keys));
        }
        Ok(all)
    }

    /// Returns SentencePiece's table of character replacements, if a normalizer has one.
    fn charsmap(&self) -> Result<Option<Vec<u8>>, Error> {
        let normalizer = &self.json["normalizer"];
        let all = normalizer["normalizers"].as_array().into_iter().flatten().chain([normalizer]);
        let found = all.filter_map(|step| step["precompiled_charsmap"].as_str()).next();
        let wrong = || self.wrong("normalizer: precompiled_charsmap: not valid Base64");
        found.map(|text| base64::decode(text).ok_or_else(wrong)).transpose()
    }

    /// Returns a note if the begin of a text is tokenised differently: GGUF has no key for that.
    fn note(&self, ours: &dyn Tokenizer, theirs: &dyn Tokenizer) -> Result<Option<String>, Error> {
        let control = self.tokens.iter().zip(&self.kinds).filter(|(_, kind)| **kind == CONTROL);
        let special: Vec<&str> = control.map(|(text, _)| &text[..]).take(3).collect();
        let same = around(ours, &special)? == around(theirs, &special)?;
        let what = "texts that begin with a space, or stand behind special tokens, are cut in another way in GGUF, \
                    which has no key for that";
        Ok((!same).then(|| what.to_owned()))
    }
}

/// Returns candidates with a space before each text, and without.
fn prefixed(rule: &str, keys: &[(String, Value)]) -> Vec<Candidate> {
    let with = |prefix| {
        let flag = (key("add_space_prefix"), Value::Bool(prefix));
        (rule.to_owned(), keys.iter().cloned().chain([flag]).collect())
    };
    vec![with(true), with(false)]
}
