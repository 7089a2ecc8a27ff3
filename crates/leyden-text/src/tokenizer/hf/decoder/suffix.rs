//! A mark at the ends of words, `</w>`, which becomes a space unless the text ends there.

use super::super::field::Field;
use super::{Piece, Step};
use crate::error::Error;

struct Suffix(Box<str>);

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn Step>, Error> {
    let field = field.get("suffix")?;
    match field.as_str()? {
        "" => Err(field.invalid("a mark has at least one character")),
        suffix => Ok(Box::new(Suffix(suffix.into()))),
    }
}

impl Step for Suffix {
    fn decode(&self, text: String, _first: bool) -> Piece {
        let end = text.strip_suffix(&*self.0).map_or(text.len(), str::len);
        Piece::Text(text[..end].replace(&*self.0, " "))
    }

    fn marks_ends(&self) -> bool {
        true
    }

    fn before_next(&self, text: &str) -> &str {
        if text.ends_with(&*self.0) { " " } else { "" }
    }
}
