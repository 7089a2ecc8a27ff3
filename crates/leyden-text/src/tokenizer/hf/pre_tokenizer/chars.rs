//! Texts cut at single characters: punctuation, digits, a delimiter; and BERT's words.

use super::super::classes::is_punctuation;
use super::super::field::Field;
use super::super::pattern::{Behavior, cut_at_chars};
use super::super::pieces::Pieces;
use super::PreTokenizer;
use crate::error::Error;

struct AtChars<F> {
    is_match: F,
    behavior: Behavior,
}

impl<F: Fn(char) -> bool + Send + Sync> PreTokenizer for AtChars<F> {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        pieces.split(|text, keep| {
            cut_at_chars(text, self.behavior, &self.is_match, keep);
            Ok(())
        })
    }

    fn keeps_text(&self) -> bool {
        self.behavior != Behavior::Removed
    }
}

pub(super) fn read_delimiter(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    let delimiter = field.get("delimiter")?.as_char()?;
    Ok(Box::new(AtChars { is_match: move |c| c == delimiter, behavior: Behavior::Removed }))
}

pub(super) fn read_digits(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    let alone = field.bool("individual_digits")?;
    let behavior = if alone { Behavior::Isolated } else { Behavior::Contiguous };
    Ok(Box::new(AtChars { is_match: char::is_numeric, behavior }))
}

pub(super) fn read_punctuation(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    let behavior = field.opt("behavior")?.map(|field| Behavior::read(&field)).transpose()?;
    Ok(Box::new(AtChars { is_match: is_punctuation, behavior: behavior.unwrap_or(Behavior::Isolated) }))
}

/// Words between white space, punctuation characters each on its own.
pub(super) struct Bert;

impl PreTokenizer for Bert {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        AtChars { is_match: char::is_whitespace, behavior: Behavior::Removed }.cut(pieces)?;
        AtChars { is_match: is_punctuation, behavior: Behavior::Isolated }.cut(pieces)
    }
}
