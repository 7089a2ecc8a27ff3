//! The messages of a conversation, converted from the form of clients to that of chat templates.
//!
//! Clients send answers back as messages, so an assistant's message may have every field of an answer, and fields that
//! other servers and libraries add.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::limits::Limits;
use crate::tool_kinds::arguments_of;
use leyden_text::Message;
use serde_json::{Map, Value, json};

/// Roles of messages, and their names in chat templates.
const ROLES: &[(&str, &str)] = &[
    ("system", "system"),
    // Chat templates have the legacy name.
    ("developer", "system"),
    ("user", "user"),
    ("assistant", "assistant"),
    ("tool", "tool"),
    // OpenAI's legacy form of a tool's message.
    ("function", "tool"),
];

/// Fields of other servers' answers or of client libraries' messages that have no meaning for a model.
const HARMLESS: &[&str] =
    &["annotations", "parsed", "provider_specific_fields", "reasoning_details", "thinking_blocks"];

/// Fields without meaning for a model in a call, in its function, and in a content part.
const HARMLESS_IN_CALL: &[&str] = &["index", "extra_content", "provider_specific_fields"];
const HARMLESS_IN_FUNCTION: &[&str] = &["parsed_arguments"];
const HARMLESS_IN_PART: &[&str] = &["annotations", "cache_control", "logprobs"];

/// Types of content parts that are text, and the field with the text.
const PARTS: &[(&str, &str)] =
    &[("text", "text"), ("input_text", "text"), ("output_text", "text"), ("refusal", "refusal")];

/// Reads the messages of a conversation.
pub(crate) fn read(values: Vec<Value>) -> Result<Vec<Message>, ApiError> {
    let mut legacy = LegacyCalls::default();
    let read = |(i, value)| message(&format!("messages[{i}]"), value, &mut legacy);
    values.into_iter().enumerate().map(read).collect()
}

/// Ids for calls in OpenAI's legacy form, which has none: a call and the message with its result get the same id.
#[derive(Default)]
struct LegacyCalls(usize);

impl LegacyCalls {
    /// Returns an id of nine letters and digits, the form that the strictest chat template accepts.
    fn id(&self) -> String {
        format!("fcall{:04}", self.0 % 10_000)
    }
}

fn message(path: &str, value: Value, legacy: &mut LegacyCalls) -> Result<Message, ApiError> {
    let mut fields = Fields::from(value);
    let given = fields.text("role").unwrap_or_default();
    let role = ROLES.iter().find(|(name, _)| *name == given).map_or("", |(_, role)| *role);
    let mut extra = Map::new();
    if let Some(name) = fields.text("name") {
        extra.insert("name".to_owned(), name.into());
    }
    if let Some(calls) = calls(path, &mut fields, role, legacy)? {
        extra.insert("tool_calls".to_owned(), calls);
    }
    if role == "tool" {
        let id = fields.text("tool_call_id").unwrap_or_else(|| legacy.id());
        extra.insert("tool_call_id".to_owned(), id.into());
    }
    // vLLM has called it `reasoning` since 2025.
    for name in ["reasoning", "reasoning_content"] {
        if let Some(text) = fields.text(name) {
            extra.insert("reasoning_content".to_owned(), text.into());
        }
    }
    // An assistant's message with calls, reasoning or a refusal needs no content.
    let content = match fields.take("content") {
        Some(content) => text_of(content),
        None => fields.text("refusal").unwrap_or_default(),
    };
    Ok(Message { role: role.to_owned(), content, extra })
}

/// Returns the text of a content: a string, or text parts, which are joined with newlines as in vLLM and llama.cpp.
pub(crate) fn text_of(content: Value) -> String {
    let text = |part: Value| {
        let mut part = Fields::from(part);
        part.text("text").or_else(|| part.text("refusal")).unwrap_or_default()
    };
    match content {
        Value::String(text) => text,
        Value::Array(parts) => parts.into_iter().map(text).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// Returns the calls of a message in the form of chat templates; `None` if it has none.
fn calls(
    path: &str,
    fields: &mut Fields,
    role: &str,
    legacy: &mut LegacyCalls,
) -> Result<Option<Value>, ApiError> {
    let list = fields.list("tool_calls").filter(|calls| !calls.is_empty());
    let single = fields.object("function_call");
    let calls: Value = match (list, single) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            let message = "`tool_calls` and `function_call` exclude each other";
            return Err(ApiError::conflict(format!("{path}.function_call"), message));
        }
        (Some(list), None) => list.into_iter().map(Fields::from).map(tool_call).collect(),
        (None, Some(call)) => {
            legacy.0 += 1;
            json!([{ "type": "function", "id": legacy.id(), "function": function(call) }])
        }
    };
    if role != "assistant" {
        return Err(ApiError::field(
            format!("{path}.tool_calls"),
            "only an assistant's message has tool calls",
        ));
    }
    Ok(Some(calls))
}

