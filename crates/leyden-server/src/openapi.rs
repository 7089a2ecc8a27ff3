//! The OpenAPI document: built from the table of routes, so that no endpoint is missing.

use crate::limits::Limits;
use crate::routes::Route;
use serde_json::{Map, Value, json};

/// An operation: its name, what it does, the schema of its body if it takes one, and that of its answer.
pub(crate) fn operation(name: &str, summary: &str, body: Option<&Value>, answer: &Value) -> Value {
    let mut it = json!({
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": { "description": "The answer", "content": { "application/json": { "schema": answer } } },
            "default": { "$ref": "#/components/responses/Error" },
        }
    });
    if let Some(body) = body {
        it["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": body } } });
    }
    it
}

/// The document.
pub(crate) fn document(routes: &[Route], keys: bool) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let mut operation = (route.describe)();
        operation["x-access"] = route.access.name().into();
        if route.access == crate::auth::Access::Open {
            operation["security"] = json!([]);
        }
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    let error = json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": { "type": "string" }, "type": { "type": "string" },
                "param": { "type": ["string", "null"], "description": "The field at fault" },
                "code": { "type": ["string", "null"] }
            }
        } }
    });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "leyden", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "security": if keys { json!([{ "key": [] }]) } else { json!([]) },
        "components": {
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "responses": { "Error": {
                "description": "The request failed", "content": { "application/json": { "schema": error } }
            } }
        }
    })
}

/// The schema of a conversation.
pub(crate) fn messages_schema() -> Value {
    let limits = Limits::default();
    let name = json!({ "type": "string", "maxLength": limits.name_bytes });
    let part = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["type", "text"],
        "properties": { "type": { "const": "text" }, "text": { "type": "string" } }
    });
    let content = json!({ "anyOf": [
        { "type": "string" }, { "type": "array", "maxItems": limits.content_parts, "items": part }
    ] });
    let call = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["function"],
        "properties": {
            "id": name, "type": { "const": "function" }, "index": {},
            "function": {
                "type": "object", "additionalProperties": false, "required": ["name"],
                "properties": {
                    "name": name,
                    "arguments": { "description": "An object, or a text with JSON", "type": ["string", "object"] }
                }
            }
        }
    });
    let message = json!({
        "type": "object",
        "required": ["role", "content"],
        "properties": {
            "role": { "enum": ["system", "developer", "user", "assistant", "tool"] },
            "content": content, "name": name, "tool_call_id": name, "reasoning_content": { "type": "string" },
            "tool_calls": { "type": "array", "minItems": 1, "maxItems": limits.tools, "items": call }
        }
    });
    json!({ "type": "array", "minItems": 1, "maxItems": limits.messages, "items": message })
}

/// The schema of a usage.
pub(crate) fn usage_schema() -> Value {
    json!({
        "type": "object",
        "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
        "properties": {
            "prompt_tokens": { "type": "integer" },
            "completion_tokens": { "type": "integer" },
            "total_tokens": { "type": "integer" },
            "prompt_tokens_details": { "type": "object", "properties": { "cached_tokens": { "type": "integer" } } }
        }
    })
}
