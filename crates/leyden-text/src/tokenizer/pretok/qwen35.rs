//! The rule of Qwen 3.5, in which marks belong to letters:
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.

use super::alternatives::*;
use crate::tokenizer::classes::is_other;

pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn others(text: &str) -> usize {
        with_tail(text, |c| is_other(c) && !is_letter_or_mark(c), is_line_end)
    }
    isolate(
        text,
        &[contraction, prefixed_letters_and_marks, numbers::<1>, others, line_ends, white_space],
        word,
    );
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expression_does() {
        for (text, want) in [
            ("e\u{301}a'S 12", &["e\u{301}a", "'S", " ", "1", "2"][..]),
            ("!\u{301} !?\u{301}\n", &["!\u{301}", " !?", "\u{301}", "\n"]),
            ("\u{301}", &["\u{301}"]),
        ] {
            assert_eq!(words(split, text), want, "{text:?}");
        }
    }
}
