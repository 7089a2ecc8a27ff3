//! Byte-pair encoding, of characters or of bytes.
//!
//! A word is first written as the tokens of its characters; a character without one as the tokens of its bytes, or
//! as the unknown token; if the vocabulary has neither, the character is dropped, as in the library.

use foldhash::{HashMap, HashMapExt};

use super::document::{Merge as Line, Model as Fields};
use super::model::{Model, NoToken, NotWritten, Parts};
use crate::error::{Error, Quoted};
use crate::tokenizer::bounds::Bounds;
use crate::tokenizer::byte_level;
use crate::tokenizer::merges::{Merge, Merges};

struct Bpe {
    start: Start,
    merges: Merges,
    /// Tokens that replace a whole word regardless of the merges.
    words: HashMap<Box<[u8]>, u32>,
}

/// Initial symbols of a word.
enum Start {
    /// Tokens of the bytes.
    Bytes(Box<[u32; 256]>),
    Chars(Box<Chars>),
}

struct Chars {
    /// Tokens of single characters.
    plain: HashMap<char, u32>,
    /// Affixes, and the tokens of characters with them. Empty affixes have none.
    prefix: Box<str>,
    suffix: Box<str>,
    affixed: HashMap<Box<str>, u32>,
    byte_fallback: Option<Box<[Option<u32>; 256]>>,
    unk: Unknown,
    fuse_unk: bool,
}

#[derive(Clone, Copy)]
enum Unknown {
    /// The vocabulary has no unknown token: the character is dropped.
    Dropped,
    Token(u32),
    /// The file names an unknown token that does not exist.
    Missing,
}

