//! WordPiece: a space before every token but the first and those that continue a word.

use super::super::field::Field;
use super::{Piece, Step};
use crate::error::Error;

struct WordPiece {
    prefix: Box<str>,
    cleanup: bool,
}

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn Step>, Error> {
    Ok(Box::new(WordPiece { prefix: field.str("prefix")?.into(), cleanup: field.bool("cleanup")? }))
}

/// What a space is taken away from, in this order.
const CLEANUPS: [(&str, &str); 11] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

impl Step for WordPiece {
    fn decode(&self, text: String, first: bool) -> Piece {
        let mut text = match text.strip_prefix(&*self.prefix) {
            _ if first => text,
            Some(rest) => rest.into(),
            None => format!(" {text}"),
        };
        if self.cleanup && text.contains(' ') {
            for (from, to) in CLEANUPS {
                text = text.replace(from, to);
            }
        }
        Piece::Text(text)
    }
}
