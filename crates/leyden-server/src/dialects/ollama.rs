//! Ollama's API: `/api/chat` and `/api/generate`.
//!
//! Answers are streams of JSON lines by default; the last line has the reason of the end and the times. `keep_alive`
//! only affects models that are loaded on demand; others stay.

use crate::app::App;
use crate::auth;
use crate::body::Reply;
use crate::call::Call;
use crate::chat_output::{ChatOutput, ToolCall};
use crate::defaults::WITHOUT_EFFECT;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate::Format;
use crate::inference::{self, Inference, RunningInference};
use crate::json_form;
use crate::keep_alive;
use crate::log::Entry;
use crate::logprobs;
use crate::mailbox::{End, TokenLogprob, Update};
use crate::operation::operation;
use crate::prompt;
use crate::rendering;
use crate::replies::document;
use crate::request;
use crate::request_model::RequestModel;
use crate::sampling;
use crate::served::Served;
use crate::stop_conditions;
use crate::streamed_json::StreamedJson;
use crate::synonyms;
use crate::timestamp::rfc3339;
use crate::tool_kinds;
use crate::tools;
use crate::usage::Usage;
use hyper::{Response, StatusCode};
use leyden_text::output::OutputEvent;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Ollama's dialect.
pub(crate) static OLLAMA: Dialect =
    Dialect { name: "OllamaError", error, error_schema, any_content: true, key: auth::bearer };

fn error(error: &ApiError) -> Value {
    json!({ "error": error.message })
}

pub(super) fn error_schema() -> Value {
    json!({ "type": "object", "required": ["error"], "properties": { "error": { "type": "string" } } })
}

/// Endpoint of the request; it determines the field of the answer's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Chat,
    Generate,
}

/// A read request; the inference is `None` if the request only loads the model.
type Asked = (Option<Inference>, String, Kind);

/// Unloads a model. For a model that stays as long as the server, the answer is that of a request that loads it.
fn unload(app: &App, call: &Call, kind: Kind) -> Result<Response<Reply>, ApiError> {
    let mut body = call.fields(app)?;
    let name = body.text("model").or_else(|| body.text("name"));
    let entry = app.models.find(name.as_deref())?;
    let goes = app.models.let_go(&entry);
    let mut line = line(name.as_ref().unwrap_or(&entry.name), kind, "", None, &[]);
    (line["done"], line["done_reason"]) = (true.into(), if goes { "unload" } else { "load" }.into());
    Ok(document(StatusCode::OK, &line))
}

pub(crate) async fn chat(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    if call.only_unloads() {
        return unload(&app, &call, Kind::Chat);
    }
    let (call, asked) = prompt::prepare(&app, call, read_chat).await?;
    answer(app, call, asked).await
}

pub(crate) async fn generate(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    if call.only_unloads() {
        return unload(&app, &call, Kind::Generate);
    }
    let (call, asked) = prompt::prepare(&app, call, read_generate).await?;
    answer(app, call, asked).await
}

fn read_chat(app: &App, call: &Call) -> Result<Asked, ApiError> {
    let mut body = call.fields(app)?;
    let (mut chat, model) = shared(app, call, &mut body)?;
    let mut ids = CallIds::default();
    let given = body.list("messages").unwrap_or_default();
    let messages: Vec<Value> = given.into_iter().map(|m| message(Fields::from(m), &mut ids)).collect();
    let Some(last) = messages.last() else { return loads(&mut chat, model, Kind::Chat) };
    // The answer continues an assistant's message at the end.
    chat.put("continue_final_message", last["role"] == "assistant" && last.get("tool_calls").is_none());
    chat.put("messages", messages);
    let (functions, others) = tool_kinds::plain(body.list("tools").unwrap_or_default());
    call.leave_out(app, &others)?;
    chat.put("tools", functions);
    let name = model.answer_name();
    Ok((Some(inference::chat(app, call, model, &mut chat)?), name, Kind::Chat))
}