fn tool_call(mut fields: Fields) -> Value {
    let called = match fields.object("custom") {
        Some(mut custom) => {
            let arguments = arguments_of(&custom.text("input").unwrap_or_default());
            json!({ "name": custom.text("name"), "arguments": arguments })
        }
        None => function(fields.object("function").unwrap_or_default()),
    };
    let mut call = json!({ "type": "function", "function": called });
    if let Some(id) = fields.text("id") {
        call["id"] = id.into();
    }
    call
}

/// Returns a function's name and arguments. The JSON text of the arguments is kept, so a template prints the same
/// digits.
fn function(mut function: Fields) -> Value {
    let arguments = match function.take("arguments") {
        Some(Value::String(text)) if !text.trim().is_empty() => text,
        Some(value @ Value::Object(_)) => value.to_string(),
        _ => "{}".to_owned(),
    };
    json!({ "name": function.text("name"), "arguments": arguments })
}

/// Returns the schema of `messages` in the OpenAPI document.
pub(crate) fn schema(limits: &Limits) -> Value {
    let name = json!({ "type": "string", "maxLength": limits.name_chars });
    let content = content_schema(limits);
    let function = closed(
        &["name"],
        json!({
            "name": name,
            "arguments": { "anyOf": [
                { "type": "object" },
                { "type": "string", "contentMediaType": "application/json" }
            ] }
        }),
        HARMLESS_IN_FUNCTION,
    );
    let call = json!({ "id": name, "type": { "const": "function" }, "function": function });
    let custom = closed(&["name", "input"], json!({ "name": name, "input": { "type": "string" } }), &[]);
    let custom = json!({ "id": name, "type": { "const": "custom" }, "custom": custom });
    let custom = closed(&["type", "custom"], custom, HARMLESS_IN_CALL);
    let call = json!({ "anyOf": [closed(&["function"], call, HARMLESS_IN_CALL), custom] });
    let calls = json!({ "type": "array", "maxItems": limits.tools, "items": call });
    let text = json!({ "type": "string" });
    let message = |roles: &[&str], required: &[&str], more: Value, harmless: &[&str]| {
        let mut properties = json!({
            "role": { "enum": roles }, "content": content, "name": name, "reasoning": text, "reasoning_content": text
        });
        if let (Value::Object(properties), Value::Object(more)) = (&mut properties, more) {
            properties.extend(more);
        }
        closed(required, properties, harmless)
    };
    let assistant = json!({ "tool_calls": calls, "function_call": function, "refusal": text });
    let id = json!({ "tool_call_id": name });
    let kinds = [
        message(&["system", "developer", "user"], &["role", "content"], json!({}), &HARMLESS[..1]),
        message(&["assistant"], &["role"], assistant, HARMLESS),
        message(&["function"], &["role", "content", "name"], json!({}), &HARMLESS[..1]),
        message(&["tool"], &["role", "content", "tool_call_id"], id, &HARMLESS[..1]),
    ];
    json!({ "type": "array", "minItems": 1, "maxItems": limits.messages, "items": { "anyOf": kinds } })
}

/// Returns the schema of a content: a string or text parts.
pub(crate) fn content_schema(limits: &Limits) -> Value {
    let part = |text: &str| {
        let kinds: Vec<&str> = PARTS.iter().filter(|(_, at)| *at == text).map(|(kind, _)| *kind).collect();
        let properties = json!({ "type": { "enum": kinds }, text: { "type": "string" } });
        closed(&["type", text], properties, HARMLESS_IN_PART)
    };
    let parts = json!({ "anyOf": [part("text"), part("refusal")] });
    json!({ "anyOf": [{ "type": "string" }, { "type": "array", "maxItems": limits.content_parts, "items": parts }] })
}

/// Returns the schema of an object with these properties; the values of the `harmless` ones are not checked.
fn closed(required: &[&str], mut properties: Value, harmless: &[&str]) -> Value {
    harmless.iter().for_each(|name| properties[*name] = json!({}));
    json!({
        "type": "object", "additionalProperties": false, "required": required, "properties": properties
    })
}
