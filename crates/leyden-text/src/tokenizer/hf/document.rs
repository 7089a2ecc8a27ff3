//! Typed structure of `tokenizer.json`.
//!
//! The vocabulary and the merges are most of the file, so they are read in one pass and their texts borrow from it.
//! The components, which are small and of many kinds, are kept as raw JSON for [`Field`](super::field::Field).

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind};

#[derive(serde::Deserialize)]
pub(super) struct Document<'a> {
    #[serde(borrow, default)]
    pub(super) version: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) added_tokens: Vec<AddedToken<'a>>,
    #[serde(borrow, default)]
    pub(super) normalizer: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) pre_tokenizer: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) post_processor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) decoder: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) truncation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) model: Model<'a>,
}

#[derive(serde::Deserialize)]
pub(super) struct AddedToken<'a> {
    #[serde(borrow)]
    pub(super) content: Text<'a>,
    pub(super) single_word: bool,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    pub(super) normalized: bool,
    pub(super) special: bool,
}

/// Union of the fields of all models, because the type may follow them.
#[derive(serde::Deserialize)]
pub(super) struct Model<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) vocab: Vocab<'a>,
    #[serde(borrow, default)]
    pub(super) merges: Option<Vec<Merge<'a>>>,
    #[serde(default)]
    pub(super) dropout: Option<f64>,
    #[serde(borrow, default)]
    pub(super) unk_token: Option<Text<'a>>,
    #[serde(default)]
    pub(super) unk_id: Option<u32>,
    #[serde(borrow, default)]
    pub(super) continuing_subword_prefix: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) end_of_word_suffix: Option<Text<'a>>,
    #[serde(default)]
    pub(super) fuse_unk: Option<bool>,
    #[serde(default)]
    pub(super) byte_fallback: Option<bool>,
    #[serde(default)]
    pub(super) ignore_merges: Option<bool>,
    #[serde(default)]
    pub(super) max_input_chars_per_word: Option<u64>,
}

/// Text that borrows from the file if it has no escapes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

/// Tokens: with ids, or in the order of their ids with scores.
pub(super) enum Vocab<'a> {
    Ids(Vec<(Text<'a>, u32)>),
    Scores(Vec<(Text<'a>, f64)>),
}

/// Merge: a line with a space between its parts, or the parts.
pub(super) enum Merge<'a> {
    Line(Text<'a>),
    Pair(Text<'a>, Text<'a>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.into())))
            }
        }
        deserializer.deserialize_str(Texts)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Vocab<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Vocabs;
        impl<'de> Visitor<'de> for Vocabs {
            type Value = Vocab<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of token ids or an array of tokens with scores")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Vocab<'de>, M::Error> {
                let mut ids = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    ids.push(entry);
                }
                Ok(Vocab::Ids(ids))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Vocab<'de>, S::Error> {
                let mut scores = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    scores.push(entry);
                }
                Ok(Vocab::Scores(scores))
            }
        }
        deserializer.deserialize_any(Vocabs)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Merge<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Merges;
        impl<'de> Visitor<'de> for Merges {
            type Value = Merge<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of two tokens or an array of two tokens")
            }

            fn visit_borrowed_str<E>(self, line: &'de str) -> Result<Merge<'de>, E> {
                Ok(Merge::Line(Text(Cow::Borrowed(line))))
            }

            fn visit_str<E>(self, line: &str) -> Result<Merge<'de>, E> {
                Ok(Merge::Line(Text(Cow::Owned(line.into()))))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Merge<'de>, S::Error> {
                let missing = || S::Error::custom("a merge of fewer than two tokens");
                let left = seq.next_element()?.ok_or_else(missing)?;
                let right = seq.next_element()?.ok_or_else(missing)?;
                match seq.next_element::<Text<'de>>()? {
                    None => Ok(Merge::Pair(left, right)),
                    Some(_) => Err(S::Error::custom("a merge of more than two tokens")),
                }
            }
        }
        deserializer.deserialize_any(Merges)
    }
}

/// Texts by id; ids may have gaps.
pub(super) struct Vocabulary {
    texts: String,
    /// Byte range of each text; `None` if there is no such token.
    places: Vec<Option<(u32, u32)>>,
}

/// Maximum surplus of ids over tokens: vocabularies have gaps, but the size of the table must be in proportion to
/// the file.
const MAX_GAPS: usize = 1 << 16;

impl Vocabulary {
    /// Creates the vocabulary of the given tokens. Of several with the same id the last is used.
    pub(super) fn new<'a>(
        file: &str,
        tokens: impl Iterator<Item = (u32, &'a str)> + Clone,
    ) -> Result<Self, Error> {
        let count = tokens.clone().count();
        let last = tokens.clone().map(|(id, _)| id).max();
        let invalid = |why: String| Error::at(file, "model.vocab", ErrorKind::Invalid(why));
        let Some(last) = last else { return Err(invalid("the vocabulary is empty".into())) };
        let n = usize::try_from(last).unwrap_or(usize::MAX).saturating_add(1);
        if n > count.saturating_mul(2).saturating_add(MAX_GAPS) {
            return Err(invalid(format!("id {last} is too far beyond the {count} tokens")));
        }
        let mut vocabulary = Vocabulary { texts: String::new(), places: vec![None; n] };
        for (id, text) in tokens {
            let place = |at: usize| u32::try_from(at).map_err(|_| invalid("the texts are too long".into()));
            let start = place(vocabulary.texts.len())?;
            vocabulary.texts.push_str(text);
            let end = place(vocabulary.texts.len())?;
            if let Some(slot) = usize::try_from(id).ok().and_then(|id| vocabulary.places.get_mut(id)) {
                *slot = Some((start, end));
            }
        }
        Ok(vocabulary)
    }

    /// Returns the largest id plus one.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn text(&self, id: u32) -> Option<&str> {
        let (start, end) = (*self.places.get(usize::try_from(id).ok()?)?)?;
        self.texts.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }
}
