//! Anthropic's Messages: `/v1/messages` and `/v1/messages/count_tokens`.

use super::anthropic_blocks as blocks;
use super::stops::Stops;
use crate::app::App;
use crate::auth;
use crate::body::Reply;
use crate::call::Call;
use crate::chat_output::ChatOutput;
use crate::dialect::{Dialect, event};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate::Format;
use crate::inference::{self, FinishedChoice, Inference, RunningInference};
use crate::limits::Limits;
use crate::mailbox::{End, Update};
use crate::operation::operation;
use crate::prompt;
use crate::replies::document;
use crate::request_model::RequestModel;
use crate::sampling;
use crate::schema::WORD;
use crate::stop_conditions;
use crate::tool_kinds::other_than;
use crate::usage::Usage;
use hyper::{Response, StatusCode};
use leyden_text::output::OutputEvent;
use serde_json::{Value, json};
use std::sync::Arc;

/// Anthropic's dialect.
pub(crate) static ANTHROPIC: Dialect =
    Dialect { name: "AnthropicError", error, error_schema, any_content: false, key: auth::x_api_key };

fn error(error: &ApiError) -> Value {
    let class = match error.status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({ "type": "error", "error": { "type": class, "message": error.message } })
}

fn error_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object", "required": ["type", "error"],
        "properties": { "type": { "const": "error" }, "error": {
            "type": "object", "required": ["type", "message"], "properties": { "type": text, "message": text }
        } }
    })
}

pub(crate) async fn messages(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, (inference, stops)) = prompt::prepare(&app, call, read).await?;
    let begun = inference::begin(app, call, inference).await?;
    let head = json!({
        "id": format!("msg_{}", begun.running.id()), "type": "message", "role": "assistant",
        "model": begun.common.model.answer_name(), "content": [], "stop_reason": null, "stop_sequence": null,
    });
    if begun.common.stream {
        let RunningInference { running, mut chat_outputs, .. } = begun;
        let chat_output = chat_outputs.swap_remove(0);
        return Ok(running.stream(Events { head, chat_output, stops, open: None, blocks: 0, reason: None }));
    }
    let (mut said, usage) = begun.whole().await?;
    Ok(document(StatusCode::OK, &whole(head, said.swap_remove(0), stops, usage)))
}

fn read(app: &App, call: &Call) -> Result<(Inference, Stops), ApiError> {
    let mut body = call.fields(app)?;
    let stops = body.take("stop_sequences").unwrap_or_else(|| json!([]));
    let texts = stops.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let mut chat = chat(app, call, &mut body)?;
    chat.put("stop", stops);
    chat.put("include_stop_str_in_output", true);
    body.hand(&mut chat, &["max_tokens", "stream", "temperature", "top_p", "top_k"]);
    let format =
        body.object("output_config").map(|mut config| (config.text("effort"), config.object("format")));
    let (effort, format) = format.unwrap_or_default();
    if let Some(effort) = effort {
        chat.put("reasoning_effort", effort);
    }
    if let Some(mut format) = format.or_else(|| body.object("output_format")) {
        chat.put("json_schema", format.take("schema").unwrap_or_default());
        // Anthropic's API accepts closed objects only.
        chat.put("disable_additional_properties", true);
    }
    let model = RequestModel::take(app, &mut chat)?;
    Ok((inference::chat(app, call, model, &mut chat).map_err(renamed)?, Stops::new(texts)))
}

pub(crate) async fn count_tokens(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (_, tokens) = prompt::prepare(&app, call, count).await?;
    Ok(document(StatusCode::OK, &json!({ "input_tokens": tokens })))
}

fn count(app: &App, call: &Call) -> Result<usize, ApiError> {
    let mut chat = chat(app, call, &mut call.fields(app)?)?;
    let model = RequestModel::take(app, &mut chat)?;
    let conversation =
        inference::conversation(app, call, &model, prompt::EncodingLimits::of_body(call), &mut chat);
    Ok(conversation.map_err(renamed)?.0.tokens.len())
}

