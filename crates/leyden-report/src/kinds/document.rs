//! [`Doc`]: value of a document that knows its place, for messages.

use crate::chart::Estimate;
use crate::error::Error;
use serde_json::Value;

/// Value of a document, with its path.
#[derive(Clone, Debug)]
pub(super) struct Doc<'v> {
    value: &'v Value,
    path: String,
}

impl<'v> Doc<'v> {
    pub(super) fn new(value: &'v Value) -> Doc<'v> {
        Doc { value, path: String::new() }
    }

    fn place(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Returns a field that is there and not `null`.
    pub(super) fn find(&self, key: &str) -> Option<Doc<'v>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Doc { value, path: self.place(key) })
    }

    /// Returns a field.
    pub(super) fn get(&self, key: &str) -> Result<Doc<'v>, Error> {
        self.find(key).ok_or_else(|| Error::field(&self.place(key), "is missing"))
    }

    /// Returns a number, if the field is one.
    pub(super) fn find_number(&self, key: &str) -> Option<f64> {
        self.find(key)?.value.as_f64()
    }

    /// Returns a number.
    pub(super) fn number(&self, key: &str) -> Result<f64, Error> {
        let found = self.get(key)?;
        found.value.as_f64().ok_or_else(|| Error::field(&found.path, "must be a number"))
    }

    /// Returns a text, if the field is one.
    pub(super) fn text(&self, key: &str) -> Option<&'v str> {
        self.value.get(key)?.as_str()
    }

    /// Returns a text.
    pub(super) fn need_text(&self, key: &str) -> Result<&'v str, Error> {
        let found = self.get(key)?;
        found.value.as_str().ok_or_else(|| Error::field(&found.path, "must be a text"))
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.value.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns the values of an array.
    pub(super) fn items(&self, key: &str) -> Result<Vec<Doc<'v>>, Error> {
        let found = self.get(key)?;
        let all = found.value.as_array().ok_or_else(|| Error::field(&found.path, "must be an array"))?;
        let item = |(i, value)| Doc { value, path: format!("{}[{i}]", found.path) };
        Ok(all.iter().enumerate().map(item).collect())
    }

    /// Returns the values of an array; none if it is missing.
    pub(super) fn items_or_none(&self, key: &str) -> Result<Vec<Doc<'v>>, Error> {
        if self.find(key).is_none() { Ok(Vec::new()) } else { self.items(key) }
    }

    /// Returns the numbers of an array; none if it is missing.
    pub(super) fn numbers(&self, key: &str) -> Vec<f64> {
        let all = self.value.get(key).and_then(Value::as_array);
        all.into_iter().flatten().filter_map(Value::as_f64).collect()
    }

    /// Returns the pairs of numbers of an array of arrays.
    pub(super) fn pairs(&self, key: &str) -> Vec<(f64, f64)> {
        let all = self.value.get(key).and_then(Value::as_array);
        let pair = |pair: &Value| Some((pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?));
        all.into_iter().flatten().filter_map(pair).collect()
    }

    /// Returns the two numbers of an array.
    pub(super) fn pair(&self, key: &str) -> Option<(f64, f64)> {
        match self.numbers(key)[..] {
            [low, high] => Some((low, high)),
            _ => None,
        }
    }

    /// Returns an object of `value` with `low` and `high`, or with `interval`.
    pub(super) fn estimate(&self, key: &str) -> Result<Estimate, Error> {
        let found = self.get(key)?;
        let ends = found.find_number("low").zip(found.find_number("high"));
        let interval = ends.or(found.pair("interval")).filter(|(low, high)| low < high);
        Ok(Estimate { value: found.number("value")?, interval })
    }

    /// Returns the text of the value, whatever it is.
    pub(super) fn shown(&self) -> String {
        self.value.as_str().map_or_else(|| self.value.to_string(), str::to_owned)
    }
}