/// Returns whether the model works on bytes: every byte has a token, and no affixes are used.
pub(super) fn takes_bytes(fields: &Fields<'_>, ids: &HashMap<&str, u32>) -> bool {
    let empty =
        |affix: &Option<_>| affix.as_ref().is_none_or(|text: &super::document::Text<'_>| text.0.is_empty());
    let has = |byte| ids.contains_key(byte_level::encode(byte).encode_utf8(&mut [0; 4]) as &str);
    empty(&fields.continuing_subword_prefix) && empty(&fields.end_of_word_suffix) && (0..=u8::MAX).all(has)
}

pub(super) fn read(parts: &Parts<'_>) -> Result<Box<dyn Model>, Error> {
    let fields = parts.fields;
    if fields.dropout.is_some_and(|dropout| dropout != 0.0) {
        return Err(parts.invalid("dropout", "merges are left out at random in training only"));
    }
    let affix =
        |text: &Option<super::document::Text<'_>>| text.as_ref().map_or("", |text| &text.0).to_owned();
    let prefix = affix(&fields.continuing_subword_prefix);
    let suffix = affix(&fields.end_of_word_suffix);
    let merges = read_merges(parts, prefix.len())?;
    let mut words = HashMap::new();
    if fields.ignore_merges.unwrap_or(false) {
        let mut bytes = Vec::new();
        for (&text, &id) in parts.ids.iter().filter(|(_, id)| !parts.control.contains(id)) {
            bytes.clear();
            if !parts.raw_bytes {
                words.insert(text.as_bytes().into(), id);
            } else if byte_level::decode(text, &mut bytes) {
                words.insert(bytes.as_slice().into(), id);
            }
        }
    }
    let start = if parts.raw_bytes {
        let mut tokens = Box::new([0; 256]);
        for (byte, token) in (0..=u8::MAX).zip(tokens.iter_mut()) {
            // Its presence was checked before.
            *token = parts
                .ids
                .get(byte_level::encode(byte).encode_utf8(&mut [0; 4]) as &str)
                .copied()
                .unwrap_or(0);
        }
        Start::Bytes(tokens)
    } else {
        Start::Chars(Box::new(Chars::new(parts, prefix.into(), suffix.into())))
    };
    Ok(Box::new(Bpe { start, merges, words }))
}

/// Reads the list of merges. In a merge the second text has the prefix, which the merged token does not have.
fn read_merges(parts: &Parts<'_>, prefix: usize) -> Result<Merges, Error> {
    let Some(lines) = &parts.fields.merges else {
        return Err(parts.invalid("merges", "required, but missing"));
    };
    let mut merges = Merges::with_capacity(lines.len());
    let mut joined = String::new();
    let mut rank = 0;
    for (i, line) in lines.iter().enumerate() {
        let (left, right) = match line {
            // Header line of a merges file.
            Line::Line(text) if text.0.starts_with("#version") => continue,
            Line::Line(text) => {
                text.0.split_once(' ').filter(|(_, right)| !right.contains(' ')).ok_or_else(|| {
                    let why = format!("{} is not two texts with a space between them", Quoted(&text.0));
                    parts.invalid(&format!("merges[{i}]"), why)
                })?
            }
            Line::Pair(left, right) => (&*left.0, &*right.0),
        };
        joined.clear();
        joined.push_str(left);
        joined.push_str(right.get(prefix..).unwrap_or_default());
        let id = |text: &str| {
            parts.ids.get(text).copied().ok_or_else(|| {
                parts.invalid(&format!("merges[{i}]"), format!("the vocabulary lacks {}", Quoted(text)))
            })
        };
        let (left, right, merged) = (id(left)?, id(right)?, id(&joined)?);
        if !parts.control.contains(&merged) {
            merges.insert(left, right, Merge { rank, id: merged });
        }
        rank += 1;
    }
    Ok(merges)
}

impl Chars {
    fn new(parts: &Parts<'_>, prefix: Box<str>, suffix: Box<str>) -> Self {
        let fields = parts.fields;
        let mut plain = HashMap::new();
        let mut affixed = HashMap::new();
        for (&text, &id) in parts.ids.iter().filter(|(_, id)| !parts.control.contains(id)) {
            let single = |text: &str| {
                let mut chars = text.chars();
                chars.next().filter(|_| chars.next().is_none())
            };
            if let Some(c) = single(text) {
                plain.insert(c, id);
            }
            if !(prefix.is_empty() && suffix.is_empty()) && text.len() <= prefix.len() + 4 + suffix.len() {
                affixed.insert(text.into(), id);
            }
        }
        let unk = match &fields.unk_token {
            None => Unknown::Dropped,
            Some(_) => parts.unk_token(None).map_or(Unknown::Missing, Unknown::Token),
        };
        let byte_fallback = fields.byte_fallback.unwrap_or(false).then(|| Box::new(parts.byte_tokens()));
        Chars {
            plain,
            prefix,
            suffix,
            affixed,
            byte_fallback,
            unk,
            fuse_unk: fields.fuse_unk.unwrap_or(false),
        }
    }

    /// Appends the tokens of the characters of a word.
    fn tokenize(&self, word: &str, ids: &mut Vec<u32>) -> Result<(), NoToken> {
        // The unknown token is held back until the next known character, to be fused with adjacent ones.
        let mut unknown = None;
        let mut spelled = String::new();
        for (at, c) in word.char_indices() {
            let prefix = if at == 0 { "" } else { &self.prefix };
            let suffix = if at + c.len_utf8() == word.len() { &self.suffix } else { "" };
            spelled.clear();
            let id = if prefix.is_empty() && suffix.is_empty() {
                self.plain.get(&c)
            } else {
                spelled.extend([prefix, c.encode_utf8(&mut [0; 4]), suffix]);
                self.affixed.get(&*spelled)
            };
            if let Some(&id) = id {
                ids.extend(unknown.take());
                ids.push(id);
                continue;
            }
            if spelled.is_empty() {
                spelled.push(c);
            }
            if let Some(tokens) = &self.byte_fallback
                && spelled.bytes().all(|byte| tokens[usize::from(byte)].is_some())
            {
                // The library puts them before an unknown token that is held back.
                ids.extend(spelled.bytes().filter_map(|byte| tokens[usize::from(byte)]));
                continue;
            }
            match self.unk {
                Unknown::Dropped => {}
                Unknown::Missing => return Err(NoToken("model.unk_token")),
                Unknown::Token(id) => {
                    if !self.fuse_unk {
                        ids.extend(unknown);
                    }
                    unknown = Some(id);
                }
            }
        }
        ids.extend(unknown);
        Ok(())
    }
}

impl Model for Bpe {
    fn tokenize(&self, word: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), NotWritten> {
        if let Some(&id) = self.words.get(word.as_bytes()) {
            ids.push(id);
            return Ok(());
        }
        let start = ids.len();
        match &self.start {
            Start::Bytes(tokens) => ids.extend(word.bytes().map(|byte| tokens[usize::from(byte)])),
            Start::Chars(chars) => chars.tokenize(word, ids)?,
        }
        Ok(self.merges.apply(ids, start, bounds.stop())?)
    }

    fn keeps_text(&self) -> bool {
        match &self.start {
            Start::Bytes(_) => true,
            Start::Chars(chars) => {
                let bytes = chars.byte_fallback.as_ref();
                bytes.is_some_and(|tokens| tokens.iter().all(Option::is_some)) && chars.affixed.is_empty()
            }
        }
    }
}