/// Converts the conversation to the fields of a chat.
fn chat(app: &App, call: &Call, body: &mut Fields) -> Result<Fields, ApiError> {
    let mut chat = Fields::default();
    body.hand(&mut chat, &["model"]);
    let (mut messages, mut left_out) = (Vec::new(), Vec::new());
    if let Some(system) = body.take("system") {
        messages.push(json!({ "role": "system", "content": blocks::system(system) }));
    }
    for (i, message) in body.list("messages").unwrap_or_default().into_iter().enumerate() {
        let place = format!("messages[{i}].content");
        turn(Fields::from(message), &mut messages, |at, kind| left_out.push(format!("{place}[{at}]:{kind}")));
    }
    // The answer continues an assistant's message at the end.
    let begun =
        messages.last().is_some_and(|last| last["role"] == "assistant" && last.get("tool_calls").is_none());
    chat.put("continue_final_message", begun);
    chat.put("messages", messages);
    let thinks = body.object("thinking").and_then(|mut thinking| thinking.text("type"));
    let thinks = thinks.is_some_and(|kind| kind != "disabled");
    chat.put("think", thinks);
    let mut tools = Vec::new();
    for (i, given) in body.list("tools").unwrap_or_default().into_iter().enumerate() {
        let given = Fields::from(given);
        match given.peek("type") {
            None | Some("custom") => tools.push(tool(given)),
            Some(kind) => left_out.push(format!("tools[{i}]:{kind}")),
        }
    }
    call.leave_out(app, &left_out)?;
    chat.put("tools", tools);
    if let Some(mut choice) = body.object("tool_choice") {
        if let Some(alone) = choice.flag("disable_parallel_tool_use") {
            chat.put("parallel_tool_calls", !alone);
        }
        let kind = choice.text("type").unwrap_or_default();
        chat.put(
            "tool_choice",
            match kind.as_str() {
                "any" => json!("required"),
                "tool" => json!({ "type": "function", "function": { "name": choice.text("name") } }),
                _ => json!(kind),
            },
        );
    }
    Ok(chat)
}

fn tool(mut tool: Fields) -> Value {
    let mut function = Fields::default();
    tool.hand(&mut function, &["name", "description", "strict"]);
    function.put("parameters", tool.take("input_schema").unwrap_or_default());
    json!({ "type": "function", "function": function.rest() })
}

/// Converts a turn to one or more messages: results of tools are messages of their own. Calls `left_out` with path and
/// kind of each block that is left out.
fn turn(mut message: Fields, messages: &mut Vec<Value>, mut left_out: impl FnMut(String, &str)) {
    let role = message.text("role").unwrap_or_default();
    let blocks = match message.take("content") {
        Some(Value::Array(blocks)) => blocks,
        Some(text) => return messages.push(json!({ "role": role, "content": text })),
        None => Vec::new(),
    };
    let (mut texts, mut thoughts, mut calls) = (Vec::new(), String::new(), Vec::new());
    for (i, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::from(block);
        if let Some(text) = blocks::text(&mut block) {
            texts.push(text);
            continue;
        }
        match block.text("type").as_deref() {
            Some("thinking") => thoughts.push_str(&block.text("thinking").unwrap_or_default()),
            Some("tool_use") => {
                let arguments = block.take("input").unwrap_or_else(|| json!({})).to_string();
                let function = json!({ "name": block.text("name"), "arguments": arguments });
                calls.push(json!({ "id": block.text("id"), "type": "function", "function": function }));
            }
            Some("tool_result") => {
                if !texts.is_empty() {
                    messages.push(json!({ "role": role, "content": std::mem::take(&mut texts).join("\n") }));
                }
                let content = blocks::result(block.take("content"), |inner, kind| {
                    left_out(format!("{i}].content[{inner}"), kind);
                });
                let id = block.text("tool_use_id");
                messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
            }
            // Reasoning that only Anthropic can decrypt.
            Some("redacted_thinking") | None => {}
            Some(kind) => left_out(i.to_string(), kind),
        }
    }
    if role == "assistant" {
        let mut message = json!({ "role": role, "content": texts.join("\n") });
        if !thoughts.is_empty() {
            message["reasoning_content"] = thoughts.into();
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        messages.push(message);
    } else if !texts.is_empty() {
        messages.push(json!({ "role": role, "content": texts.join("\n") }));
    }
}

/// Renames the field of a chat's error to the name in the client's request.
fn renamed(mut error: ApiError) -> ApiError {
    let rename =
        |text: &str| text.replace(".function.", ".").replace("json_schema", "output_config.format.schema");
    error.param = error.param.as_deref().map(rename);
    error.message = rename(&error.message);
    error
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt - usage.cached, "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0, "output_tokens": usage.completion,
    })
}

