//! The last rule: cores of letters, digits and signs in any order, said part by part.

use super::context::{Context, Kind, Spoken};
use super::signs;
use crate::numbers::{self, Number};

/// Number of digits above which digits beside letters are said one by one.
const MAX_DIGITS: usize = 4;

pub(super) fn anything(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let around = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let between_numbers = around(context.before()) && context.next(1, "").is_some_and(around);
    let mut spoken = Spoken::default();
    match core {
        "*" | "x" | "X" if between_numbers => spoken.push("times"),
        "*" => {}
        "-" if between_numbers => spoken.push("minus"),
        "-" => spoken.kinds.push(Kind::Mark('—')),
        "/" if between_numbers => spoken.push("divided by"),
        "~" if context.next(1, "").is_some_and(around) => spoken.push("about"),
        "and/or" => spoken.push("and or"),
        "w/o" => spoken.push("without"),
        "w/" => spoken.push("with"),
        _ => say(core, &mut spoken),
    }
    Some(spoken)
}

/// Says a text part by part.
pub(super) fn say(text: &str, spoken: &mut Spoken) {
    let mut rest = text;
    while let Some(symbol) = rest.chars().next() {
        let used = if symbol.is_ascii_digit() {
            number(rest, spoken)
        } else if signs::latin(symbol).is_some() {
            word(rest, spoken)
        } else {
            sign(rest, text.len() - rest.len(), text, spoken)
        };
        rest = &rest[used..];
    }
}

/// Says the digits in front, with separators and point; returns their bytes.
fn number(text: &str, spoken: &mut Spoken) -> usize {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ',' || c == '.')).unwrap_or(text.len());
    let whole = text[..end].trim_end_matches([',', '.']);
    let beside_letters = text.len() > whole.len();
    match Number::read(whole) {
        Some(number) if !(beside_letters && number.whole.len() > MAX_DIGITS && number.is_plain()) => {
            spoken.push(&number.words());
            whole.len()
        }
        _ => {
            let n = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            spoken.push(&numbers::digits(&text[..n]));
            n
        }
    }
}

/// Says the Latin letters in front as one word, apostrophes and hyphens between letters included; returns their bytes.
fn word(text: &str, spoken: &mut Spoken) -> usize {
    let mut out = String::new();
    let mut end = 0;
    for (at, symbol) in text.char_indices() {
        if let Some(plain) = signs::latin(symbol) {
            out.push_str(&plain);
        } else if matches!(symbol, '\'' | '-') && text[at + 1..].starts_with(|c| signs::latin(c).is_some()) {
            out.push(symbol);
        } else if !signs::is_accent(symbol) {
            break;
        }
        end = at + symbol.len_utf8();
    }
    spoken.kinds.push(Kind::Word(out));
    end
}

/// Says one sign, or a run of letters of another script; returns its bytes.
fn sign(text: &str, at: usize, whole: &str, spoken: &mut Spoken) -> usize {
    let symbol = text.chars().next().unwrap_or(' ');
    let size = symbol.len_utf8();
    let next = text[size..].chars().next();
    let before = whole[..at].chars().next_back();
    match symbol {
        '.' if next.is_some_and(|c| c.is_ascii_digit()) && before.is_some_and(|c| c.is_ascii_digit()) => {
            spoken.push("point")
        }
        '.' if next.is_some_and(char::is_alphanumeric) => spoken.push("dot"),
        '\'' | '-' | '"' | '`' => {}
        '–' if before.is_some_and(char::is_alphanumeric) => {}
        '°' if matches!(next, Some('C' | 'F')) => spoken.push("degrees"),
        '#' if next.is_some_and(|c| c.is_ascii_digit()) => spoken.push("number"),
        '#' if next.is_some_and(char::is_alphabetic) => spoken.push("hashtag"),
        '#' if before == Some('C') || before == Some('F') => spoken.push("sharp"),
        '~' if next.is_some_and(|c| c.is_ascii_digit()) => spoken.push("about"),
        _ if signs::is_accent(symbol) || signs::is_invisible(symbol) => {}
        _ => {
            if let Some(mark) = signs::closing(symbol).or_else(|| signs::opening(symbol)) {
                spoken.kinds.push(Kind::Mark(mark));
            } else if let Some(name) = signs::name(symbol) {
                spoken.push(name);
            } else {
                let group = signs::group(symbol);
                spoken.push(group);
                // A run of one script is said once.
                let same =
                    |c: char| signs::group(c) == group && signs::name(c).is_none() || signs::is_accent(c);
                return text.find(|c| !same(c)).unwrap_or(text.len()).max(size);
            }
        }
    }
    size
}
