//! Conversion of messages and other JSON documents to values.

use super::budget::Result;
use super::json_text;
use super::value::{Maker, Value};

impl Maker {
    /// Converts the messages of a conversation. Roles count as text of the template, since it may derive special
    /// tokens from them. With `read_arguments`, call arguments that are JSON texts are parsed.
    pub(super) fn messages(&self, json: &serde_json::Value, read_arguments: bool) -> Result<Value> {
        let word = |role: &str| role.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        let message = |message: &serde_json::Value| {
            let Some(map) = message.as_object() else { return self.json(message) };
            let entry = |(key, value): (&String, &serde_json::Value)| {
                let value = match value.as_str().filter(|role| key == "role" && word(role)) {
                    Some(role) => self.own(role)?,
                    None if read_arguments && key == "tool_calls" => self.calls(value)?,
                    None => self.json(value)?,
                };
                Ok((self.content(key)?, value))
            };
            self.dict(map.iter().map(entry).collect::<Result<_>>()?)
        };
        match json.as_array() {
            Some(messages) => self.list(messages.iter().map(message).collect::<Result<_>>()?),
            None => self.json(json),
        }
    }

    /// Converts tool calls, parsing their arguments.
    fn calls(&self, json: &serde_json::Value) -> Result<Value> {
        match json {
            serde_json::Value::Array(items) => {
                self.list(items.iter().map(|item| self.calls(item)).collect::<Result<_>>()?)
            }
            serde_json::Value::Object(map) => {
                let entry = |(key, value): (&String, &serde_json::Value)| {
                    let value = match (key.as_str(), value) {
                        ("arguments", serde_json::Value::String(text)) => {
                            json_text::value_or_text(text, self)?
                        }
                        ("function", function) => self.calls(function)?,
                        _ => self.json(value)?,
                    };
                    Ok((self.content(key)?, value))
                };
                self.dict(map.iter().map(entry).collect::<Result<_>>()?)
            }
            other => self.json(other),
        }
    }

    /// Converts a JSON document, whose strings are content.
    pub(super) fn json(&self, json: &serde_json::Value) -> Result<Value> {
        Ok(match json {
            serde_json::Value::Null => Value::None,
            serde_json::Value::Bool(b) => Value::Bool(*b),
            serde_json::Value::Number(n) => match n.as_i64() {
                Some(n) => Value::Int(n),
                None if n.is_u64() => self.big_int(&n.to_string())?,
                None => Value::Float(n.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(s) => self.content(s)?,
            serde_json::Value::Array(items) => {
                self.list(items.iter().map(|item| self.json(item)).collect::<Result<_>>()?)?
            }
            serde_json::Value::Object(map) => {
                let entry = |(key, value): (&String, _)| Ok((self.content(key)?, self.json(value)?));
                self.dict(map.iter().map(entry).collect::<Result<_>>()?)?
            }
        })
    }
}
