//! Digits of formatted numbers.

use super::spec::Spec;
use crate::template::budget::{Result, fail};
use crate::template::print;

/// Maximum number of non-zero decimals of a float; further digits are zeros.
const MAX_DIGITS: usize = 1100;

/// Returns the sign of an integer (true if negative) and its digits.
pub(super) fn integer(value: i64, spec: &Spec) -> Result<(bool, String)> {
    let size = value.unsigned_abs();
    let kind = spec.kind.unwrap_or('d');
    let plain = match kind {
        'b' => format!("{size:b}"),
        'o' => format!("{size:o}"),
        'x' => format!("{size:x}"),
        'X' => format!("{size:X}"),
        'd' | 'n' => size.to_string(),
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%' => {
            return Ok((value < 0, float((value as f64).abs(), spec)?));
        }
        other => return fail(format!("the format `{}` does not fit an int", other.escape_default())),
    };
    Ok((value < 0, plain))
}

/// Returns the digits of a float that is not negative.
pub(super) fn float(value: f64, spec: &Spec) -> Result<String> {
    let kind = spec.kind.unwrap_or(' ');
    let upper = kind.is_ascii_uppercase();
    let cased = |text: String| if upper { text.to_uppercase() } else { text };
    let percent = kind == '%';
    let value = if percent { value * 100.0 } else { value };
    let end = if percent { "%" } else { "" };
    if !value.is_finite() {
        return Ok(cased(format!("{}{end}", if value.is_nan() { "nan" } else { "inf" })));
    }
    let digits = spec.precision.unwrap_or(6);
    Ok(match kind {
        ' ' if spec.precision.is_none() => print::float(value),
        ' ' => general(value, digits.max(1), true, spec.alternate),
        'f' | 'F' | '%' => {
            let point = if digits == 0 && spec.alternate { "." } else { "" };
            fixed(value, digits) + point + end
        }
        'e' | 'E' => cased(scientific(value, digits, spec.alternate)),
        'g' | 'G' | 'n' => cased(general(value, digits.max(1), false, spec.alternate)),
        other => return fail(format!("the format `{}` does not fit a float", other.escape_default())),
    })
}

fn fixed(value: f64, digits: usize) -> String {
    let exact = digits.min(MAX_DIGITS);
    format!("{value:.exact$}") + &"0".repeat(digits - exact)
}

/// Writes a number with an exponent of at least two digits.
fn scientific(value: f64, digits: usize, alternate: bool) -> String {
    let (mantissa, exponent) = parts(value, digits);
    let point = if digits == 0 && alternate { "." } else { "" };
    format!("{mantissa}{point}{}", exponent_text(exponent))
}

fn parts(value: f64, digits: usize) -> (String, i32) {
    let exact = digits.min(MAX_DIGITS);
    let text = format!("{value:.exact$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.to_owned() + &"0".repeat(digits - exact), exponent.parse().unwrap_or(0))
}

fn exponent_text(exponent: i32) -> String {
    format!("e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
}

/// Writes `digits` significant digits, with an exponent if the number is large or small. With `dotted` the result
/// always has a point.
fn general(value: f64, digits: usize, dotted: bool, alternate: bool) -> String {
    let (mantissa, exponent) = parts(value, digits - 1);
    let most = digits as i64 - i64::from(dotted);
    let stripped = |text: String| match text.contains('.') && !alternate {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    if i64::from(exponent) < -4 || i64::from(exponent) >= most.max(i64::from(!dotted)) {
        return stripped(mantissa) + &exponent_text(exponent);
    }
    let behind = usize::try_from(digits as i64 - 1 - i64::from(exponent)).unwrap_or(0);
    let text = stripped(fixed(value, behind));
    if dotted && !text.contains('.') { text + ".0" } else { text }
}

/// Inserts separators every three digits, or every four in other bases than 10. With zero padding the result has at
/// least `width` characters.
pub(super) fn grouped(digits: &str, separator: char, kind: Option<char>, width: usize) -> String {
    let size = if matches!(kind, Some('b' | 'o' | 'x' | 'X')) { 4 } else { 3 };
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    let end =
        if size == 3 { digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()) } else { end };
    let (whole, behind) = digits.split_at(end);
    // Each group but the first adds a separator.
    let around = behind.len();
    let mut n = whole.len();
    while n > 0 && n + (n - 1) / size + around < width {
        n += 1;
    }
    let mut out = String::new();
    for (i, digit) in std::iter::repeat_n('0', n - whole.len()).chain(whole.chars()).enumerate() {
        if i > 0 && (n - i).is_multiple_of(size) {
            out.push(separator);
        }
        out.push(digit);
    }
    out + behind
}
