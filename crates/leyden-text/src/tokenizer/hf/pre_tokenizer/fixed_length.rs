//! Words of so many characters each.

use super::super::field::Field;
use super::super::pieces::Pieces;
use super::PreTokenizer;
use crate::error::Error;

struct FixedLength(usize);

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    let field = field.get("length")?;
    match usize::try_from(field.as_u32()?) {
        Ok(length @ 1..) => Ok(Box::new(FixedLength(length))),
        _ => Err(field.invalid("words have at least one character")),
    }
}

impl PreTokenizer for FixedLength {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        pieces.split(|text, keep| {
            let mut from = 0;
            for (at, _) in text.char_indices().step_by(self.0).skip(1) {
                keep(from..at);
                from = at;
            }
            keep(from..text.len());
            Ok(())
        })
    }

    fn keeps_text(&self) -> bool {
        true
    }
}
