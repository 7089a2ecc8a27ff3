//! The rule of GPT-2:
//! `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.

use super::alternatives::{isolate_numbers, run, stages, white_space};
use crate::tokenizer::classes::{is_letter, is_number, is_other};

pub(crate) fn split<'t>(mut text: &'t str, word: &mut dyn FnMut(&'t str)) {
    while !text.is_empty() {
        let (first, rest) = text.split_at(first_word(text));
        word(first);
        text = rest;
    }
}

/// Splits by the rule of StarCoder and similar models: first digits as single words.
pub(super) fn single_digits<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    stages(text, &[isolate_numbers::<1>, split], word);
}

const CONTRACTIONS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

/// Returns the length of the first word of `text`, which is not empty.
fn first_word(text: &str) -> usize {
    if text.starts_with('\'')
        && let Some(found) = CONTRACTIONS.iter().find(|c| text.starts_with(**c))
    {
        return found.len();
    }
    let space = usize::from(text.starts_with(' '));
    let body = &text[space..];
    for class in [is_letter, is_number, is_other] {
        let len = run(body, class);
        if len > 0 {
            return space + len;
        }
    }
    white_space(text)
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expression_does() {
        for (text, want) in [
            ("Hello world", &["Hello", " world"][..]),
            ("I'll don't 'S", &["I", "'ll", " don", "'t", " '", "S"]),
            ("'re'x", &["'re", "'", "x"]),
            ("a   b", &["a", "  ", " b"]),
            ("a \n b\n", &["a", " \n", " b", "\n"]),
            ("  ", &["  "]),
            (" 12٣a!? ", &[" 12٣", "a", "!?", " "]),
            ("\t x", &["\t", " x"]),
            ("\u{3000}x", &["\u{3000}", "x"]),
            ("🦙 🦙\u{200d}", &["🦙", " 🦙\u{200d}"]),
        ] {
            assert_eq!(words(split, text), want, "{text:?}");
        }
        assert_eq!(words(single_digits, "a  12 b"), ["a", "  ", "1", "2", " b"]);
    }
}
