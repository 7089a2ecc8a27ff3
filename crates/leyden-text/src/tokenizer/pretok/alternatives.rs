//! What the published expressions have in common: single alternatives, and ways to put them together.
//!
//! An alternative is a function from a text to the number of bytes that it matches at the beginning, 0 if
//! it does not match. It looks as far as it matches and at most one character beyond (white space: as far
//! as the white space goes), so that a rule made of alternatives takes time in proportion to the text.

use super::{Split, run};
use crate::tokenizer::classes::{Class, class, is_letter, is_number, is_other};

/// How much of the beginning of a text is matched, in bytes.
pub(super) type Alternative = fn(&str) -> usize;

/// Cuts `text` with the first stage, every piece of that with the second, and so on. A later stage sees
/// a piece as if it were the whole text: it looks neither before nor behind it.
pub(super) fn stages<'t>(text: &'t str, stages: &[Split], word: &mut dyn FnMut(&'t str)) {
    match stages {
        [] => word(text),
        [last] => last(text, word),
        [first, rest @ ..] => first(text, &mut |piece| self::stages(piece, rest, word)),
    }
}

/// Cuts `text` into what the alternatives match, the first that does at each place, and what lies between.
pub(super) fn isolate<'t>(text: &'t str, alternatives: &[Alternative], word: &mut dyn FnMut(&'t str)) {
    let (mut start, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let len = alternatives.iter().map(|alternative| alternative(rest)).find(|&len| len > 0);
        let Some(len) = len else {
            at += c.len_utf8();
            continue;
        };
        if start < at {
            word(&text[start..at]);
        }
        word(&rest[..len]);
        at += len;
        start = at;
    }
    if start < text.len() {
        word(&text[start..]);
    }
}

/// `\p{L}` or `\p{M}`.
pub(super) fn is_letter_or_mark(c: char) -> bool {
    matches!(class(c), Class::Letter | Class::Mark)
}

/// `[\r\n]`.
pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

/// Whether `c` lies in one of the ranges, which are ascending.
pub(super) fn in_ranges(c: char, ranges: &[(char, char)]) -> bool {
    let after = ranges.partition_point(|&(first, _)| first <= c);
    after > 0 && c <= ranges[after - 1].1
}

/// The bytes of the first character of `text` if it is one that `is` wants.
pub(super) fn one(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.chars().next().filter(|&c| is(c)).map_or(0, char::len_utf8)
}

/// `\s?BODY+`.
pub(super) fn spaced(text: &str, body: impl Fn(char) -> bool) -> usize {
    let space = one(text, char::is_whitespace);
    match run(&text[space..], &body) {
        // White space may belong to the body itself.
        0 => run(text, body),
        len => space + len,
    }
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)`, ignoring the case of ASCII letters only: `'ſ` is not a contraction, although case
/// folding would make it `'s`.
pub(super) fn contraction(text: &str) -> usize {
    let &[b'\'', first, ref rest @ ..] = text.as_bytes() else { return 0 };
    match (first.to_ascii_lowercase(), rest.first().map(u8::to_ascii_lowercase)) {
        (b's' | b't' | b'm' | b'd', _) => 2,
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => 3,
        _ => 0,
    }
}

/// `PREFIX?BODY+`; a character may be both.
pub(super) fn prefixed(text: &str, prefix: impl Fn(char) -> bool, body: impl Fn(char) -> bool) -> usize {
    let before = one(text, prefix);
    match run(&text[before..], &body) {
        0 => run(text, body),
        len => before + len,
    }
}

/// `[^\r\n\p{L}\p{N}]`.
pub(super) fn is_prefix(c: char) -> bool {
    !is_line_end(c) && !is_letter(c) && !is_number(c)
}

/// `[^\r\n\p{L}\p{N}]?\p{L}+`.
pub(super) fn prefixed_letters(text: &str) -> usize {
    prefixed(text, is_prefix, is_letter)
}

/// `[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+`.
pub(super) fn prefixed_letters_and_marks(text: &str) -> usize {
    prefixed(text, is_prefix, is_letter_or_mark)
}

/// `\p{N}{1,MOST}`.
pub(super) fn numbers<const MOST: usize>(text: &str) -> usize {
    text.chars().take(MOST).take_while(|&c| is_number(c)).map(char::len_utf8).sum()
}

/// Cuts numbers off, in words of at most `MOST` digits.
pub(super) fn isolate_numbers<'t, const MOST: usize>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    isolate(text, &[numbers::<MOST>], word);
}

/// ` ?BODY+TAIL*`, where a space is none of the body's characters.
pub(super) fn with_tail(text: &str, body: impl Fn(char) -> bool, tail: impl Fn(char) -> bool) -> usize {
    let space = usize::from(text.starts_with(' '));
    match run(&text[space..], body) {
        0 => 0,
        len => space + len + run(&text[space + len..], tail),
    }
}

/// ` ?[^\s\p{L}\p{N}]+[\r\n]*`.
pub(super) fn others(text: &str) -> usize {
    with_tail(text, is_other, is_line_end)
}

/// ` ?[^\s\p{L}\p{N}]+[\r\n/]*`.
pub(super) fn others_with_slashes(text: &str) -> usize {
    with_tail(text, is_other, |c| is_line_end(c) || c == '/')
}

/// `\s*[\r\n]+`, which is `\s*[\r\n]`.
pub(super) fn line_ends(text: &str) -> usize {
    let spaces = &text[..run(text, char::is_whitespace)];
    spaces.rfind(['\r', '\n']).map_or(0, |last| last + 1)
}

/// `\s+(?!\S)|\s+`: all white space at the end of the text, otherwise all but its last character, which
/// belongs to the word behind it (unless it stands alone).
pub(super) fn white_space(text: &str) -> usize {
    let len = run(text, char::is_whitespace);
    if len == text.len() {
        return len;
    }
    match text[..len].char_indices().next_back() {
        Some((last, _)) if last > 0 => last,
        _ => len,
    }
}
