//! [`KnownKeys`]: a rule for every key of a JSON settings file.
//!
//! A key that changes a result is read, or refused with its value unless that value has no effect. Unknown keys are
//! returned, so that the caller can refuse or ignore them.

use super::json::Json;
use crate::Escaped;
use serde_json::Value;

/// A key and its rule.
#[derive(Debug)]
pub struct KnownKey {
    /// Name.
    pub key: &'static str,
    /// Rule for its values.
    pub rule: KeyRule,
}

/// Rule for the values of a key.
#[derive(Debug)]
pub enum KeyRule {
    /// The code that reads the key checks its value.
    Read,
    /// No value changes a result.
    Harmless,
    /// Refused unless it is empty: `null`, false, zero, an empty text, list or object. The text names the feature.
    Nothing(&'static str),
    /// Refused unless it is empty or one of these: texts, or numbers and booleans as JSON writes them. The last text
    /// names the feature.
    Only(&'static [&'static str], &'static str),
}

/// Rules of the keys of one file.
#[derive(Clone, Copy, Debug)]
pub struct KnownKeys(pub &'static [KnownKey]);

/// A key with a value that is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedKey {
    /// Name of the key.
    pub key: String,
    /// Its value and the reason.
    pub what: String,
}

/// Returns the rule of a key whose reader checks the value.
#[must_use]
pub const fn read_key(key: &'static str) -> KnownKey {
    KnownKey { key, rule: KeyRule::Read }
}

/// Returns the rule of a key without effect.
#[must_use]
pub const fn harmless_key(key: &'static str) -> KnownKey {
    KnownKey { key, rule: KeyRule::Harmless }
}

/// Returns the rule of a key that must be empty; `what` names the feature that other values ask for.
#[must_use]
pub const fn empty_key(key: &'static str, what: &'static str) -> KnownKey {
    KnownKey { key, rule: KeyRule::Nothing(what) }
}

/// Returns the rule of a key with a choice of values; `what` names the feature that others ask for.
#[must_use]
pub const fn choice_key(key: &'static str, values: &'static [&'static str], what: &'static str) -> KnownKey {
    KnownKey { key, rule: KeyRule::Only(values, what) }
}

/// Returns true if a value is empty: `null`, false, zero, an empty text, list or object.
#[must_use]
pub fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

/// Returns a value as messages show it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{}`", Escaped(text)),
        Value::Number(_) | Value::Bool(_) | Value::Null => value.to_string(),
        Value::Array(_) | Value::Object(_) => "this value".to_owned(),
    }
}

impl KnownKey {
    /// Returns the reason for which a value is refused, if it is.
    fn refuses(&self, value: &Value) -> Option<String> {
        let (values, what): (&[&str], &str) = match self.rule {
            KeyRule::Read | KeyRule::Harmless => return None,
            KeyRule::Nothing(what) => (&[], what),
            KeyRule::Only(values, what) => (values, what),
        };
        let written = match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        };
        if says_nothing(value) || written.is_some_and(|written| values.contains(&written.as_str())) {
            return None;
        }
        Some(format!("{} asks for {what}, which is not supported", shown(value)))
    }
}

impl KnownKeys {
    /// Returns the unknown keys whose values are not empty.
    ///
    /// # Errors
    /// A key has a value that is not supported.
    pub fn check(self, json: &Json) -> Result<Vec<String>, RefusedKey> {
        let mut unknown = Vec::new();
        for (key, value) in json.object() {
            match self.0.iter().find(|row| row.key == key) {
                Some(row) => {
                    if let Some(what) = row.refuses(value) {
                        return Err(RefusedKey { key: key.clone(), what });
                    }
                }
                None if says_nothing(value) => {}
                None => unknown.push(key.clone()),
            }
        }
        Ok(unknown)
    }

    /// Checks like [`check`](Self::check), and refuses unknown keys too.
    ///
    /// # Errors
    /// A key has a value that is not supported, or is unknown and not empty.
    pub fn check_all(self, json: &Json) -> Result<(), RefusedKey> {
        match self.check(json)?.into_iter().next() {
            None => Ok(()),
            Some(key) => {
                Err(RefusedKey { key, what: "is not a known key, and may change results".to_owned() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: KnownKeys = KnownKeys(&[
        read_key("size"),
        harmless_key("note"),
        empty_key("bend", "a bend"),
        choice_key("mode", &["plain", "2", "true"], "another mode"),
    ]);

    fn check(text: &str) -> Result<Vec<String>, String> {
        let json = Json::parse(text.as_bytes(), "settings.json").map_err(|e| e.to_string())?;
        KEYS.check(&json).map_err(|refused| format!("{}: {}", refused.key, refused.what))
    }

    #[test]
    fn keys_follow_their_rules() {
        assert_eq!(check(r#"{"size": 3, "note": "x", "bend": null, "mode": "plain"}"#), Ok(Vec::new()));
        assert_eq!(check(r#"{"bend": {}, "mode": 2, "warp": 0}"#), Ok(Vec::new()));
        assert_eq!(
            check(r#"{"mode": true, "warp": 1, "woof": "x"}"#),
            Ok(vec!["warp".into(), "woof".into()])
        );
        for (text, wanted) in [
            (r#"{"bend": 1}"#, "bend: 1 asks for a bend, which is not supported"),
            (r#"{"bend": ["x"]}"#, "bend: this value asks for a bend, which is not supported"),
            (r#"{"mode": "odd"}"#, "mode: `odd` asks for another mode, which is not supported"),
        ] {
            assert_eq!(check(text), Err(wanted.to_owned()), "{text}");
        }
        let json = Json::parse(br#"{"warp": 1}"#, "settings.json").expect("JSON");
        assert_eq!(KEYS.check_all(&json).map_err(|refused| refused.key), Err("warp".to_owned()));
    }
}
