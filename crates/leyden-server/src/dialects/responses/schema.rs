//! Schemas of requests and answers.

use super::stored::{MAX_PAGE_ITEMS, PAGE_ITEMS};
use super::summary;
use crate::app::App;
use crate::messages::content_schema;
use crate::operation::operation;
use crate::paging;
use crate::sampling;
use crate::schema::{WORD, refused};
use crate::tool_kinds::{format_schema, other_than};
use serde_json::{Map, Value, json};

/// Returns the schema of an object with a type; the values of the `harmless` properties are not checked.
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

/// Kinds of items that are read. Others are left out.
const ITEMS: &[&str] = &[
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "reasoning",
    "item_reference",
    summary::KIND,
];

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
    // The type of a message is optional.
    message["required"] = json!(["role", "content"]);
    let call = json!({
        "call_id": name, "name": name, "arguments": { "type": "string", "contentMediaType": "application/json" }
    });
    let output = json!({ "call_id": name, "output": content });
    let custom = json!({ "call_id": name, "name": name, "input": text });
    // The type of a reference is optional, too.
    let mut reference = typed("item_reference", &["id"], json!({ "id": name }), &[]);
    reference["required"] = json!(["id"]);
    let reasoning = json!({ "summary": texts("summary_text"), "content": texts("reasoning_text") });
    let items = [
        message,
        typed(
            "function_call",
            &["call_id", "name", "arguments"],
            with(call, "namespace", &name),
            &["id", "status", "caller", "parsed_arguments"],
        ),
        typed(
            "function_call_output",
            &["call_id", "output"],
            output.clone(),
            &["id", "status", "name", "caller"],
        ),
        typed(
            "custom_tool_call",
            &["call_id", "name", "input"],
            with(custom, "namespace", &name),
            &["id", "status", "caller"],
        ),
        typed("custom_tool_call_output", &["call_id", "output"], output, &["id", "status", "name", "caller"]),
        typed("reasoning", &[], reasoning, &["id", "status", "encrypted_content"]),
        reference,
        typed(
            summary::KIND,
            &["encrypted_content"],
            json!({ "encrypted_content": text }),
            &["id", "status", "created_by"],
        ),
        other_than(ITEMS),
    ];
    json!({ "anyOf": [
        text, { "type": "array", "minItems": 1, "maxItems": limits.messages, "items": { "anyOf": items } }
    ] })
}

fn with(mut properties: Value, name: &str, schema: &Value) -> Value {
    properties[name] = schema.clone();
    properties
}

/// Returns the schemas of the fields about tools.
fn tools_schema(app: &App) -> Value {
    let limits = &app.limits;
    let name = json!({ "type": "string", "maxLength": 64, "pattern": WORD });
    let function = json!({
        "name": name, "description": { "type": "string", "maxLength": limits.schema_bytes },
        "strict": { "type": "boolean" }, "parameters": { "type": "object", "description": "A JSON schema" }
    });
    let harmless = &["defer_loading", "allowed_callers", "output_schema"];
    let function = typed("function", &["name"], function, harmless);
    let custom = json!({
        "name": name, "description": { "type": "string", "maxLength": limits.schema_bytes },
        "format": format_schema(limits.schema_bytes, false)
    });
    let custom = typed("custom", &["name"], custom, harmless);
    let kinds = ["function", "custom", "namespace"];
    let inner = [function.clone(), custom.clone(), other_than(&kinds)];
    let namespace = json!({
        "name": name, "description": { "type": "string", "maxLength": limits.schema_bytes },
        "tools": { "type": "array", "maxItems": limits.tools, "items": { "anyOf": inner } }
    });
    let namespace = typed("namespace", &["name", "tools"], namespace, &[]);
    let tool = json!({ "anyOf": [function, custom, namespace, other_than(&kinds)] });
    let [one, free_text] =
        ["function", "custom"].map(|kind| typed(kind, &["name"], json!({ "name": name }), &[]));
    let allowed = [one.clone(), free_text.clone(), other_than(&["function", "custom"])];
    let some = json!({
        "mode": { "enum": ["auto", "required"] },
        "tools": { "type": "array", "minItems": 1, "maxItems": limits.tools, "items": { "anyOf": allowed } }
    });
    let choices = [
        json!({ "enum": ["none", "auto", "required"] }),
        one,
        free_text,
        typed("allowed_tools", &["mode", "tools"], some, &[]),
    ];
    json!({
        "tools": { "type": "array", "maxItems": limits.tools, "items": tool },
        "tool_choice": { "anyOf": choices }, "parallel_tool_calls": { "type": "boolean" },
    })
}

