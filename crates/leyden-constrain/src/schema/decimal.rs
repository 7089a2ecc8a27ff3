//! Exact decimal numbers, and regular expressions for the numbers between two bounds.
//!
//! Bounds are kept as decimal digits: 64-bit integers exceed the exact range of floats. Generated numbers have
//! limited length: an integer at most [`WHOLE`] digits and a fraction at most [`FRACTION`], unless a bound has
//! more.

use std::cmp::Ordering;
use std::fmt::Write;

use serde_json::Number;

/// Maximum number of integer digits unless a bound has more: every such integer fits 64 bits.
pub(super) const WHOLE: usize = 18;
/// Maximum number of decimals unless a bound has more: enough to distinguish all floats below 1.
pub(super) const FRACTION: usize = 17;
/// Maximum number of digits of a bound before and after the point.
const MAX: usize = 60;
/// Floats from here on are taken as exact integers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Decimal number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Digits before the point, at least one, without leading zeros.
    whole: String,
    /// Digits after the point, without trailing zeros.
    fraction: String,
}

/// Lower or upper bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) at: Decimal,
    /// True if the bound is exclusive.
    pub(super) open: bool,
}

impl Decimal {
    /// Converts a number of a schema; `None` if it has too many digits.
    pub(super) fn new(number: &Number) -> Option<Decimal> {
        let text = match number.as_f64() {
            Some(float) if number.is_f64() && float.abs() >= EXACT && float.abs() < 1e40 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        };
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let exponent: i32 = exponent.parse().ok().filter(|e: &i32| e.unsigned_abs() < 2 * MAX as u32)?;
        let mut digits = format!("{whole}{fraction}");
        let mut point = whole.len() as i32 + exponent;
        while point < 1 {
            digits.insert(0, '0');
            point += 1;
        }
        while digits.len() < point as usize {
            digits.push('0');
        }
        let (whole, fraction) = digits.split_at(point as usize);
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        if whole.len() > MAX || fraction.len() > MAX {
            return None;
        }
        let whole = if whole.is_empty() { "0" } else { whole };
        let zero = whole == "0" && fraction.is_empty();
        Some(Decimal { negative: negative && !zero, whole: whole.into(), fraction: fraction.into() })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.fraction.is_empty()
    }

    /// Returns whether this is an integer multiple of `divisor`, which has at most nine significant digits.
    pub(super) fn is_multiple_of(&self, divisor: &Decimal) -> bool {
        let digits = format!("{}{}", divisor.whole, divisor.fraction);
        let trimmed = digits.trim_end_matches('0');
        let Some(unit) = trimmed.trim_start_matches('0').parse::<u64>().ok().filter(|n| *n < 1_000_000_000)
        else {
            return false;
        };
        // Exponent of ten in `divisor = unit * 10^exponent`.
        let exponent = (digits.len() - trimmed.len()) as i64 - divisor.fraction.len() as i64;
        let own = format!("{}{}", self.whole, self.fraction);
        let below = self.fraction.len() as i64 + exponent;
        if below <= 0 {
            let zeros = std::iter::repeat_n(b'0', below.unsigned_abs() as usize);
            return remainder(own.bytes().chain(zeros), unit) == 0;
        }
        let (kept, cut) = own.split_at(own.len().saturating_sub(below as usize));
        cut.bytes().all(|digit| digit == b'0') && remainder(kept.bytes(), unit) == 0
    }

    pub(super) fn is_negative(&self) -> bool {
        self.negative
    }

    fn is_zero(&self) -> bool {
        self.is_whole() && self.whole == "0"
    }

    fn negated(&self) -> Decimal {
        Decimal { negative: !self.negative && !self.is_zero(), ..self.clone() }
    }

    pub(super) fn text(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let point = if self.is_whole() { "" } else { "." };
        format!("{sign}{}{point}{}", self.whole, self.fraction)
    }