fn stop_reason(end: End, calls: bool, stop: Option<&String>) -> &'static str {
    match end {
        End::Length => "max_tokens",
        _ if calls => "tool_use",
        _ if stop.is_some() => "stop_sequence",
        _ => "end_turn",
    }
}

fn whole(mut head: Value, said: FinishedChoice, mut stops: Stops, used: Usage) -> Value {
    let answer = said.answer;
    let mut text: String =
        stops.push(vec![OutputEvent::Content(answer.content)]).into_iter().map(content).collect();
    let (rest, stop) = stops.end(said.end == End::Stop && answer.calls.is_empty());
    text.extend(rest.map(content));
    let mut blocks = Vec::new();
    if !answer.reasoning.is_empty() {
        blocks.push(json!({ "type": "thinking", "thinking": answer.reasoning, "signature": "" }));
    }
    if !text.is_empty() {
        blocks.push(json!({ "type": "text", "text": text }));
    }
    let call = |c: &crate::chat_output::ToolCall| json!({ "type": "tool_use", "id": c.id, "name": c.name, "input": c.input() });
    blocks.extend(answer.calls.iter().map(call));
    head["content"] = blocks.into();
    head["stop_reason"] = stop_reason(said.end, said.calls, stop.as_ref()).into();
    head["stop_sequence"] = stop.into();
    head["usage"] = usage(used);
    head
}

fn content(part: OutputEvent) -> String {
    match part {
        OutputEvent::Content(text) => text,
        _ => String::new(),
    }
}

/// A kind of block of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    Call,
}

/// A stream of events.
struct Events {
    head: Value,
    chat_output: ChatOutput,
    stops: Stops,
    /// The open block, and the number of blocks so far.
    open: Option<Block>,
    blocks: usize,
    /// Reason of the end and stop string.
    reason: Option<(&'static str, Option<String>)>,
}

impl Events {
    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(block) = self.open.take() else { return };
        let index = self.blocks - 1;
        if block == Block::Thinking {
            let delta = json!({ "type": "signature_delta", "signature": "" });
            event(
                "content_block_delta",
                &json!({ "type": "content_block_delta", "index": index, "delta": delta }),
                out,
            );
        }
        event("content_block_stop", &json!({ "type": "content_block_stop", "index": index }), out);
    }

    fn open(&mut self, block: Block, empty: &Value, out: &mut Vec<u8>) {
        if self.open == Some(block) && block != Block::Call {
            return;
        }
        self.close(out);
        let start = json!({ "type": "content_block_start", "index": self.blocks, "content_block": empty });
        event("content_block_start", &start, out);
        self.open = Some(block);
        self.blocks += 1;
    }

    fn delta(&self, kind: &str, name: &str, text: &str, out: &mut Vec<u8>) {
        let delta = json!({ "type": kind, name: text });
        let delta = json!({ "type": "content_block_delta", "index": self.blocks - 1, "delta": delta });
        event("content_block_delta", &delta, out);
    }

    fn say(&mut self, part: OutputEvent, out: &mut Vec<u8>) {
        match part {
            OutputEvent::Content(text) => {
                self.open(Block::Text, &json!({ "type": "text", "text": "" }), out);
                self.delta("text_delta", "text", &text, out);
            }
            OutputEvent::Reasoning(text) => {
                self.open(
                    Block::Thinking,
                    &json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    out,
                );
                self.delta("thinking_delta", "thinking", &text, out);
            }
            OutputEvent::ToolCallStart { id, name, .. } => {
                self.open(
                    Block::Call,
                    &json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
                    out,
                );
            }
            OutputEvent::ToolCallArguments { fragment, .. } => {
                self.delta("input_json_delta", "partial_json", &fragment, out);
            }
            OutputEvent::ToolCallEnd { .. } | OutputEvent::ToolCallUnfinished { .. } => {}
        }
    }
}

