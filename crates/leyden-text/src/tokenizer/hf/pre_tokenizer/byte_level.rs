//! GPT-2's words, each byte of them written as a printable character.

use super::super::field::Field;
use super::super::pattern::Pattern;
use super::super::pieces::Pieces;
use super::PreTokenizer;
use crate::error::Error;
use crate::tokenizer::byte_level;

struct ByteLevel {
    add_prefix_space: bool,
    words: Option<Pattern>,
    spells: bool,
}

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    let words = field.bool_or("use_regex", true)?.then(|| Pattern::gpt2(field)).transpose()?;
    Ok(Box::new(ByteLevel { add_prefix_space: field.bool("add_prefix_space")?, words, spells: true }))
}

impl PreTokenizer for ByteLevel {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        if self.add_prefix_space {
            pieces.rewrite(|text, _| if text.starts_with(' ') { "" } else { " " }, |c, out| out.push(c));
        }
        if let Some(words) = &self.words {
            pieces.split(|text, keep| words.find(text, |range, _| keep(range)))?;
        }
        if self.spells {
            pieces.rewrite(|_, _| "", byte_level::spell);
        }
        Ok(())
    }

    fn leave_bytes(&mut self) -> bool {
        std::mem::replace(&mut self.spells, false)
    }

    fn keeps_text(&self) -> bool {
        true
    }
}
