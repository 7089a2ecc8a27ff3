//! SentencePiece's mark becomes a space, but not in the first token, where it was put by the encoder.

use super::super::field::Field;
use super::super::pre_tokenizer::metaspace::{Metaspace, Prepend};
use super::{Piece, Step};
use crate::error::Error;

impl Step for Metaspace {
    fn decode(&self, text: String, first: bool) -> Piece {
        let space = if first && self.prepend != Prepend::Never { "" } else { " " };
        Piece::Text(text.replace(self.mark, space))
    }
}

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn Step>, Error> {
    Ok(Box::new(Metaspace::read(field)?))
}