fn read_generate(app: &App, call: &Call) -> Result<Asked, ApiError> {
    let mut body = call.fields(app)?;
    let (mut fields, model) = shared(app, call, &mut body)?;
    let (text, system) = (body.text("prompt").unwrap_or_default(), body.text("system"));
    if text.is_empty() {
        return loads(&mut fields, model, Kind::Generate);
    }
    let name = model.answer_name();
    let suffix = body.text("suffix").filter(|suffix| !suffix.is_empty());
    let inference = if body.flag("raw").unwrap_or(false) || suffix.is_some() {
        fields.put("prompt", text);
        if let Some(suffix) = suffix {
            fields.put("suffix", suffix);
        }
        // In a completion `logprobs` is the number of alternatives.
        let told = fields.flag("logprobs").unwrap_or(false);
        let alternatives = fields.size("top_logprobs").unwrap_or(0);
        if told {
            fields.put("logprobs", alternatives);
        }
        inference::completion(app, call, model, &mut fields)?
    } else {
        let system = system.map(|system| json!({ "role": "system", "content": system }));
        let user = json!({ "role": "user", "content": text });
        fields.put("messages", system.into_iter().chain([user]).collect::<Value>());
        inference::chat(app, call, model, &mut fields)?
    };
    Ok((Some(inference), name, Kind::Generate))
}

/// Reads a request that only loads the model; its fields are validated all the same.
fn loads(fields: &mut Fields, model: RequestModel, kind: Kind) -> Result<Asked, ApiError> {
    let name = model.answer_name();
    request::read(fields, model, &["max_tokens"])?;
    Ok((None, name, kind))
}

/// Converts the fields that both endpoints share to those of a chat; returns them with the model.
fn shared(app: &App, call: &Call, body: &mut Fields) -> Result<(Fields, RequestModel), ApiError> {
    let mut fields = body.object("options").unwrap_or_default();
    synonyms::rename(&mut fields)?;
    json_form::closed_by_default(&mut fields, app);
    let model = model(app, call, body)?;
    fields.put("stream", body.flag("stream").unwrap_or(true));
    body.hand(&mut fields, &["think"]);
    if let Some(alternatives) = body.size("top_logprobs").filter(|&n| n > 0) {
        fields.put("top_logprobs", alternatives);
    }
    if body.flag("logprobs").unwrap_or(false) || fields.has("top_logprobs") {
        fields.put("logprobs", true);
    }
    match body.take("format") {
        Some(Value::String(format)) if format == "json" => {
            fields.put("response_format", json!({ "type": "json_object" }));
        }
        Some(schema @ Value::Object(_)) => fields.put("json_schema", schema),
        _ => {}
    }
    Ok((fields, model))
}

/// Returns the model of a request, and applies `keep_alive` to it.
pub(super) fn model(app: &App, call: &Call, body: &mut Fields) -> Result<RequestModel, ApiError> {
    keep_alive::keep(call, body)?;
    if let Some(name) = body.text("name").filter(|_| !body.has("model")) {
        body.put("model", name);
    }
    RequestModel::take(app, body)
}

/// Generator of ids for calls, which may lack them: results come in the order of the calls.
#[derive(Default)]
struct CallIds {
    made: usize,
    waiting: VecDeque<String>,
}

impl CallIds {
    fn of_call(&mut self, given: Option<String>) -> String {
        self.made += 1;
        // Nine letters and digits: the form that the strictest chat template accepts.
        let id = given.unwrap_or_else(|| format!("call{:05}", self.made % 100_000));
        self.waiting.push_back(id.clone());
        id
    }

    fn of_result(&mut self, given: Option<String>) -> String {
        if let Some(id) = given {
            self.waiting.retain(|other| *other != id);
            return id;
        }
        self.waiting.pop_front().unwrap_or_else(|| "call00000".to_owned())
    }
}

