//! The family of cl100k (Llama 3 with digits in threes, Qwen 2 with single digits):
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.

use super::alternatives::*;
use crate::tokenizer::classes::is_other;

pub(crate) fn split<'t, const DIGITS: usize>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    isolate(text, &[contraction, prefixed_letters, numbers::<DIGITS>, others, line_ends, white_space], word);
}

/// Splits by the rule of MiniCPM 5: first numbers in threes, so that white space before a number is one word.
pub(super) fn minicpm5<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    stages(text, &[isolate_numbers::<3>, split::<3>], word);
}

/// Splits with single digits and without contractions, so that the text after an apostrophe stays with it, as
/// suffixes do in Turkish.
pub(super) fn without_contractions<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    isolate(text, &[prefixed_letters, numbers::<1>, others, line_ends, white_space], word);
}

/// Splits with single digits, and line ends that do not attach to punctuation.
pub(super) fn without_tails<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn others(text: &str) -> usize {
        with_tail(text, is_other, |_| false)
    }
    isolate(text, &[contraction, prefixed_letters, numbers::<1>, others, line_ends, white_space], word);
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
        assert_eq!(words(minicpm5, "a  1234"), ["a", "  ", "123", "4"]);
        assert_eq!(words(without_contractions, "it's"), ["it", "'s"]);
        assert_eq!(words(without_contractions, "'12"), ["'", "1", "2"]);
        assert_eq!(words(without_tails, "!\n"), ["!", "\n"]);
    }
}
