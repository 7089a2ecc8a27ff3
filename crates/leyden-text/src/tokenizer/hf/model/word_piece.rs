//! WordPiece: the longest token that a word begins with, then the longest that continues it, and so on. A word for
//! which that ends nowhere is unknown as a whole.

use super::trie::Trie;
use super::{Model, NoToken, NotWritten, Parts};
use crate::error::Error;
use crate::tokenizer::bounds::Bounds;

struct WordPiece {
    trie: Trie,
    /// What tokens that continue a word begin with.
    prefix: Box<str>,
    unk: Option<u32>,
    /// Words of more characters are unknown.
    max_chars: usize,
}

pub(super) fn read(parts: &Parts<'_>) -> Result<Box<dyn Model>, Error> {
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
    fn tokenize(&self, word: &str, ids: &mut Vec<u32>, _: &Bounds<'_>) -> Result<(), NotWritten> {
        let start = ids.len();
        if word.chars().nth(self.max_chars).is_some() || !self.cut(word, ids) {
            ids.truncate(start);
            ids.push(self.unk.ok_or(NoToken("model.unk_token"))?);
        }
        Ok(())
    }
}
