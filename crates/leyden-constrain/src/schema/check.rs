//! Validation of keywords' values: against the standard, and against what can be enforced.

use serde_json::{Map, Value};

use super::decimal::Decimal;
use super::formats::FORMATS;
use super::keywords::{Shape, TYPES, integer_range};
use crate::error::Error;

/// Maximum number of digits of a divisor, without leading and trailing zeros.
const MAX_MULTIPLE_DIGITS: usize = 3;
/// Maximum length of a pattern in bytes.
const MAX_PATTERN_BYTES: usize = 4 << 10;

/// Accepts an unsupported keyword that has no effect in its place.
pub(super) fn check_harmless(
    name: &str,
    value: &Value,
    map: &Map<String, Value>,
    pointer: &str,
) -> Result<(), Error> {
    let anything =
        |value: &Value| value == &Value::Bool(true) || value.as_object().is_some_and(Map::is_empty);
    let says_nothing = match name {
        "if" => !map.contains_key("then") && !map.contains_key("else"),
        "then" | "else" => !map.contains_key("if"),
        "minContains" | "maxContains" => !map.contains_key("contains"),
        "propertyNames" | "unevaluatedItems" | "unevaluatedProperties" => anything(value),
        "dependencies" | "dependentRequired" | "dependentSchemas" => {
            value.as_object().is_some_and(Map::is_empty)
        }
        _ => false,
    };
    if says_nothing { Ok(()) } else { Err(Error::schema(pointer, name, "this keyword is not supported")) }
}

pub(super) fn check_pattern(name: &str, pattern: &str, pointer: &str) -> Result<(), Error> {
    if pattern.len() > MAX_PATTERN_BYTES {
        let what = format!("a pattern of {} bytes; the maximum is {MAX_PATTERN_BYTES}", pattern.len());
        return Err(Error::schema(pointer, name, what));
    }
    Ok(())
}

pub(super) fn check_shape(name: &str, value: &Value, shape: Shape, pointer: &str) -> Result<(), Error> {
    let wrong = |what: &str| Err(Error::schema(pointer, name, what));
    let texts = |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
    match shape {
        Shape::Count if !value.is_u64() => wrong("must be a whole number that is not negative"),
        Shape::Number if name == "multipleOf" && value.is_number() => check_multiple(value, pointer),
        Shape::Number | Shape::Bound if value.is_number() => check_exact(name, value, pointer),
        Shape::Number => wrong("must be a number"),
        Shape::Bound if !value.is_boolean() => wrong("must be a number"),
        Shape::Flag if !value.is_boolean() => wrong("must be true or false"),
        Shape::Text if !value.is_string() => wrong("must be a text"),
        Shape::Text if name == "pattern" => check_pattern(name, value.as_str().unwrap_or_default(), pointer),
        Shape::Texts if !texts(value) => wrong("must be a list of texts"),
        Shape::Types => {
            let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
            match value {
                Value::Array(types) if !types.is_empty() && types.iter().all(known) => Ok(()),
                value if known(value) => Ok(()),
                _ => wrong(&format!("must be one of {} or a list of them", TYPES.join(", "))),
            }
        }
        Shape::Value => check_exact(name, value, pointer),
        Shape::Values => match value {
            Value::Array(values) if !values.is_empty() => {
                values.iter().try_for_each(|value| check_exact(name, value, pointer))
            }
            _ => wrong("must be a list of at least one value"),
        },
        _ => Ok(()),
    }
}

/// Refuses divisors of many digits: detecting their multiples takes a state for each remainder.
fn check_multiple(value: &Value, pointer: &str) -> Result<(), Error> {
    let divisor = value.as_f64().unwrap_or_default();
    let written = divisor.to_string();
    let digits = written.replace('.', "");
    if !(1e-9..=1e9).contains(&divisor) || digits.trim_matches('0').len() > MAX_MULTIPLE_DIGITS {
        let what =
            format!("{value}: only positive numbers of at most {MAX_MULTIPLE_DIGITS} digits are supported");
        return Err(Error::schema(pointer, "multipleOf", what));
    }
    Ok(())
}

/// Refuses numbers of more digits than are generated.
fn check_exact(name: &str, value: &Value, pointer: &str) -> Result<(), Error> {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Number(number) if Decimal::new(number).is_none() => {
                let what = format!("{number} has more digits than are supported");
                return Err(Error::schema(pointer, name, what));
            }
            Value::Array(items) => rest.extend(items),
            Value::Object(map) => rest.extend(map.values()),
            _ => {}
        }
    }
    Ok(())
}

/// Removes a `format` that has no effect here, and refuses one that cannot be enforced.
pub(super) fn apply_format(out: &mut Map<String, Value>, pointer: &str) -> Result<(), Error> {
    let Some(Value::String(format)) = out.get("format").cloned() else { return Ok(()) };
    if FORMATS.contains(&format.as_str()) || integer_range(&format).is_some() {
        return Ok(());
    }
    out.remove("format");
    let is = |name: &str| match out.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(types)) => types.iter().any(|t| t == name),
        _ => true,
    };
    let constant = out.contains_key("const") || out.contains_key("enum");
    if is("string") && !constant {
        let what = format!("\"{format}\" is not supported; supported: {}", FORMATS.join(", "));
        return Err(Error::schema(pointer, "format", what));
    }
    Ok(())
}
