//! Amounts of money: $3.50, £1bn, 20 €, USD 5 million.

use super::context::{Context, Spoken};
use crate::numbers::Number;

/// Sign or code of a currency with the names of one and more, and of one and more of its hundredths.
struct Currency {
    signs: &'static [&'static str],
    names: [&'static str; 2],
    parts: [&'static str; 2],
}

const CURRENCIES: &[Currency] = &[
    Currency { signs: &["US$", "USD", "$"], names: ["dollar", "dollars"], parts: ["cent", "cents"] },
    Currency {
        signs: &["A$", "AU$", "AUD"],
        names: ["Australian dollar", "Australian dollars"],
        parts: ["cent", "cents"],
    },
    Currency {
        signs: &["C$", "CA$", "CAD"],
        names: ["Canadian dollar", "Canadian dollars"],
        parts: ["cent", "cents"],
    },
    Currency { signs: &["£", "GBP"], names: ["pound", "pounds"], parts: ["penny", "pence"] },
    Currency { signs: &["€", "EUR"], names: ["euro", "euros"], parts: ["cent", "cents"] },
    Currency { signs: &["¥", "JPY"], names: ["yen", "yen"], parts: ["sen", "sen"] },
    Currency { signs: &["₹", "INR"], names: ["rupee", "rupees"], parts: ["paisa", "paise"] },
    Currency { signs: &["CHF"], names: ["Swiss franc", "Swiss francs"], parts: ["centime", "centimes"] },
    Currency { signs: &["₿", "BTC"], names: ["bitcoin", "bitcoins"], parts: ["", ""] },
    Currency { signs: &["₽", "RUB"], names: ["ruble", "rubles"], parts: ["kopeck", "kopecks"] },
    Currency { signs: &["₩", "KRW"], names: ["won", "won"], parts: ["", ""] },
    Currency { signs: &["¢"], names: ["cent", "cents"], parts: ["", ""] },
];

/// Endings of numbers that stand for a power of ten.
const POWERS: &[(&str, &str)] = &[
    ("bn", "billion"),
    ("mn", "million"),
    ("tn", "trillion"),
    ("mm", "million"),
    ("k", "thousand"),
    ("K", "thousand"),
    ("m", "million"),
    ("M", "million"),
    ("b", "billion"),
    ("B", "billion"),
    ("t", "trillion"),
    ("T", "trillion"),
];

/// Words that make the amount before them an adjective.
const NOUNS: &[&str] =
    &["bill", "bills", "note", "notes", "coin", "fee", "fine", "budget", "bonus", "deal", "loan"];

/// Returns the currency at the front or end of a text, and the rest.
fn currency(text: &str) -> Option<(&'static Currency, &str)> {
    let mut found: Option<(&Currency, &str)> = None;
    for currency in CURRENCIES {
        for sign in currency.signs {
            let rest = text.strip_prefix(sign).or_else(|| text.strip_suffix(sign));
            if let Some(rest) = rest.filter(|rest| found.is_none_or(|(_, best)| rest.len() < best.len())) {
                found = Some((currency, rest));
            }
        }
    }
    found
}

/// Returns number and power of an amount without its currency.
fn scaled(text: &str) -> Option<(Number, Option<&'static str>)> {
    if let Some(number) = Number::read(text) {
        return Some((number, None));
    }
    POWERS.iter().find_map(|(ending, power)| Some((Number::read(text.strip_suffix(ending)?)?, Some(*power))))
}

pub(super) fn amount(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let (sign, rest) = match core.strip_prefix('-') {
        Some(rest) => ("minus ", rest),
        None => ("", core),
    };
    if let Some((currency, number)) = currency(rest) {
        if number.is_empty() {
            // A code or sign before the number: "USD 20".
            let (number, power) = context.next(1, "").and_then(scaled)?;
            return Some(finish(context, 1, "", currency, &number, power));
        }
        if let Some((number, power)) = scaled(number) {
            return Some(finish(context, 0, sign, currency, &number, power));
        }
        return range(context, currency, number);
    }
    // A code or sign after the number: "20 €".
    let (number, power) = scaled(core)?;
    let after = context.next(1, "").filter(|text| !text.starts_with(|c: char| c.is_ascii_digit()))?;
    let (currency, left) = currency(after)?;
    left.is_empty().then(|| {
        let mut spoken = finish(context, 1, "", currency, &number, power);
        spoken.extra = spoken.extra.max(1);
        spoken
    })
}

/// Returns the words of two amounts of one currency: "$5-10", "$5–$10m".
fn range(context: Context<'_>, currency: &'static Currency, text: &str) -> Option<Spoken> {
    let (from, to) = text.split_once(['-', '–'])?;
    let to = currency.signs.iter().find_map(|sign| to.strip_prefix(sign)).unwrap_or(to);
    let (from, from_power) = scaled(from)?;
    let (to, power) = scaled(to)?;
    let mut spoken = Spoken::words(&from.words());
    if let Some(power) = from_power {
        spoken.push(power);
    }
    spoken.push("to");
    let second = finish(context, 0, "", currency, &to, power);
    spoken.kinds.extend(second.kinds);
    Some(spoken.using(second.extra))
}

/// Returns the words of an amount whose number ends at the `used`th next piece.
fn finish(
    context: Context<'_>,
    used: usize,
    sign: &str,
    currency: &Currency,
    number: &Number,
    power: Option<&str>,
) -> Spoken {
    let [one, many] = currency.names;
    let next = context.next(used + 1, "");
    let word =
        next.filter(|next| matches!(*next, "thousand" | "million" | "billion" | "trillion" | "hundred"));
    if let Some(power) = power.or(word) {
        let extra = used + usize::from(word.is_some() && power == word.unwrap_or_default());
        let after = context.next(extra + 1, "").is_some_and(|next| NOUNS.contains(&next));
        return Spoken::words(&format!(
            "{sign}{} {power} {}",
            number.words(),
            if after { one } else { many }
        ))
        .using(extra);
    }
    let whole = Number { fraction: None, ..number.clone() };
    let [part_one, part_many] = currency.parts;
    let words = match number.fraction.as_deref() {
        Some(fraction) if fraction.len() == 2 && !part_one.is_empty() => {
            let cents = fraction.trim_start_matches('0');
            let parts = format!(
                "{} {}",
                crate::numbers::cardinal(cents),
                if cents == "1" { part_one } else { part_many }
            );
            let name = if number.whole == "1" { one } else { many };
            match (cents, whole.whole.trim_start_matches('0')) {
                ("", _) => format!("{} {name}", whole.words()),
                (_, "") => parts,
                _ => format!("{} {name} and {parts}", whole.words()),
            }
        }
        Some(_) => format!("{} {many}", number.words()),
        None => {
            let adjective = next.is_some_and(|next| NOUNS.contains(&next));
            format!("{} {}", number.words(), if number.is_one() || adjective { one } else { many })
        }
    };
    Spoken::words(&format!("{sign}{words}")).using(used)
}
