//! Common parts of OpenAI's endpoints: errors, keys, the fields of answers and of streams, messages and their deltas.

use crate::auth;
use crate::chat_output::{Answer, ChatOutput};
use crate::dialect::{self, Dialect};
use crate::error::ApiError;
use crate::generate::Running;
use crate::log::Entry;
use crate::mailbox::End;
use crate::published::or_null;
use crate::request::{Common, UsageInStream};
use crate::served::Served;
use crate::streamed_json::StreamedJson;
use crate::timestamp::unix_time;
use crate::timings::{self, Tokens};
use crate::tool_kinds::ToolNames;
use crate::usage::Usage;
use leyden_text::output::OutputEvent;
use serde_json::{Value, json};
use std::sync::Arc;

/// OpenAI's dialect, and that of all endpoints without another one.
pub(crate) static OPENAI: Dialect =
    Dialect { name: "Error", error, error_schema, any_content: false, key: auth::bearer };

/// Returns the type of an error, for programs.
fn class(error: &ApiError) -> &'static str {
    match error.status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// Returns the body of a failed request.
pub(crate) fn error(error: &ApiError) -> Value {
    json!({
        "error": {
            "message": error.message,
            "type": class(error),
            "param": error.param,
            "code": error.code,
        }
    })
}

pub(super) fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": { "type": "string" }, "type": { "type": "string" },
                "param": { "type": ["string", "null"], "description": "Path of the invalid field" },
                "code": { "type": "string" }
            }
        } }
    })
}

/// Returns the reason of the end of an answer.
pub(crate) fn finish_reason(end: End) -> &'static str {
    if end == End::Length { "length" } else { "stop" }
}

/// Names of a kind of answer: the prefix of its ids, and the `object` of a whole answer and of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) id: &'static str,
    pub(crate) whole: &'static str,
    pub(crate) piece: &'static str,
}

/// Fields that all documents of an answer begin with, whole or in chunks, chat or completion.
pub(crate) struct Head {
    names: Names,
    id: String,
    created: u64,
    seed: i64,
    /// The chunks of a stream that contain the usage.
    usage: UsageInStream,
    /// Usage so far.
    used: Usage,
    /// Number of alternatives per token, if log probabilities are requested.
    pub(crate) logprobs: Option<usize>,
    pub(crate) model: Arc<Served>,
    /// Name of the model in the answer.
    name: String,
    entry: Arc<Entry>,
}

impl Head {
    pub(crate) fn new(names: Names, running: &Running, common: &Common, logprobs: Option<usize>) -> Head {
        Head {
            names,
            id: format!("{}-{}", names.id, running.id()),
            created: unix_time(),
            seed: common.sampling.params.seed.cast_signed(),
            usage: common.usage_in_stream,
            used: Usage::default(),
            logprobs,
            model: Arc::clone(&common.model),
            name: common.model.answer_name(),
            entry: running.entry(),
        }
    }

    fn json(&self, object: &str, choices: &[Value]) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.name,
            "choices": choices,
            "seed": self.seed,
            "system_fingerprint": concat!("leyden-", env!("CARGO_PKG_VERSION")),
        })
    }

    /// Returns a whole answer.
    pub(crate) fn whole(&self, choices: &[Value], usage: Usage) -> Value {
        let mut shown = self.json(self.names.whole, choices);
        self.account(&mut shown, usage);
        shown
    }

    /// Adds the usage of the request and, as llama-server does, its timings.
    fn account(&self, shown: &mut Value, usage: Usage) {
        shown["usage"] = self::usage(usage);
        let tokens = Tokens {
            prompt: usage.prompt,
            cached: usage.cached,
            generated: usage.completion,
            drafts: usage.drafts,
        };
        shown["timings"] = timings::so_far(&self.entry, tokens);
    }

    /// Sets the usage so far.
    pub(crate) fn counted(&mut self, usage: Usage) {
        self.used = usage;
    }

    /// Writes a chunk of a stream, whose large parts are `pieces`.
    pub(crate) fn piece(&self, pieces: StreamedJson, choice: Value, out: &mut Vec<u8>) {
        let mut shown = self.json(self.names.piece, &[choice]);
        match self.usage {
            UsageInStream::Never => {}
            UsageInStream::AtEnd => shown["usage"] = Value::Null,
            UsageInStream::Always => shown["usage"] = usage(self.used),
        }
        dialect::data_of(pieces, &shown, out);
    }

    /// Writes the end of a stream: the usage, if requested, and `[DONE]`.
    pub(crate) fn end(&self, usage: Usage, out: &mut Vec<u8>) {
        if self.usage != UsageInStream::Never {
            let mut shown = self.json(self.names.piece, &[]);
            self.account(&mut shown, usage);
            dialect::data(&shown, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
        "completion_tokens_details": {
            "accepted_prediction_tokens": usage.drafts.1,
            "rejected_prediction_tokens": usage.drafts.0 - usage.drafts.1,
        },
    })
}

