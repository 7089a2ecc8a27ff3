//! The form of tools that chat templates require.

use serde_json::{Map, Value, json};

/// Returns tools in the form that templates require: with a description and with parameters that have properties.
/// Missing or null ones become empty, as OpenAI's API defines them.
#[must_use]
pub fn described(tools: &Value) -> Value {
    let tool = |tool: &Value| {
        let mut tool = tool.clone();
        let Some(function) = tool.get_mut("function").and_then(Value::as_object_mut) else { return tool };
        if function.get("description").is_none_or(Value::is_null) {
            put(function, 1, "description", json!(""));
        }
        if function.get("parameters").is_none_or(Value::is_null) {
            put(function, 2, "parameters", json!({}));
        }
        if let Some(parameters) = function.get_mut("parameters").and_then(Value::as_object_mut) {
            drop_null_descriptions(parameters);
            if parameters.get("type").is_none_or(Value::is_null) {
                put(parameters, 0, "type", json!("object"));
            }
            if parameters.get("properties").is_none_or(Value::is_null) {
                put(parameters, 1, "properties", json!({}));
            }
        }
        tool
    };
    tools.as_array().map_or_else(|| tools.clone(), |tools| tools.iter().map(tool).collect())
}

/// Removes null descriptions of properties.
fn drop_null_descriptions(schema: &mut Map<String, Value>) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        if property.get("description").is_some_and(Value::is_null) {
            property.shift_remove("description");
        }
        drop_null_descriptions(property);
    }
}

/// Sets an entry: in its present position, or else at the given one.
fn put(map: &mut Map<String, Value>, place: usize, key: &str, value: Value) {
    match map.get_mut(key) {
        Some(old) => *old = value,
        None => {
            map.shift_insert(place.min(map.len()), key.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_get_what_templates_take_for_granted() {
        let empty = json!({ "type": "object", "properties": {} });
        for (given, wanted) in [
            (json!({ "name": "f" }), json!({ "name": "f", "description": "", "parameters": empty })),
            (
                json!({ "name": "f", "description": null, "parameters": null, "strict": true }),
                json!({ "name": "f", "description": "", "parameters": empty, "strict": true }),
            ),
            (
                json!({ "name": "f", "description": "d", "parameters": { "type": "object", "properties":
                    { "x": { "description": null, "properties": { "y": { "description": null } } } } } }),
                json!({ "name": "f", "description": "d", "parameters": { "type": "object", "properties":
                    { "x": { "properties": { "y": {} } } } } }),
            ),
            (
                json!({ "parameters": { "required": [] }, "name": "f", "description": "d" }),
                json!({ "parameters": { "type": "object", "properties": {}, "required": [] }, "name": "f", "description": "d" }),
            ),
        ] {
            let tools = described(&json!([{ "type": "function", "function": given }]));
            assert_eq!(tools[0]["function"].to_string(), wanted.to_string());
        }
    }
}
