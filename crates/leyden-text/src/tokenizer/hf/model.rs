//! Models: from a word to token ids. Each kind is one file and one row of the table.

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::trie::Trie;
use super::{bpe, document, unigram};
use crate::error::{Error, ErrorKind};
use crate::tokenizer::bounds::{Bounds, Exceeded};

pub(super) trait Model: Send + Sync {
    /// Appends the ids of a word. `bounds` apply to all `ids`.
    fn tokenize(&self, word: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), NotWritten>;

    /// Returns whether every part of a word is in a token, and no token represents more bytes than its text has.
    fn keeps_text(&self) -> bool {
        false
    }

    /// Returns whether tokens that continue a word differ from those that begin one.
    fn marks_continuations(&self) -> bool {
        false
    }
}

/// Reason for which a word was not encoded.
#[derive(Debug)]
pub(super) enum NotWritten {
    NoToken(NoToken),
    Exceeded(Exceeded),
}

impl From<NoToken> for NotWritten {
    fn from(no_token: NoToken) -> NotWritten {
        NotWritten::NoToken(no_token)
    }
}

impl From<Exceeded> for NotWritten {
    fn from(exceeded: Exceeded) -> NotWritten {
        NotWritten::Exceeded(exceeded)
    }
}

/// Missing unknown token for a word that cannot be encoded, with the field that could name one.
#[derive(Debug)]
pub(super) struct NoToken(pub(super) &'static str);

/// Input from which a model is built.
pub(super) struct Parts<'a> {
    pub(super) file: &'a str,
    pub(super) fields: &'a document::Model<'a>,
    /// Tokens by their texts.
    pub(super) ids: &'a HashMap<&'a str, u32>,
    /// Control tokens. No word becomes one, whatever its text: they are not text.
    pub(super) control: &'a BTreeSet<u32>,
    /// True if words are raw bytes instead of the byte-level alphabet of the tokens.
    pub(super) raw_bytes: bool,
}

impl Parts<'_> {
    pub(super) fn invalid(&self, field: &str, why: impl Into<String>) -> Error {
        Error::at(self.file, &format!("model.{field}"), ErrorKind::Invalid(why.into()))
    }

    /// Returns the token of a word's text.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied().filter(|id| !self.control.contains(id))
    }

    /// Returns the unknown token, if it is named.
    pub(super) fn unk_token(&self, default: Option<&str>) -> Option<u32> {
        let name = self.fields.unk_token.as_ref().map(|text| &*text.0).or(default);
        name.and_then(|name| self.ids.get(name)).copied()
    }

    /// Returns the tokens of single bytes, `<0x00>` to `<0xFF>`.
    pub(super) fn byte_tokens(&self) -> [Option<u32>; 256] {
        let mut bytes = 0..=u8::MAX;
        [(); 256].map(|()| bytes.next().and_then(|byte| self.id(&format!("<0x{byte:02X}>"))))
    }
}

/// Returns whether a model takes words as raw bytes instead of in the byte-level alphabet.
pub(super) fn takes_bytes(fields: &document::Model<'_>, ids: &HashMap<&str, u32>) -> bool {
    kind(fields) == "BPE" && bpe::takes_bytes(fields, ids)
}

