//! OpenAI's legacy form of tools: `functions` and `function_call` instead of `tools` and `tool_choice`.
//!
//! Such a request is converted to the newer form, and its answers are written in the legacy one.

use crate::error::ApiError;
use crate::fields::Fields;
use serde_json::{Value, json};

/// Converts the fields of a body to the newer form; returns true if they had the legacy one.
pub(crate) fn rewrite(body: &mut Fields) -> Result<bool, ApiError> {
    let functions = body.take("functions");
    let choice = body.take("function_call");
    let (legacy, newer) = match (&functions, &choice) {
        (None, None) => return Ok(false),
        (Some(_), _) => ("functions", ["tools", "tool_choice"]),
        (None, Some(_)) => ("function_call", ["tools", "tool_choice"]),
    };
    for name in newer {
        if body.has(name) {
            let message = format!("`{legacy}` and `{name}` exclude each other");
            return Err(ApiError::conflict(legacy, message));
        }
    }
    let tool = |function| json!({ "type": "function", "function": function });
    match functions {
        Some(Value::Array(functions)) => {
            body.put("tools", functions.into_iter().map(tool).collect::<Value>())
        }
        Some(other) => body.put("tools", other),
        None => {}
    }
    match choice {
        Some(choice @ Value::Object(_)) => body.put("tool_choice", tool(choice)),
        Some(choice) => body.put("tool_choice", choice),
        None => {}
    }
    // The legacy form has room for one call only.
    body.put("parallel_tool_calls", false);
    Ok(true)
}

/// Renames the field of an error to the name in the client's request.
pub(crate) fn renamed(mut error: ApiError) -> ApiError {
    let rename = |text: &str| {
        let mut text =
            text.replace("tool_choice.function", "function_call").replace("tool_choice", "function_call");
        while let Some((before, after)) = text.split_once("tools[").map(|(a, b)| (a.to_owned(), b.to_owned()))
        {
            text = format!("{before}functions[{}", after.replacen("].function", "]", 1));
        }
        text.replace("tools", "functions")
    };
    error.param = error.param.as_deref().map(rename);
    error.message = rename(&error.message);
    error
}

/// Converts a message, or a piece of one, to the legacy form.
pub(crate) fn write(message: &mut Value) {
    let Some(map) = message.as_object_mut() else { return };
    if let Some(calls) = map.shift_remove("tool_calls") {
        map.insert("function_call".to_owned(), calls[0]["function"].clone());
    }
}

/// Returns the reason of the end of an answer in the legacy form.
pub(crate) fn finish(reason: &'static str) -> &'static str {
    if reason == "tool_calls" { "function_call" } else { reason }
}

/// Returns the fields in the OpenAPI document; `function` is the schema of a tool's function.
pub(crate) fn schema(functions: usize, function: &Value, name: &Value) -> Value {
    let named = json!({
        "type": "object", "additionalProperties": false, "required": ["name"], "properties": { "name": name }
    });
    json!({
        "functions": {
            "type": "array", "maxItems": functions, "items": function,
            "description": "Deprecated by OpenAI; use `tools`"
        },
        "function_call": {
            "anyOf": [{ "enum": ["none", "auto"] }, named],
            "description": "Deprecated by OpenAI; use `tool_choice`. Needs `functions`"
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(body: Value) -> Result<Value, String> {
        let mut fields = Fields::from(body);
        rewrite(&mut fields).map_err(|e| e.message)?;
        Ok(Value::Object(fields.rest()))
    }

    #[test]
    fn older_fields_become_newer_ones() {
        let function = json!({ "name": "f", "parameters": {} });
        let tools = json!([{ "type": "function", "function": function }]);
        assert_eq!(
            rewritten(json!({ "functions": [function], "function_call": { "name": "f" } })),
            Ok(json!({
                "tools": tools, "tool_choice": { "type": "function", "function": { "name": "f" } },
                "parallel_tool_calls": false
            }))
        );
        assert_eq!(
            rewritten(json!({ "functions": [function], "function_call": "none" })),
            Ok(json!({ "tools": tools, "tool_choice": "none", "parallel_tool_calls": false }))
        );
        assert_eq!(rewritten(json!({ "tools": tools })), Ok(json!({ "tools": tools })));
        let both = rewritten(json!({ "functions": [function], "tools": tools })).unwrap_err();
        assert_eq!(both, "`functions` and `tools` exclude each other");
        let error = ApiError::field("tools[3].function.name", "`tools[3].function.name` is not");
        let error = renamed(error);
        assert_eq!(
            (error.param.as_deref(), error.message.as_str()),
            (Some("functions[3].name"), "`functions[3].name` is not")
        );
        let error = renamed(ApiError::field(
            "tool_choice.function.name",
            "`tool_choice` asks, but there are no `tools`",
        ));
        assert_eq!(error.param.as_deref(), Some("function_call.name"));
        assert_eq!(error.message, "`function_call` asks, but there are no `functions`");
    }
}
