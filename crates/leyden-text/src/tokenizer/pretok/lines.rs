//! Rules that split at line ends first: `[^\n]+|[\n]+`.

use super::alternatives::{run, stages};
use super::cl100k;

/// Splits at line ends only, for vocabularies of raw text, whose tokens may span words.
pub(crate) fn split<'t>(mut text: &'t str, word: &mut dyn FnMut(&'t str)) {
    while let Some(first) = text.chars().next() {
        let (piece, rest) = text.split_at(run(text, |c| (c == '\n') == (first == '\n')));
        word(piece);
        text = rest;
    }
}

/// Splits by the rule of Laguna: at line ends, then by the rule of Qwen 2.
pub(super) fn laguna<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    stages(text, &[split, cl100k::split::<1>], word);
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expression_does() {
        assert_eq!(words(split, "\n\na b\r\n\n c"), ["\n\n", "a b\r", "\n\n", " c"]);
        assert_eq!(words(laguna, "a!\n 12"), ["a", "!", "\n", " ", "1", "2"]);
    }
}
