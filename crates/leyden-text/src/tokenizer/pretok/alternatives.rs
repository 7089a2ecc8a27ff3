//! Common parts of the published expressions: single alternatives, and their combinations.
//!
//! An alternative is a function that returns the number of bytes that it matches at the beginning of a text, 0 if
//! it does not match. It examines at most one character beyond its match (white space: up to the end of the white
//! space), so that a rule made of alternatives takes linear time.

use crate::tokenizer::classes::{Class, class, is_letter, is_number, is_other};

/// Splits a text into words, in order and without gaps: the joined words are the text.
pub(crate) type Split = for<'t> fn(text: &'t str, word: &mut dyn FnMut(&'t str));

/// Matcher at the beginning of a text. Returns the length of the match in bytes.
pub(super) type Alternative = fn(&str) -> usize;

/// Returns the length of `text` up to the first character for which `keep` is false.
pub(super) fn run(text: &str, keep: impl Fn(char) -> bool) -> usize {
    text.find(|c| !keep(c)).unwrap_or(text.len())
}

/// Splits `text` by the first stage, every piece of that by the second, and so on. A later stage treats a piece as
/// a whole text, without look-around beyond it.
pub(super) fn stages<'t>(text: &'t str, stages: &[Split], word: &mut dyn FnMut(&'t str)) {
    match stages {
        [] => word(text),
        [last] => last(text, word),
        [first, rest @ ..] => first(text, &mut |piece| self::stages(piece, rest, word)),
    }
}

/// Splits `text` into matches, of the first alternative that matches at each position, and the text between them.
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

/// Matches `\p{L}` or `\p{M}`.
pub(super) fn is_letter_or_mark(c: char) -> bool {
    matches!(class(c), Class::Letter | Class::Mark)
}

/// Matches `[\r\n]`.
pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

/// Returns whether `c` is in one of the ranges, which are ascending.
pub(super) fn in_ranges(c: char, ranges: &[(char, char)]) -> bool {
    let after = ranges.partition_point(|&(first, _)| first <= c);
    after > 0 && c <= ranges[after - 1].1
}

/// Returns the length of the first character of `text` if `is` is true for it, else 0.
pub(super) fn one(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.chars().next().filter(|&c| is(c)).map_or(0, char::len_utf8)
}

/// Matches `\s?BODY+`.
pub(super) fn spaced(text: &str, body: impl Fn(char) -> bool) -> usize {
    let space = one(text, char::is_whitespace);
    match run(&text[space..], &body) {
        // White space may itself match the body.
        0 => run(text, body),
        len => space + len,
    }
}

/// Matches `(?i:'s|'t|'re|'ve|'m|'ll|'d)`, ignoring the case of ASCII letters only: `'ſ` is not a contraction,
/// although case folding would make it `'s`.
pub(super) fn contraction(text: &str) -> usize {
    let &[b'\'', first, ref rest @ ..] = text.as_bytes() else { return 0 };
    match (first.to_ascii_lowercase(), rest.first().map(u8::to_ascii_lowercase)) {
        (b's' | b't' | b'm' | b'd', _) => 2,
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => 3,
        _ => 0,
    }
}

/// Matches `PREFIX?BODY+`; a character may match both.
pub(super) fn prefixed(text: &str, prefix: impl Fn(char) -> bool, body: impl Fn(char) -> bool) -> usize {
    let before = one(text, prefix);
    match run(&text[before..], &body) {
        0 => run(text, body),
        len => before + len,
    }
}

/// Matches `[^\r\n\p{L}\p{N}]`.
pub(super) fn is_prefix(c: char) -> bool {
    !is_line_end(c) && !is_letter(c) && !is_number(c)
}

/// Matches `[^\r\n\p{L}\p{N}]?\p{L}+`.
pub(super) fn prefixed_letters(text: &str) -> usize {
    prefixed(text, is_prefix, is_letter)
}

/// Matches `[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+`.
pub(super) fn prefixed_letters_and_marks(text: &str) -> usize {
    prefixed(text, is_prefix, is_letter_or_mark)
}

/// Matches `\p{N}{1,MAX}`.
pub(super) fn numbers<const MAX: usize>(text: &str) -> usize {
    text.chars().take(MAX).take_while(|&c| is_number(c)).map(char::len_utf8).sum()
}

/// Splits off numbers, in words of at most `MAX` digits.
pub(super) fn isolate_numbers<'t, const MAX: usize>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    isolate(text, &[numbers::<MAX>], word);
}

/// Matches ` ?BODY+TAIL*`, for a body without spaces.
pub(super) fn with_tail(text: &str, body: impl Fn(char) -> bool, tail: impl Fn(char) -> bool) -> usize {
    let space = usize::from(text.starts_with(' '));
    match run(&text[space..], body) {
        0 => 0,
        len => space + len + run(&text[space + len..], tail),
    }
}

/// Matches ` ?[^\s\p{L}\p{N}]+[\r\n]*`.
pub(super) fn others(text: &str) -> usize {
    with_tail(text, is_other, is_line_end)
}

/// Matches ` ?[^\s\p{L}\p{N}]+[\r\n/]*`.
pub(super) fn others_with_slashes(text: &str) -> usize {
    with_tail(text, is_other, |c| is_line_end(c) || c == '/')
}

/// Matches `\s*[\r\n]+`, which equals `\s*[\r\n]`.
pub(super) fn line_ends(text: &str) -> usize {
    let spaces = &text[..run(text, char::is_whitespace)];
    spaces.rfind(['\r', '\n']).map_or(0, |last| last + 1)
}

/// Matches `\s+(?!\S)|\s+`: all white space at the end of the text, otherwise all but its last character, which
/// belongs to the next word (unless it is the only one).
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