/// A choice of a chat as the deltas of a stream.
#[derive(Debug)]
pub(crate) struct Deltas {
    chat_output: ChatOutput,
    /// True if the open call is of a free-text tool.
    is_free_text: bool,
}

impl Deltas {
    pub(crate) fn new(chat_output: ChatOutput) -> Deltas {
        Deltas { chat_output, is_free_text: false }
    }

    /// Returns true if tools were called and all calls are complete.
    pub(crate) fn calls(&self) -> bool {
        self.chat_output.calls()
    }

    /// Adds output events. Returns the deltas of the message.
    pub(crate) fn push(&mut self, parts: Vec<OutputEvent>) -> Vec<Value> {
        self.chat_output.push(parts).into_iter().filter_map(|part| self.delta(part)).collect()
    }

    fn delta(&mut self, part: OutputEvent) -> Option<Value> {
        if let OutputEvent::ToolCallStart { name, .. } = &part {
            self.is_free_text = self.chat_output.is_free_text(name);
        }
        delta(part, self.is_free_text)
    }
}

/// Returns the delta of a message for an output event.
fn delta(part: OutputEvent, is_free_text: bool) -> Option<Value> {
    let call = |call: Value| Some(json!({ "tool_calls": [call] }));
    match part {
        OutputEvent::Content(text) => Some(json!({ "content": text })),
        OutputEvent::Reasoning(text) => Some(json!({ "reasoning_content": text })),
        OutputEvent::ToolCallStart { index, id, name } if is_free_text => {
            let custom = json!({ "name": name, "input": "" });
            call(json!({ "index": index, "id": id, "type": "custom", "custom": custom }))
        }
        OutputEvent::ToolCallArguments { index, fragment } if is_free_text => {
            call(json!({ "index": index, "custom": { "input": fragment } }))
        }
        OutputEvent::ToolCallStart { index, id, name } => {
            let function = json!({ "name": name, "arguments": "" });
            call(json!({ "index": index, "id": id, "type": "function", "function": function }))
        }
        OutputEvent::ToolCallArguments { index, fragment } => {
            call(json!({ "index": index, "function": { "arguments": fragment } }))
        }
        OutputEvent::ToolCallEnd { .. } | OutputEvent::ToolCallUnfinished { .. } => None,
    }
}

/// Returns the message of an answer.
pub(crate) fn message(answer: Answer, names: &ToolNames) -> Value {
    // A message with calls only has no content.
    let content = Some(answer.content).filter(|text| !text.is_empty() || answer.calls.is_empty());
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
    if !answer.reasoning.is_empty() {
        message["reasoning_content"] = answer.reasoning.into();
    }
    if !answer.calls.is_empty() {
        let call = |call: &crate::chat_output::ToolCall| {
            if names.get(&call.name).is_some_and(|declared| declared.is_free_text) {
                let custom = json!({ "name": call.name, "input": call.arguments });
                return json!({ "id": call.id, "type": "custom", "custom": custom });
            }
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        };
        message["tool_calls"] = answer.calls.iter().map(call).collect();
    }
    message
}

/// Returns the schema of the events of a stream, whose data match `chunk` or are, at the end, `[DONE]` or an error.
pub(crate) fn events_schema(chunk: &Value) -> Value {
    json!({ "schema": {
        "type": "object",
        "required": ["data"],
        "properties": { "data": { "anyOf": [{ "const": "[DONE]" }, {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": { "anyOf": [chunk, OPENAI.error_reference()] }
        }] } }
    } })
}

/// Returns the schema of an answer with choices, or of a chunk of one.
pub(crate) fn answer_schema(object: &str, choice: &Value, whole: bool) -> Value {
    let mut required = vec!["id", "object", "created", "model", "choices"];
    let mut usage = usage_schema();
    if whole {
        required.push("usage");
    } else {
        usage = or_null(usage);
    }
    json!({
        "type": "object",
        "required": required,
        "properties": {
            "id": { "type": "string" }, "object": { "const": object }, "created": { "type": "integer" },
            "model": { "type": "string" }, "choices": { "type": "array", "items": choice }, "usage": usage,
            "seed": { "type": "integer", "description": "Seed of the answer; the same request with this seed gives the same answer" },
            "system_fingerprint": { "type": "string" }
        }
    })
}

/// Returns the schema of the usage.
fn usage_schema() -> Value {
    json!({
        "type": "object",
        "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
        "properties": {
            "prompt_tokens": { "type": "integer" },
            "completion_tokens": { "type": "integer" },
            "total_tokens": { "type": "integer" },
            "prompt_tokens_details": { "type": "object", "properties": { "cached_tokens": { "type": "integer" } } },
            "completion_tokens_details": {
                "type": "object",
                "properties": {
                    "accepted_prediction_tokens": { "type": "integer" },
                    "rejected_prediction_tokens": { "type": "integer" }
                }
            }
        }
    })
}
