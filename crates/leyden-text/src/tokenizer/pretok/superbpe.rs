//! Rule of SuperBPE: `\p{N}+`, then a split at each match of `(?=(\d{3})+(?!\d))`. Only numbers are split off, in
//! threes counted from their end.

use super::alternatives::*;

pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    stages(text, &[isolate_numbers::<{ usize::MAX }>, before_threes], word);
}

/// Splits before every ASCII digit that begins a run of digits whose length is a multiple of three.
fn before_threes<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    let bytes = text.as_bytes();
    let (mut start, mut at) = (0, 0);
    while at < bytes.len() {
        let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        for cut in (at..at + digits).filter(|cut| (at + digits - cut).is_multiple_of(3)) {
            if start < cut {
                word(&text[start..cut]);
                start = cut;
            }
        }
        at += digits.max(1);
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
            ("Hello there, 1234567 x", &["Hello there, ", "1", "234", "567", " x"][..]),
            ("12²345", &["12²", "345"]),
            ("1234²56", &["1", "234²56"]),
        ] {
            assert_eq!(words(split, text), want, "{text:?}");
        }
    }
}