/// Converts a message to the form of a chat.
fn message(mut message: Fields, ids: &mut CallIds) -> Value {
    let role = message.text("role").unwrap_or_default();
    let mut told = json!({ "role": role, "content": message.text("content").unwrap_or_default() });
    if role == "tool" {
        told["tool_call_id"] = ids.of_result(message.text("tool_call_id")).into();
        if let Some(name) = message.text("tool_name").or_else(|| message.text("name")) {
            told["name"] = name.into();
        }
    }
    if let Some(thinking) = message.text("thinking").filter(|text| !text.is_empty()) {
        told["reasoning_content"] = thinking.into();
    }
    let calls = message.list("tool_calls").filter(|_| role == "assistant").unwrap_or_default();
    let calls = calls.into_iter().map(Fields::from);
    let call = |mut call: Fields| {
        let mut function = call.object("function").unwrap_or_default();
        let arguments = function.take("arguments").unwrap_or_else(|| json!({}));
        let function = json!({ "name": function.text("name"), "arguments": arguments });
        json!({ "id": ids.of_call(call.text("id")), "type": "function", "function": function })
    };
    let calls: Vec<Value> = calls.map(call).collect();
    if !calls.is_empty() {
        told["tool_calls"] = calls.into();
    }
    told
}

async fn answer(app: Arc<App>, call: Call, (asked, model, kind): Asked) -> Result<Response<Reply>, ApiError> {
    let Some(inference) = asked else {
        let mut loaded = line(&model, kind, "", None, &[]);
        (loaded["done"], loaded["done_reason"]) = (true.into(), "load".into());
        return Ok(document(StatusCode::OK, &loaded));
    };
    let alternatives = inference.extras.logprobs;
    let begun = inference::begin(app, call, inference).await?;
    let entry = Arc::clone(&begun.entry);
    let told = LogprobsField { model: Arc::clone(&begun.common.model), alternatives };
    if begun.common.stream {
        let RunningInference { running, mut chat_outputs, .. } = begun;
        let chat_output = chat_outputs.swap_remove(0);
        let lines =
            Lines { model, kind, entry, told, chat_output, call: None, logprobs: Vec::new(), end: End::Stop };
        return Ok(running.stream(lines));
    }
    let (mut said, usage) = begun.whole().await?;
    let said = said.swap_remove(0);
    let thinking = Some(said.answer.reasoning.as_str()).filter(|text| !text.is_empty());
    let mut whole = line(&model, kind, &said.answer.content, thinking, &said.answer.calls);
    let mut pieces = StreamedJson::new();
    told.write(said.logprobs, &mut whole, &mut pieces);
    finish(&mut whole, said.end, usage, &entry);
    Ok(pieces.document(&whole))
}

/// Log probabilities for the answer.
struct LogprobsField {
    model: Arc<Served>,
    /// Number of alternatives per token, if log probabilities are requested.
    alternatives: Option<usize>,
}

impl LogprobsField {
    fn write(&self, tokens: Vec<TokenLogprob>, line: &mut Value, pieces: &mut StreamedJson) {
        if let Some(alternatives) = self.alternatives.filter(|_| !tokens.is_empty()) {
            line["logprobs"] = logprobs::list(pieces, &self.model, alternatives, tokens);
        }
    }
}

/// Returns a line of an answer that is not the last one.
fn line(model: &str, kind: Kind, text: &str, thinking: Option<&str>, calls: &[ToolCall]) -> Value {
    let created = rfc3339(SystemTime::now());
    let mut line = json!({ "model": model, "created_at": created });
    match kind {
        Kind::Chat => {
            let mut message = json!({ "role": "assistant", "content": text });
            if let Some(thinking) = thinking {
                message["thinking"] = thinking.into();
            }
            if !calls.is_empty() {
                let call = |(i, call): (usize, &ToolCall)| {
                    let function = json!({ "index": i, "name": call.name, "arguments": call.input() });
                    json!({ "id": call.id, "function": function })
                };
                message["tool_calls"] = calls.iter().enumerate().map(call).collect();
            }
            line["message"] = message;
        }
        Kind::Generate => {
            line["response"] = text.into();
            if let Some(thinking) = thinking {
                line["thinking"] = thinking.into();
            }
        }
    }
    line["done"] = false.into();
    line
}

