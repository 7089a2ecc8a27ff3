//! The fields of a JSON object, taken one by one; what nobody took is refused.

use crate::error::ApiError;
use serde_json::{Map, Number, Value};
use std::ops::RangeInclusive;

/// The fields of an object that have not been taken yet.
#[derive(Debug)]
pub(crate) struct Fields {
    map: Map<String, Value>,
    /// Where in the body the object stands; empty for the body itself.
    path: String,
}

impl Fields {
    /// The fields of a body.
    pub(crate) fn of_body(value: Value) -> Result<Fields, ApiError> {
        match value {
            Value::Object(map) => Ok(Fields { map, path: String::new() }),
            other => Err(ApiError::body(format!("the body must be an object, not {}", kind(&other)))),
        }
    }

    /// The fields of the object at `path`.
    pub(crate) fn at(path: &str, value: Value) -> Result<Fields, ApiError> {
        match value {
            Value::Object(map) => Ok(Fields { map, path: path.to_owned() }),
            other => Err(wrong(path, "an object", &other)),
        }
    }

    /// The path of a field.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Takes a field; `null` is the same as none.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name).filter(|v| !v.is_null())
    }

    /// Takes a field that must be there.
    pub(crate) fn required(&mut self, name: &str) -> Result<Value, ApiError> {
        self.take(name).ok_or_else(|| ApiError {
            code: "missing_required_parameter",
            ..ApiError::field(self.path(name), format!("`{}` is missing", self.path(name)))
        })
    }

    /// Refuses the object for want of a field that is not `known` otherwise.
    pub(crate) fn required_unless(&mut self, known: bool, name: &str) -> Result<(), ApiError> {
        if known { Ok(()) } else { self.required(name).map(drop) }
    }

    /// Whether a field is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    /// Sets a field for whoever takes it.
    pub(crate) fn put(&mut self, name: &str, value: Value) {
        self.map.insert(name.to_owned(), value);
    }

    /// Takes a text of at most `most` characters.
    pub(crate) fn text(&mut self, name: &str, most: usize) -> Result<Option<String>, ApiError> {
        self.take(name).map(|v| text(&self.path(name), v, most)).transpose()
    }

    /// Takes `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(b)),
            Some(other) => Err(wrong(&self.path(name), "true or false", &other)),
        }
    }

    /// Takes a whole number in a range.
    pub(crate) fn integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        self.take(name).map(|v| integer(&self.path(name), &v, range)).transpose()
    }

    /// The same as a size. The range must not be negative.
    pub(crate) fn size(&mut self, name: &str, low: usize, high: usize) -> Result<Option<usize>, ApiError> {
        let bound = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let n = self.integer(name, bound(low)..=bound(high))?;
        Ok(n.map(|n| usize::try_from(n).unwrap_or(usize::MAX)))
    }

    /// Takes a number in a range.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f32>, ApiError> {
        self.take(name).map(|v| number(&self.path(name), &v, range)).transpose()
    }

    /// Takes a list of at least `low` and at most `high` items.
    pub(crate) fn list(
        &mut self,
        name: &str,
        low: usize,
        high: usize,
    ) -> Result<Option<Vec<Value>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) if (low..=high).contains(&items.len()) => Ok(Some(items)),
            Some(Value::Array(items)) => {
                let message = format!("`{}` has {} items, not {low} to {high}", self.path(name), items.len());
                Err(ApiError::field(self.path(name), message))
            }
            Some(other) => Err(wrong(&self.path(name), "a list", &other)),
        }
    }

    /// Takes fields that change nothing about an answer.
    pub(crate) fn harmless(&mut self, names: &[&str]) {
        names.iter().for_each(|name| drop(self.take(name)));
    }

    /// What is left, for whoever takes any name.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.map
    }

    /// Refuses what is left; `null` is nothing.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.map.iter().find(|(_, v)| !v.is_null()) {
            None => Ok(()),
            Some((name, _)) => {
                let shown: String = name.chars().take(128).collect();
                let path = self.path(&shown);
                Err(ApiError::unsupported(&path, format!("`{path}` is not supported")))
            }
        }
    }
}

