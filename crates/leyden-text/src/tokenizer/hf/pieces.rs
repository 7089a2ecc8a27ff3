//! [`Normalized`] and [`Pieces`]: intermediate forms of a text before the model.
//!
//! Besides the text, they track what originates from the first character of the whole text, because `Metaspace` may
//! add its mark only there. A piece is `at_start` if its first character originates from the first character of the
//! text, and its first `start_bytes` bytes originate from that character.

use std::ops::Range;

use crate::error::Error;

/// Stretch of text during normalization.
pub(super) struct Normalized {
    pub(super) text: String,
    /// Number of leading bytes that originate from the first character of the whole text.
    pub(super) start_bytes: usize,
}

impl Normalized {
    pub(super) fn new(text: &str, at_start: bool) -> Self {
        let first = text.chars().next().filter(|_| at_start);
        Normalized { text: text.into(), start_bytes: first.map_or(0, char::len_utf8) }
    }

    /// Replaces every character by the output of `write`.
    pub(super) fn map_chars(&mut self, mut write: impl FnMut(char, &mut String)) {
        let mut out = String::with_capacity(self.text.len());
        let mut start_bytes = 0;
        for (at, c) in self.text.char_indices() {
            write(c, &mut out);
            if at < self.start_bytes {
                start_bytes = out.len();
            }
        }
        *self = Normalized { text: out, start_bytes };
    }
}

/// Texts that are split further and further until each is a word for the model.
#[derive(Default)]
pub(super) struct Pieces {
    text: String,
    list: Vec<Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    end: usize,
    at_start: bool,
    start_bytes: usize,
    /// Added token of the piece; its text is not used any more.
    token: Option<u32>,
}

impl Pieces {
    /// Appends a part of a normalized text.
    pub(super) fn push(&mut self, from: &Normalized, range: Range<usize>, token: Option<u32>) {
        if range.is_empty() {
            return;
        }
        let start = self.text.len();
        self.text.push_str(&from.text[range.clone()]);
        self.list.push(Piece {
            start,
            end: self.text.len(),
            at_start: range.start < from.start_bytes,
            start_bytes: from.start_bytes.min(range.end).saturating_sub(range.start),
            token,
        });
    }

    /// Appends an added token by its id, without text.
    pub(super) fn push_token(&mut self, id: u32) {
        let at = self.text.len();
        self.list.push(Piece { start: at, end: at, at_start: false, start_bytes: 0, token: Some(id) });
    }

    /// Splits every piece that is not a token into the ranges that `cut` outputs; the rest of it is dropped.
    pub(super) fn split(
        &mut self,
        mut cut: impl FnMut(&str, &mut dyn FnMut(Range<usize>)) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut list = Vec::with_capacity(self.list.len());
        for piece in &self.list {
            if piece.token.is_some() {
                list.push(*piece);
                continue;
            }
            cut(&self.text[piece.start..piece.end], &mut |range| {
                if !range.is_empty() {
                    list.push(Piece {
                        start: piece.start + range.start,
                        end: piece.start + range.end,
                        at_start: range.start < piece.start_bytes,
                        start_bytes: piece.start_bytes.min(range.end).saturating_sub(range.start),
                        token: None,
                    });
                }
            })?;
        }
        self.list = list;
        Ok(())
    }

    /// Rewrites every piece that is not a token: the result of `prefix`, called with its text and `at_start`,
    /// followed by the output of `write` for each character.
    pub(super) fn rewrite<'p>(
        &mut self,
        prefix: impl Fn(&str, bool) -> &'p str,
        mut write: impl FnMut(char, &mut String),
    ) {
        let mut out = String::with_capacity(self.text.len() + self.text.len() / 4);
        for piece in &mut self.list {
            let text = &self.text[piece.start..piece.end];
            let start = out.len();
            if piece.token.is_none() {
                out.push_str(prefix(text, piece.at_start));
                let mut start_bytes = 0;
                for (at, c) in text.char_indices() {
                    write(c, &mut out);
                    if at < piece.start_bytes {
                        start_bytes = out.len() - start;
                    }
                }
                piece.start_bytes = start_bytes;
            }
            (piece.start, piece.end) = (start, out.len());
        }
        self.text = out;
    }

    /// Returns an upper bound of the total length of the pieces.
    pub(super) fn len_bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns the pieces in order: an added token, or text for the model.
    pub(super) fn iter(&self) -> impl Iterator<Item = Result<u32, &str>> {
        self.list.iter().map(|piece| match piece.token {
            Some(id) => Ok(id),
            None => Err(&self.text[piece.start..piece.end]),
        })
    }
}
