//! The family of cl100k (Llama 3 with digits in threes, Qwen 2 with single digits):
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
//!
//! The contractions ignore the case of ASCII letters only: `'ſ` is not one, although case folding would
//! make it `'s`.

use super::{run, white_space};
use crate::tokenizer::classes::{is_letter, is_number, is_other};

pub(super) fn split<'t, const DIGITS: usize>(mut text: &'t str, word: &mut dyn FnMut(&'t str)) {
    while !text.is_empty() {
        let (first, rest) = text.split_at(first_word(text, DIGITS));
        word(first);
        text = rest;
    }
}

/// The bytes of the first word of `text`, which is not empty.
fn first_word(text: &str, digits: usize) -> usize {
    if let Some(len) = contraction(text) {
        return len;
    }
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return 0 };
    let rest = chars.as_str();
    // `[^\r\n\p{L}\p{N}]?\p{L}+`
    if is_letter(first) || (!matches!(first, '\r' | '\n') && !is_number(first) && rest.starts_with(is_letter))
    {
        return first.len_utf8() + run(rest, is_letter);
    }
    if is_number(first) {
        return text.chars().take(digits).take_while(|&c| is_number(c)).map(char::len_utf8).sum();
    }
    // ` ?[^\s\p{L}\p{N}]+[\r\n]*`
    let space = usize::from(first == ' ');
    let len = run(&text[space..], is_other);
    if len > 0 {
        let end = space + len;
        return end + run(&text[end..], |c| matches!(c, '\r' | '\n'));
    }
    // `\s*[\r\n]+`
    let spaces = &text[..run(text, char::is_whitespace)];
    if let Some(last) = spaces.rfind(['\r', '\n']) {
        return last + 1;
    }
    white_space(text)
}

/// The bytes of the contraction that `text` begins with.
fn contraction(text: &str) -> Option<usize> {
    let &[b'\'', first, ref rest @ ..] = text.as_bytes() else { return None };
    match (first.to_ascii_lowercase(), rest.first().map(u8::to_ascii_lowercase)) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expression_does() {
        for (text, want) in [
            ("Hello world!", &["Hello", " world", "!"][..]),
            ("I'LL DON'T 'ſ 'R", &["I", "'LL", " DON", "'T", " '", "ſ", " '", "R"]),
            ("12345 6", &["123", "45", " ", "6"]),
            ("a   b\n\n c", &["a", "  ", " b", "\n\n", " c"]),
            ("x \r\n \t", &["x", " \r\n", " \t"]),
            ("!?\n\nx", &["!?\n\n", "x"]),
            (" !x", &[" !", "x"]),
            ("\tword\nword", &["\tword", "\n", "word"]),
            ("#word##word", &["#word", "##", "word"]),
            ("²٣४5", &["²٣४", "5"]),
            ("  ", &["  "]),
            (" ", &[" "]),
        ] {
            assert_eq!(words(split::<3>, text), want, "{text:?}");
        }
        assert_eq!(words(split::<1>, "12 3"), ["1", "2", " ", "3"]);
    }
}
