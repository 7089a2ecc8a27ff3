//! The messages of a conversation, as clients send them and as templates read them.
//!
//! Clients send back what they got, so an assistant's message may have everything that an answer has, and what other
//! servers and libraries add to one.

use crate::error::ApiError;
use crate::fields::{self, Fields, wrong};
use crate::limits::Limits;
use leyden_text::{Message, check_json_text};
use serde_json::{Map, Value, json};

/// The roles that a message may have, and what templates call them.
const ROLES: &[(&str, &str)] = &[
    ("system", "system"),
    // Templates know the older name.
    ("developer", "system"),
    ("user", "user"),
    ("assistant", "assistant"),
    ("tool", "tool"),
    // OpenAI's older form of a tool's message.
    ("function", "tool"),
];

/// What stands in answers of servers or in messages of client libraries and says nothing to a model.
const HARMLESS: &[&str] =
    &["annotations", "parsed", "provider_specific_fields", "reasoning_details", "thinking_blocks"];

/// The kinds of parts that are texts, and where the text is.
const PARTS: &[(&str, &str)] =
    &[("text", "text"), ("input_text", "text"), ("output_text", "text"), ("refusal", "refusal")];

/// The messages of a conversation.
pub(crate) fn read(values: Vec<Value>, limits: &Limits) -> Result<Vec<Message>, ApiError> {
    let mut older = OlderCalls::default();
    let read = |(i, value)| message(&format!("messages[{i}]"), value, &mut older, limits);
    values.into_iter().enumerate().map(read).collect()
}

/// Ids for calls in OpenAI's older form, which has none: a call and the message that answers it have the same.
#[derive(Default)]
struct OlderCalls(usize);

impl OlderCalls {
    /// Nine letters and digits: what the strictest template wants of an id.
    fn id(&self) -> String {
        format!("fcall{:04}", self.0 % 10_000)
    }
}

fn message(path: &str, value: Value, older: &mut OlderCalls, limits: &Limits) -> Result<Message, ApiError> {
    let mut fields = Fields::at(path, value)?;
    let given = fields.required("role")?;
    let given = fields::text(&fields.path("role"), given, limits.name_chars)?;
    let Some((_, role)) = ROLES.iter().find(|(name, _)| *name == given) else {
        let known: Vec<&str> = ROLES.iter().map(|r| r.0).collect();
        let message = format!("`{path}.role` is not one of {}", known.join(", "));
        return Err(ApiError::field(fields.path("role"), message));
    };
    let mut extra = Map::new();
    if let Some(name) = fields.text("name", limits.name_chars)? {
        extra.insert("name".to_owned(), name.into());
    }
    if let Some(calls) = calls(&mut fields, role, older, limits)? {
        extra.insert("tool_calls".to_owned(), calls);
    }
    if given == "function" {
        fields.required_unless(extra.contains_key("name"), "name")?;
        extra.insert("tool_call_id".to_owned(), older.id().into());
    } else if *role == "tool" {
        let id = fields.required("tool_call_id")?;
        let id = fields::text(&fields.path("tool_call_id"), id, limits.name_chars)?;
        extra.insert("tool_call_id".to_owned(), id.into());
    }
    // vLLM has called it `reasoning` since 2025.
    for name in ["reasoning", "reasoning_content"] {
        if let Some(text) = fields.text(name, limits.body_bytes)? {
            extra.insert("reasoning_content".to_owned(), text.into());
        }
    }
    let refusal = match *role {
        "assistant" => Some(fields.text("refusal", limits.body_bytes)?.unwrap_or_default()),
        _ => None,
    };
    let content = match (fields.take("content"), refusal) {
        (Some(value), _) => content(&fields.path("content"), value, limits)?,
        // An assistant that calls, thinks or refuses need not say anything else.
        (None, Some(refusal)) => refusal,
        (None, None) => {
            return Err(fields.required("content").err().unwrap_or_else(|| ApiError::body("no content")));
        }
    };
    if *role == "assistant" {
        fields.harmless(HARMLESS);
    }
    fields.harmless(&["annotations"]);
    fields.finish()?;
    Ok(Message { role: (*role).to_owned(), content, extra })
}

