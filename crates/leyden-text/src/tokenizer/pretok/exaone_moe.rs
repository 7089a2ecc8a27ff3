//! The rule of EXAONE MoE, in which single spaces do not end a word:
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`.

use super::alternatives::*;
use crate::tokenizer::classes::{Class, class, is_letter, is_other};

pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn others(text: &str) -> usize {
        match with_tail(text, is_other, |_| false) {
            0 => 0,
            len => len + one(&text[len..], |c| is_line_end(c) || c == '/'),
        }
    }
    isolate(text, &[contraction, phrase, numbers::<1>, others, line_ends, white_space], word);
}

/// Matches letters, each with its marks, adjacent or separated by one space.
fn phrase(text: &str) -> usize {
    let prefix = one(text, is_prefix);
    let mut end = prefix;
    loop {
        let space = usize::from(end > prefix && text[end..].starts_with(' '));
        match one(&text[end + space..], is_letter) {
            0 => return if end > prefix { end } else { 0 },
            letter => end += space + letter,
        }
        end += run(&text[end..], |c| class(c) == Class::Mark);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expression_does() {
        for (text, want) in [
            ("Hello big world, I'm", &["Hello big world", ",", " I", "'m"][..]),
            ("e\u{301} a  b", &["e\u{301} a", " ", " b"]),
            ("\u{301}a \u{301}", &["\u{301}a", " \u{301}"]),
            ("!//\n\nx 12", &["!//\n", "\n", "x", " ", "1", "2"]),
        ] {
            assert_eq!(words(split, text), want, "{text:?}");
        }
    }
}
