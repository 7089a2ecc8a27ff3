//! Rules that group digits in threes from the end of a number: AFMoE (followed by `ASIAN+` and the last expression
//! of DeepSeek V3) and Tiny Aya (followed by o200k's rule without cases).

use super::alternatives::*;
use super::{deepseek, o200k};
use crate::tokenizer::classes::is_number;

/// Scripts of AFMoE's expression. One of its ranges begins at U+F900, a compatibility ideograph that normalizes to
/// U+8C48, and so covers most of the characters in between.
const ASIAN: &[(char, char)] = &[
    ('\u{e40}', '\u{eff}'),
    ('\u{1000}', '\u{109f}'),
    ('\u{1100}', '\u{11ff}'),
    ('\u{1780}', '\u{17ff}'),
    ('\u{2f00}', '\u{2fdf}'),
    ('\u{3040}', '\u{30ff}'),
    ('\u{3400}', '\u{4dbf}'),
    ('\u{4e00}', '\u{faff}'),
    ('\u{ff65}', '\u{ff9f}'),
];

pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn asian<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        isolate(text, &[|text| run(text, |c| in_ranges(c, ASIAN))], word);
    }
    stages(text, &[threes, asian, deepseek::v3_main], word);
}

pub(super) fn tiny_aya<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    stages(text, &[threes, o200k::caseless::<3>], word);
}

/// Splits after each group of digits. Text before a number stays with its first group; later stages split it off.
fn threes<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    let (mut start, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        let number = &text[at..at + run(&text[at..], is_number)];
        let digits = number.chars().count();
        for (n, (last, c)) in (1..).zip(number.char_indices()) {
            let end = at + last + c.len_utf8();
            if (digits - n).is_multiple_of(3) {
                word(&text[start..end]);
                start = end;
            }
        }
        at += if digits > 0 { number.len() } else { c.len_utf8() };
    }
    if start < text.len() {
        word(&text[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expressions_do() {
        for (text, want) in [
            ("abc1234 12", &["abc1", "234", " 12"][..]),
            ("1234567", &["1", "234", "567"]),
            ("x123", &["x123"]),
        ] {
            assert_eq!(words(threes, text), want, "{text:?}");
        }
        assert_eq!(words(split, "x 1234中文.ab"), ["x", " ", "1", "234", "中文", ".ab"]);
        assert_eq!(words(tiny_aya, "x's 1234/"), ["x's", " ", "1", "234", "/"]);
    }
}
