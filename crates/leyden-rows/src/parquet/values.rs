//! Values as JSON: numbers, booleans and texts as they are, dates and decimals as texts, other bytes in base64.

use super::schema::{Meaning, Physical};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Number, Value};

/// Seconds of a day.
const DAY: i64 = 86_400;
/// Day of 1970-01-01 in the count of INT96, which begins in 4713 BC.
const JULIAN_1970: i64 = 2_440_588;
/// Maximum distance of a date from 1970 in days, about 5 million years.
const MAX_DAYS: i64 = 2_000_000_000;

/// A value as it is stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Raw<'b> {
    /// A boolean.
    Bool(bool),
    /// A 32-bit or 64-bit integer.
    Int(i64),
    /// A float.
    Float(f32),
    /// A double.
    Double(f64),
    /// Bytes, 12 of them for INT96.
    Bytes(&'b [u8]),
}

/// Converts a value. A float that is no number becomes `null`; a text that is no UTF-8 is an error.
pub(super) fn json(raw: Raw<'_>, physical: Physical, meaning: Meaning) -> Result<Value, String> {
    let float = |x: f64| Number::from_f64(x).map_or(Value::Null, Value::Number);
    Ok(match (raw, meaning) {
        (Raw::Bool(x), _) => x.into(),
        (Raw::Float(x), _) => float(f64::from(x)),
        (Raw::Double(x), _) => float(x),
        (Raw::Int(x), Meaning::Decimal(scale)) => decimal(i128::from(x), scale).into(),
        (Raw::Int(x), Meaning::Date) => date(x).map_or(x.into(), Value::from),
        (Raw::Int(x), Meaning::Time(ticks)) => time(x, ticks).into(),
        (Raw::Int(x), Meaning::Timestamp(ticks)) => timestamp(x, ticks).map_or(x.into(), Value::from),
        (Raw::Int(x), Meaning::Unsigned) if physical == Physical::Int32 => (x as u32).into(),
        (Raw::Int(x), Meaning::Unsigned) => (x as u64).into(),
        (Raw::Int(x), _) => x.into(),
        (Raw::Bytes(b), Meaning::Text) => match std::str::from_utf8(b) {
            Ok(text) => text.into(),
            Err(error) => return Err(format!("not UTF-8 text: byte {}", error.valid_up_to())),
        },
        (Raw::Bytes(b), _) if physical == Physical::Int96 && b.len() == 12 => {
            let nanoseconds = b[..8].iter().rev().fold(0_i64, |n, byte| n << 8 | i64::from(*byte));
            let day = b[8..].iter().rev().fold(0_u32, |n, byte| n << 8 | u32::from(*byte));
            let at = i128::from(i64::from(day) - JULIAN_1970) * i128::from(DAY) * 1_000_000_000;
            i64::try_from(at + i128::from(nanoseconds))
                .ok()
                .and_then(|at| timestamp(at, 1_000_000_000))
                .map_or(Value::Null, Value::from)
        }
        (Raw::Bytes(b), Meaning::Decimal(scale)) if !b.is_empty() && b.len() <= 16 => {
            let sign = if b[0] & 0x80 == 0 { 0 } else { -1_i128 };
            decimal(b.iter().fold(sign, |n, byte| n << 8 | i128::from(*byte)), scale).into()
        }
        (Raw::Bytes(b), Meaning::Float16) if b.len() == 2 => float(half(u16::from_le_bytes([b[0], b[1]]))),
        // Some writers do not mark texts.
        (Raw::Bytes(b), _) => match std::str::from_utf8(b) {
            Ok(text) if physical == Physical::Bytes => text.into(),
            _ => BASE64_STANDARD.encode(b).into(),
        },
    })
}

/// An integer with a point before its last `scale` digits.
fn decimal(n: i128, scale: u32) -> String {
    let scale = scale as usize;
    let digits = format!("{:0>width$}", n.unsigned_abs(), width = scale + 1);
    let (whole, part) = digits.split_at(digits.len() - scale);
    let sign = if n < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

/// Returns the day so many days after 1970-01-01; `None` far beyond any date.
fn date(days: i64) -> Option<String> {
    (days.abs() <= MAX_DAYS).then(|| leyden_dates::Date::of_days(days).to_string())
}

/// A time of day, with the part of the second where there is one.
fn time(ticks: i64, per_second: i64) -> String {
    let (seconds, part) = (ticks.div_euclid(per_second), ticks.rem_euclid(per_second));
    let time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if part == 0 {
        return time;
    }
    let width = per_second.ilog10() as usize;
    let part = format!("{part:0>width$}");
    format!("{time}.{}", part.trim_end_matches('0'))
}

fn timestamp(ticks: i64, per_second: i64) -> Option<String> {
    let day = DAY * per_second;
    Some(format!("{}T{}", date(ticks.div_euclid(day))?, time(ticks.rem_euclid(day), per_second)))
}

/// A half-precision float.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_people_write_them() {
        let of = |raw, physical, meaning| json(raw, physical, meaning).unwrap().to_string();
        let day = |n| of(Raw::Int(n), Physical::Int32, Meaning::Date);
        assert_eq!([day(0), day(-1), day(11_016)], ["\"1970-01-01\"", "\"1969-12-31\"", "\"2000-02-29\""]);
        let at = |n, ticks| of(Raw::Int(n), Physical::Int64, Meaning::Timestamp(ticks));
        assert_eq!(at(1_700_000_000_120, 1000), "\"2023-11-14T22:13:20.12\"");
        assert_eq!(at(-1, 1_000_000), "\"1969-12-31T23:59:59.999999\"");
        assert_eq!(at(i64::MAX, 1000), i64::MAX.to_string());
        let money = |n| of(Raw::Int(n), Physical::Int64, Meaning::Decimal(2));
        assert_eq!([money(-5), money(1234)], ["\"-0.05\"", "\"12.34\""]);
        assert_eq!(of(Raw::Bytes(&[0xff, 0xfe]), Physical::Fixed(2), Meaning::Decimal(0)), "\"-2\"");
        assert_eq!(of(Raw::Bytes(&[0x00, 0x3c]), Physical::Fixed(2), Meaning::Float16), "1.0");
        assert_eq!(of(Raw::Int(-1), Physical::Int32, Meaning::Unsigned), "4294967295");
        assert_eq!(of(Raw::Bytes(b"\xff"), Physical::Bytes, Meaning::Plain), "\"/w==\"");
        assert!(json(Raw::Bytes(b"\xff"), Physical::Bytes, Meaning::Text).is_err());
    }
}
