//! The rule of Kimi K2, in which ideographs are words of their own:
//! `\p{Han}+|[^\r\n\p{L}\p{N}]?[\p{L}&&[^\p{Han}]]+CONTRACTION?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
//!
//! In the published expression the letters are o200k's, with upper and lower case and marks. GGUF vocabularies
//! match llama.cpp's interpretation: any letters, and no marks.

use super::alternatives::*;
use crate::tokenizer::classes::is_letter;

/// Blocks of ideographs.
const HAN: &[(char, char)] = &[
    ('\u{3400}', '\u{4dbf}'),
    ('\u{4e00}', '\u{9fff}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{20000}', '\u{2a6df}'),
    ('\u{2a700}', '\u{2ebef}'),
    ('\u{2f800}', '\u{2fa1f}'),
];

fn is_han(c: char) -> bool {
    in_ranges(c, HAN)
}

pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn letters(text: &str) -> usize {
        match prefixed(text, is_prefix, |c| is_letter(c) && !is_han(c)) {
            0 => 0,
            len => len + contraction(&text[len..]),
        }
    }
    fn ideographs(text: &str) -> usize {
        run(text, is_han)
    }
    isolate(text, &[ideographs, letters, numbers::<3>, others, line_ends, white_space], word);
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expression_does() {
        for (text, want) in [
            ("中文abc's 1234", &["中文", "abc's", " ", "123", "4"][..]),
            ("ひら中 中!\n", &["ひら", "中", " ", "中", "!\n"]),
            ("!abCD", &["!abCD"]),
        ] {
            assert_eq!(words(split, text), want, "{text:?}");
        }
    }
}
