//! Filters on numbers.

use crate::error::Quoted;
use crate::template::arguments::{Arguments, integer, is_true, text};
use crate::template::budget::{Result, fail};
use crate::template::runtime::Runtime;
use crate::template::value::{Number, Value};

pub(super) fn absolute<'t>(_: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("abs", [])?;
    match value.as_number() {
        Some(Number::Int(i)) => {
            i.checked_abs().map_or_else(|| fail("a number is too large"), |i| Ok(Value::Int(i)))
        }
        Some(Number::Float(f)) => Ok(Value::Float(f.abs())),
        None => fail(format!("a {} is not a number", value.type_name())),
    }
}

pub(super) fn int<'t>(_: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [default, base] = arguments.bind("int", ["default", "base"])?;
    let default = default.unwrap_or(Value::Int(0));
    let base = base.map_or(Ok(10), |base| integer(&base, "a base"))?;
    let Some(base) = u32::try_from(base).ok().filter(|base| (2..=36).contains(base)) else {
        return fail("a base must be from 2 to 36");
    };
    if let Value::BigInt(_) = value {
        return Ok(value.clone());
    }
    let truncated = |f: f64| (f.abs() < 9.0e18).then_some(f as i64);
    let int = match value {
        Value::Float(f) => truncated(*f),
        Value::Str(text) => {
            let text = text.as_str().trim().replace('_', "");
            let prefix = match base {
                2 => "0b",
                8 => "0o",
                16 => "0x",
                _ => "",
            };
            let digits = text.strip_prefix(prefix).unwrap_or(&text);
            let int = i64::from_str_radix(digits, base).ok();
            int.or_else(|| text.parse().ok().and_then(truncated))
        }
        other => other.as_int(),
    };
    Ok(int.map_or(default, Value::Int))
}

pub(super) fn float<'t>(_: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [default] = arguments.bind("float", ["default"])?;
    let float = match value {
        Value::Str(text) => text.as_str().trim().parse().ok(),
        other => other.as_number().map(Number::as_f64),
    };
    Ok(float.map_or_else(|| default.unwrap_or(Value::Float(0.0)), Value::Float))
}

/// Formats a size in bytes with its unit.
pub(super) fn file_size<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    const UNITS: [&str; 8] = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
    let [binary] = arguments.bind("filesizeformat", ["binary"])?;
    let binary = is_true(binary);
    let bytes = match value {
        Value::Str(text) => text.as_str().trim().parse().ok(),
        other => other.as_number().map(Number::as_f64),
    };
    let Some(bytes) = bytes else { return fail(format!("a {} is not a size in bytes", value.type_name())) };
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return runtime.maker.own("1 Byte");
    }
    if bytes < base {
        return runtime.maker.own(&format!("{} Bytes", bytes as i64));
    }
    let mut unit = base * base;
    let mut name = UNITS[0];
    for next in &UNITS[1..] {
        if bytes < unit {
            break;
        }
        (unit, name) = (unit * base, next);
    }
    let name = match (binary, name) {
        (true, "k") => "Ki",
        (true, name) => &format!("{name}i"),
        (false, name) => name,
    };
    runtime.maker.own(&format!("{:.1} {name}B", base * bytes / unit))
}

pub(super) fn round<'t>(_: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [precision, method] = arguments.bind("round", ["precision", "method"])?;
    let precision = precision.map_or(Ok(0), |precision| integer(&precision, "a precision"))?;
    let Some(number) = value.as_number() else {
        return fail(format!("a {} is not a number", value.type_name()));
    };
    let scale = 10f64.powi(precision.clamp(-300, 300) as i32);
    let scaled = number.as_f64() * scale;
    let rounded = match method.as_ref().map_or(Ok("common"), |method| text(method, "a method"))? {
        "common" if matches!(number, Number::Int(_)) && precision >= 0 => return Ok(value.clone()),
        // Rounding is by decimal digits: the float 2.675 is slightly less than its literal.
        "common" if precision >= 0 => {
            let digits = format!("{:.*}", precision.min(300) as usize, number.as_f64());
            return Ok(Value::Float(digits.parse().unwrap_or(f64::NAN)));
        }
        "common" => scaled.round_ties_even(),
        "ceil" => scaled.ceil(),
        "floor" => scaled.floor(),
        other => return fail(format!("there is no method {} of rounding", Quoted(other))),
    };
    Ok(Value::Float(rounded / scale))
}