/// A text of at most `most` characters, as schemas count them.
pub(crate) fn text(path: &str, value: Value, most: usize) -> Result<String, ApiError> {
    match value {
        Value::String(s) if s.len() <= most || s.chars().count() <= most => Ok(s),
        Value::String(s) => {
            let message = format!("`{path}` has {} characters; {most} are the most", s.chars().count());
            Err(ApiError::field(path, message))
        }
        other => Err(wrong(path, "a text", &other)),
    }
}

/// A whole number in a range.
pub(crate) fn integer(path: &str, value: &Value, range: RangeInclusive<i64>) -> Result<i64, ApiError> {
    let outside = || {
        let message = format!("`{path}` is not between {} and {}", range.start(), range.end());
        ApiError::field(path, message)
    };
    match value {
        // A number beyond 64 bits is read as a float.
        Value::Number(n) if n.as_f64().is_some_and(|f| f.fract() != 0.0) => {
            Err(wrong(path, "a whole number", value))
        }
        Value::Number(n) => whole(n).filter(|n| range.contains(n)).ok_or_else(outside),
        other => Err(wrong(path, "a whole number", other)),
    }
}

/// The number as an integer. JSON Schema calls `1.0` one, too; beyond 53 bits a float does not say which it means.
fn whole(number: &Number) -> Option<i64> {
    const MOST: f64 = (1_u64 << 53) as f64;
    let float = || number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() <= MOST).map(|f| f as i64);
    number.as_i64().or_else(float)
}

/// A number in a range.
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

/// A value of the wrong type.
pub(crate) fn wrong(path: &str, wanted: &str, value: &Value) -> ApiError {
    let message = format!("`{path}` must be {wanted}, not {}", kind(value));
    ApiError { code: "invalid_type", ..ApiError::field(path, message) }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(n) if n.is_f64() => "a fraction",
        Value::Number(_) => "a whole number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Fields {
        Fields::of_body(value).unwrap()
    }

    #[test]
    fn fields_are_checked_at_their_edges() {
        for (value, ok) in [(json!(1), true), (json!(8), true), (json!(0), false), (json!(9), false)] {
            assert_eq!(fields(json!({ "n": value })).size("n", 1, 8).is_ok(), ok, "{value}");
        }
        for value in [json!(1.5), json!("1"), json!(true), json!([]), json!(1e40)] {
            let error = fields(json!({ "n": value })).integer("n", 1..=8).unwrap_err();
            assert_eq!((error.param.as_deref(), error.status.as_u16()), (Some("n"), 400), "{value}");
        }
        assert_eq!(fields(json!({"n": null})).size("n", 1, 8).unwrap(), None);
        assert_eq!(fields(json!({"t": 2})).number("t", 0.0..=2.0).unwrap(), Some(2.0));
        assert!(fields(json!({"t": 2.0001})).number("t", 0.0..=2.0).is_err());
        assert!(fields(json!({"s": "abc"})).text("s", 3).is_ok());
        assert!(fields(json!({"s": "abcd"})).text("s", 3).is_err());
        assert!(fields(json!({"l": []})).list("l", 1, 2).is_err());
    }

    #[test]
    fn what_nobody_takes_is_named() {
        let mut body = fields(json!({"known": 1, "other": {"x": 1}}));
        body.take("known");
        let mut inner = Fields::at("other", body.take("other").unwrap()).unwrap();
        assert_eq!(inner.path("x"), "other.x");
        body.finish().unwrap();
        let error = inner.required("y").unwrap_err();
        assert_eq!((error.param.as_deref(), error.code), (Some("other.y"), "missing_required_parameter"));
        assert_eq!(inner.finish().unwrap_err().param.as_deref(), Some("other.x"));
        assert!(Fields::of_body(json!([])).is_err());
    }
}