/// Adds to the last line the reason of the end, token counts, and times in nanoseconds.
fn finish(line: &mut Value, end: End, usage: Usage, entry: &Entry) {
    let (total, prompt) = entry.times();
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let more = json!({
        "done": true, "done_reason": if end == End::Length { "length" } else { "stop" },
        "total_duration": ns(total), "load_duration": 0,
        "prompt_eval_count": usage.prompt, "prompt_eval_duration": ns(prompt),
        "eval_count": usage.completion, "eval_duration": ns(total.saturating_sub(prompt)),
    });
    if let (Value::Object(line), Value::Object(more)) = (line, more) {
        line.extend(more);
    }
}

/// A stream of lines.
struct Lines {
    model: String,
    kind: Kind,
    entry: Arc<Entry>,
    chat_output: ChatOutput,
    /// An incomplete call; its arguments are sent as a whole object.
    call: Option<ToolCall>,
    told: LogprobsField,
    /// Log probabilities of tokens whose text has not been sent yet.
    logprobs: Vec<TokenLogprob>,
    end: End,
}

impl Lines {
    fn write(&mut self, text: &str, thinking: Option<&str>, calls: &[ToolCall], out: &mut Vec<u8>) {
        let mut line = line(&self.model, self.kind, text, thinking, calls);
        let mut pieces = StreamedJson::new();
        // Log probabilities are sent with the text of their tokens.
        if !text.is_empty() {
            self.told.write(std::mem::take(&mut self.logprobs), &mut line, &mut pieces);
        }
        pieces.write(&line, out);
        out.push(b'\n');
    }
}

impl Format for Lines {
    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn update(&mut self, _: usize, update: Update, out: &mut Vec<u8>) {
        self.logprobs.extend(update.logprobs);
        for part in self.chat_output.push(update.parts) {
            match part {
                OutputEvent::Content(text) => self.write(&text, None, &[], out),
                OutputEvent::Reasoning(text) => self.write("", Some(&text), &[], out),
                OutputEvent::ToolCallStart { id, name, .. } => {
                    let id = id.unwrap_or_default();
                    self.call = Some(ToolCall { id, name, arguments: String::new() });
                }
                OutputEvent::ToolCallArguments { fragment, .. } => {
                    if let Some(call) = &mut self.call {
                        call.arguments.push_str(&fragment);
                    }
                }
                OutputEvent::ToolCallEnd { .. } => {
                    if let Some(call) = self.call.take() {
                        self.write("", None, &[call], out);
                    }
                }
                OutputEvent::ToolCallUnfinished { .. } => {}
            }
        }
        self.end = update.end.unwrap_or(self.end);
    }

    fn end(&mut self, usage: Usage, out: &mut Vec<u8>) {
        let mut last = line(&self.model, self.kind, "", None, &[]);
        let mut pieces = StreamedJson::new();
        self.told.write(std::mem::take(&mut self.logprobs), &mut last, &mut pieces);
        finish(&mut last, self.end, usage, &self.entry);
        pieces.write(&last, out);
        out.push(b'\n');
    }

    fn fail(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{}\n", self::error(error)).as_bytes());
    }

    /// JSON lines have no comments, and clients do not accept empty lines.
    fn heartbeat(&self) -> &'static [u8] {
        b""
    }
}

