//! Readers of a vocabulary's arrays in a file's metadata.

use leyden_tensor::{Array, Metadata, StrArray, Value};

use super::text_index::TextIndex;
use crate::error::{Error, ErrorKind};

pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";

/// Kind of a token, numbered in `tokenizer.ggml.token_type` from 0 in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Undefined,
    Normal,
    Unknown,
    /// Matched in a prompt only if special tokens are parsed, and never printed.
    Control,
    /// Always matched in a prompt as a whole, and printed.
    UserDefined,
    Unused,
    Byte,
}

const KINDS: [Kind; 7] = [
    Kind::Undefined,
    Kind::Normal,
    Kind::Unknown,
    Kind::Control,
    Kind::UserDefined,
    Kind::Unused,
    Kind::Byte,
];

/// Reads a required array of strings.
pub(super) fn strings(meta: &Metadata, file: &str, key: &'static str) -> Result<StrArray, Error> {
    let array =
        meta.opt_array_str(key).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?;
    let missing = || Error::new(file, key, ErrorKind::Invalid("required metadata key is missing".into()));
    array.ok_or_else(missing)
}

/// Reads the texts of the tokens and checks that they are UTF-8. Texts may be duplicates, as in files of Gemma 4:
/// encoding uses the last token of a text, as in llama.cpp and Ollama, and decoding accepts all of them.
pub(super) fn read_texts(meta: &Metadata, file: &str) -> Result<TextIndex, Error> {
    let array = strings(meta, file, TOKENS)?;
    let invalid = |message| Error::new(file, TOKENS, ErrorKind::Invalid(message));
    if array.is_empty() {
        return Err(invalid("the vocabulary is empty".into()));
    }
    if u32::try_from(array.len()).is_err() {
        return Err(invalid(format!("{} tokens are more than token ids can count", array.len())));
    }
    let mut texts = TextIndex::with_capacity(array.len());
    for (id, text) in array.iter().enumerate() {
        let Ok(text) = std::str::from_utf8(text) else {
            return Err(invalid(format!("token {id} is not UTF-8")));
        };
        texts.push(text.as_bytes());
    }
    Ok(texts)
}

/// Returns an error if a token is longer than `most` bytes.
pub(super) fn check_lengths(texts: &TextIndex, file: &str, most: usize) -> Result<(), Error> {
    match texts.iter().find(|(_, text)| text.len() > most) {
        Some((id, text)) => {
            let why = format!("token {id} has {} bytes, at most {most} are supported", text.len());
            Err(Error::new(file, TOKENS, ErrorKind::Invalid(why)))
        }
        None => Ok(()),
    }
}

/// Reads the scores of `n` tokens, finite numbers; all are 0 if the file has none.
pub(super) fn scores(meta: &Metadata, file: &str, n: usize) -> Result<Vec<f32>, Error> {
    let metadata = |error| Error::new(file, None, ErrorKind::Metadata(error));
    let is_integer = |array: &Array| array.get(0).is_some_and(|value| value.as_integer().is_some());
    let scores = match meta.get(SCORES) {
        None => return Ok(vec![0.0; n]),
        Some(Value::Array(array)) if is_integer(array) => meta
            .opt_array_i32(SCORES)
            .map_err(metadata)?
            .map(|scores| scores.iter().map(|&s| s as f32).collect()),
        Some(_) => meta.opt_array_f32(SCORES).map_err(metadata)?,
    };
    let mut scores: Vec<f32> = scores.unwrap_or_default();
    let invalid = |message| Error::new(file, SCORES, ErrorKind::Invalid(message));
    if scores.len() < n {
        return Err(invalid(format!("{} scores for {n} tokens", scores.len())));
    }
    // Surplus scores are ignored, as in llama.cpp.
    scores.truncate(n);
    match scores.iter().position(|score| !score.is_finite()) {
        Some(id) => Err(invalid(format!("the score of token {id} is {}", scores[id]))),
        None => Ok(scores),
    }
}

/// Reads the kinds of `n` tokens; all are normal if the file has none. An unknown number means [`Kind::Undefined`],
/// as in llama.cpp.
pub(super) fn kinds(meta: &Metadata, file: &str, n: usize) -> Result<Vec<Kind>, Error> {
    let array = meta.opt_array_i32(TOKEN_TYPE).map_err(|e| Error::new(file, None, ErrorKind::Metadata(e)))?;
    let Some(numbers) = array else { return Ok(vec![Kind::Normal; n]) };
    let invalid = |message| Error::new(file, TOKEN_TYPE, ErrorKind::Invalid(message));
    if numbers.len() < n {
        return Err(invalid(format!("{} types for {n} tokens", numbers.len())));
    }
    let kind = |&number: &i32| {
        let kind = usize::try_from(number).ok().and_then(|number| KINDS.get(number));
        kind.copied().unwrap_or(Kind::Undefined)
    };
    Ok(numbers.iter().take(n).map(kind).collect())
}
