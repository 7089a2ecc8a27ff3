//! Conversion of a request's items to messages of a chat.

use super::summary;
use crate::app::App;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::messages::text_of;
use crate::tool_kinds::{arguments_of, full_name};
use hyper::StatusCode;
use serde_json::{Value, json};

/// Adds the field `input` to the items of a conversation and to its messages. Returns paths and kinds of items that are
/// left out.
///
/// # Errors
/// 404: a referenced item is not stored.
pub(super) fn read(
    app: &App,
    call: &Call,
    input: Option<Value>,
    all: &mut Vec<Value>,
    messages: &mut Vec<Value>,
) -> Result<Vec<String>, ApiError> {
    let items = match input {
        Some(Value::String(text)) => vec![json!({ "role": "user", "content": text })],
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
        if !item.has("type") {
            item.put("type", "message");
        }
        let given = Value::from(item.clone().rest());
        match add(item, messages) {
            Some(kind) => left_out.push(format!("input[{i}]:{kind}")),
            None => all.push(given),
        }
    }
    Ok(left_out)
}

/// Returns an item of a stored answer by its id, which contains the id of the response.
fn kept(app: &App, call: &Call, at: usize, id: &str) -> Result<Fields, ApiError> {
    let of_response = id.split_once('_').and_then(|(_, rest)| rest.rsplit_once('_'));
    let kept =
        of_response.and_then(|(response, _)| app.answers.items(&call.caller.id, &format!("resp_{response}")));
    let found =
        kept.and_then(|(input, output)| input.into_iter().chain(output).find(|item| item["id"] == id));
    found.map(Fields::from).ok_or_else(|| unknown(&format!("input[{at}].id")))
}

/// Adds an item to a conversation: an assistant's reasoning, texts and calls are separate items, but one message.
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
        summary::KIND => match item.text("encrypted_content").and_then(|text| summary::message_of(&text)) {
            Some(summary) => messages.push(json!({ "role": "user", "content": summary })),
            None => return Some(kind),
        },
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

/// Gives ids to items that have none; the ids contain `response`, the id of the response.
pub(super) fn name(items: &mut [Value], response: &str) {
    let response = response.strip_prefix("resp_").unwrap_or(response);
    for (at, item) in items.iter_mut().enumerate() {
        if item["id"].is_string() {
            continue;
        }
        let start = match item["type"].as_str().unwrap_or_default() {
            "function_call" => "fc",
            "function_call_output" => "fco",
            "custom_tool_call" => "ctc",
            "custom_tool_call_output" => "ctco",
            "reasoning" => "rs",
            summary::KIND => "cmp",
            _ => "msg",
        };
        item["id"] = format!("{start}_{response}_i{at}").into();
    }
}

/// Returns an item in the form of item lists: with its status, and with a message's content as parts.
pub(super) fn shown(mut item: Value) -> Value {
    if item["type"] != summary::KIND && item["status"].is_null() {
        item["status"] = "completed".into();
    }
    match item["type"].as_str() {
        Some("message") => {
            let said = item["role"] == "assistant";
            let part = |text: Value| match said {
                true => json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }),
                false => json!({ "type": "input_text", "text": text }),
            };
            item["content"] = match item["content"].take() {
                Value::Array(parts) => parts
                    .into_iter()
                    .map(|mut it| match it.get("refusal") {
                        Some(_) => it,
                        None => part(it["text"].take()),
                    })
                    .collect(),
                text => json!([part(text)]),
            };
        }
        Some("reasoning") if item["summary"].is_null() => item["summary"] = json!([]),
        _ => {}
    }
    item
}

/// Returns the last message if it is an assistant's.
fn open(messages: &mut [Value]) -> Option<&mut Value> {
    messages.last_mut().filter(|last| last["role"] == "assistant")
}

/// Returns the error about an answer that is not stored.
pub(super) fn unknown(param: &str) -> ApiError {
    let message = "there is no such response, or it is no longer stored";
    let error = ApiError::new(StatusCode::NOT_FOUND, "response_not_found", message);
    ApiError { param: Some(param.to_owned()), ..error }
}
