//! Rule of Falcon: `[\p{P}\$\+<=>\^~\|`]+`, GPT-2's rule and `[0-9][0-9][0-9]` as successive stages.

use super::alternatives::*;
use super::gpt2;
use crate::tokenizer::classes::{Class, class};

pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn marks<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        let marks = |text: &str| run(text, |c| class(c) == Class::Punctuation || "$+<=>^~|`".contains(c));
        isolate(text, &[marks], word);
    }
    fn threes<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        let three = |text: &str| match text.as_bytes() {
            [a, b, c, ..] if [a, b, c].iter().all(|digit| digit.is_ascii_digit()) => 3,
            _ => 0,
        };
        isolate(text, &[three], word);
    }
    stages(text, &[marks, gpt2::split, threes], word);
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expressions_do() {
        for (text, want) in [
            ("it's 12345", &["it", "'", "s", " ", "123", "45"][..]),
            ("a  (b) °", &["a", "  ", "(", "b", ")", " °"]),
            ("x12 ٣٤٥", &["x", "12", " ٣٤٥"]),
        ] {
            assert_eq!(words(split, text), want, "{text:?}");
        }
    }
}
