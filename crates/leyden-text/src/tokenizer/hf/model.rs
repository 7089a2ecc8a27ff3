//! [`Model`]: encoder of words, with its input and errors.

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::document;
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