type Read = fn(&Parts<'_>) -> Result<Box<dyn Model>, Error>;

static KINDS: &[(&str, Read)] = &[
    ("BPE", bpe::read),
    ("Unigram", unigram::read),
    ("WordLevel", read_word_level),
    ("WordPiece", read_word_piece),
];

/// Returns the kind of a model. Old files do not state it; it then follows from the fields.
fn kind<'a>(fields: &'a document::Model<'_>) -> &'a str {
    match (&fields.kind, &fields.vocab) {
        (Some(kind), _) => &kind.0,
        (None, document::Vocab::Scores(_)) => "Unigram",
        (None, _) if fields.merges.is_some() => "BPE",
        (None, _) if fields.continuing_subword_prefix.is_some() => "WordPiece",
        (None, _) => "WordLevel",
    }
}

pub(super) fn read(parts: &Parts<'_>) -> Result<Box<dyn Model>, Error> {
    let name = kind(parts.fields);
    match KINDS.iter().find(|row| row.0 == name) {
        Some((_, read)) => read(parts),
        None => {
            let known = KINDS.iter().map(|row| row.0).collect();
            let kind = ErrorKind::UnsupportedComponent { what: "model", name: name.into(), known };
            Err(Error::at(parts.file, "model.type", kind))
        }
    }
}

// Whole words: each is a token, or unknown.

struct WordLevel {
    words: HashMap<Box<str>, u32>,
    unk: Option<u32>,
}

fn read_word_level(parts: &Parts<'_>) -> Result<Box<dyn Model>, Error> {
    let words = parts.ids.iter().filter(|(_, id)| !parts.control.contains(id));
    let words = words.map(|(&text, &id)| (text.into(), id)).collect();
    Ok(Box::new(WordLevel { words, unk: parts.unk_token(Some("<unk>")) }))
}

impl Model for WordLevel {
    fn tokenize(&self, word: &str, ids: &mut Vec<u32>, _: &Bounds<'_>) -> Result<(), NotWritten> {
        let id = self.words.get(word).copied().or(self.unk);
        ids.push(id.ok_or(NoToken("model.unk_token"))?);
        Ok(())
    }
}

// WordPiece: the longest token that is a prefix of the word, then the longest continuation, and so on. A word that
// cannot be split completely is unknown as a whole.

struct WordPiece {
    trie: Trie,
    /// Prefix of tokens that continue a word.
    prefix: Box<str>,
    unk: Option<u32>,
    /// Maximum number of characters of a word; longer words are unknown.
    max_chars: usize,
}

fn read_word_piece(parts: &Parts<'_>) -> Result<Box<dyn Model>, Error> {
    let tokens = parts.ids.iter().filter(|(_, id)| !parts.control.contains(id));
    let prefix = parts.fields.continuing_subword_prefix.as_ref().map_or("##", |text| &text.0);
    let max_chars = parts.fields.max_input_chars_per_word.unwrap_or(100);
    Ok(Box::new(WordPiece {
        trie: Trie::new(tokens.map(|(text, &id)| (text.as_bytes(), id)).collect()),
        prefix: prefix.into(),
        unk: parts.unk_token(Some("[UNK]")),
        max_chars: usize::try_from(max_chars).unwrap_or(usize::MAX),
    }))
}

impl WordPiece {
    /// Appends the tokens of a word. Returns false if it cannot be split.
    fn cut(&self, word: &str, ids: &mut Vec<u32>) -> bool {
        let mut continuing = Some(self.trie.walk());
        for byte in self.prefix.bytes() {
            continuing = continuing.and_then(|mut walk| walk.step(byte).map(|_| walk));
        }
        let mut start = 0;
        while start < word.len() {
            let walk = if start == 0 { Some(self.trie.walk()) } else { continuing.clone() };
            let Some(mut walk) = walk else { return false };
            let mut longest = None;
            for (end, byte) in (start + 1..).zip(word[start..].bytes()) {
                match walk.step(byte) {
                    Some(Some(id)) => longest = Some((end, id)),
                    Some(None) => {}
                    None => break,
                }
            }
            let Some((end, id)) = longest else { return false };
            ids.push(id);
            start = end;
        }
        true
    }
}

impl Model for WordPiece {
    fn marks_continuations(&self) -> bool {
        true
    }

    fn tokenize(&self, word: &str, ids: &mut Vec<u32>, _: &Bounds<'_>) -> Result<(), NotWritten> {
        let start = ids.len();
        if word.chars().nth(self.max_chars).is_some() || !self.cut(word, ids) {
            ids.truncate(start);
            ids.push(self.unk.ok_or(NoToken("model.unk_token"))?);
        }
        Ok(())
    }
}
