//! `/v1/chat/completions`: the next message of a conversation.

use crate::app::{App, Call, Served, document};
use crate::body::Reply;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate::{self, Format, finish_reason};
use crate::grammars;
use crate::head::{Head, Names, shown};
use crate::mailbox::{End, TokenLogprob, Update};
use crate::messages;
use crate::older;
use crate::openapi::{answer_schema, events_schema, messages_schema, operation, rule};
use crate::prompt;
use crate::rendering;
use crate::request::{self, Binding, Common, Extras, Form, Wanted};
use crate::speech::Speech;
use crate::token_name;
use crate::tools::{self, Tools};
use crate::usage::Usage;
use hyper::{Response, StatusCode};
use leyden_text::output::CallSyntax;
use serde_json::{Value, json};
use std::sync::Arc;

const NAMES: Names = Names { id: "chatcmpl", whole: "chat.completion", piece: "chat.completion.chunk" };

/// A request that can be served.
struct Ready {
    common: Common,
    wanted: Wanted,
    extras: Extras,
    form: Option<Form>,
    /// Whether calls are written in OpenAI's older form.
    older: bool,
}

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, ready) = prompt::prepare(&app, call, read).await?;
    let Ready { common, wanted, extras, form, older } = ready;
    let logprobs = extras.logprobs;
    let (common, tasks) = common.tasks_after(&app, &call, vec![wanted], extras, form).await?;
    let salt = common.cache_salt.clone();
    let running = generate::submit(app, call, &common.model, tasks, salt).await?;
    let head = Head::new(NAMES, &running, &common, logprobs);
    let short = common.model.format.calls().is_some_and(CallSyntax::has_ids);
    let speech = |choice| Speech::new(short, &running.id(), choice);
    let mut speeches: Vec<Speech> = (0..common.choices).map(speech).collect();
    if common.stream {
        let begun = vec![false; common.choices];
        return Ok(running.stream(Chunks { head, speeches, begun, older }));
    }
    let (answers, usage) = running.collect().await?;
    let choices: Vec<Value> = answers
        .into_iter()
        .zip(&mut speeches)
        .enumerate()
        .map(|(i, (a, s))| choice(&head, i, a, s, older))
        .collect();
    Ok(document(StatusCode::OK, &head.whole(&choices, usage)))
}

fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let limits = &app.limits;
    let mut body = Fields::of_body(call.json(limits)?)?;
    let common = request::read(&mut body, app, &["max_tokens", "max_completion_tokens"], 1)?;
    let messages = match body.list("messages", 1, limits.messages)? {
        Some(messages) => messages::read(messages, limits)?,
        None => return Err(body.required("messages").err().unwrap_or_else(|| ApiError::body("no messages"))),
    };
    let logprobs = body.flag("logprobs")?.unwrap_or(false);
    let top = body.size("top_logprobs", 0, limits.top_logprobs)?;
    if top.is_some() && !logprobs {
        return Err(ApiError::conflict("top_logprobs", "`top_logprobs` needs `logprobs`"));
    }
    modalities(&mut body)?;
    prediction(&mut body)?;
    let older = older::rewrite(&mut body)?;
    let tools = tools::read(&mut body, &common.model, limits);
    let tools = tools.map_err(|error| if older { older::renamed(error) } else { error })?;
    let mut chat = rendering::read(&mut body, limits)?;
    chat.tools = tools.as_ref().map(|t| t.list.clone());
    let shape = grammars::shape(&mut body, limits)?;
    body.finish()?;
    let extent = prompt::Extent::of_model(&common.model, call);
    let (text, tokens) = prompt::of_messages(&common.model, extent, &messages, &chat)?;
    let room = prompt::room(&common.model, "messages", tokens.len())?;
    let mut parser = common.model.format.parser(&text, chat.tools.as_ref());
    if tools.as_ref().is_some_and(Tools::requires_call) {
        parser = parser.with_call_required();
    }
    let form = match (tools, shape) {
        (Some(tools), Some(shape)) => Some(tools.form_or(shape, &common.model, &text)?),
        (Some(tools), None) => Some(tools.form(&common.model, &text)),
        (None, Some(shape)) => {
            Some(Form { shape, binding: Binding::Whole { gate: gate(&common.model, &text) } })
        }
        (None, None) => None,
    };
    let visible = Arc::clone(&common.model.visible);
    let extras =
        Extras { visible, logprobs: logprobs.then(|| top.unwrap_or(0)), parser, ..Extras::default() };
    let wanted = Wanted { prompt: Arc::new(tokens), room };
    Ok(Ready { common, wanted, extras, form, older })
}

/// Where the message begins for whose form there are rules: behind what the model thinks before.
fn gate(model: &Served, prompt: &str) -> Option<String> {
    match model.format.is_harmony() {
        true => Some("<|channel|>final<|message|>".to_owned()),
        false => tools::reasoning_end(model, prompt),
    }
}

