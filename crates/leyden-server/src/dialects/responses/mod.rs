//! OpenAI's Responses: `/v1/responses`, whose answers are lists of items, and which are kept so that the next request can
//! name the one before.

mod items;
mod schema;

use self::items::Output;
pub(crate) use self::schema::{describe_answer, describe_delete, describe_retrieve};
use super::memory::Kept;
use crate::app::{App, Call, document, unix_time};
use crate::body::Reply;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate::Format;
use crate::inference::{self, Begun, Inference, Said};
use crate::mailbox::{End, Update};
use crate::messages::text_of;
use crate::prompt;
use crate::speech::{Answer, Speech};
use crate::usage::Usage;
use hyper::{Response, StatusCode};
use leyden_text::output::OutputEvent;
use serde_json::{Value, json};
use std::sync::Arc;

/// What of a request is repeated in its answer, with what stands there if it does not say.
fn repeated() -> Value {
    json!({
        "instructions": null, "max_output_tokens": null, "metadata": {}, "parallel_tool_calls": true,
        "previous_response_id": null, "reasoning": { "effort": null, "summary": null }, "store": true,
        "temperature": 1.0, "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [],
        "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "user": null,
    })
}

/// A request that can be served.
struct Ready {
    inference: Inference,
    /// What its answer begins with.
    head: Value,
    /// The conversation that it goes on with, without instructions.
    messages: Vec<Value>,
    store: bool,
}

pub(crate) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, ready) = prompt::prepare(&app, call, read).await?;
    let Ready { inference, mut head, messages, store } = ready;
    let owner = call.caller.id.clone();
    let alternatives = inference.extras.logprobs;
    let begun = inference::begin(Arc::clone(&app), call, inference).await?;
    let id = begun.running.id();
    head["id"] = format!("resp_{id}").into();
    head["model"] = begun.running.name_of(&begun.common.model).into();
    (head["temperature"], head["top_p"]) =
        (json!(begun.common.sampling.params.temperature), json!(begun.common.sampling.params.top_p));
    let output = Output::new(id, Arc::clone(&begun.common.model), alternatives);
    let mut events = Events { app, owner, store, messages, head, output, end: End::Stop, speech: None };
    if begun.common.stream {
        let Begun { running, mut speeches, .. } = begun;
        events.speech = Some(speeches.swap_remove(0));
        return Ok(running.stream(events));
    }
    let (mut said, usage) = begun.whole().await?;
    let Said { answer, end, logprobs, .. } = said.swap_remove(0);
    events.output.tokens(&logprobs);
    // The same items, without their events.
    let mut unheard = Vec::new();
    parts(answer).into_iter().for_each(|part| events.output.hear(part, &mut unheard));
    Ok(document(StatusCode::OK, &events.finished(end, usage, &mut unheard)))
}

/// The parts of a whole answer.
fn parts(answer: Answer) -> Vec<OutputEvent> {
    let mut parts = Vec::new();
    parts.extend(Some(OutputEvent::Reasoning(answer.reasoning)));
    parts.extend(Some(OutputEvent::Content(answer.content)));
    for (index, call) in answer.calls.into_iter().enumerate() {
        parts.push(OutputEvent::ToolCallStart { index, id: Some(call.id), name: call.name });
        parts.push(OutputEvent::ToolCallArguments { index, fragment: call.arguments });
    }
    parts
}

fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let mut body = call.fields(app)?;
    let mut head = json!({
        "id": "", "object": "response", "created_at": unix_time(), "status": "in_progress", "background": false,
        "error": null, "incomplete_details": null, "model": "", "output": [], "usage": null,
    });
    extend(&mut head, repeated());
    let store = body.flag("store").unwrap_or(true);
    head["store"] = store.into();
    let mut chat = Fields::default();
    for name in ["temperature", "top_p", "parallel_tool_calls"] {
        if let Some(value) = body.take(name) {
            head[name] = value.clone();
            chat.put(name, value);
        }
    }
    for name in ["metadata", "user"] {
        head[name] = body.take(name).unwrap_or(head[name].take());
    }
    body.hand(&mut chat, &["model", "stream", "seed", "top_k", "min_p", "stop"]);
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
        chat.put("chat_template_kwargs", json!({ "enable_thinking": effort != "none" }));
        chat.put("reasoning_effort", effort);
    }
    if let Some(format) = body.object("text").and_then(|mut text| text.take("format")) {
        head["text"]["format"] = format.clone();
        chat.put("response_format", response_format(Fields::from(format)));
    }
    if let Some(given) = body.list("tools") {
        head["tools"] = given.clone().into();
        chat.put("tools", given.into_iter().map(|tool| named(Fields::from(tool), true)).collect::<Value>());
    }
    if let Some(choice) = body.take("tool_choice") {
        head["tool_choice"] = choice.clone();
        chat.put("tool_choice", tool_choice(choice));
    }
    let mut messages = Vec::new();
    if let Some(id) = body.text("previous_response_id") {
        let kept = app.answers.find(&call.caller.id, &id).ok_or_else(|| unknown("previous_response_id"))?;
        messages = kept.messages;
        head["previous_response_id"] = id.into();
    }
    match body.take("input") {
        Some(Value::String(text)) => messages.push(json!({ "role": "user", "content": text })),
        Some(Value::Array(items)) => items.into_iter().for_each(|i| item(Fields::from(i), &mut messages)),
        _ => {}
    }
    let mut all = messages.clone();
    if let Some(instructions) = body.text("instructions") {
        head["instructions"] = instructions.as_str().into();
        instruct(&instructions, &mut all);
    }
    if all.is_empty() {
        return Err(ApiError::field("input", "`input` has nothing to answer"));
    }
    chat.put("messages", all);
    let inference = inference::chat(app, call, &mut chat).map_err(renamed)?;
    Ok(Ready { inference, head, messages, store })
}

fn unknown(param: &str) -> ApiError {
    let message = "there is no such response, or it is not kept any more";
    let error = ApiError::new(StatusCode::NOT_FOUND, "response_not_found", message);
    ApiError { param: Some(param.to_owned()), ..error }
}

