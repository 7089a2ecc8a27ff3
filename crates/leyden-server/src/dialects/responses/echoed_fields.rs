//! Request fields that the answer repeats.

use serde_json::{Value, json};

/// Returns the request fields that the answer repeats, with their values if the request lacks them.
pub(super) fn echoed_fields() -> Value {
    json!({
        "frequency_penalty": 0.0, "instructions": null, "max_output_tokens": null, "max_tool_calls": null,
        "metadata": {}, "parallel_tool_calls": true, "presence_penalty": 0.0, "previous_response_id": null,
        "prompt_cache_key": null, "prompt_cache_retention": null, "reasoning": { "effort": null, "summary": null },
        "safety_identifier": null, "service_tier": "default", "store": true, "temperature": 1.0,
        "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0,
        "truncation": "disabled",
    })
}

/// A field, and its value in an answer if the request lacks it.
pub(super) type Filled = (&'static str, fn() -> Value);

/// The fields of `text.format` with a JSON schema, and their values in an answer if the request lacks them.
pub(super) const FORMAT: &[Filled] =
    &[("name", || "answer".into()), ("description", || "".into()), ("strict", || true.into())];

/// Returns a request's object as the answer repeats it, with all fields if it is of type `kind`.
pub(super) fn with_defaults(mut object: Value, kind: &str, defaults: &[Filled]) -> Value {
    if object["type"] == kind {
        for (name, default) in defaults {
            if object.get(*name).is_none() {
                object[*name] = default();
            }
        }
    }
    object
}

/// Adds the fields of an object to another one.
pub(super) fn extend(all: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (all, more) {
        all.extend(more);
    }
}