/// Returns the schema of the fields that both endpoints share.
fn shared_schema(app: &App, more: Value) -> Value {
    let mut options = sampling::schema(app);
    let ending = stop_conditions::schema(app);
    options["stop"] = ending["stop"].clone();
    // -2 fills the context.
    options["num_predict"] = json!({ "type": "integer", "minimum": -2, "maximum": i32::MAX });
    extend(&mut options, json_form::schema());
    WITHOUT_EFFECT.iter().for_each(|name| options[*name] = json!({}));
    let mut properties = json!({
        "model": app.model_schema(),
        "options": { "type": "object", "additionalProperties": false, "properties": options },
        "stream": { "type": "boolean", "default": true },
        "think": rendering::schema(&app.limits)["think"],
        "logprobs": { "type": "boolean" },
        "top_logprobs": { "type": "integer", "minimum": 0, "maximum": app.limits.top_logprobs },
        "format": {
            "anyOf": [{ "enum": ["", "json"] }, { "type": "object" }],
            "description": "`json`, or a JSON schema, which is enforced"
        },
        // Images cannot be processed, and ignoring them would mislead the client.
        "images": { "type": "array", "maxItems": 0 },
        "keep_alive": keep_alive::schema()
    });
    extend(&mut properties, more);
    json!({ "type": "object", "additionalProperties": false, "required": ["model"], "properties": properties })
}

fn extend(all: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (all, more) {
        all.extend(more);
    }
}

/// Returns the schema of an answer or of a line of one, whose text is in `field`.
fn answer_schema(field: &str, text: &Value) -> Value {
    json!({
        "type": "object", "required": ["model", "created_at", "done", field],
        "properties": {
            "model": { "type": "string" }, "created_at": { "type": "string" }, "done": { "type": "boolean" },
            "done_reason": { "enum": ["stop", "length", "load", "unload"] }, "eval_count": { "type": "integer" },
            "prompt_eval_count": { "type": "integer" }, field: text
        }
    })
}

/// Returns an operation whose answer may be a stream of lines.
fn in_lines(name: &str, summary: &str, body: &Value, answer: &Value) -> Value {
    let mut it = operation(name, summary, Some(body), answer);
    it["responses"]["200"]["content"]["application/x-ndjson"] = json!({ "schema": { "type": "string" } });
    it
}

pub(crate) fn describe_chat(app: &App) -> Value {
    let limits = &app.limits;
    let name = json!({ "type": "string", "maxLength": limits.name_chars });
    let function = json!({
        "type": "object", "additionalProperties": false, "required": ["name"],
        "properties": {
            "name": name, "arguments": { "type": "object" }, "index": {}, "description": {}
        }
    });
    let call = json!({
        "type": "object", "additionalProperties": false, "required": ["function"],
        "properties": { "id": name, "index": {}, "type": {}, "function": function }
    });
    let message = json!({
        "type": "object", "additionalProperties": false, "required": ["role"],
        "properties": {
            "role": { "enum": ["system", "user", "assistant", "tool"] }, "content": { "type": "string" },
            "thinking": { "type": "string" }, "images": { "type": "array", "maxItems": 0 },
            "tool_calls": { "type": "array", "maxItems": limits.tools, "items": call },
            "tool_name": name, "tool_call_id": name, "name": name
        }
    });
    let messages = json!({ "type": "array", "maxItems": limits.messages, "items": message });
    let body = shared_schema(app, json!({ "messages": messages, "tools": tools::schema(limits)["tools"] }));
    let answer = answer_schema("message", &json!({ "type": "object", "required": ["role", "content"] }));
    in_lines("ollamaChat", "Ollama: create a chat message", &body, &answer)
}

pub(crate) fn describe_generate(app: &App) -> Value {
    let text = json!({ "type": "string" });
    let raw = json!({ "type": "boolean", "description": "Whether the prompt is continued without the chat template" });
    let suffix = json!({ "type": "string", "description": "Text after the gap, for models trained to fill in the middle" });
    let body = shared_schema(app, json!({ "prompt": text, "suffix": suffix, "system": text, "raw": raw }));
    let answer = answer_schema("response", &text);
    in_lines("ollamaGenerate", "Ollama: generate a text", &body, &answer)
}
