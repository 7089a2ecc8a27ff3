//! Rules of Bloom, ` ?[^(\s|.,!?…。，、।۔،)]+`, and Viking, which additionally splits off single digits.
//!
//! The parentheses were meant as a group, but are part of the character class.

use super::alternatives::*;

pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    const STOPS: &str = "(|.,!?…。，、।۔،)";
    isolate(text, &[|text| with_tail(text, |c| !c.is_whitespace() && !STOPS.contains(c), |_| false)], word);
}

pub(super) fn viking<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    stages(text, &[split, isolate_numbers::<1>], word);
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expressions_do() {
        for (text, want) in [
            ("Hello, world!? x-1", &["Hello", ",", " world", "!?", " x-1"][..]),
            ("a \n b", &["a", " \n", " b"]),
            ("(a|b)", &["(", "a", "|", "b", ")"]),
        ] {
            assert_eq!(words(split, text), want, "{text:?}");
        }
        assert_eq!(words(viking, "x-12 a"), ["x-", "1", "2", " a"]);
    }
}