    fn without_sign(&self, other: &Decimal) -> Ordering {
        let whole = self.whole.len().cmp(&other.whole.len()).then_with(|| self.whole.cmp(&other.whole));
        whole.then_with(|| self.fraction.cmp(&other.fraction))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.without_sign(other),
            (true, true) => other.without_sign(self),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the remainder of a number given by its decimal digits.
fn remainder(digits: impl Iterator<Item = u8>, divisor: u64) -> u64 {
    digits.fold(0, |rest, digit| (rest * 10 + u64::from(digit - b'0')) % divisor)
}

/// Returns the stricter of two lower bounds (`below` is true) or upper bounds.
pub(super) fn stricter(a: Option<Bound>, b: Option<Bound>, below: bool) -> Option<Bound> {
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (a, b) => return a.or(b),
    };
    let order = if below { a.at.cmp(&b.at) } else { b.at.cmp(&a.at) };
    Some(match order {
        Ordering::Greater => a,
        Ordering::Less => b,
        Ordering::Equal => Bound { open: a.open || b.open, at: a.at },
    })
}

/// Returns whether no number lies between the bounds.
pub(super) fn is_empty(low: Option<&Bound>, high: Option<&Bound>) -> bool {
    low.zip(high).is_some_and(|(low, high)| match low.at.cmp(&high.at) {
        Ordering::Less => false,
        Ordering::Equal => low.open || high.open,
        Ordering::Greater => true,
    })
}

/// Returns the terminal, in Lark, of all numbers between two bounds; `None` if there are none.
pub(super) fn between(integer: bool, low: Option<&Bound>, high: Option<&Bound>) -> Option<String> {
    if is_empty(low, high) {
        return None;
    }
    if low.is_none() && high.is_none() {
        let fraction = format!("(\\.[0-9]{{1,{FRACTION}}})?([eE][+-]?[0-9]{{1,2}})?");
        let fraction = if integer { "" } else { &fraction };
        return Some(format!("/-?(0|[1-9][0-9]{{0,{}}}){fraction}/", WHOLE - 1));
    }
    let bounds = || low.into_iter().chain(high);
    // One digit more than a bound has, so that numbers beyond it exist.
    let whole = bounds().map(|b| b.at.whole.len() + 1).max().unwrap_or(0).max(WHOLE);
    let fraction = bounds().map(|b| b.at.fraction.len() + 4).max().unwrap_or(0).max(FRACTION);
    let fraction = if integer { String::new() } else { format!("(\\.[0-9]{{1,{fraction}}})?") };
    let form = |sign: &str| format!("/{sign}(0|[1-9][0-9]{{0,{}}}){fraction}/", whole - 1);
    let zero = || Decimal { negative: false, whole: "0".into(), fraction: String::new() };
    let mut parts = Vec::new();
    // Numbers greater than or equal to zero.
    let least = low.filter(|b| !b.at.negative).cloned();
    if high.is_none_or(|b| !b.at.negative) {
        parts.extend(side("", integer, &form(""), least.as_ref(), high));
    }
    // Negative numbers.
    if low.is_none_or(|b| b.at.negative) {
        let mirror = |b: &Bound| Bound { at: b.at.negated(), open: b.open };
        let least = match high.filter(|b| b.at.negative || b.at.is_zero()) {
            Some(high) if high.at.negative => mirror(high),
            _ => Bound { at: zero(), open: true },
        };
        parts.extend(side("-", integer, &form("-"), Some(&least), low.map(mirror).as_ref()));
    }
    (!parts.is_empty()).then(|| parts.join(" | "))
}

/// Returns the numbers of one sign between two bounds given by absolute value.
fn side(sign: &str, integer: bool, form: &str, low: Option<&Bound>, high: Option<&Bound>) -> Option<String> {
    let mut terms = vec![form.to_owned()];
    if integer {
        // The nearest integers within the bounds.
        let low =
            low.map(|b| if b.open || !b.at.is_whole() { successor(&b.at.whole) } else { b.at.whole.clone() });
        let high = match high {
            Some(b) if b.open && b.at.is_whole() => Some(predecessor(&b.at.whole)?),
            Some(b) => Some(b.at.whole.clone()),
            None => None,
        };
        if let (Some(low), Some(high)) = (&low, &high)
            && (low.len(), low) > (high.len(), high)
        {
            return None;
        }
        terms.extend(low.map(|low| format!("/{sign}({})/", at_least(&low))));
        terms.extend(high.map(|high| format!("/{sign}({})/", at_most(&high))));
        return Some(format!("({})", terms.join(" & ")));
    }
    if is_empty(low, high) {
        return None;
    }
    if let Some(Bound { at, open }) = low {
        let above = at_least(&successor(&at.whole));
        let within = fraction_above(&at.fraction, *open);
        let bare = if at.is_whole() && !open { "?" } else { "" };
        terms.push(format!("/{sign}(({above})(\\.[0-9]+)?|{}(\\.{within}){bare})/", at.whole));
    }
    if let Some(Bound { at, open }) = high {
        let below = predecessor(&at.whole).map(|below| format!("({})(\\.[0-9]+)?", at_most(&below)));
        let within = fraction_below(&at.fraction, *open);
        let equal = match within {
            // The bare integer is less than numbers with the same integer part and a fraction.
            Some(within) if at.is_whole() => Some(format!("{}(\\.{within})?", at.whole)),
            Some(within) => Some(format!("{}(\\.{within})?", at.whole)),
            None => None,
        };
        let parts: Vec<String> = below.into_iter().chain(equal).collect();
        if parts.is_empty() {
            return None;
        }
        terms.push(format!("/{sign}({})/", parts.join("|")));
    }
    Some(format!("({})", terms.join(" & ")))
}

fn successor(digits: &str) -> String {
    let kept = digits.trim_end_matches('9');
    let zeros = "0".repeat(digits.len() - kept.len());
    match kept.as_bytes().split_last() {
        Some((last, front)) => {
            format!("{}{}{zeros}", String::from_utf8_lossy(front), char::from(last + 1))
        }
        None => format!("1{zeros}"),
    }
}

fn predecessor(digits: &str) -> Option<String> {
    let kept = digits.trim_end_matches('0');
    let nines = "9".repeat(digits.len() - kept.len());
    let (last, front) = kept.as_bytes().split_last()?;
    let all = format!("{}{}{nines}", String::from_utf8_lossy(front), char::from(last - 1));
    let trimmed = all.trim_start_matches('0');
    Some(if trimmed.is_empty() { "0".into() } else { trimmed.into() })
}

/// Returns a regular expression of the integers, of any length and without leading zeros, from `digits` on.
fn at_least(digits: &str) -> String {
    if digits == "0" {
        return "0|[1-9][0-9]*".into();
    }
    let mut out = format!("[1-9][0-9]{{{},}}", digits.len());
    for (i, digit) in digits.bytes().enumerate() {
        if digit < b'9' {
            let rest = digits.len() - i - 1;
            let _ = write!(out, "|{}[{}-9][0-9]{{{rest}}}", &digits[..i], char::from(digit + 1));
        }
    }
    let _ = write!(out, "|{digits}");
    out
}

/// Returns a regular expression of the integers without leading zeros up to `digits`.
fn at_most(digits: &str) -> String {
    let mut out = digits.to_owned();
    if digits.len() > 1 {
        let _ = write!(out, "|0|[1-9][0-9]{{0,{}}}", digits.len() - 2);
    }
    for (i, digit) in digits.bytes().enumerate() {
        let least = if i == 0 && digits.len() > 1 { b'1' } else { b'0' };
        if digit > least {
            let rest = digits.len() - i - 1;
            let (least, greatest) = (char::from(least), char::from(digit - 1));
            let _ = write!(out, "|{}[{least}-{greatest}][0-9]{{{rest}}}", &digits[..i]);
        }
    }
    out
}

/// Returns a regular expression of decimals, at least one, that are not less than `digits`; with `open`, greater.
fn fraction_above(digits: &str, open: bool) -> String {
    let mut out = match (digits.is_empty(), open) {
        (true, false) => return "[0-9]+".into(),
        (_, true) => format!("({digits}0*[1-9][0-9]*"),
        (false, false) => format!("({digits}[0-9]*"),
    };
    for (i, digit) in digits.bytes().enumerate() {
        if digit < b'9' {
            let _ = write!(out, "|{}[{}-9][0-9]*", &digits[..i], char::from(digit + 1));
        }
    }
    out.push(')');
    out
}

/// Returns a regular expression of decimals, at least one, that are not greater than `digits`; with `open`, less.
/// `None` if there are none, not even the absence of decimals.
fn fraction_below(digits: &str, open: bool) -> Option<String> {
    if digits.is_empty() {
        return (!open).then(|| "0+".into());
    }
    let mut parts = Vec::new();
    if !open {
        parts.push(format!("{digits}0*"));
    }
    for (i, digit) in digits.bytes().enumerate() {
        // A proper prefix of the digits.
        if i > 0 {
            parts.push(digits[..i].to_owned());
        }
        if digit > b'0' {
            parts.push(format!("{}[0-{}][0-9]*", &digits[..i], char::from(digit - 1)));
        }
    }
    // Without alternatives only the integer itself is less.
    Some(if parts.is_empty() { "[0-9]{0}".into() } else { format!("({})", parts.join("|")) })
}
