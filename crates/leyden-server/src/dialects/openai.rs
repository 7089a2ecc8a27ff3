//! What OpenAI's endpoints have in common: errors, keys, the frame of answers and of streams, messages and their pieces.

use crate::auth;
use crate::dialect::{self, Dialect};
use crate::error::ApiError;
use crate::generate::Running;
use crate::log::Entry;
use crate::mailbox::End;
use crate::moment::unix_time;
use crate::pieces::Pieces;
use crate::published::or_null;
use crate::request::{Common, UsageInStream};
use crate::served::Served;
use crate::speech::{Answer, Speech};
use crate::timings::{self, Tokens};
use crate::tool_kinds::ToolNames;
use crate::usage::Usage;
use leyden_text::output::OutputEvent;
use serde_json::{Value, json};
use std::sync::Arc;

/// OpenAI's, and that of whatever endpoint has no other.
pub(crate) static OPENAI: Dialect =
    Dialect { name: "Error", error, error_schema, any_content: false, key: auth::bearer };

/// The class of a failure, for programs.
fn class(error: &ApiError) -> &'static str {
    match error.status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// The body of a failed request.
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
                "param": { "type": ["string", "null"], "description": "The field at fault" },
                "code": { "type": "string" }
            }
        } }
    })
}

/// Why an answer ended.
pub(crate) fn finish_reason(end: End) -> &'static str {
    if end == End::Length { "length" } else { "stop" }
}

/// The names of a kind of answer: what its ids begin with, and what a whole one and a piece are called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) id: &'static str,
    pub(crate) whole: &'static str,
    pub(crate) piece: &'static str,
}

/// What all documents of an answer begin with, whole or in pieces, chat or completion.
pub(crate) struct Head {
    names: Names,
    id: String,
    created: u64,
    seed: i64,
    /// The pieces of a stream that have a usage.
    usage: UsageInStream,
    /// The usage until now.
    used: Usage,
    /// How many alternatives are wanted with each token, if logarithmic probabilities are.
    pub(crate) logprobs: Option<usize>,
    pub(crate) model: Arc<Served>,
    /// What the model is called.
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
            name: running.name_of(&common.model),
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

    /// A whole answer.
    pub(crate) fn whole(&self, choices: &[Value], usage: Usage) -> Value {
        let mut shown = self.json(self.names.whole, choices);
        self.account(&mut shown, usage);
        shown
    }

    /// Adds the tokens of the request and, as llama-server does, its times.
    fn account(&self, shown: &mut Value, usage: Usage) {
        shown["usage"] = self::usage(usage);
        let tokens = Tokens { prompt: usage.prompt, cached: usage.cached, generated: usage.completion };
        shown["timings"] = timings::so_far(&self.entry, tokens);
    }

    /// Sets the usage until now.
    pub(crate) fn counted(&mut self, usage: Usage) {
        self.used = usage;
    }

    /// A piece of a stream, whose large parts are `pieces`.
    pub(crate) fn piece(&self, pieces: Pieces, choice: Value, out: &mut Vec<u8>) {
        let mut shown = self.json(self.names.piece, &[choice]);
        match self.usage {
            UsageInStream::Never => {}
            UsageInStream::AtEnd => shown["usage"] = Value::Null,
            UsageInStream::Always => shown["usage"] = usage(self.used),
        }
        dialect::data_of(pieces, &shown, out);
    }

    /// The end of a stream: what was used, where that is wanted, and the word that nothing follows.
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
    })
}

/// A choice of a chat, told in the pieces of a stream.
#[derive(Debug)]
pub(crate) struct Deltas {
    speech: Speech,
    /// The open call is of a tool of free text.
    is_free_text: bool,
}

impl Deltas {
    pub(crate) fn new(speech: Speech) -> Deltas {
        Deltas { speech, is_free_text: false }
    }

    /// Tells if tools were called, and all calls are whole.
    pub(crate) fn calls(&self) -> bool {
        self.speech.calls()
    }

    /// Takes more of the answer. Returns the parts of a message that it adds.
    pub(crate) fn hear(&mut self, parts: Vec<OutputEvent>) -> Vec<Value> {
        self.speech.hear(parts).into_iter().filter_map(|part| self.delta(part)).collect()
    }

    fn delta(&mut self, part: OutputEvent) -> Option<Value> {
        if let OutputEvent::ToolCallStart { name, .. } = &part {
            self.is_free_text = self.speech.is_free_text(name);
        }
        delta(part, self.is_free_text)
    }
}

/// What a part of an answer adds to a message, as a piece of a stream says it.
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

/// The message of an answer.
pub(crate) fn message(answer: Answer, names: &ToolNames) -> Value {
    // A message that only calls has no content.
    let content = Some(answer.content).filter(|text| !text.is_empty() || answer.calls.is_empty());
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
    if !answer.reasoning.is_empty() {
        message["reasoning_content"] = answer.reasoning.into();
    }
    if !answer.calls.is_empty() {
        let call = |call: &crate::speech::ToolCall| {
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

/// The schema of the events of a stream, whose data are like `chunk` and, at the end, the word `[DONE]` or an error.
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

/// The schema of an answer with choices, or of a piece of one.
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
            "seed": { "type": "integer", "description": "With this seed the same request gives the same answer" },
            "system_fingerprint": { "type": "string" }
        }
    })
}

/// The schema of a usage.
fn usage_schema() -> Value {
    json!({
        "type": "object",
        "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
        "properties": {
            "prompt_tokens": { "type": "integer" },
            "completion_tokens": { "type": "integer" },
            "total_tokens": { "type": "integer" },
            "prompt_tokens_details": { "type": "object", "properties": { "cached_tokens": { "type": "integer" } } }
        }
    })
}
