//! The items of a request as messages of a chat.

use super::unknown;
use crate::app::{App, Call};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::messages::text_of;
use crate::tool_kinds::{arguments_of, full_name};
use serde_json::{Value, json};

/// Adds the field `input` to a conversation. Returns places and kinds of items that are left out.
///
/// # Errors
/// 404: an item is named that is not kept.
pub(super) fn read(
    app: &App,
    call: &Call,
    input: Option<Value>,
    messages: &mut Vec<Value>,
) -> Result<Vec<String>, ApiError> {
    let items = match input {
        Some(Value::String(text)) => {
            messages.push(json!({ "role": "user", "content": text }));
            return Ok(Vec::new());
        }
        Some(Value::Array(items)) => items,
        _ => return Ok(Vec::new()),
    };
    let mut left_out = Vec::new();
    for (i, item) in items.into_iter().enumerate() {
        let mut item = Fields::from(item);
        let is_reference = match item.peek("type") {
            None => !item.has("role"),
            Some(kind) => kind == "item_reference",
        };
        if is_reference {
            item = kept(app, call, i, &item.text("id").unwrap_or_default())?;
        }
        if let Some(kind) = add(item, messages) {
            left_out.push(format!("input[{i}]:{kind}"));
        }
    }
    Ok(left_out)
}

/// An item of an answer that is kept, by its id, in which the id of the response stands.
fn kept(app: &App, call: &Call, at: usize, id: &str) -> Result<Fields, ApiError> {
    let of_response = id.split_once('_').and_then(|(_, rest)| rest.rsplit_once('_'));
    let answer =
        of_response.and_then(|(response, _)| app.answers.find(&call.caller.id, &format!("resp_{response}")));
    let items = answer.and_then(|mut kept| match kept.document["output"].take() {
        Value::Array(items) => Some(items),
        _ => None,
    });
    let found = items.into_iter().flatten().find(|item| item["id"] == id);
    found.map(Fields::from).ok_or_else(|| unknown(&format!("input[{at}].id")))
}

/// Adds an item to a conversation: thoughts, texts and calls of an assistant are items of their own, and one message.
/// Returns the kind of an item that is left out.
pub(super) fn add(mut item: Fields, messages: &mut Vec<Value>) -> Option<String> {
    let kind = item.text("type").unwrap_or_else(|| "message".to_owned());
    match kind.as_str() {
        "message" => message(item, messages),
        "reasoning" => {
            let mut thoughts = item.take("content").map(text_of).unwrap_or_default();
            if thoughts.is_empty() {
                thoughts = item.take("summary").map(text_of).unwrap_or_default();
            }
            if !thoughts.is_empty() {
                messages.push(json!({ "role": "assistant", "content": null, "reasoning_content": thoughts }));
            }
        }
        "function_call" | "custom_tool_call" => calls(&kind, item, messages),
        "function_call_output" | "custom_tool_call_output" => {
            let (id, content) = (item.text("call_id"), item.take("output").map(text_of).unwrap_or_default());
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
        }
        _ => return Some(kind),
    }
    None
}

fn message(mut item: Fields, messages: &mut Vec<Value>) {
    let role = item.text("role").unwrap_or_default();
    let content = item.take("content").map(text_of).unwrap_or_default();
    let goes_on = |last: &&mut Value| {
        role == "assistant" && last["content"].is_null() && last.get("tool_calls").is_none()
    };
    match open(messages).filter(goes_on) {
        Some(last) => last["content"] = content.into(),
        None => messages.push(json!({ "role": role, "content": content })),
    }
}

fn calls(kind: &str, mut item: Fields, messages: &mut Vec<Value>) {
    let name = item.text("name").unwrap_or_default();
    let name = full_name(item.text("namespace").as_deref(), &name);
    let arguments = match kind {
        "custom_tool_call" => Some(arguments_of(&item.text("input").unwrap_or_default())),
        _ => item.text("arguments"),
    };
    let function = json!({ "name": name, "arguments": arguments });
    let call = json!({ "id": item.text("call_id"), "type": "function", "function": function });
    if open(messages).is_none() {
        messages.push(json!({ "role": "assistant", "content": null }));
    }
    if let Some(last) = messages.last_mut() {
        match last.get_mut("tool_calls").and_then(Value::as_array_mut) {
            Some(calls) => calls.push(call),
            None => last["tool_calls"] = json!([call]),
        }
    }
}

/// The message of an assistant that is the last.
fn open(messages: &mut [Value]) -> Option<&mut Value> {
    messages.last_mut().filter(|last| last["role"] == "assistant")
}