fn modalities(body: &mut Fields) -> Result<(), ApiError> {
    match body.list("modalities", 1, 8)? {
        Some(kinds) if kinds.iter().any(|k| k != "text") => {
            Err(ApiError::unsupported("modalities", "`modalities` other than `text` are not supported"))
        }
        _ => Ok(()),
    }
}

/// A text that the answer may be like, which would make it sooner there.
fn prediction(body: &mut Fields) -> Result<(), ApiError> {
    let Some(value) = body.take("prediction") else { return Ok(()) };
    let mut fields = Fields::at("prediction", value)?;
    if fields.required("type")? != "content" {
        let at = fields.path("type");
        return Err(ApiError::unsupported(&at, format!("`{at}` is not `content`")));
    }
    fields.required("content")?;
    fields.finish()
}

/// A whole choice.
fn choice(head: &Head, index: usize, answer: Update, speech: &mut Speech, older: bool) -> Value {
    let mut message = speech.message(answer.parts);
    let mut reason = finish(answer.end.unwrap_or(End::Stop), speech);
    if older {
        older::write(&mut message);
        reason = older::finish(reason);
    }
    json!({
        "index": index,
        "message": message,
        "logprobs": logprobs(head, &answer.logprobs),
        "finish_reason": reason,
    })
}

fn logprobs(head: &Head, tokens: &[TokenLogprob]) -> Value {
    let Some(most) = head.logprobs else { return Value::Null };
    let one = |token: u32, logprob: f32| {
        let bytes = head.model.tokenizer.token_bytes(token).unwrap_or_default();
        json!({ "token": token_name::shown(bytes), "logprob": shown(logprob), "bytes": bytes })
    };
    let content: Vec<Value> = tokens
        .iter()
        .map(|t| {
            let mut shown = one(t.token, t.logprob);
            // As with vLLM, the chosen token is one of as many as were asked for.
            let mut top = t.top.clone();
            if top.len() > most {
                top.remove(most.saturating_sub(1));
                top.truncate(most);
            }
            shown["top_logprobs"] = top.iter().map(|&(id, p)| one(id, p)).collect();
            shown
        })
        .collect();
    json!({ "content": content, "refusal": null })
}

/// A whole answer that calls tools ends for them.
fn finish(end: End, speech: &Speech) -> &'static str {
    if end == End::Stop && speech.calls() { "tool_calls" } else { finish_reason(end) }
}

/// A stream of chunks.
struct Chunks {
    head: Head,
    /// By choice.
    speeches: Vec<Speech>,
    /// Choices whose first chunk, which names the role, is out.
    begun: Vec<bool>,
    older: bool,
}

impl Chunks {
    fn chunk(&self, choice: usize, delta: &Value, logprobs: &Value, finish: Option<&str>) -> Value {
        let fields =
            json!({ "index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": finish });
        self.head.piece(fields)
    }
}

impl Format for Chunks {
    fn update(&mut self, choice: usize, update: Update) -> Vec<Value> {
        let mut chunks = Vec::new();
        if !std::mem::replace(&mut self.begun[choice], true) {
            chunks.push(self.chunk(
                choice,
                &json!({ "role": "assistant", "content": "" }),
                &Value::Null,
                None,
            ));
        }
        let mut deltas = self.speeches[choice].push(update.parts);
        let end = update.end.filter(|end| matches!(end, End::Stop | End::Length));
        let is_content = |delta: &Value| delta["content"].is_string();
        if !update.logprobs.is_empty() && !deltas.iter().any(is_content) {
            // Tokens whose text is held back, or is none.
            deltas.push(json!({ "content": "" }));
        }
        // The tokens come with the first piece of the content that they are.
        let mut logprobs = logprobs(&self.head, &update.logprobs);
        for mut delta in deltas {
            let logprobs = if is_content(&delta) { logprobs.take() } else { Value::Null };
            if self.older {
                older::write(&mut delta);
            }
            chunks.push(self.chunk(choice, &delta, &logprobs, None));
        }
        if let Some(end) = end {
            let reason = finish(end, &self.speeches[choice]);
            let reason = if self.older { older::finish(reason) } else { reason };
            chunks.push(self.chunk(choice, &json!({}), &Value::Null, Some(reason)));
        }
        chunks
    }

    fn usage(&mut self, usage: Usage) -> Vec<Value> {
        self.head.last(usage)
    }
}

pub(super) fn describe(app: &App) -> Value {
    let limits = &app.limits;
    let mut properties = request::schema(app);
    let mut rules = request::rules();
    let integer = json!({ "type": "integer" });
    rules.push(rule("top_logprobs", &integer, "logprobs", &json!({ "const": true })));
    let tokens = json!({ "type": "integer", "minimum": 1, "maximum": i32::MAX });
    let more = json!({
        "messages": messages_schema(limits),
        "max_tokens": tokens,
        "max_completion_tokens": tokens,
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
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["messages"], "properties": properties,
        "allOf": rules
    });
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
    let mut it = operation("chat", "The next message of a conversation", Some(&body), &answer);
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
