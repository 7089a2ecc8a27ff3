//! Rules of DeepSeek, each a sequence of expressions.
//!
//! * LLM: `[\r\n]`, `\s?LETTERS+`, `\s?PUNCTUATION+`, `\s+$`, `EASTERN+`, `\p{N}+`
//! * Coder: `[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `EASTERN+`, `\p{N}`
//! * V3: `\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+`, and
//!   `ASCII_PUNCTUATION[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
//!
//! A later expression also splits the matches of earlier ones. So `café` becomes `caf` and `é` in the LLM's rule,
//! because the range that ends its ASCII punctuation, `:-~`, contains letters.

use super::alternatives::*;
use crate::tokenizer::classes::{Class, class, is_letter};

/// Cased letters in the LLM's expression.
#[rustfmt::skip]
const LETTERS: &[(char, char)] = &[
    ('\u{41}', '\u{5a}'), ('\u{61}', '\u{7a}'), ('\u{b5}', '\u{b5}'), ('\u{c0}', '\u{d6}'),
    ('\u{d8}', '\u{f6}'), ('\u{f8}', '\u{1ba}'), ('\u{1bc}', '\u{1bf}'), ('\u{1c4}', '\u{293}'),
    ('\u{295}', '\u{2af}'), ('\u{370}', '\u{373}'), ('\u{376}', '\u{377}'), ('\u{37b}', '\u{37d}'),
    ('\u{37f}', '\u{37f}'), ('\u{386}', '\u{386}'), ('\u{388}', '\u{38a}'), ('\u{38c}', '\u{38c}'),
    ('\u{38e}', '\u{3a1}'), ('\u{3a3}', '\u{3f5}'), ('\u{3f7}', '\u{481}'), ('\u{48a}', '\u{52f}'),
    ('\u{531}', '\u{556}'), ('\u{10a0}', '\u{10c5}'), ('\u{13a0}', '\u{13f5}'), ('\u{13f8}', '\u{13fd}'),
    ('\u{1c90}', '\u{1cba}'), ('\u{1cbd}', '\u{1cbf}'), ('\u{1d00}', '\u{1d2b}'), ('\u{1d6b}', '\u{1d77}'),
    ('\u{1d79}', '\u{1d9a}'), ('\u{1e00}', '\u{1f15}'), ('\u{1f18}', '\u{1f1d}'), ('\u{1f20}', '\u{1f45}'),
    ('\u{1f48}', '\u{1f4d}'), ('\u{1f50}', '\u{1f57}'), ('\u{1f59}', '\u{1f59}'), ('\u{1f5b}', '\u{1f5b}'),
    ('\u{1f5d}', '\u{1f5d}'), ('\u{1f5f}', '\u{1f7d}'), ('\u{1f80}', '\u{1fb4}'), ('\u{1fb6}', '\u{1fbc}'),
    ('\u{1fbe}', '\u{1fbe}'), ('\u{1fc2}', '\u{1fc4}'), ('\u{1fc6}', '\u{1fcc}'), ('\u{1fd0}', '\u{1fd3}'),
    ('\u{1fd6}', '\u{1fdb}'), ('\u{1fe0}', '\u{1fec}'), ('\u{1ff2}', '\u{1ff4}'), ('\u{1ff6}', '\u{1ffc}'),
    ('\u{2102}', '\u{2102}'), ('\u{2107}', '\u{2107}'), ('\u{210a}', '\u{2113}'), ('\u{2115}', '\u{2115}'),
    ('\u{2119}', '\u{211d}'), ('\u{2124}', '\u{2124}'), ('\u{2126}', '\u{2126}'), ('\u{2128}', '\u{2128}'),
    ('\u{212a}', '\u{212d}'), ('\u{212f}', '\u{2134}'), ('\u{2139}', '\u{2139}'), ('\u{213c}', '\u{213f}'),
    ('\u{2145}', '\u{2149}'), ('\u{214e}', '\u{214e}'), ('\u{2183}', '\u{2184}'), ('\u{2c00}', '\u{2c7b}'),
    ('\u{2c7e}', '\u{2ce4}'), ('\u{2ceb}', '\u{2cee}'), ('\u{2cf2}', '\u{2cf3}'), ('\u{a640}', '\u{a66d}'),
    ('\u{a680}', '\u{a69b}'), ('\u{a722}', '\u{a76f}'), ('\u{a771}', '\u{a787}'), ('\u{a78b}', '\u{a78e}'),
    ('\u{ab70}', '\u{abbf}'), ('\u{fb00}', '\u{fb06}'), ('\u{fb13}', '\u{fb17}'), ('\u{ff21}', '\u{ff3a}'),
    ('\u{ff41}', '\u{ff5a}'), ('\u{10400}', '\u{1044f}'), ('\u{104b0}', '\u{104d3}'),
    ('\u{104d8}', '\u{104fb}'), ('\u{10c80}', '\u{10cb2}'), ('\u{10cc0}', '\u{10cf2}'),
    ('\u{118a0}', '\u{118df}'), ('\u{1e900}', '\u{1e943}'),
];

