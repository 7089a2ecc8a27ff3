//! `/v1/chat/completions`: the next message of a conversation.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::dialect;
use crate::dialects::openai::{self, Deltas, Head, Names, finish_reason};
use crate::dialects::openai::{answer_schema, events_schema};
use crate::error::ApiError;
use crate::generate::Format;
use crate::inference::{self, FinishedChoice, Inference, RunningInference};
use crate::legacy_functions;
use crate::logprobs;
use crate::mailbox::{End, TokenLogprob, Update};
use crate::messages;
use crate::operation::{operation, rule};
use crate::prompt;
use crate::rendering;
use crate::request;
use crate::request_model::RequestModel;
use crate::streamed_json::StreamedJson;
use crate::tool_kinds::ToolNames;
use crate::tools;
use crate::usage::Usage;
use hyper::Response;
use serde_json::{Value, json};
use std::sync::Arc;

const NAMES: Names = Names { id: "chatcmpl", whole: "chat.completion", piece: "chat.completion.chunk" };

/// A request that has been read, and true if calls are written in OpenAI's legacy form.
type Ready = (Inference, bool);

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, (inference, legacy)) = prompt::prepare(&app, call, read).await?;
    let (logprobs, names) = (inference.extras.logprobs, Arc::clone(&inference.names));
    let begun = inference::begin(app, call, inference).await?;
    let head = Head::new(NAMES, &begun.running, &begun.common, logprobs);
    if begun.common.stream {
        let RunningInference { running, chat_outputs, .. } = begun;
        let begun = vec![false; chat_outputs.len()];
        let chat_outputs = chat_outputs.into_iter().map(Deltas::new).collect();
        return Ok(running.stream(Chunks { head, chat_outputs, begun, legacy }));
    }
    let (said, usage) = begun.whole().await?;
    let mut pieces = StreamedJson::new();
    let shown = |(i, said)| choice(&head, &mut pieces, i, said, (legacy, &names));
    let choices: Vec<Value> = said.into_iter().enumerate().map(shown).collect();
    Ok(pieces.document(&head.whole(&choices, usage)))
}

fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let mut body = call.fields(app)?;
    let legacy = legacy_functions::rewrite(&mut body)?;
    let model = RequestModel::take(app, &mut body)?;
    let inference = inference::chat(app, call, model, &mut body);
    Ok((inference.map_err(|error| if legacy { legacy_functions::renamed(error) } else { error })?, legacy))
}

/// Returns a whole choice; `legacy` selects OpenAI's legacy form of calls, `names` has the tools that are no plain
/// functions.
fn choice(
    head: &Head,
    pieces: &mut StreamedJson,
    index: usize,
    said: FinishedChoice,
    (legacy, names): (bool, &ToolNames),
) -> Value {
    let mut reason = if said.calls { "tool_calls" } else { finish_reason(said.end) };
    let mut message = openai::message(said.answer, names);
    if legacy {
        legacy_functions::write(&mut message);
        reason = legacy_functions::finish(reason);
    }
    json!({
        "index": index,
        "message": message,
        "logprobs": logprobs(head, pieces, said.logprobs),
        "finish_reason": reason,
    })
}

fn logprobs(head: &Head, pieces: &mut StreamedJson, tokens: Vec<TokenLogprob>) -> Value {
    let Some(alternatives) = head.logprobs else { return Value::Null };
    json!({ "content": logprobs::list(pieces, &head.model, alternatives, tokens), "refusal": null })
}

/// Returns the reason of the end of a whole answer; calls of tools are the reason if there are any.
fn finish(end: End, deltas: &Deltas) -> &'static str {
    if end == End::Stop && deltas.calls() { "tool_calls" } else { finish_reason(end) }
}

/// A stream of chunks.
struct Chunks {
    head: Head,
    /// Deltas by choice.
    chat_outputs: Vec<Deltas>,
    /// By choice, true if the first chunk, which contains the role, has been sent.
    begun: Vec<bool>,
    legacy: bool,
}

impl Chunks {
    /// Writes a chunk, with the log probabilities of `tokens` if requested.
    fn chunk(
        &self,
        choice: usize,
        delta: &Value,
        tokens: Option<Vec<TokenLogprob>>,
        finish: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let mut pieces = StreamedJson::new();
        let logprobs = tokens.map_or(Value::Null, |tokens| logprobs(&self.head, &mut pieces, tokens));
        let fields =
            json!({ "index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": finish });
        self.head.piece(pieces, fields, out);
    }
}

