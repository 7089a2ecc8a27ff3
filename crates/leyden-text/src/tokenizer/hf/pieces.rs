//! [`Normalized`] and [`Pieces`]: a text on its way to the model.
//!
//! Beside the text itself one fact is carried along: which of it stands at the very beginning of what was to be
//! encoded, because `Metaspace` may put its mark there alone. A piece is `at_start` if its first character was made
//! from the first character of the text, and its first `start_bytes` bytes are what was made from that character.

use std::ops::Range;

use crate::error::Error;

/// A stretch of text that the normalizers work on.
pub(super) struct Normalized {
    pub(super) text: String,
    /// How many bytes at the beginning come from the first character of the whole text.
    pub(super) start_bytes: usize,
}

impl Normalized {
    pub(super) fn new(text: &str, at_start: bool) -> Self {
        let first = text.chars().next().filter(|_| at_start);
        Normalized { text: text.into(), start_bytes: first.map_or(0, char::len_utf8) }
    }

    /// Replaces every character by what `write` appends for it.
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

/// Texts cut further and further until each is a word for the model.
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
    /// The added token that the piece is; nothing looks at its text any more.
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

    /// Appends an added token, for which nothing but its id matters.
    pub(super) fn push_token(&mut self, id: u32) {
        let at = self.text.len();
        self.list.push(Piece { start: at, end: at, at_start: false, start_bytes: 0, token: Some(id) });
    }

    /// Cuts every piece that is not a token into the ranges that `cut` gives; the rest of it is dropped.
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

    /// Writes every piece that is not a token anew: first what `prefix` gives for its text and whether it is at the
    /// start, then what `write` appends for each character.
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

    /// How long the pieces are together, at most.
    pub(super) fn len_bytes(&self) -> usize {
        self.text.len()
    }

    /// The pieces in order: an added token, or text for the model.
    pub(super) fn iter(&self) -> impl Iterator<Item = Result<u32, &str>> {
        self.list.iter().map(|piece| match piece.token {
            Some(id) => Ok(id),
            None => Err(&self.text[piece.start..piece.end]),
        })
    }
}
