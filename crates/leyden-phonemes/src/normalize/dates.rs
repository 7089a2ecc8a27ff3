//! Dates in the orders of American, British and international writing, and decades.

use super::context::{Context, Spoken};
use crate::numbers;

/// Months with their abbreviations.
const MONTHS: [(&str, &[&str]); 12] = [
    ("January", &["jan"]),
    ("February", &["feb"]),
    ("March", &["mar"]),
    ("April", &["apr"]),
    ("May", &[]),
    ("June", &["jun"]),
    ("July", &["jul"]),
    ("August", &["aug"]),
    ("September", &["sep", "sept"]),
    ("October", &["oct"]),
    ("November", &["nov"]),
    ("December", &["dec"]),
];

/// Returns the full name of a month that is written with a capital.
pub(super) fn month(text: &str) -> Option<&'static str> {
    if !text.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    MONTHS
        .iter()
        .find(|(name, short)| name.eq_ignore_ascii_case(&lower) || short.contains(&lower.as_str()))
        .map(|&(name, _)| name)
}

/// Returns the digits of a day of the month, with or without the ending of an ordinal.
fn day(text: &str) -> Option<&str> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let ending = matches!(&text[digits.len()..], "" | "st" | "nd" | "rd" | "th");
    let value: usize = digits.parse().ok()?;
    (ending && digits.len() <= 2 && digits.bytes().all(|b| b.is_ascii_digit()) && (1..=31).contains(&value))
        .then(|| digits.trim_start_matches('0'))
}

/// Returns the digits of a year of four digits.
fn year(text: &str) -> Option<&str> {
    (text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0')).then_some(text)
}

pub(super) fn date(context: Context<'_>) -> Option<Spoken> {
    named(context).or_else(|| day_first(context)).or_else(|| in_digits(context.core()))
}

/// Returns dates that begin with the name of a month.
fn named(context: Context<'_>) -> Option<Spoken> {
    let name = month(context.core())?;
    // A comma separates the month from its year alone, and no mark from its day.
    let stop = if context.core().len() < name.len() { "." } else { "" };
    if let Some(day) = context.next(1, stop).and_then(day) {
        let day = numbers::ordinal(day);
        let year = context.next(2, &format!(",{stop}")).and_then(year).filter(|_| context.trail(1) != ".");
        return Some(match year {
            Some(year) => Spoken::words(&format!("{name} {day} {}", numbers::year(year))).using(2),
            None => Spoken::words(&format!("{name} {day}")).using(1),
        });
    }
    if let Some(year) = context.next(1, &format!(",{stop}")).and_then(year) {
        return Some(Spoken::words(&format!("{name} {}", numbers::year(year))).using(1));
    }
    if !stop.is_empty() && context.has_stop(0) {
        return Some(Spoken::words(name).with_stop());
    }
    None
}

/// Returns dates such as "28 November 2026" and "the 28th of November".
fn day_first(context: Context<'_>) -> Option<Spoken> {
    let day = day(context.core())?;
    let name = month(context.next(1, "")?)?;
    let day = numbers::ordinal(day);
    let short = context.next(1, "").is_some_and(|text| text.len() < name.len());
    Some(match context.next(2, if short { ",." } else { "," }).and_then(year) {
        Some(year) => Spoken::words(&format!("{day} of {name} {}", numbers::year(year))).using(2),
        None if short => Spoken::words(&format!("{day} of {name}")).using(1).with_stop(),
        None => Spoken::words(&format!("{day} of {name}")).using(1),
    })
}

/// Returns dates of digits alone: 2026-11-28, 11/28/2026, 28/11/2026, 28.11.2026.
fn in_digits(core: &str) -> Option<Spoken> {
    let (core, clock) = core.split_once('T').filter(|(_, clock)| clock.contains(':')).unwrap_or((core, ""));
    let separator = ['-', '/', '.'].into_iter().find(|&c| core.matches(c).count() == 2)?;
    let parts: Vec<&str> = core.split(separator).collect();
    let (year_text, first, second) = match (year(parts[0]), year(parts[2])) {
        (Some(year), None) => (year, parts[1], parts[2]),
        (None, Some(year)) => (year, parts[0], parts[1]),
        _ => return None,
    };
    let small = |text: &str| -> Option<usize> {
        (text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let (first, second) = (small(first)?, small(second)?);
    // Points are used where the day comes first; slashes as in the United States unless that is impossible.
    let day_first = parts[0] != year_text && (separator == '.' || first > 12);
    let (month, day) = if day_first { (second, first) } else { (first, second) };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let name = MONTHS[month - 1].0;
    let mut spoken =
        Spoken::words(&format!("{name} {} {}", numbers::ordinal(&day.to_string()), numbers::year(year_text)));
    if !clock.is_empty() {
        super::mixed::say(clock, &mut spoken);
    }
    Some(spoken)
}

/// Returns decades: 1990s, '90s, 80s, 1800's.
pub(super) fn decade(context: Context<'_>) -> Option<Spoken> {
    let digits = context.core().strip_suffix('s')?;
    let digits = digits.strip_suffix('\'').unwrap_or(digits);
    if !digits.bytes().all(|b| b.is_ascii_digit()) || !digits.ends_with('0') {
        return None;
    }
    match digits.len() {
        4 if !digits.starts_with('0') => Some(Spoken::words(&numbers::plural(&numbers::year(digits)))),
        2 if digits > "10" => Some(Spoken::words(&numbers::plural(&numbers::cardinal(digits)))),
        _ => None,
    }
}
