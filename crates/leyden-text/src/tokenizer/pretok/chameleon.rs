//! Rule of Chameleon: `<sentinel:[0-9]+>`, `(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`, `([\t\n]|    |  )`, `\p{N}`,
//! `[\p{P}!-/:-@\[-`{-~]` and GPT-2's rule as successive stages.

use super::alternatives::*;
use super::gpt2;
use crate::tokenizer::classes::{Class, class};

pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn sentinels<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        isolate(text, &[sentinel], word);
    }
    fn images<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        isolate(text, &[image], word);
    }
    fn spaces<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        let spaces = |text: &str| {
            ["\t", "\n", "    ", "  "].iter().find(|s| text.starts_with(**s)).map_or(0, |s| s.len())
        };
        isolate(text, &[spaces], word);
    }
    fn marks<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        let mark = |text: &str| one(text, |c| c.is_ascii_punctuation() || class(c) == Class::Punctuation);
        isolate(text, &[mark], word);
    }
    stages(text, &[sentinels, images, spaces, isolate_numbers::<1>, marks, gpt2::split], word);
}

fn sentinel(text: &str) -> usize {
    const BEFORE: &str = "<sentinel:";
    let Some(rest) = text.strip_prefix(BEFORE) else { return 0 };
    match run(rest, |c| c.is_ascii_digit()) {
        0 => 0,
        digits => {
            if rest[digits..].starts_with('>') {
                BEFORE.len() + digits + 1
            } else {
                0
            }
        }
    }
}

fn image(text: &str) -> usize {
    const BEFORE: &str = "IMGIMG";
    let Some(rest) = text.strip_prefix(BEFORE) else { return 0 };
    match run(rest, |c| matches!(c, 'A'..='I')) {
        letters @ 1..=4 if rest[letters..].starts_with('Z') => BEFORE.len() + letters + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expressions_do() {
        for (text, want) in [
            ("a<sentinel:12>b", &["a", "<", "sentinel", ":", "1", "2", ">", "b"][..]),
            ("xIMGIMGABZy IMGIMGZ", &["x", "IMGIMGABZ", "y", " IMGIMGZ"]),
            ("a     b\n12…", &["a", "    ", " b", "\n", "1", "2", "…"]),
        ] {
            assert_eq!(words(split, text), want, "{text:?}");
        }
    }
}