impl Format for Events {
    fn begin(&mut self, used: Usage, out: &mut Vec<u8>) {
        let mut message = self.head.clone();
        message["usage"] = usage(used);
        event("message_start", &json!({ "type": "message_start", "message": message }), out);
        out.extend_from_slice(self.heartbeat());
    }

    fn update(&mut self, _: usize, update: Update, out: &mut Vec<u8>) {
        let parts = self.chat_output.push(self.stops.push(update.parts));
        parts.into_iter().for_each(|part| self.say(part, out));
        let Some(end @ (End::Stop | End::Length)) = update.end else { return };
        let (rest, stop) = self.stops.end(end == End::Stop);
        if let Some(rest) = rest {
            self.say(rest, out);
        }
        self.reason = Some((stop_reason(end, self.chat_output.calls(), stop.as_ref()), stop));
    }

    fn end(&mut self, used: Usage, out: &mut Vec<u8>) {
        self.close(out);
        let (reason, stop) = self.reason.take().unwrap_or(("end_turn", None));
        let delta = json!({ "stop_reason": reason, "stop_sequence": stop });
        event(
            "message_delta",
            &json!({ "type": "message_delta", "delta": delta, "usage": usage(used) }),
            out,
        );
        event("message_stop", &json!({ "type": "message_stop" }), out);
    }

    fn fail(&mut self, failure: &ApiError, out: &mut Vec<u8>) {
        event("error", &error(failure), out);
    }

    fn heartbeat(&self) -> &'static [u8] {
        b"event: ping\ndata: {\"type\": \"ping\"}\n\n"
    }
}

/// Returns the schema of an object with a type; the values of the `harmless` properties are not checked.
fn of_type(kind: &str, required: &[&str], mut properties: Value, harmless: &[&str]) -> Value {
    properties["type"] = json!({ "const": kind });
    harmless.iter().for_each(|name| properties[*name] = json!({}));
    let required: Vec<&str> = ["type"].iter().chain(required).copied().collect();
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

/// Returns the schemas of the fields that form a conversation.
fn conversation_schema(app: &App) -> Value {
    let limits: &Limits = &app.limits;
    let text = json!({ "type": "string" });
    let name = json!({ "type": "string", "maxLength": limits.name_chars });
    let text_block = of_type("text", &["text"], json!({ "text": text }), &["cache_control", "citations"]);
    let parts = |blocks: Value| json!({ "anyOf": [text, { "type": "array", "maxItems": limits.content_parts, "items": blocks }] });
    let of_texts = parts(text_block.clone());
    let told = blocks::schemas(&text_block, &of_texts);
    let result = json!({ "tool_use_id": name, "content": parts(json!({ "anyOf": told })), "is_error": { "type": "boolean" } });
    let result = of_type("tool_result", &["tool_use_id"], result, &["cache_control"]);
    let used = json!({ "id": name, "name": name, "input": { "type": "object" } });
    let used = of_type("tool_use", &["id", "name", "input"], used, &["cache_control", "caller"]);
    let thinking = of_type("thinking", &["thinking"], json!({ "thinking": text }), &["signature"]);
    let hidden = of_type("redacted_thinking", &[], json!({}), &["data"]);
    let message = |role: &str, blocks: Value| {
        json!({
            "type": "object", "additionalProperties": false, "required": ["role", "content"],
            "properties": { "role": { "const": role }, "content": parts(blocks) }
        })
    };
    let turns = [
        message("user", json!({ "anyOf": told.iter().chain([&result]).collect::<Vec<_>>() })),
        message(
            "assistant",
            json!({ "anyOf": told.iter().chain([&used, &thinking, &hidden]).collect::<Vec<_>>() }),
        ),
        message("system", text_block.clone()),
    ];
    let tool = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "input_schema"],
        "properties": {
            "type": { "const": "custom" },
            "name": { "type": "string", "maxLength": 64, "pattern": WORD },
            "description": { "type": "string", "maxLength": limits.schema_bytes },
            "input_schema": { "type": "object", "description": "A JSON schema" },
            "strict": { "type": "boolean" }, "cache_control": {}, "input_examples": {}, "defer_loading": {},
            "eager_input_streaming": {}, "allowed_callers": {}
        }
    });
    let tool = json!({ "anyOf": [tool, other_than(&["custom"])] });
    let alone = json!({ "disable_parallel_tool_use": { "type": "boolean" } });
    let mut named = alone.clone();
    named["name"] = name;
    let choices = [
        of_type("auto", &[], alone.clone(), &[]),
        of_type("any", &[], alone.clone(), &[]),
        of_type("none", &[], alone, &[]),
        of_type("tool", &["name"], named, &[]),
    ];
    let budget = json!({ "budget_tokens": { "type": "integer", "minimum": 0 } });
    let thinking =
        ["enabled", "disabled", "adaptive"].map(|kind| of_type(kind, &[], budget.clone(), &["display"]));
    json!({
        "model": app.model_schema(),
        "messages": { "type": "array", "minItems": 1, "maxItems": limits.messages, "items": { "anyOf": turns } },
        "system": parts(text_block),
        "tools": { "type": "array", "maxItems": limits.tools, "items": tool },
        "tool_choice": { "anyOf": choices },
        "thinking": { "anyOf": thinking,
            "description": "Enables or disables reasoning, if the chat template supports it; `budget_tokens` has no effect" },
        "cache_control": {}, "betas": {}, "context_management": {}
    })
}

