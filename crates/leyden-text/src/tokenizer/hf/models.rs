//! Models: from a word to token ids. Each kind is one file and one row of the table.

use foldhash::HashMap;

use super::model::{Model, NoToken, NotWritten, Parts};
use super::trie::Trie;
use super::{bpe, document, unigram};
use crate::error::{Error, ErrorKind};
use crate::tokenizer::bounds::Bounds;

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
