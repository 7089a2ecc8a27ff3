//! What requests and answers look like.

use crate::app::App;
use crate::messages::content_schema;
use crate::openapi::operation;
use crate::sampling;
use crate::schema::WORD;
use serde_json::{Map, Value, json};

/// The schema of an object of this type, with these fields of which some must be there, and some that may be anything.
fn typed(kind: &str, required: &[&str], properties: Value, harmless: &[&str]) -> Value {
    let mut properties: Map<String, Value> = match properties {
        Value::Object(properties) => properties,
        _ => Map::new(),
    };
    properties.insert("type".to_owned(), json!({ "const": kind }));
    properties.extend(harmless.iter().map(|name| ((*name).to_owned(), json!({}))));
    let required: Vec<&str> = required.iter().copied().chain(["type"]).collect();
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

fn input_schema(app: &App) -> Value {
    let limits = &app.limits;
    let (name, content) =
        (json!({ "type": "string", "maxLength": limits.name_chars }), content_schema(limits));
    let text = json!({ "type": "string" });
    let texts = |kind: &str| {
        let part = typed(kind, &["text"], json!({ "text": text }), &[]);
        json!({ "type": "array", "maxItems": limits.content_parts, "items": part })
    };
    let roles = json!({ "enum": ["user", "system", "developer", "assistant"] });
    let mut message = typed(
        "message",
        &["role", "content"],
        json!({ "role": roles, "content": content }),
        &["id", "status", "phase"],
    );
    // It need not say that it is one.
    message["required"] = json!(["role", "content"]);
    let call = json!({
        "call_id": name, "name": name, "arguments": { "type": "string", "contentMediaType": "application/json" }
    });
    let output = json!({ "call_id": name, "output": content });
    let reasoning = json!({ "summary": texts("summary_text"), "content": texts("reasoning_text") });
    let items = [
        message,
        typed(
            "function_call",
            &["call_id", "name", "arguments"],
            call,
            &["id", "status", "namespace", "parsed_arguments"],
        ),
        typed("function_call_output", &["call_id", "output"], output, &["id", "status", "name"]),
        typed("reasoning", &[], reasoning, &["id", "status", "encrypted_content"]),
    ];
    json!({ "anyOf": [
        text, { "type": "array", "minItems": 1, "maxItems": limits.messages, "items": { "anyOf": items } }
    ] })
}

pub(crate) fn describe_answer(app: &App) -> Value {
    let limits = &app.limits;
    let sampling = sampling::schema(app);
    let name = json!({ "type": "string", "maxLength": 64, "pattern": WORD });
    let function = json!({
        "name": name, "description": { "type": "string", "maxLength": limits.schema_bytes },
        "strict": { "type": "boolean" }, "parameters": { "type": "object", "description": "A JSON schema" }
    });
    let tool = typed("function", &["name"], function, &["defer_loading"]);
    let one = typed("function", &["name"], json!({ "name": name }), &[]);
    let some = json!({
        "mode": { "enum": ["auto", "required"] },
        "tools": { "type": "array", "minItems": 1, "maxItems": limits.tools, "items": one }
    });
    let choices = [
        json!({ "enum": ["none", "auto", "required"] }),
        one,
        typed("allowed_tools", &["mode", "tools"], some, &[]),
    ];
    let schema = json!({ "schema": { "type": ["object", "boolean"] }, "name": { "type": "string" } });
    let formats = [
        typed("text", &[], json!({}), &[]),
        typed("json_object", &[], json!({}), &[]),
        typed("json_schema", &["schema"], schema, &["description", "strict"]),
    ];
    let object = |properties: Value| json!({ "type": "object", "additionalProperties": false, "properties": properties });
    let effort = json!({ "type": "string", "maxLength": limits.name_chars });
    let mut properties = json!({
        "model": app.model_schema(), "input": input_schema(app), "instructions": { "type": "string" },
        "max_output_tokens": { "type": "integer", "minimum": 1, "maximum": i32::MAX },
        "stream": { "type": "boolean" },
        "stream_options": object(json!({ "include_obfuscation": { "const": false } })),
        "tools": { "type": "array", "maxItems": limits.tools, "items": tool },
        "tool_choice": { "anyOf": choices }, "parallel_tool_calls": { "type": "boolean" },
        "text": object(json!({ "format": { "anyOf": formats }, "verbosity": {} })),
        "reasoning": object(json!({ "effort": effort, "summary": {}, "generate_summary": {}, "context": {} })),
        "store": { "type": "boolean", "default": true, "description": "Whether the answer is kept, for a while" },
        "previous_response_id": {
            "type": "string", "maxLength": limits.name_chars,
            "description": "The answer that the conversation goes on behind, if it is still kept"
        },
        "truncation": { "const": "disabled" }, "background": { "const": false },
        "stop": crate::ending::schema(app)["stop"],
        "include": {
            "type": "array", "maxItems": limits.content_parts, "items": { "type": "string" },
            "description": "`message.output_text.logprobs` for the logarithmic probabilities of the text's tokens"
        },
        "top_logprobs": { "type": "integer", "minimum": 0, "maximum": limits.top_logprobs },
    });
    for field in ["temperature", "top_p", "top_k", "min_p", "seed"] {
        properties[field] = sampling[field].clone();
    }
    for field in [
        "metadata",
        "user",
        "safety_identifier",
        "service_tier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prompt_cache_options",
        "max_tool_calls",
    ] {
        properties[field] = json!({});
    }
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["input"], "properties": properties
    });
    let mut it = operation("respond", "OpenAI's: an answer in items", Some(&body), &answer_schema());
    let piece = json!({ "type": "object", "required": ["data"], "properties": { "data": {
        "type": "string", "contentMediaType": "application/json",
        "contentSchema": { "type": "object", "required": ["type", "sequence_number"] }
    } } });
    it["responses"]["200"]["content"]["text/event-stream"] = json!({ "schema": piece });
    it
}

fn answer_schema() -> Value {
    json!({
        "type": "object", "required": ["id", "object", "created_at", "status", "model", "output", "usage"],
        "properties": {
            "id": { "type": "string" }, "object": { "const": "response" }, "created_at": { "type": "integer" },
            "status": { "enum": ["completed", "incomplete"] }, "model": { "type": "string" },
            "output": { "type": "array", "items": { "type": "object", "required": ["type"] } },
            "usage": { "type": "object", "required": ["input_tokens", "output_tokens", "total_tokens"] }
        }
    })
}

/// The description of an operation on an answer that is kept.
fn of_kept(name: &str, summary: &str, answer: &Value) -> Value {
    let mut it = operation(name, summary, None, answer);
    it["parameters"] =
        json!([{ "name": "response_id", "in": "path", "required": true, "schema": { "type": "string" } }]);
    it
}

pub(crate) fn describe_retrieve(_: &App) -> Value {
    of_kept("getResponse", "OpenAI's: an answer that is kept", &answer_schema())
}

pub(crate) fn describe_delete(_: &App) -> Value {
    let answer = json!({ "type": "object", "required": ["id", "deleted"] });
    of_kept("deleteResponse", "OpenAI's: forgets an answer", &answer)
}
