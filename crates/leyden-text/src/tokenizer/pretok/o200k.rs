//! The family of o200k, in which a change from lower to upper case begins a new word:
//! `PREFIX?UPPER*LOWER+CONTRACTION?|PREFIX?UPPER+LOWER*CONTRACTION?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
//! with `[^\r\n\p{L}\p{N}]` as the prefix.
//!
//! In the published expression, upper case is `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`. GGUF vocabularies match
//! llama.cpp's interpretation: only the letters A to Z and a to z have a case, every other letter counts as both,
//! and marks belong to words in one vocabulary only.

use super::alternatives::*;
use crate::tokenizer::classes::is_letter;

/// Splits by the rule of GPT-4o and similar models.
pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn letters(text: &str) -> usize {
        with_contraction(text, cased(text, is_letter))
    }
    isolate(text, &[letters, numbers::<3>, others_with_slashes, line_ends, white_space], word);
}

/// Splits by the rule of Granite Embedding Multilingual: marks count as letters.
pub(super) fn with_marks<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn letters(text: &str) -> usize {
        with_contraction(text, cased(text, is_letter_or_mark))
    }
    isolate(text, &[letters, numbers::<3>, others_with_slashes, line_ends, white_space], word);
}

/// Splits by the rule of Tekken (Mistral): no contractions, single digits.
pub(super) fn tekken<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn letters(text: &str) -> usize {
        cased(text, is_letter)
    }
    isolate(text, &[letters, numbers::<1>, others_with_slashes, line_ends, white_space], word);
}

/// Splits by the main part of the rules of Tiny Aya (digits in threes) and Youtu (single digits), with the classes
/// of the published expression. In llama.cpp's interpretation, any letter or mark then is in both classes.
pub(super) fn caseless<'t, const DIGITS: usize>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn letters(text: &str) -> usize {
        with_contraction(text, prefixed_letters_and_marks(text))
    }
    isolate(text, &[letters, numbers::<DIGITS>, others_with_slashes, line_ends, white_space], word);
}

/// Returns the length of the word of `len` bytes at the beginning of `text` with an optional contraction.
fn with_contraction(text: &str, len: usize) -> usize {
    if len == 0 { 0 } else { len + contraction(&text[len..]) }
}

/// Matches `PREFIX?UPPER*LOWER+|PREFIX?UPPER+LOWER*`.
fn cased(text: &str, letter: impl Fn(char) -> bool) -> usize {
    let upper = |c: char| !c.is_ascii_lowercase() && letter(c);
    let lower = |c: char| !c.is_ascii_uppercase() && letter(c);
    // `UPPER*LOWER+`: characters of both classes are given back until a lower-case letter follows.
    let ends_lower = |text: &str| {
        let (above, below) = text.split_at(run(text, upper));
        match run(below, lower) {
            0 => above.char_indices().rfind(|&(_, c)| lower(c)).map_or(0, |(at, c)| at + c.len_utf8()),
            len => above.len() + len,
        }
    };
    let before = one(text, is_prefix);
    // A mark may be the prefix or part of the word.
    let starts = if before > 0 { &[before, 0][..] } else { &[0] };
    let ends_lower = starts.iter().map(|&start| (start, ends_lower(&text[start..])));
    let all_upper = starts.iter().map(|&start| (start, run(&text[start..], upper)));
    ends_lower.chain(all_upper).find(|&(_, len)| len > 0).map_or(0, |(start, len)| start + len)
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expression_does() {
        for (text, want) in [
            ("HelloWorld's camelCaseXML", &["Hello", "World's", " camel", "Case", "XML"][..]),
            ("ABéCD éA", &["ABé", "CD", " é", "A"]),
            ("1234 a/b//\n", &["123", "4", " a", "/b", "//\n"]),
            ("it'S'll \u{301}a", &["it'S", "'ll", " \u{301}", "a"]),
            ("A\u{301}b", &["A", "\u{301}b"]),
            (" 'a", &[" '", "a"]),
        ] {
            assert_eq!(words(split, text), want, "{text:?}");
        }
        assert_eq!(words(tekken, "it's 12"), ["it", "'s", " ", "1", "2"]);
        assert_eq!(words(with_marks, "A\u{301}b !\u{301}AB"), ["A\u{301}b", " !\u{301}", "AB"]);
        assert_eq!(words(caseless::<1>, "aB\u{301}'s"), ["aB\u{301}'s"]);
    }
}
