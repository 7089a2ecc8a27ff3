//! Times of day, durations of three parts, and ratios, which look alike.

use super::context::{Context, Spoken};
use crate::numbers;

/// Returns the capitals of "am" or "pm" in any writing.
fn half_of_day(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "am" | "a.m" | "a.m." => Some("AM"),
        "pm" | "p.m" | "p.m." => Some("PM"),
        _ => None,
    }
}

pub(super) fn time(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    if let Some((from, to)) =
        core.split_once(['-', '–']).filter(|(from, to)| !from.is_empty() && to.contains([':', 'm']))
    {
        let (from, _) = clock(from, false)?;
        let (to, half) = clock(to, false)?;
        return Some(finish(context, &format!("{from} to {to}"), half));
    }
    let next_half = context.next(1, "").and_then(half_of_day).is_some();
    let (words, half) = clock(core, next_half)?;
    let bare = !core.contains(':');
    if bare && half.is_none() && !next_half {
        return None;
    }
    Some(finish(context, &words, half))
}

/// Adds the half of the day from the next piece if it stands there.
fn finish(context: Context<'_>, words: &str, half: Option<&str>) -> Spoken {
    if let Some(half) = half {
        let spoken = Spoken::words(&format!("{words} {{{half}}}"));
        return if context.core().contains('.') { spoken.with_stop() } else { spoken };
    }
    match context.next(1, "") {
        Some(next) => match half_of_day(next) {
            Some(half) => {
                let spoken = Spoken::words(&format!("{words} {{{half}}}")).using(1);
                if next.contains('.') { spoken.with_stop() } else { spoken }
            }
            None => Spoken::words(words),
        },
        None => Spoken::words(words),
    }
}

/// Returns the words of a time, and the half of the day if it is written at its end.
fn clock(text: &str, has_half: bool) -> Option<(String, Option<&'static str>)> {
    let digits_end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let (digits, ending) = text.split_at(digits_end);
    let half = if ending.is_empty() { None } else { Some(half_of_day(ending)?) };
    let parts: Vec<&str> = digits.split(':').collect();
    let number = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(|part| number(part)) {
        return None;
    }
    let values: Vec<usize> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    let hour =
        numbers::cardinal(parts[0].strip_prefix('0').filter(|rest| !rest.is_empty()).unwrap_or(parts[0]));
    let twelve = half.is_some() || has_half;
    if parts.len() == 1 {
        return (values[0] <= 12).then_some((hour, half));
    }
    let is_clock = values[0] <= 24
        && parts[1..].iter().all(|part| part.len() == 2)
        && values[1..].iter().all(|&v| v < 60);
    if !is_clock {
        let words: Vec<String> = parts.iter().map(|part| numbers::cardinal(part)).collect();
        return Some((words.join(" to "), None));
    }
    let minutes = match parts[1] {
        "00" if parts.len() > 2 => "zero".to_owned(),
        "00" if twelve => String::new(),
        "00" if (1..=12).contains(&values[0]) => "o'clock".to_owned(),
        "00" => "hundred".to_owned(),
        _ => two_digits(parts[1]),
    };
    let mut words = format!("{hour} {minutes}").trim_end().to_owned();
    if let Some(seconds) = parts.get(2) {
        words += &format!(" {}", two_digits(seconds));
    }
    Some((words, half))
}

/// Returns two digits as minutes are said.
fn two_digits(text: &str) -> String {
    match text.strip_prefix('0') {
        Some("0") => "zero zero".to_owned(),
        Some(one) => format!("oh {}", numbers::cardinal(one)),
        None => numbers::cardinal(text),
    }
}
