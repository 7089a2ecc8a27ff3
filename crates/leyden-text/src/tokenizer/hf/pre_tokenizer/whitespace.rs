//! Words between white space.

use super::super::classes::is_word;
use super::super::pattern::{Behavior, cut_at_chars};
use super::super::pieces::Pieces;
use super::PreTokenizer;
use crate::error::Error;

/// What stands between white space.
pub(super) struct Blanks;

impl PreTokenizer for Blanks {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        pieces.split(|text, keep| {
            cut_at_chars(text, Behavior::Removed, char::is_whitespace, keep);
            Ok(())
        })
    }
}

/// `\w+|[^\w\s]+`: runs of word characters, and runs of what is neither they nor white space.
pub(super) struct Words;

impl PreTokenizer for Words {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        pieces.split(|text, keep| {
            let kind = |c: char| if is_word(c) { Some(true) } else { (!c.is_whitespace()).then_some(false) };
            let mut open = None;
            for (at, c) in text.char_indices() {
                let new = kind(c);
                if let Some((from, old)) = open
                    && new != Some(old)
                {
                    keep(from..at);
                    open = None;
                }
                if let (None, Some(new)) = (open, new) {
                    open = Some((at, new));
                }
            }
            if let Some((from, _)) = open {
                keep(from..text.len());
            }
            Ok(())
        })
    }
}