/// Punctuation in the LLM's expression. The ideographic space, U+3000, is in the list but treated as white space.
const PUNCTUATION: &[(char, char)] = &[
    ('!', '/'),
    (':', '~'),
    ('\u{2018}', '\u{201f}'),
    ('\u{3001}', '\u{3002}'),
    ('\u{ff01}', '\u{ff0f}'),
    ('\u{ff1a}', '\u{ff5e}'),
];

/// Scripts of East and South Asia, approximated by a wider range. White space in it is excluded.
const EASTERN: &[(char, char)] = &[('\u{800}', '\u{9fa5}'), ('\u{ac00}', '\u{d7ff}')];

/// Ideographs and kana.
const IDEOGRAPHS_AND_KANA: &[(char, char)] = &[('\u{3040}', '\u{30ff}'), ('\u{4e00}', '\u{9fa5}')];

/// Splits by the rule of DeepSeek LLM.
pub(super) fn llm<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn letters<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        isolate(text, &[|text| spaced(text, |c| in_ranges(c, LETTERS))], word);
    }
    fn punctuation<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        isolate(text, &[|text| spaced(text, |c| in_ranges(c, PUNCTUATION))], word);
    }
    fn last_space<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        let (before, space) = text.split_at(text.trim_end().len());
        for piece in [before, space].into_iter().filter(|piece| !piece.is_empty()) {
            word(piece);
        }
    }
    stages(
        text,
        &[single_line_ends, letters, punctuation, last_space, eastern, isolate_numbers::<{ usize::MAX }>],
        word,
    );
}

/// Splits by the rule of DeepSeek Coder.
pub(super) fn coder<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn letters<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        isolate(text, &[|text| spaced(text, is_letter)], word);
    }
    fn punctuation<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        isolate(text, &[|text| spaced(text, |c| class(c) == Class::Punctuation)], word);
    }
    stages(text, &[single_line_ends, letters, punctuation, eastern, isolate_numbers::<1>], word);
}

/// Splits by the rule of DeepSeek V3.
pub(super) fn v3<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    stages(text, &[isolate_numbers::<3>, ideographs_and_kana, v3_main], word);
}

/// Splits by the rule of Spark 2.5: like V3, but with single digits, and line ends are single words.
pub(super) fn spark<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn marks(text: &str) -> usize {
        with_tail(text, is_punctuation_or_symbol, |_| false)
    }
    fn main<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        isolate(text, &[v3_identifier, v3_letters, marks, |text| one(text, is_line_end), white_space], word);
    }
    stages(text, &[isolate_numbers::<1>, ideographs_and_kana, main], word);
}

/// Splits by the last expression of V3.
pub(super) fn v3_main<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn marks(text: &str) -> usize {
        with_tail(text, is_punctuation_or_symbol, is_line_end)
    }
    isolate(text, &[v3_identifier, v3_letters, marks, line_ends, white_space], word);
}

/// Matches `ASCII_PUNCTUATION[A-Za-z]+`.
fn v3_identifier(text: &str) -> usize {
    match one(text, |c| c.is_ascii_punctuation()) {
        0 => 0,
        mark => match run(&text[mark..], |c| c.is_ascii_alphabetic()) {
            0 => 0,
            len => mark + len,
        },
    }
}

/// Matches `[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+`.
fn v3_letters(text: &str) -> usize {
    let prefix = |c| !is_line_end(c) && !is_letter(c) && !is_punctuation_or_symbol(c);
    prefixed(text, prefix, is_letter_or_mark)
}

fn is_punctuation_or_symbol(c: char) -> bool {
    matches!(class(c), Class::Punctuation | Class::Symbol)
}

fn single_line_ends<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    isolate(text, &[|text| one(text, is_line_end)], word);
}

fn eastern<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    isolate(text, &[|text| run(text, |c| in_ranges(c, EASTERN) && !c.is_whitespace())], word);
}

fn ideographs_and_kana<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    isolate(text, &[|text| run(text, |c| in_ranges(c, IDEOGRAPHS_AND_KANA))], word);
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expressions_do() {
        for (text, want) in [
            ("Hello café!", &["Hello", " caf", "é", "!"][..]),
            ("a  1234\n\n", &["a", "  ", "1234", "\n", "\n"]),
            ("中文ไทย  ", &["中文ไทย", "  "]),
            ("\u{3000}x\u{3000}", &["\u{3000}x", "\u{3000}"]),
        ] {
            assert_eq!(words(llm, text), want, "{text:?}");
        }
        assert_eq!(words(coder, "a\tb 12(中\r\n"), ["a", "\tb", " ", "1", "2", "(", "中", "\r", "\n"]);
        for (text, want) in [
            ("x.foo 1234 !?\n", &["x", ".foo", " ", "123", "4", " !?\n"][..]),
            ("中文ひら한", &["中文ひら", "한"]),
            ("\u{301}\u{200d}a  b", &["\u{301}", "\u{200d}a", " ", " b"]),
        ] {
            assert_eq!(words(v3, text), want, "{text:?}");
        }
        assert_eq!(words(spark, "!\n\n12"), ["!", "\n", "\n", "1", "2"]);
    }
}
