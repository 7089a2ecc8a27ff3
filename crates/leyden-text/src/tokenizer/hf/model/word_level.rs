//! Whole words: each is a token, or unknown.

use foldhash::HashMap;

use super::{Model, NoToken, NotWritten, Parts};
use crate::error::Error;
use crate::tokenizer::bounds::Bounds;

struct WordLevel {
    words: HashMap<Box<str>, u32>,
    unk: Option<u32>,
}

pub(super) fn read(parts: &Parts<'_>) -> Result<Box<dyn Model>, Error> {
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