pub(crate) fn describe_messages(app: &App) -> Value {
    let mut properties = conversation_schema(app);
    let (sampling, ending) = (sampling::schema(app), stop_conditions::schema(app));
    let form = of_type(
        "json_schema",
        &["schema"],
        json!({ "schema": { "type": ["object", "boolean"] } }),
        &["name"],
    );
    let more = json!({
        "max_tokens": { "type": "integer", "minimum": 1, "maximum": i32::MAX },
        "stream": { "type": "boolean" },
        "stop_sequences": ending["stop"]["anyOf"][1],
        "temperature": sampling["temperature"], "top_p": sampling["top_p"], "top_k": sampling["top_k"],
        "output_format": form,
        "output_config": {
            "type": "object", "additionalProperties": false, "properties": {
                "format": form, "effort": { "type": "string", "maxLength": app.limits.name_chars }
            }
        },
        "metadata": {}, "service_tier": {}, "inference_geo": {}, "speed": {}, "diagnostics": {}, "user_profile_id": {}
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut properties, more) {
        all.extend(more);
    }
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["messages", "max_tokens"],
        "properties": properties
    });
    let answer = json!({
        "type": "object",
        "required": ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"],
        "properties": {
            "id": { "type": "string" }, "type": { "const": "message" }, "role": { "const": "assistant" },
            "model": { "type": "string" }, "content": { "type": "array", "items": { "type": "object" } },
            "stop_reason": { "enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use"] },
            "stop_sequence": { "type": ["string", "null"] }, "usage": { "type": "object" }
        }
    });
    let mut it = operation("messages", "Anthropic: create a message", Some(&body), &answer);
    let piece = json!({ "type": "object", "required": ["data"], "properties": { "data": {
        "type": "string", "contentMediaType": "application/json",
        "contentSchema": { "type": "object", "required": ["type"], "properties": { "type": { "type": "string" } } }
    } } });
    it["responses"]["200"]["content"]["text/event-stream"] = json!({ "schema": piece });
    it
}

pub(crate) fn describe_count_tokens(app: &App) -> Value {
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["messages"],
        "properties": conversation_schema(app)
    });
    let answer = json!({
        "type": "object", "required": ["input_tokens"], "properties": { "input_tokens": { "type": "integer" } }
    });
    operation("countTokens", "Anthropic: count the tokens of a conversation", Some(&body), &answer)
}
