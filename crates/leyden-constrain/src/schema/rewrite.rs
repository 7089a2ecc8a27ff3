//! Keywords that no grammar has, said by others.

use serde_json::{Map, Value, json};

use super::keywords::Keyword;
use super::keywords::{TYPES, keyword};

/// What `not` says, where that can be said without it.
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
                // Every number but the whole ones is more than a grammar of types can say.
                .filter(|name| {
                    !excluded.contains(name) && (*name != "integer" || !excluded.contains(&"number"))
                })
                .collect();
            (!whole && !rest.is_empty()).then(|| json!({ "type": rest }))
        }
        // What is no object has every required property.
        [("required", Value::Array(names))] => match names.as_slice() {
            [Value::String(name)] => Some(json!({ "type": "object", "properties": { name: false } })),
            _ => None,
        },
        _ => None,
    }
}

/// What `dependencies` of names, or `dependentRequired`, says: for each property, that it is absent or that others are
/// there.
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

/// The names in the value of `type`.
pub(super) fn type_names(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => names.iter().map(Value::as_str).collect(),
        _ => None,
    }
}
