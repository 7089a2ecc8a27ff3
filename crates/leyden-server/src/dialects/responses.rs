//! OpenAI's Responses: `/v1/responses`, whose answers are lists of items, and which are kept so that the next request can
//! name the one before.

use super::memory::Kept;
use crate::app::{App, Call, document, unix_time};
use crate::body::Reply;
use crate::dialect::event;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate::Format;
use crate::inference::{self, Begun, Inference, Said};
use crate::mailbox::{End, Update};
use crate::messages::{content_schema, text_of};
use crate::openapi::operation;
use crate::prompt;
use crate::sampling;
use crate::schema::WORD;
use crate::speech::{Answer, Speech};
use crate::usage::Usage;
use hyper::{Response, StatusCode};
use leyden_text::output::OutputEvent;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What of a request is repeated in its answer, with what stands there if it does not say.
fn repeated() -> Value {
    json!({
        "instructions": null, "max_output_tokens": null, "metadata": {}, "parallel_tool_calls": true,
        "previous_response_id": null, "reasoning": { "effort": null, "summary": null }, "store": true,
        "temperature": 1.0, "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled", "user": null,
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
    let begun = inference::begin(Arc::clone(&app), call, inference).await?;
    let id = begun.running.id();
    head["id"] = format!("resp_{id}").into();
    head["model"] = begun.common.model.name.as_str().into();
    (head["temperature"], head["top_p"]) =
        (json!(begun.common.sampling.params.temperature), json!(begun.common.sampling.params.top_p));
    let mut events =
        Events { app, owner, store, messages, head, output: Output::new(id), end: End::Stop, speech: None };
    if begun.common.stream {
        let Begun { running, mut speeches, .. } = begun;
        events.speech = Some(speeches.swap_remove(0));
        return Ok(running.stream(events));
    }
    let (mut said, usage) = begun.whole().await?;
    let Said { answer, end, .. } = said.swap_remove(0);
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

/// The items of an answer, and the events that tell of them.
struct Output {
    id: String,
    items: Vec<Value>,
    /// The text of the last item, which is open where this is `Some`.
    open: Option<(Kind, String)>,
    /// How many events there were.
    sequence: u64,
}

/// A kind of item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    Call,
}

impl Kind {
    /// What the events are called that tell of its text: more of it, and the whole.
    fn events(self) -> [&'static str; 2] {
        match self {
            Kind::Reasoning => ["response.reasoning_text.delta", "response.reasoning_text.done"],
            Kind::Message => ["response.output_text.delta", "response.output_text.done"],
            Kind::Call => ["response.function_call_arguments.delta", "response.function_call_arguments.done"],
        }
    }

    /// The part of an item that has its text.
    fn part(self, text: &str) -> Value {
        match self {
            Kind::Reasoning => json!({ "type": "reasoning_text", "text": text }),
            _ => json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }),
        }
    }
}

impl Output {
    fn new(id: String) -> Output {
        Output { id, items: Vec::new(), open: None, sequence: 0 }
    }

    /// Tells of something.
    fn tell(&mut self, name: &str, more: Value, out: &mut Vec<u8>) {
        let mut value = json!({ "type": name, "sequence_number": self.sequence });
        extend(&mut value, more);
        event(name, &value, out);
        self.sequence += 1;
    }

    /// Tells of the item that is open.
    fn tell_item(&mut self, name: &str, more: Value, out: &mut Vec<u8>) {
        let at = self.items.len().saturating_sub(1);
        let mut value = json!({ "output_index": at, "item_id": self.items[at]["id"] });
        extend(&mut value, more);
        self.tell(name, value, out);
    }

    /// Takes more of the answer.
    fn hear(&mut self, part: OutputEvent, out: &mut Vec<u8>) {
        match part {
            OutputEvent::Content(text) => self.say(Kind::Message, &text, out),
            OutputEvent::Reasoning(text) => self.say(Kind::Reasoning, &text, out),
            OutputEvent::ToolCallStart { id, name, .. } => {
                self.close("completed", out);
                let item = json!({
                    "type": "function_call", "call_id": id, "name": name, "arguments": "", "status": "in_progress",
                });
                self.begin(Kind::Call, "fc", item, out);
            }
            OutputEvent::ToolCallArguments { fragment, .. } => self.more(&fragment, out),
            OutputEvent::ToolCallEnd { .. } | OutputEvent::ToolCallUnfinished { .. } => {}
        }
    }

    fn say(&mut self, kind: Kind, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.close("completed", out);
            let (start, item) = match kind {
                Kind::Reasoning => ("rs", json!({ "type": "reasoning", "summary": [], "content": [] })),
                _ => ("msg", json!({ "type": "message", "role": "assistant", "content": [] })),
            };
            self.begin(kind, start, item, out);
            let part = kind.part("");
            self.tell_item("response.content_part.added", json!({ "content_index": 0, "part": part }), out);
        }
        self.more(text, out);
    }

    fn begin(&mut self, kind: Kind, start: &str, mut item: Value, out: &mut Vec<u8>) {
        let at = self.items.len();
        (item["id"], item["status"]) = (format!("{start}_{}_{at}", self.id).into(), "in_progress".into());
        self.items.push(item.clone());
        self.open = Some((kind, String::new()));
        self.tell("response.output_item.added", json!({ "output_index": at, "item": item }), out);
    }

    fn more(&mut self, text: &str, out: &mut Vec<u8>) {
        let Some((kind, whole)) = &mut self.open else { return };
        whole.push_str(text);
        let [name, _] = kind.events();
        let mut more = json!({ "delta": text });
        match kind {
            Kind::Message => (more["content_index"], more["logprobs"]) = (0.into(), json!([])),
            Kind::Reasoning => more["content_index"] = 0.into(),
            Kind::Call => {}
        }
        self.tell_item(name, more, out);
    }

    /// Ends the item that is open.
    fn close(&mut self, status: &str, out: &mut Vec<u8>) {
        let Some((kind, text)) = self.open.take() else { return };
        let [_, name] = kind.events();
        if kind == Kind::Call {
            let at = self.items.len() - 1;
            let named = self.items[at]["name"].clone();
            self.items[at]["arguments"] = text.as_str().into();
            self.tell_item(name, json!({ "arguments": text, "name": named }), out);
        } else {
            let mut more = json!({ "content_index": 0, "text": text });
            if kind == Kind::Message {
                more["logprobs"] = json!([]);
            }
            self.tell_item(name, more, out);
            let part = kind.part(&text);
            let done = json!({ "content_index": 0, "part": part });
            self.tell_item("response.content_part.done", done, out);
            if let Some(last) = self.items.last_mut() {
                last["content"] = json!([part]);
            }
        }
        let Some(last) = self.items.last_mut() else { return };
        last["status"] = status.into();
        let item = last.clone();
        self.tell(
            "response.output_item.done",
            json!({ "output_index": self.items.len() - 1, "item": item }),
            out,
        );
    }
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
        "stop": crate::ending::schema(app)["stop"]
    });
    for field in ["temperature", "top_p", "top_k", "min_p", "seed"] {
        properties[field] = sampling[field].clone();
    }
    for field in [
        "metadata",
        "user",
        "safety_identifier",
        "service_tier",
        "include",
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
