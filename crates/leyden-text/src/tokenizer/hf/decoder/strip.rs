//! A character taken away from the ends of a token or of the text.

use super::super::field::Field;
use super::{Piece, Step};
use crate::error::Error;

/// Up to so many of a character at the beginning and at the end of every token.
struct Strip {
    content: char,
    start: u32,
    stop: u32,
}

/// The same at the beginning of the text.
struct StripText(Strip);

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn Step>, Error> {
    Ok(Box::new(Strip {
        content: field.get("content")?.as_char()?,
        start: field.get("start")?.as_u32()?,
        stop: field.get("stop")?.as_u32()?,
    }))
}

impl Strip {
    fn strip<'t>(&self, mut text: &'t str) -> &'t str {
        for _ in 0..self.start {
            let Some(rest) = text.strip_prefix(self.content) else { break };
            text = rest;
        }
        for _ in 0..self.stop {
            let Some(rest) = text.strip_suffix(self.content) else { break };
            text = rest;
        }
        text
    }
}

impl Step for Strip {
    fn decode(&self, text: String, _first: bool) -> Piece {
        Piece::Text(self.strip(&text).into())
    }

    fn on_whole(self: Box<Self>) -> Option<Box<dyn Step>> {
        // What stands at the end is known too late; and more than one character may lie in several tokens.
        if self.stop == 0 && self.start <= 1 { Some(Box::new(StripText(*self))) } else { None }
    }
}

impl Step for StripText {
    fn decode(&self, text: String, first: bool) -> Piece {
        Piece::Text(if first { self.0.strip(&text).into() } else { text })
    }
}
