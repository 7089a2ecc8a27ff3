//! A piece among its neighbours, and the words that a rule says for it.

use std::ops::Range;

use super::pieces::Piece;

/// A spoken word or a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A word, in the case in which it is written; it may have apostrophes and hyphens.
    Word(String),
    /// Letters of the Latin alphabet to be said one by one.
    Letters(String),
    /// One of `.,;:!?—…()“”`.
    Mark(char),
}

/// A spoken word or a mark, with the bytes of the text it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Range<usize>,
}

/// Words that a rule says, and the use it makes of the pieces.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    pub(super) kinds: Vec<Kind>,
    /// Pieces used after the first.
    pub(super) extra: usize,
    /// True if the full stop after the last piece belongs to the words.
    pub(super) takes_stop: bool,
}

impl Spoken {
    /// Returns words that are separated by spaces; a word in capitals within braces is said in letters.
    pub(super) fn words(text: &str) -> Self {
        let mut spoken = Self::default();
        spoken.push(text);
        spoken
    }

    pub(super) fn letters(text: &str) -> Self {
        Self { kinds: vec![Kind::Letters(text.to_owned())], ..Self::default() }
    }

    pub(super) fn push(&mut self, text: &str) {
        for word in text.split_whitespace() {
            self.kinds.push(match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
                Some(letters) => Kind::Letters(letters.to_owned()),
                None => Kind::Word(word.to_owned()),
            });
        }
    }

    pub(super) fn using(mut self, extra: usize) -> Self {
        self.extra = extra;
        self
    }

    pub(super) fn with_stop(mut self) -> Self {
        self.takes_stop = true;
        self
    }
}

/// A piece among its neighbours.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) pieces: &'a [Piece],
    pub(super) at: usize,
}

impl<'a> Context<'a> {
    pub(super) fn core(self) -> &'a str {
        &self.pieces[self.at].core
    }

    /// Returns the marks after the `n`th next piece.
    pub(super) fn trail(self, n: usize) -> &'a str {
        self.pieces.get(self.at + n).map_or("", |piece| &piece.trail)
    }

    /// Returns the core before this one, marks between them or not.
    pub(super) fn before(self) -> &'a str {
        self.at.checked_sub(1).map_or("", |at| &self.pieces[at].core)
    }

    /// Returns the core of the `n`th next piece if only marks among `between` stand between this one and it.
    pub(super) fn next(self, n: usize, between: &str) -> Option<&'a str> {
        let piece = self.pieces.get(self.at + n).filter(|piece| piece.lead.is_empty())?;
        let joined = (0..n).all(|i| self.trail(i).chars().all(|mark| between.contains(mark)));
        joined.then_some(piece.core.as_str())
    }

    /// Returns true if a full stop follows the `n`th next piece directly.
    pub(super) fn has_stop(self, n: usize) -> bool {
        self.trail(n).starts_with('.')
    }

    /// Returns true if this piece is the last one or is followed by a word with a capital.
    pub(super) fn capital_follows(self) -> bool {
        self.pieces.get(self.at + 1).is_some_and(|piece| piece.core.starts_with(char::is_uppercase))
    }
}