impl Format for Chunks {
    fn counted(&mut self, usage: Usage) {
        self.head.counted(usage);
    }

    fn update(&mut self, choice: usize, update: Update, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun[choice], true) {
            self.chunk(choice, &json!({ "role": "assistant", "content": "" }), None, None, out);
        }
        let mut deltas = self.chat_outputs[choice].push(update.parts);
        let end = update.end.filter(|end| matches!(end, End::Stop | End::Length));
        let is_content = |delta: &Value| delta["content"].is_string();
        if !update.logprobs.is_empty() && !deltas.iter().any(is_content) {
            // Tokens whose text is empty or held back.
            deltas.push(json!({ "content": "" }));
        }
        // Log probabilities are sent with the first delta of content.
        let mut tokens = Some(update.logprobs);
        for mut delta in deltas {
            let tokens = if is_content(&delta) { tokens.take() } else { None };
            if self.legacy {
                legacy_functions::write(&mut delta);
            }
            self.chunk(choice, &delta, tokens, None, out);
        }
        if let Some(end) = end {
            let reason = finish(end, &self.chat_outputs[choice]);
            let reason = if self.legacy { legacy_functions::finish(reason) } else { reason };
            self.chunk(choice, &json!({}), None, Some(reason), out);
        }
    }

    fn end(&mut self, usage: Usage, out: &mut Vec<u8>) {
        self.head.end(usage, out);
    }

    fn fail(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        dialect::data(&openai::error(error), out);
    }
}

/// Returns the schema of a request.
pub(super) fn body(app: &App) -> Value {
    let limits = &app.limits;
    let mut properties = request::schema(app);
    // 0 alternatives are written as none.
    let some = json!({ "type": "integer", "minimum": 1 });
    let rules = [rule("top_logprobs", &some, "logprobs", &json!({ "const": true }))];
    let more = json!({
        "messages": messages::schema(limits),
        "max_completion_tokens": request::max_tokens_schema(),
        "logprobs": { "type": "boolean" },
        "top_logprobs": {
            "type": "integer", "minimum": 0, "maximum": limits.top_logprobs, "description": "Needs `logprobs`"
        },
        "modalities": { "type": "array", "minItems": 1, "maxItems": 8, "items": { "const": "text" } },
        "prediction": {
            "type": "object", "additionalProperties": false, "required": ["type", "content"],
            "properties": { "type": { "const": "content" }, "content": { "type": ["string", "array"] } },
            "description": "Changes nothing"
        },
    });
    for more in [more, rendering::schema(limits), tools::schema(limits)] {
        if let (Value::Object(all), Value::Object(more)) = (&mut properties, more) {
            all.extend(more);
        }
    }
    json!({
        "type": "object", "additionalProperties": false, "required": ["messages"], "properties": properties,
        "allOf": rules
    })
}

pub(super) fn describe(app: &App) -> Value {
    let body = body(app);
    let message = json!({
        "type": "object",
        "required": ["role", "content"],
        "properties": { "role": { "const": "assistant" }, "content": { "type": ["string", "null"] },
            "reasoning_content": { "type": "string" }, "tool_calls": { "type": "array", "items": { "type": "object" } }, "function_call": { "type": "object" }
        }
    });
    let choice = json!({
        "type": "object",
        "required": ["index", "message", "finish_reason"],
        "properties": {
            "index": { "type": "integer" }, "message": message, "finish_reason": { "enum": ["stop", "length", "tool_calls", "function_call"] }
        }
    });
    let answer = answer_schema("chat.completion", &choice, true);
    let mut it = operation("chat", "Create a chat completion", Some(&body), &answer);
    let delta = json!({ "type": "object", "properties": {
        "role": { "const": "assistant" }, "content": { "type": "string" }, "reasoning_content": { "type": "string" },
        "tool_calls": { "type": "array", "items": { "type": "object" } }, "function_call": { "type": "object" }
    } });
    let reason = json!({ "enum": ["stop", "length", "tool_calls", "function_call", null] });
    let piece = json!({
        "type": "object",
        "required": ["index", "delta", "finish_reason"],
        "properties": { "index": { "type": "integer" }, "delta": delta, "finish_reason": reason }
    });
    it["responses"]["200"]["content"]["text/event-stream"] =
        events_schema(&answer_schema("chat.completion.chunk", &piece, false));
    it
}
