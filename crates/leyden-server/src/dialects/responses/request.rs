//! The fields of a request: those of the equivalent chat, and the fields that its answer begins with.

use super::echoed_fields::{FORMAT, echoed_fields, extend, with_defaults};
use super::input::{self, unknown};
use super::tools::{self, Tools};
use crate::app::App;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::inference::{self, Inference};
use crate::messages::text_of;
use crate::request_model::RequestModel;
use crate::timestamp::unix_time;
use crate::tool_kinds::ToolNames;
use serde_json::{Value, json};
use std::sync::Arc;

/// A request that has been read.
pub(super) struct Ready {
    pub(super) inference: Inference,
    pub(super) asked: ResponseRequest,
}

/// The fields of a request.
pub(super) struct ResponseRequest {
    /// The fields of the equivalent chat.
    pub(super) chat: Fields,
    /// The fields that its answer begins with.
    pub(super) head: Value,
    /// The items of the conversation that it continues, without instructions.
    pub(super) items: Vec<Value>,
    pub(super) names: Arc<ToolNames>,
    pub(super) store: bool,
}

/// Reads a request.
pub(super) fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let mut asked = read_request(app, call)?;
    let model = RequestModel::take(app, &mut asked.chat)?;
    let mut inference = inference::chat(app, call, model, &mut asked.chat).map_err(renamed)?;
    inference.names = Arc::clone(&asked.names);
    Ok(Ready { inference, asked })
}

/// Takes the fields of a request.
pub(super) fn read_request(app: &App, call: &Call) -> Result<ResponseRequest, ApiError> {
    let mut body = call.fields(app)?;
    let mut head = json!({
        "id": "", "object": "response", "created_at": unix_time(), "completed_at": null, "status": "in_progress",
        "background": false, "error": null, "incomplete_details": null, "model": "", "output": [], "usage": null,
    });
    extend(&mut head, echoed_fields());
    let store = body.flag("store").unwrap_or(true);
    head["store"] = store.into();
    let mut chat = Fields::default();
    for name in ["temperature", "top_p", "parallel_tool_calls"] {
        if let Some(value) = body.take(name) {
            head[name] = value.clone();
            chat.put(name, value);
        }
    }
    for name in [
        "max_tool_calls",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "user",
    ] {
        if let Some(value) = body.take(name) {
            head[name] = value;
        }
    }
    let sampling =
        ["model", "stream", "seed", "top_k", "min_p", "stop", "frequency_penalty", "presence_penalty"];
    body.hand(&mut chat, &sampling);
    let alternatives = body.size("top_logprobs").unwrap_or(0);
    head["top_logprobs"] = alternatives.into();
    let included = body.list("include").unwrap_or_default();
    if alternatives > 0 || included.iter().any(|what| what == "message.output_text.logprobs") {
        chat.put("logprobs", true);
        chat.put("top_logprobs", alternatives);
    }
    if let Some(most) = body.take("max_output_tokens") {
        head["max_output_tokens"] = most.clone();
        chat.put("max_tokens", most);
    }
    if let Some(effort) = body.object("reasoning").and_then(|mut reasoning| reasoning.text("effort")) {
        head["reasoning"]["effort"] = effort.as_str().into();
        chat.put("reasoning_effort", effort);
    }
    if let Some(format) = body.object("text").and_then(|mut text| text.take("format")) {
        head["text"]["format"] = with_defaults(format.clone(), "json_schema", FORMAT);
        chat.put("response_format", response_format(Fields::from(format)));
    }
    let mut left_out = unheeded(&mut body);
    let given = body.list("tools").unwrap_or_default();
    head["tools"] = given.iter().cloned().map(tools::shown).collect();
    let mut tools = Tools::read(given);
    if let Some(choice) = body.take("tool_choice") {
        head["tool_choice"] = choice.clone();
        chat.put("tool_choice", tools.choice(choice)?);
    }
    left_out.append(&mut tools.left_out);
    chat.put("tools", tools.functions);
    let (mut items, mut all) = (Vec::new(), Vec::new());
    if let Some(id) = body.text("previous_response_id") {
        let kept = app.answers.items(&call.caller.id, &id);
        let (before, output) = kept.ok_or_else(|| ApiError {
            code: "previous_response_not_found",
            ..unknown("previous_response_id")
        })?;
        items = before;
        items.extend(output);
        items.iter().for_each(|item| drop(input::add(Fields::from(item.clone()), &mut all)));
        head["previous_response_id"] = id.into();
    }
    left_out.extend(input::read(app, call, body.take("input"), &mut items, &mut all)?);
    call.leave_out(app, &left_out)?;
    if let Some(instructions) = body.text("instructions") {
        head["instructions"] = instructions.as_str().into();
        instruct(&instructions, &mut all);
    }
    if all.is_empty() {
        return Err(ApiError::field("input", "`input` is empty"));
    }
    chat.put("messages", all);
    Ok(ResponseRequest { chat, head, items, names: Arc::new(tools.names), store })
}

/// Takes `truncation` and `stream_options`. Returns the paths of values without effect.
fn unheeded(body: &mut Fields) -> Vec<String> {
    let mut places = Vec::new();
    if body.text("truncation").as_deref() == Some("auto") {
        places.push("truncation:auto".to_owned());
    }
    let padded = body.object("stream_options").and_then(|mut options| options.flag("include_obfuscation"));
    if padded == Some(true) {
        places.push("stream_options.include_obfuscation".to_owned());
    }
    places
}

/// Renames the field of a chat's error to the name in the client's request.
pub(super) fn renamed(mut error: ApiError) -> ApiError {
    let rename = |text: &str| {
        let text = text
            .replace("response_format.json_schema", "text.format")
            .replace("response_format", "text.format");
        let text = text.replace(".function.", ".").replace("max_tokens", "max_output_tokens");
        if text.starts_with("messages") { text.replacen("messages", "input", 1) } else { text }
    };
    error.param = error.param.as_deref().map(rename);
    error.message = rename(&error.message);
    error
}

/// Inserts instructions before the conversation, and joins them with a system message at its beginning.
fn instruct(text: &str, messages: &mut Vec<Value>) {
    match messages.first_mut().filter(|first| first["role"] == "system" || first["role"] == "developer") {
        Some(first) => first["content"] = format!("{text}\n\n{}", text_of(first["content"].take())).into(),
        None => messages.insert(0, json!({ "role": "system", "content": text })),
    }
}

/// Converts the format of the answer to that of a chat.
fn response_format(mut format: Fields) -> Value {
    let kind = format.text("type").unwrap_or_default();
    if kind != "json_schema" {
        return json!({ "type": kind });
    }
    json!({ "type": kind, "json_schema": { "schema": format.take("schema"), "strict": format.flag("strict") } })
}