/// An error about a field of a chat under the name that the client knows.
fn renamed(mut error: ApiError) -> ApiError {
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

/// Puts what the model is told before the conversation, which may begin with more of it.
fn instruct(text: &str, messages: &mut Vec<Value>) {
    match messages.first_mut().filter(|first| first["role"] == "system" || first["role"] == "developer") {
        Some(first) => first["content"] = format!("{text}\n\n{}", text_of(first["content"].take())).into(),
        None => messages.insert(0, json!({ "role": "system", "content": text })),
    }
}

/// A form of the answer as a chat has it.
fn response_format(mut format: Fields) -> Value {
    let kind = format.text("type").unwrap_or_default();
    if kind != "json_schema" {
        return json!({ "type": kind });
    }
    json!({ "type": kind, "json_schema": { "schema": format.take("schema") } })
}

/// A tool or the choice of one as a chat has it: what is beside the type here stands in an object there.
fn named(mut tool: Fields, whole: bool) -> Value {
    let mut function = Fields::default();
    let names = if whole { &["name", "description", "parameters", "strict"][..] } else { &["name"] };
    tool.hand(&mut function, names);
    json!({ "type": "function", "function": function.rest() })
}

fn tool_choice(choice: Value) -> Value {
    let mut choice = match choice {
        Value::Object(_) => Fields::from(choice),
        word => return word,
    };
    let Some(tools) = choice.list("tools") else { return named(choice, false) };
    let tools: Value = tools.into_iter().map(|tool| named(Fields::from(tool), false)).collect();
    json!({ "type": "allowed_tools", "allowed_tools": { "mode": choice.text("mode"), "tools": tools } })
}

/// Adds an item to a conversation: what an assistant thinks, says and calls are items of their own, and one message.
fn item(mut item: Fields, messages: &mut Vec<Value>) {
    let text = |content: Option<Value>| content.map(text_of).unwrap_or_default();
    match item.text("type").as_deref().unwrap_or("message") {
        "message" => {
            let role = item.text("role").unwrap_or_default();
            let content = text(item.take("content"));
            match open(messages).filter(|last| {
                role == "assistant" && last["content"].is_null() && last.get("tool_calls").is_none()
            }) {
                Some(last) => last["content"] = content.into(),
                None => messages.push(json!({ "role": role, "content": content })),
            }
        }
        "reasoning" => {
            let mut thoughts = text(item.take("content"));
            if thoughts.is_empty() {
                thoughts = text(item.take("summary"));
            }
            if !thoughts.is_empty() {
                messages.push(json!({ "role": "assistant", "content": null, "reasoning_content": thoughts }));
            }
        }
        "function_call" => {
            let function = json!({ "name": item.text("name"), "arguments": item.text("arguments") });
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
        _ => {
            let (id, content) = (item.text("call_id"), text(item.take("output")));
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
        }
    }
}

/// The message of an assistant that is the last.
fn open(messages: &mut [Value]) -> Option<&mut Value> {
    messages.last_mut().filter(|last| last["role"] == "assistant")
}

/// An answer under way.
struct Events {
    app: Arc<App>,
    owner: String,
    store: bool,
    messages: Vec<Value>,
    head: Value,
    output: Output,
    speech: Option<Speech>,
    end: End,
}

impl Events {
    /// The document of the answer, which is kept.
    fn finished(&mut self, end: End, usage: Usage, out: &mut Vec<u8>) -> Value {
        let status = if end == End::Length { "incomplete" } else { "completed" };
        self.output.close(status, out);
        let mut shown = self.head.clone();
        shown["status"] = status.into();
        shown["completed_at"] = unix_time().into();
        if end == End::Length {
            shown["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        shown["output"] = self.output.items.clone().into();
        shown["usage"] = json!({
            "input_tokens": usage.prompt, "output_tokens": usage.completion,
            "input_tokens_details": { "cached_tokens": usage.cached, "cache_write_tokens": 0 },
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": usage.prompt + usage.completion,
        });
        if self.store {
            let mut messages = std::mem::take(&mut self.messages);
            self.output.items.iter().for_each(|said| item(Fields::from(said.clone()), &mut messages));
            let id = shown["id"].as_str().unwrap_or_default().to_owned();
            self.app.answers.keep(&self.owner, &id, Kept { document: shown.clone(), messages });
        }
        shown
    }
}

impl Format for Events {
    fn begin(&mut self, _: Usage, out: &mut Vec<u8>) {
        for name in ["response.created", "response.in_progress"] {
            self.output.tell(name, json!({ "response": self.head }), out);
        }
    }

    fn update(&mut self, _: usize, update: Update, out: &mut Vec<u8>) {
        self.output.tokens(&update.logprobs);
        let parts = match &mut self.speech {
            Some(speech) => speech.hear(update.parts),
            None => update.parts,
        };
        parts.into_iter().for_each(|part| self.output.hear(part, out));
        self.end = update.end.unwrap_or(self.end);
    }

    fn end(&mut self, usage: Usage, out: &mut Vec<u8>) {
        let shown = self.finished(self.end, usage, out);
        let name = if self.end == End::Length { "response.incomplete" } else { "response.completed" };
        self.output.tell(name, json!({ "response": shown }), out);
    }

    fn fail(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        self.output.close("incomplete", out);
        let mut shown = self.head.clone();
        shown["status"] = "failed".into();
        shown["error"] = json!({ "code": "server_error", "message": error.message });
        shown["output"] = self.output.items.clone().into();
        self.output.tell("response.failed", json!({ "response": shown }), out);
    }
}

fn extend(all: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (all, more) {
        all.extend(more);
    }
}

pub(crate) async fn retrieve(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let kept = app.answers.find(&call.caller.id, &call.variable).ok_or_else(|| unknown("response_id"))?;
    Ok(document(StatusCode::OK, &kept.document))
}

pub(crate) async fn delete(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    if !app.answers.forget(&call.caller.id, &call.variable) {
        return Err(unknown("response_id"));
    }
    let shown = json!({ "id": call.variable, "object": "response", "deleted": true });
    Ok(document(StatusCode::OK, &shown))
}
