//! Models: from a word to the ids of tokens. One kind is one file and one row of the table.

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::trie::Trie;
use super::{bpe, document, unigram};
use crate::error::{Error, ErrorKind};
use crate::tokenizer::bounds::{Bounds, Exceeded};

pub(super) trait Model: Send + Sync {
    /// Appends the ids of a word. `bounds` are those of all `ids`.
    fn tokenize(&self, word: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), NotWritten>;

    /// Whether every part of a word is in a token, and a token stands for no more than its text has bytes.
    fn keeps_text(&self) -> bool {
        false
    }

    /// Whether tokens that go on with a word are others than those that begin one.
    fn marks_continuations(&self) -> bool {
        false
    }
}

/// Why a word was not written in tokens.
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

/// A word cannot be written, and the vocabulary has no token to say so. The field that could name one.
#[derive(Debug)]
pub(super) struct NoToken(pub(super) &'static str);

/// What a model is made of.
pub(super) struct Parts<'a> {
    pub(super) file: &'a str,
    pub(super) fields: &'a document::Model<'a>,
    /// The tokens by their texts.
    pub(super) ids: &'a HashMap<&'a str, u32>,
    /// The control tokens. No word becomes one, whatever it says: they are not text.
    pub(super) control: &'a BTreeSet<u32>,
    /// Whether words come as they are, and not in the byte-level alphabet that the tokens are written in.
    pub(super) raw_bytes: bool,
}

impl Parts<'_> {
    pub(super) fn invalid(&self, field: &str, why: impl Into<String>) -> Error {
        Error::at(self.file, &format!("model.{field}"), ErrorKind::Invalid(why.into()))
    }

    /// The token of a word's text.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied().filter(|id| !self.control.contains(id))
    }

    /// The token that is named for what is unknown.
    pub(super) fn unk_token(&self, default: Option<&str>) -> Option<u32> {
        let name = self.fields.unk_token.as_ref().map(|text| &*text.0).or(default);
        name.and_then(|name| self.ids.get(name)).copied()
    }

    /// The tokens of single bytes, `<0x00>` to `<0xFF>`.
    pub(super) fn byte_tokens(&self) -> [Option<u32>; 256] {
        let mut bytes = 0..=u8::MAX;
        [(); 256].map(|()| bytes.next().and_then(|byte| self.id(&format!("<0x{byte:02X}>"))))
    }
}

/// Whether a model takes words as bytes instead of in the byte-level alphabet.
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

/// The kind of a model. Old files do not name it, but its fields tell.
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

// WordPiece: the longest token that a word begins with, then the longest that continues it, and so on. A word for
// which that ends nowhere is unknown as a whole.

struct WordPiece {
    trie: Trie,
    /// What tokens that continue a word begin with.
    prefix: Box<str>,
    unk: Option<u32>,
    /// Words of more characters are unknown.
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
    /// Appends the tokens of a word. False if it cannot be cut.
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