/// Returns the schemas of the fields of a request.
fn fields(app: &App) -> Map<String, Value> {
    let limits = &app.limits;
    let sampling = sampling::schema(app);
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
        "stream_options": object(json!({ "include_obfuscation": { "type": "boolean" } })),
        "text": object(json!({ "format": { "anyOf": formats }, "verbosity": {} })),
        "reasoning": object(json!({ "effort": effort, "summary": {}, "generate_summary": {}, "context": {} })),
        "store": { "type": "boolean", "default": true, "description": "Whether the response is stored for later requests" },
        "previous_response_id": {
            "type": "string", "maxLength": limits.name_chars,
            "description": "Stored response that the conversation continues"
        },
        "truncation": {
            "enum": ["disabled", "auto"], "description": "Has no effect: an input that is too long is an error"
        },
        "background": { "const": false },
        "conversation": refused("use `previous_response_id`, or send the items"),
        "prompt": refused("send the text as `instructions`"),
        "max_tool_calls": { "type": "integer", "minimum": 1, "description": "Changes nothing" },
        "stop": crate::stop_conditions::schema(app)["stop"],
        "include": {
            "type": "array", "maxItems": limits.content_parts, "items": { "type": "string" },
            "description": "`message.output_text.logprobs` adds the log probabilities of the text's tokens; other values have no effect"
        },
        "top_logprobs": { "type": "integer", "minimum": 0, "maximum": limits.top_logprobs },
    });
    let word = json!({ "type": "string", "maxLength": limits.name_chars });
    for field in ["user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"] {
        properties[field] = word.clone();
    }
    for field in ["temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty"] {
        properties[field] = sampling[field].clone();
    }
    // OpenAI's limits; the metadata is repeated in the answer and stored with it.
    properties["metadata"] = json!({
        "type": "object", "maxProperties": 16, "propertyNames": { "maxLength": 64 },
        "additionalProperties": { "type": "string", "maxLength": 512 }
    });
    for field in ["service_tier", "prompt_cache_options"] {
        properties[field] = json!({});
    }
    match (properties, tools_schema(app)) {
        (Value::Object(mut properties), Value::Object(more)) => {
            properties.extend(more);
            properties
        }
        _ => Map::new(),
    }
}

pub(crate) fn describe_answer(app: &App) -> Value {
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["input"], "properties": fields(app)
    });
    let mut it = operation("respond", "OpenAI: create a response", Some(&body), &answer_schema());
    let piece = json!({ "type": "object", "required": ["data"], "properties": { "data": {
        "type": "string", "contentMediaType": "application/json",
        "contentSchema": { "type": "object", "required": ["type", "sequence_number"] }
    } } });
    it["responses"]["200"]["content"]["text/event-stream"] = json!({ "schema": piece });
    it
}

/// The request fields that determine the prompt.
const OF_PROMPT: &[&str] = &[
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "previous_response_id",
    "conversation",
    "prompt",
    "text",
    "reasoning",
    "truncation",
];

pub(crate) fn describe_count(app: &App) -> Value {
    let mut properties = fields(app);
    properties.retain(|name, _| OF_PROMPT.contains(&name.as_str()));
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["input"], "properties": properties
    });
    let answer = json!({
        "type": "object", "required": ["object", "input_tokens"],
        "properties": { "object": { "const": "response.input_tokens" }, "input_tokens": { "type": "integer" } }
    });
    operation("countInputTokens", "OpenAI: count the tokens of a request's prompt", Some(&body), &answer)
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

/// Returns the description of an operation on a stored answer.
fn of_kept(name: &str, summary: &str, answer: &Value) -> Value {
    let mut it = operation(name, summary, None, answer);
    it["parameters"] =
        json!([{ "name": "response_id", "in": "path", "required": true, "schema": { "type": "string" } }]);
    it
}

/// The fields of a request for a summary.
const OF_SUMMARY: &[&str] = &["model", "input", "instructions", "previous_response_id", "prompt_cache_key"];

pub(crate) fn describe_compact(app: &App) -> Value {
    let mut properties = fields(app);
    properties.retain(|name, _| OF_SUMMARY.contains(&name.as_str()));
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["model"], "properties": properties
    });
    let answer = json!({
        "type": "object", "required": ["id", "object", "output", "created_at", "usage"],
        "properties": {
            "object": { "const": "response.compaction" }, "output": { "type": "array", "items": { "type": "object" } }
        }
    });
    operation("compact", "OpenAI: compact a conversation", Some(&body), &answer)
}

pub(crate) fn describe_input_items(_: &App) -> Value {
    let answer = paging::schema(&json!({ "type": "object" }));
    let mut it = of_kept("listInputItems", "OpenAI: list the input items of a stored response", &answer);
    if let (Value::Array(all), Value::Array(more)) =
        (&mut it["parameters"], paging::described(PAGE_ITEMS, MAX_PAGE_ITEMS))
    {
        all.extend(more);
    }
    it
}

pub(crate) fn describe_cancel(_: &App) -> Value {
    of_kept(
        "cancelResponse",
        "OpenAI: cancel a response; always refused, because there are no background responses",
        &answer_schema(),
    )
}

pub(crate) fn describe_retrieve(_: &App) -> Value {
    of_kept("getResponse", "OpenAI: retrieve a stored response", &answer_schema())
}

pub(crate) fn describe_delete(_: &App) -> Value {
    let answer = json!({ "type": "object", "required": ["id", "deleted"] });
    of_kept("deleteResponse", "OpenAI: delete a stored response", &answer)
}
