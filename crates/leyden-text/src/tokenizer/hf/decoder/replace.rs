//! A text in the place of every match of a pattern.

use super::super::field::Field;
use super::super::pattern::Pattern;
use super::{Piece, Step};
use crate::error::Error;

struct Replace {
    pattern: Pattern,
    content: Box<str>,
}

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn Step>, Error> {
    let pattern = Pattern::read(&field.get("pattern")?)?;
    Ok(Box::new(Replace { pattern, content: field.inserted("content")?.into() }))
}

impl Step for Replace {
    fn decode(&self, text: String, _first: bool) -> Piece {
        // A search that gets out of hand leaves the token as it is.
        let replaced = self.pattern.replace(&text, &self.content, |_, _, _| {});
        Piece::Text(replaced.unwrap_or(text))
    }

    fn on_whole(self: Box<Self>) -> Option<Box<dyn Step>> {
        // A single character cannot lie across two tokens.
        let single = self.pattern.literal().is_some_and(|text| text.chars().count() == 1);
        if single { Some(self) } else { None }
    }
}
