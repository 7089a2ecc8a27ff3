//! Written text to spoken words: numbers, dates, times, amounts, abbreviations, signs.
//!
//! A text is cut at white space into pieces, each with marks around a core. The rules of [`RULES`] are asked in order; the first that knows
//! the core says its words and how many of the next pieces it has used. The last rule knows everything, so no word is lost. Pieces have a
//! maximal length, and each rule is linear in it, so the time is linear in the text.

mod dates;
mod letters;
mod mixed;
mod money;
mod pieces;
mod quantities;
mod signs;
mod times;
mod units;
mod web;

use std::ops::Range;

pub(crate) use letters::ends_with_abbreviation;
pub(crate) use signs::is_sounded;

use pieces::Piece;

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
struct Spoken {
    kinds: Vec<Kind>,
    /// Pieces used after the first.
    extra: usize,
    /// True if the full stop after the last piece belongs to the words.
    takes_stop: bool,
}

impl Spoken {
    /// Returns words that are separated by spaces; a word in capitals within braces is said in letters.
    fn words(text: &str) -> Self {
        let mut spoken = Self::default();
        spoken.push(text);
        spoken
    }

    fn letters(text: &str) -> Self {
        Self { kinds: vec![Kind::Letters(text.to_owned())], ..Self::default() }
    }

    fn push(&mut self, text: &str) {
        for word in text.split_whitespace() {
            self.kinds.push(match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
                Some(letters) => Kind::Letters(letters.to_owned()),
                None => Kind::Word(word.to_owned()),
            });
        }
    }

    fn using(mut self, extra: usize) -> Self {
        self.extra = extra;
        self
    }

    fn with_stop(mut self) -> Self {
        self.takes_stop = true;
        self
    }
}

/// A piece among its neighbours.
#[derive(Clone, Copy)]
struct Context<'a> {
    pieces: &'a [Piece],
    at: usize,
}

impl<'a> Context<'a> {
    fn core(self) -> &'a str {
        &self.pieces[self.at].core
    }

    /// Returns the marks after the `n`th next piece.
    fn trail(self, n: usize) -> &'a str {
        self.pieces.get(self.at + n).map_or("", |piece| &piece.trail)
    }

    /// Returns the core before this one, marks between them or not.
    fn before(self) -> &'a str {
        self.at.checked_sub(1).map_or("", |at| &self.pieces[at].core)
    }

    /// Returns the core of the `n`th next piece if only marks among `between` stand between this one and it.
    fn next(self, n: usize, between: &str) -> Option<&'a str> {
        let piece = self.pieces.get(self.at + n).filter(|piece| piece.lead.is_empty())?;
        let joined = (0..n).all(|i| self.trail(i).chars().all(|mark| between.contains(mark)));
        joined.then_some(piece.core.as_str())
    }

    /// Returns true if a full stop follows the `n`th next piece directly.
    fn has_stop(self, n: usize) -> bool {
        self.trail(n).starts_with('.')
    }

    /// Returns true if this piece is the last one or is followed by a word with a capital.
    fn capital_follows(self) -> bool {
        self.pieces.get(self.at + 1).is_some_and(|piece| piece.core.starts_with(char::is_uppercase))
    }
}

/// Rules in the order in which they are asked.
const RULES: &[fn(Context<'_>) -> Option<Spoken>] = &[
    letters::plain,
    web::address,
    dates::date,
    dates::decade,
    times::time,
    money::amount,
    units::quantity,
    quantities::number,
    quantities::range,
    quantities::fraction,
    quantities::ordinal,
    quantities::telephone,
    quantities::version,
    letters::abbreviation,
    letters::roman,
    mixed::anything,
];

/// Returns the spoken words and marks of `text`; spans begin at `offset`.
pub(crate) fn tokens(text: &str, offset: usize) -> Vec<Token> {
    let pieces = pieces::split(text);
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < pieces.len() {
        let context = Context { pieces: &pieces, at };
        let piece = &pieces[at];
        let start = offset + piece.start;
        for (i, mark) in piece.lead.char_indices() {
            push_mark(&mut tokens, signs::opening(mark), start + i, mark);
        }
        let spoken = if piece.core.is_empty() {
            Spoken::default()
        } else {
            RULES.iter().find_map(|rule| rule(context)).unwrap_or_default()
        };
        let last = &pieces[at + spoken.extra];
        let span = start + piece.lead.len()..offset + last.core_end;
        tokens.extend(spoken.kinds.into_iter().map(|kind| Token { kind, span: span.clone() }));
        let is_end = at + spoken.extra + 1 == pieces.len();
        for (i, mark) in last.trail.char_indices() {
            // The stop of an abbreviation ends a sentence only at the end of the text.
            if i == 0 && spoken.takes_stop && !is_end && mark == '.' {
                continue;
            }
            push_mark(&mut tokens, signs::closing(mark), offset + last.core_end + i, mark);
        }
        at += spoken.extra + 1;
    }
    tokens
}

fn push_mark(tokens: &mut Vec<Token>, said: Option<char>, start: usize, written: char) {
    let Some(said) = said else { return };
    let kind = Kind::Mark(said);
    // "..." and "!!!" are one mark.
    if let Some(last) = tokens.last_mut()
        && last.span.end == start
        && let Kind::Mark(before) = last.kind
        && (before == said || before == '…' && said == '.')
    {
        last.span.end = start + written.len_utf8();
        if said == '.' {
            last.kind = Kind::Mark('…');
        }
        return;
    }
    tokens.push(Token { kind, span: start..start + written.len_utf8() });
}

#[cfg(test)]
mod tests;
