//! Keywords that are rewritten to other keywords.

use serde_json::{Map, Value, json};

use super::keywords::Keyword;
use super::keywords::{TYPES, keyword};

/// Returns the equivalent of `not` with this value, if there is one without `not`.
pub(super) fn negation(value: &Value) -> Option<Value> {
    let map = match value {
        Value::Bool(holds) => return Some(Value::Bool(!holds)),
        Value::Object(map) => map,
        _ => return None,
    };
    let said: Vec<(&str, &Value)> = map
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .filter(|(name, _)| keyword(name) != Keyword::Annotation)
        .collect();
    match said.as_slice() {
        [] => Some(Value::Bool(false)),
        [("type", types)] => {
            let excluded = type_names(types)?;
            let whole = excluded.contains(&"integer") && !excluded.contains(&"number");
            let rest: Vec<&str> = TYPES
                .into_iter()
                // All numbers except integers cannot be expressed by types.
                .filter(|name| {
                    !excluded.contains(name) && (*name != "integer" || !excluded.contains(&"number"))
                })
                .collect();
            (!whole && !rest.is_empty()).then(|| json!({ "type": rest }))
        }
        // Values other than objects satisfy `required`, so its negation demands an object.
        [("required", Value::Array(names))] => match names.as_slice() {
            [Value::String(name)] => Some(json!({ "type": "object", "properties": { name: false } })),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the equivalent of `dependencies` on names, or of `dependentRequired`: for each property, either it is
/// absent or the others are present.
pub(super) fn dependencies(value: &Value, around: &Map<String, Value>) -> Option<Vec<Value>> {
    let is_object = around.get("type") == Some(&Value::from("object"));
    let Value::Object(map) = value else { return None };
    map.iter()
        .map(|(name, needed)| {
            let needed = needed.as_array()?;
            if !is_object || !needed.iter().all(Value::is_string) {
                return None;
            }
            let absent = json!({ "type": "object", "properties": { name: false } });
            Some(json!({ "anyOf": [{ "type": "object", "required": needed }, absent] }))
        })
        .collect()
}

/// Returns the names in the value of `type`.
pub(super) fn type_names(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => names.iter().map(Value::as_str).collect(),
        _ => None,
    }
}