/// A text, or a list of parts that are texts, which are put on lines of their own, as vLLM and llama.cpp do.
fn content(path: &str, value: Value, limits: &Limits) -> Result<String, ApiError> {
    let parts = match value {
        Value::String(text) => return Ok(text),
        Value::Array(parts) => parts,
        other => return Err(wrong(path, "a text or a list of parts", &other)),
    };
    if parts.len() > limits.content_parts {
        let message = format!("`{path}` has {} parts; {} are the most", parts.len(), limits.content_parts);
        return Err(ApiError::field(path, message));
    }
    let mut texts = Vec::with_capacity(parts.len());
    for (i, part) in parts.into_iter().enumerate() {
        let mut fields = Fields::at(&format!("{path}[{i}]"), part)?;
        let kind = fields.required("type")?;
        let Some((_, name)) = PARTS.iter().find(|(known, _)| kind == *known) else {
            let at = fields.path("type");
            return Err(ApiError::unsupported(
                &at,
                format!("`{at}`: only parts of type `text` are supported"),
            ));
        };
        let piece = fields.required(name)?;
        texts.push(fields::text(&fields.path(name), piece, limits.body_bytes)?);
        fields.harmless(&["annotations", "cache_control"]);
        fields.finish()?;
    }
    Ok(texts.join("\n"))
}

/// The calls of a message as templates get them; `None` if it has none.
fn calls(
    fields: &mut Fields,
    role: &str,
    older: &mut OlderCalls,
    limits: &Limits,
) -> Result<Option<Value>, ApiError> {
    let list = fields.list("tool_calls", 0, limits.tools)?.filter(|calls| !calls.is_empty());
    let single = fields.take("function_call");
    let (name, calls) = match (list, single) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            let message = "`tool_calls` and `function_call` exclude each other";
            return Err(ApiError::conflict(fields.path("function_call"), message));
        }
        (Some(list), None) => {
            let base = fields.path("tool_calls");
            let read = |(i, call)| tool_call(&format!("{base}[{i}]"), call, limits);
            ("tool_calls", list.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?)
        }
        (None, Some(call)) => {
            older.0 += 1;
            let function = function(&fields.path("function_call"), call, limits)?;
            ("function_call", vec![json!({ "type": "function", "id": older.id(), "function": function })])
        }
    };
    if role != "assistant" {
        return Err(ApiError::field(fields.path(name), "only an assistant's message has tool calls"));
    }
    Ok(Some(calls.into()))
}

fn tool_call(path: &str, value: Value, limits: &Limits) -> Result<Value, ApiError> {
    let mut fields = Fields::at(path, value)?;
    let id = fields.text("id", limits.name_chars)?;
    if let Some(kind) = fields.take("type")
        && kind != "function"
    {
        return Err(ApiError::unsupported(
            fields.path("type"),
            "only calls of type `function` are supported",
        ));
    }
    fields.harmless(&["index", "extra_content", "provider_specific_fields"]);
    let called = fields.required("function")?;
    let called = function(&fields.path("function"), called, limits)?;
    fields.finish()?;
    let mut call = json!({ "type": "function", "function": called });
    if let Some(id) = id {
        call["id"] = id.into();
    }
    Ok(call)
}

/// A function's name and its arguments as a text with JSON, which stays as it is: a template shows the same digits.
fn function(path: &str, value: Value, limits: &Limits) -> Result<Value, ApiError> {
    let mut function = Fields::at(path, value)?;
    let name = function.required("name")?;
    let name = fields::text(&function.path("name"), name, limits.name_chars)?;
    let at = function.path("arguments");
    let arguments = match function.take("arguments") {
        None => "{}".to_owned(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
        Some(Value::String(text)) => {
            check_json_text(&text).map_err(|e| {
                ApiError::field(&at, format!("`{at}` is not JSON: {}, at byte {}", e.what, e.at))
            })?;
            text
        }
        Some(value @ Value::Object(_)) => value.to_string(),
        Some(other) => return Err(wrong(&at, "a text with JSON", &other)),
    };
    function.harmless(&["parsed_arguments"]);
    function.finish()?;
    Ok(json!({ "name": name, "arguments": arguments }))
}
