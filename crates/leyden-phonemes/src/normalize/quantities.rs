//! Plain numbers, years, ranges, fractions, ordinals, numbers of telephones and of versions.

use super::context::{Context, Spoken};
use super::signs;
use crate::numbers::{self, Number};

/// Words before which four digits count things.
const COUNTED: &[&str] =
    &["people", "men", "women", "children", "feet", "percent", "of", "million", "thousand"];

/// Words with an s at their end that no number counts.
const NOT_COUNTED: &[&str] = &["was", "is", "has", "as", "this", "its", "his", "us", "does", "versus"];

pub(super) fn number(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let number = Number::read(core)?;
    let next = context.next(1, "");
    if number.is_plain()
        && let Some(part) =
            next.and_then(|text| text.split_once('/')).filter(|(top, bottom)| is_part(top, bottom))
    {
        return Some(Spoken::words(&format!("{} and {}", number.words(), a_part(part.0, part.1))).using(1));
    }
    if number.is_plain() && is_year(&number.whole, next) {
        return Some(Spoken::words(&numbers::year(&number.whole)));
    }
    Some(Spoken::words(&number.words()))
}

/// Returns true for four digits that are a year: from 1100 to 2099, and nothing is counted.
fn is_year(digits: &str, next: Option<&str>) -> bool {
    let counts = next.is_some_and(|next| {
        COUNTED.contains(&next)
            || next.len() > 3
                && next.ends_with('s')
                && next.starts_with(|c: char| c.is_ascii_lowercase())
                && !NOT_COUNTED.contains(&next)
    });
    digits.len() == 4 && ("1100"..="2099").contains(&digits) && !counts
}

/// Returns true if `top/bottom` is a part of one.
fn is_part(top: &str, bottom: &str) -> bool {
    let value = |text: &str| {
        text.parse::<u32>().ok().filter(|_| text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit()))
    };
    matches!((value(top), value(bottom)), (Some(top), Some(bottom)) if 0 < top && top < bottom && bottom <= 100)
}

/// Returns a fraction after a whole number.
fn a_part(top: &str, bottom: &str) -> String {
    let words = numbers::fraction(top, bottom);
    words.strip_prefix("one ").map_or_else(
        || words.clone(),
        |part| format!("{} {part}", if part.starts_with("eigh") { "an" } else { "a" }),
    )
}

pub(super) fn range(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let (from, to) = core.split_once(['-', '–', '—']).filter(|(from, _)| !from.is_empty())?;
    let (first, second) = (Number::read(from)?, Number::read(to)?);
    if first.sign.is_some() || second.sign.is_some() || to.starts_with('0') {
        return None;
    }
    let years = first.is_plain() && second.is_plain() && is_year(from, None);
    let says = |number: &Number| if years { numbers::year(&number.whole) } else { number.words() };
    // Three digits and four are the number of a telephone.
    if core.contains('-') && from.len() == 3 && to.len() == 4 {
        return None;
    }
    Some(Spoken::words(&format!("{} to {}", says(&first), says(&second))))
}

pub(super) fn fraction(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    match core {
        "24/7" => return Some(Spoken::words("twenty four seven")),
        "9/11" => return Some(Spoken::words("nine eleven")),
        _ => {}
    }
    if let Some((whole, part)) = core.char_indices().next_back().and_then(|(at, symbol)| {
        let name = signs::name(symbol).filter(|_| "½⅓⅔¼¾⅛⅜⅝⅞⅕⅖⅗⅘⅙⅚".contains(symbol))?;
        Some((&core[..at], name))
    }) {
        if whole.is_empty() {
            return Some(Spoken::words(part));
        }
        let number = Number::read(whole)?;
        let part = part.strip_prefix("one ").map_or_else(
            || part.to_owned(),
            |part| format!("{} {part}", if part.starts_with("eigh") { "an" } else { "a" }),
        );
        return Some(Spoken::words(&format!("{} and {part}", number.words())));
    }
    let (top, bottom) = core.split_once('/')?;
    let plain = |text: &str| Number::read(text).is_some_and(|number| number.is_plain());
    (plain(top) && plain(bottom)).then(|| Spoken::words(&numbers::fraction(top, bottom)))
}

/// Returns "1st" and its like, "21st-century" included; a plural such as "4ths" is left to other rules.
pub(super) fn ordinal(context: Context<'_>) -> Option<Spoken> {
    let (first, rest) =
        context.core().split_once('-').map_or((context.core(), None), |(first, rest)| (first, Some(rest)));
    let digits = ["st", "nd", "rd", "th", "ST", "ND", "RD", "TH"]
        .iter()
        .find_map(|ending| first.strip_suffix(ending))?;
    let number = Number::read(digits).filter(|number| number.sign.is_none() && number.fraction.is_none())?;
    let mut spoken = Spoken::words(&numbers::ordinal(&number.whole));
    if let Some(rest) = rest {
        super::mixed::say(rest, &mut spoken);
    }
    Some(spoken)
}

/// Returns numbers of telephones and the like: groups of digits between hyphens, with a plus before them, digit by digit.
pub(super) fn telephone(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let groups: Vec<&str> = core.strip_prefix('+').unwrap_or(core).split(['-', '.']).collect();
    let digits = groups.iter().all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()));
    let shape: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let known =
        matches!(shape[..], [3, 4] | [3, 3, 4] | [1, 3, 3, 4]) || core.contains('-') && groups.len() > 2;
    if !digits || !known {
        return None;
    }
    let mut words: Vec<String> = groups.iter().map(|group| numbers::digits(group)).collect();
    if core.starts_with('+') {
        words.insert(0, "plus".to_owned());
    }
    Some(Spoken::words(&words.join(" ")))
}

/// Returns numbers with several points: v1.2, 1.2.3, 192.168.1.1.
pub(super) fn version(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let (front, rest) = match core.strip_prefix(['v', 'V']) {
        Some(rest) => ("version ", rest),
        None => ("", core),
    };
    let groups: Vec<&str> = rest.split('.').collect();
    let digits = groups.iter().all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()));
    if !digits || front.is_empty() && groups.len() < 3 {
        return None;
    }
    let words: Vec<String> = groups.iter().map(|group| numbers::cardinal(group)).collect();
    Some(Spoken::words(&format!(
        "{front}{}",
        words.join(if groups.len() == 4 { " dot " } else { " point " })
    )))
}
