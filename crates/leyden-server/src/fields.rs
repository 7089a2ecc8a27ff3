//! Fields of a JSON object, taken one by one after [`schema::check`](crate::schema::check): all of them are known, and
//! have the types of their schemas. A field that is absent, or of another type than its reader takes, is `None`.

use crate::error::ApiError;
use serde_json::{Map, Number, Value};
use std::ops::RangeInclusive;

/// Fields of an object that have not been taken yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Map<String, Value>);

impl From<Value> for Fields {
    fn from(value: Value) -> Fields {
        match value {
            Value::Object(map) => Fields(map),
            _ => Fields::default(),
        }
    }
}

impl Fields {
    /// Takes a field; `null` counts as absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.shift_remove(name).filter(|v| !v.is_null())
    }

    /// Returns true if a field is present.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// Returns a text without taking it.
    pub(crate) fn peek(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// Sets a field.
    pub(crate) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Moves those of the named fields that are present to another object.
    pub(crate) fn hand(&mut self, other: &mut Fields, names: &[&str]) {
        for name in names {
            if let Some(value) = self.take(name) {
                other.put(name, value);
            }
        }
    }

    /// Takes a text.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Takes `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        self.take(name)?.as_bool()
    }

    /// Takes an integer.
    pub(crate) fn integer(&mut self, name: &str) -> Option<i64> {
        self.take(name)?.as_number().and_then(whole)
    }

    /// Takes an integer as a size; a negative number counts as absent.
    pub(crate) fn size(&mut self, name: &str) -> Option<usize> {
        self.integer(name).and_then(|n| usize::try_from(n).ok())
    }

    /// Takes a number.
    pub(crate) fn number(&mut self, name: &str) -> Option<f32> {
        self.take(name)?.as_f64().map(|n| n as f32)
    }

    /// Takes a list.
    pub(crate) fn list(&mut self, name: &str) -> Option<Vec<Value>> {
        match self.take(name)? {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Takes an object.
    pub(crate) fn object(&mut self, name: &str) -> Option<Fields> {
        self.take(name).filter(Value::is_object).map(Fields::from)
    }

    /// Returns the remaining fields, for a reader that accepts any name.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.0
    }
}

/// Converts an integer, and checks its range.
pub(crate) fn integer(path: &str, value: &Value, range: RangeInclusive<i64>) -> Result<i64, ApiError> {
    let outside = || {
        let (low, high) = (*range.start(), *range.end());
        let below = high == i64::MAX && value.as_f64().is_some_and(|n| n < low as f64);
        let message = match below {
            true => format!("`{path}` is below {low}"),
            false => format!("`{path}` is not between {low} and {high}"),
        };
        ApiError::field(path, message)
    };
    match value {
        // A number beyond 64 bits is parsed as a float.
        Value::Number(n) if n.as_f64().is_some_and(|f| f.fract() != 0.0) => {
            Err(wrong(path, "an integer", value))
        }
        Value::Number(n) => whole(n).filter(|n| range.contains(n)).ok_or_else(outside),
        other => Err(wrong(path, "an integer", other)),
    }
}

/// Returns the number as an integer. In JSON Schema `1.0` is an integer, too; beyond 53 bits a float does not identify
/// one.
fn whole(number: &Number) -> Option<i64> {
    const MOST: f64 = (1_u64 << 53) as f64;
    let float = || number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() <= MOST).map(|f| f as i64);
    number.as_i64().or_else(float)
}

/// Converts a number, and checks its range.
pub(crate) fn number(path: &str, value: &Value, range: RangeInclusive<f64>) -> Result<f32, ApiError> {
    match value.as_f64() {
        Some(n) if range.contains(&n) => Ok(n as f32),
        Some(_) => {
            let message = format!("`{path}` is not between {} and {}", range.start(), range.end());
            Err(ApiError::field(path, message))
        }
        None => Err(wrong(path, "a number", value)),
    }
}

/// Returns the error of a value with the wrong type.
pub(crate) fn wrong(path: &str, wanted: &str, value: &Value) -> ApiError {
    let message = format!("`{path}` must be {wanted}, not {}", kind(value));
    ApiError { code: "invalid_type", ..ApiError::field(path, message) }
}

pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(n) if n.is_f64() => "a fraction",
        Value::Number(_) => "an integer",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
