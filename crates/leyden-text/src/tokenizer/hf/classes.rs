//! Character classes of the `tokenizers` library.

use std::borrow::Cow;

use super::tables::{CONTROL, MARKS, NONSPACING, NOT_NORMALIZED, PUNCTUATION, RECLASSIFIED, WORD};

fn within(table: &[(u32, u32)], c: char) -> bool {
    let at = table.partition_point(|&(_, last)| last < u32::from(c));
    table.get(at).is_some_and(|&(first, _)| first <= u32::from(c))
}

/// Returns whether a character matches `\w`: letters, marks, digits, connectors.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || within(&WORD, c)
}

pub(super) fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || (!c.is_ascii() && within(&PUNCTUATION, c))
}

/// Returns whether the BERT normalizer removes a character as a control character.
pub(super) fn is_control(c: char) -> bool {
    !matches!(c, ' '..='~') && within(&CONTROL, c)
}

pub(super) fn is_nonspacing_mark(c: char) -> bool {
    !c.is_ascii() && within(&NONSPACING, c)
}

pub(super) fn is_mark(c: char) -> bool {
    !c.is_ascii() && within(&MARKS, c)
}

/// Returns whether the library's older Unicode version does not normalize the character.
pub(super) fn is_not_normalized(c: char) -> bool {
    !c.is_ascii() && within(&NOT_NORMALIZED, c)
}

/// Substitutes characters so that a rule of `pretok` splits the text as the library's regular expression does.
///
/// The library uses a later version of Unicode; and with case ignored it takes `ſ` for an `s`, which matters in
/// contractions only. The characters concerned are replaced by others of the same length and the correct class. Few
/// texts contain any.
pub(super) fn as_pretok_reads(text: &str, ignores_case: bool) -> Cow<'_, str> {
    /// First character whose class differs in Unicode 16.
    const FIRST: char = '\u{897}';
    let substitute = |c: char| {
        if c < FIRST {
            return None;
        }
        let at = RECLASSIFIED.partition_point(|row| row.1 < u32::from(c));
        RECLASSIFIED.get(at).filter(|row| row.0 <= u32::from(c)).map(|row| row.2)
    };
    let contraction = ignores_case && text.contains("'ſ");
    if text.is_ascii() || (!contraction && !text.chars().any(|c| substitute(c).is_some())) {
        return Cow::Borrowed(text);
    }
    let text: String = text.chars().map(|c| substitute(c).unwrap_or(c)).collect();
    // Both contractions have three bytes.
    Cow::Owned(if contraction { text.replace("'ſ", "'re") } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::classes::class;

    #[test]
    fn substitutes_have_the_length_of_what_they_replace() {
        for &(first, last, substitute) in &RECLASSIFIED {
            for c in (first..=last).map(|c| char::from_u32(c).unwrap()) {
                assert_eq!(c.len_utf8(), substitute.len_utf8());
                assert_ne!(class(c), class(substitute), "{c:?}");
            }
        }
        assert_eq!(as_pretok_reads("it'ſ \u{897}", true), "it're \u{20d0}");
        assert_eq!(as_pretok_reads("it'ſ é", false), "it'ſ é");
    }

    #[test]
    fn classes_of_well_known_characters() {
        assert!(is_word('é') && is_word('_') && is_word('٣') && !is_word('-') && !is_word('²'));
        assert!(is_punctuation('$') && is_punctuation('。') && !is_punctuation('€'));
        assert!(is_control('\0') && is_control('\u{200d}') && !is_control('\u{fffe}') && !is_control(' '));
        assert!(is_nonspacing_mark('\u{301}') && !is_nonspacing_mark('\u{903}') && is_mark('\u{903}'));
    }
}
