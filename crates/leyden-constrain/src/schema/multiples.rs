//! Grammars of the multiples of a number.
//!
//! If a divisor divides a power of ten, the last digits decide, and a regular expression lists them. Other divisors
//! are left to llguidance, which supports them for integers only.

use serde_json::{Number, json};

use super::decimal::{Bound, WHOLE};

pub(super) enum Multiples {
    /// Term of a terminal, without bounds.
    Term(String),
    /// Body of a rule, within bounds.
    Rule(String),
}

/// Maximum number of listed endings.
const MAX_ENDINGS: u64 = 256;
/// Maximum number of digits of multiples that are left to llguidance, whose bounds are floats.
const MAX_DIGITS: usize = 15;

/// Returns the common multiples of all divisors; `None` if they cannot be expressed, or there are none.
pub(super) fn of(
    divisors: &[Number],
    integer: bool,
    low: Option<&Bound>,
    high: Option<&Bound>,
) -> Option<Multiples> {
    let (first, others) = divisors.split_first()?;
    let (mut coefficient, mut digits) = scaled(first)?;
    for divisor in others {
        let (other, behind) = scaled(divisor)?;
        let most = behind.max(digits);
        let (a, b) = (coefficient * power(most - digits)?, other * power(most - behind)?);
        coefficient = a.checked_mul(b / gcd(a, b))?;
        digits = most;
    }
    let mut forms = Vec::new();
    for behind in 0..=(if integer { 0 } else { digits }) {
        // Read without its point, a number with `behind` decimals is a multiple of `rest`.
        let rest = coefficient / gcd(coefficient, power(digits - behind)?);
        let Some(endings) = endings(rest) else { break };
        forms.push(form(behind as usize, &endings));
    }
    if !forms.is_empty() {
        return Some(Multiples::Term(format!("/-?({})/", forms.join("|"))));
    }
    let whole = coefficient / gcd(coefficient, power(digits)?);
    let limit = "9".repeat(MAX_DIGITS);
    let bound = |bound: Option<&Bound>, sign: &str| -> Option<(f64, bool)> {
        match bound {
            None => Some((format!("{sign}{limit}").parse().ok()?, false)),
            Some(bound) => {
                let value: f64 = bound.at.text().parse().ok()?;
                (value.abs() < 1e15).then_some((value, bound.open))
            }
        }
    };
    let ((low, low_open), (high, high_open)) = (bound(low, "-")?, bound(high, "")?);
    let least = (low / whole as f64).ceil() * whole as f64;
    let least = if low_open && least == low { least + whole as f64 } else { least };
    let greatest = (high / whole as f64).floor() * whole as f64;
    let greatest = if high_open && greatest == high { greatest - whole as f64 } else { greatest };
    if least > greatest {
        return None;
    }
    let schema = json!({ "type": "integer", "multipleOf": whole, "minimum": least, "maximum": greatest,
        "x-guidance": { "whitespace_flexible": false } });
    Some(Multiples::Rule(format!("%json {schema}")))
}

fn power(exponent: u32) -> Option<u64> {
    10_u64.checked_pow(exponent)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns a divisor as an integer without its point, and its number of decimals.
fn scaled(divisor: &Number) -> Option<(u64, u32)> {
    let text = super::decimal::Decimal::new(divisor)?.text();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let value = format!("{whole}{fraction}").parse().ok().filter(|value| *value > 0)?;
    Some((value, fraction.len() as u32))
}

/// Returns the last digits of all multiples, if these decide.
fn endings(divisor: u64) -> Option<Vec<String>> {
    let length = (0..=9).find(|length| power(*length).is_some_and(|power| power % divisor == 0))?;
    let count = power(length)? / divisor;
    (count <= MAX_ENDINGS).then(|| {
        let width = length as usize;
        if width == 0 {
            return vec![String::new()];
        }
        (0..count).map(|i| format!("{:0width$}", i * divisor)).collect()
    })
}

/// Returns an expression of the numbers with `behind` decimals and one of these endings.
fn form(behind: usize, endings: &[String]) -> String {
    let length = endings[0].len();
    let point = if behind > 0 { "\\." } else { "" };
    if length <= behind {
        let front = behind - length;
        let front = if front > 0 { format!("[0-9]{{{front}}}") } else { String::new() };
        return format!("(0|[1-9][0-9]{{0,{}}}){point}{front}({})", WHOLE - 1, endings.join("|"));
    }
    let cut = length - behind;
    let all: Vec<String> = endings
        .iter()
        .map(|ending| {
            let (whole, fraction) = ending.split_at(cut);
            let short = whole.trim_start_matches('0');
            let short = if short.is_empty() { "0" } else { short };
            format!("([1-9][0-9]{{0,{}}}{whole}|{short}){point}{fraction}", WHOLE - 1)
        })
        .collect();
    all.join("|")
}
