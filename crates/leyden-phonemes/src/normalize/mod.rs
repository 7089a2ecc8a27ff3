//! Written text to spoken words: numbers, dates, times, amounts, abbreviations, signs.
//!
//! A text is cut at white space into pieces, each with marks around a core. The rules of [`RULES`] are asked in order; the first that knows
//! the core says its words and how many of the next pieces it has used. The last rule knows everything, so no word is lost. Pieces have a
//! maximal length, and each rule is linear in it, so the time is linear in the text.

mod context;
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

pub(crate) use context::{Kind, Token};
pub(crate) use letters::ends_with_abbreviation;
pub(crate) use signs::is_sounded;

use context::{Context, Spoken};

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
