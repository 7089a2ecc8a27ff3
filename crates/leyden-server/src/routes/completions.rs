//! `/v1/completions`: the continuation of texts.

use crate::app::{App, Call, Served, document};
use crate::body::Reply;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate::{self, Format, finish_reason};
use crate::grammars;
use crate::head::{Head, Names, shown};
use crate::limits::Limits;
use crate::mailbox::{End, TokenLogprob, Update};
use crate::openapi::{operation, usage_schema};
use crate::prompt;
use crate::request::{self, Common, Extras, Form, Wanted};
use crate::usage::Usage;
use crate::worker::Task;
use hyper::{Response, StatusCode};
use leyden_text::Detokenizer;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The most tokens where a request does not say, as with OpenAI.
const DEFAULT_TOKENS: usize = 16;

const NAMES: Names = Names { id: "cmpl", whole: "text_completion", piece: "text_completion" };

struct Ready {
    common: Common,
    tasks: Vec<Task>,
    logprobs: bool,
    /// By choice, what stands before it.
    echo: Vec<String>,
}

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, ready) = prompt::prepare(&app, call, read).await?;
    let Ready { common, tasks, logprobs, echo } = ready;
    let choices = tasks.len();
    let salt = common.cache_salt.clone();
    let running = generate::submit(app, call, &common.model, tasks, salt).await?;
    let head = Head::new(NAMES, &running, &common, logprobs);
    if common.stream {
        let offsets = vec![0; choices];
        return Ok(running.stream(Chunks { head, echo, offsets }));
    }
    let (answers, usage) = running.collect().await?;
    let choices = answers.into_iter().enumerate().map(|(i, mut a)| {
        let mut offset = echo[i].chars().count();
        a.text.insert_str(0, &echo[i]);
        choice(&head, i, &a, &mut offset, a.end)
    });
    Ok(document(StatusCode::OK, &head.whole(&choices.collect::<Vec<_>>(), usage)))
}

fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let limits = &app.limits;
    let mut body = Fields::of_body(call.json(limits)?)?;
    let mut common = request::read(&mut body, app, &["max_tokens"])?;
    common.max_tokens.get_or_insert(DEFAULT_TOKENS);
    let prompts = prompt::several(&common.model, "prompt", body.required("prompt")?, limits.prompts)?;
    let top = body.size("logprobs", 0, limits.top_logprobs)?;
    let echoes = body.flag("echo")?.unwrap_or(false);
    if echoes && top.is_some() {
        return Err(ApiError::unsupported("echo", "`echo` together with `logprobs` is not supported"));
    }
    if let Some(best) = body.size("best_of", 1, limits.choices)?
        && best != common.choices
    {
        return Err(ApiError::unsupported("best_of", "`best_of` other than `n` is not supported"));
    }
    let shape = grammars::shape(&mut body, limits)?;
    body.finish()?;
    let form = match shape {
        Some(shape) => Form::Bound { compiled: shape.compiled(&common.model)?, gate: None },
        None => Form::Free,
    };
    let mut wanted = Vec::new();
    let mut echo = Vec::new();
    for (_, tokens) in prompts {
        let room = prompt::room(&common.model, "prompt", tokens.len())?;
        let before = if echoes { text(&common.model, &tokens) } else { String::new() };
        echo.extend(std::iter::repeat_n(before, common.choices));
        wanted.push(Wanted { prompt: Arc::new(tokens), room });
    }
    let extras = Extras { form, logprobs: top, ..Extras::default() };
    let tasks = common.tasks(&wanted, &extras)?;
    Ok(Ready { common, tasks, logprobs: top.is_some(), echo })
}

/// The text of a prompt, without special tokens.
fn text(model: &Served, tokens: &[u32]) -> String {
    let mut characters = Detokenizer::new();
    let mut text = String::new();
    let mut previous = None;
    for &token in tokens {
        let before = previous.replace(token).filter(|p| !model.tokenizer.is_special(*p));
        if !model.tokenizer.is_special(token) {
            text += &characters.push(&model.tokenizer.bytes_after(before, token).unwrap_or_default());
        }
    }
    text + &characters.finish()
}

/// A choice or a piece of one. `offset` is where its tokens begin, in characters.
fn choice(head: &Head, index: usize, piece: &Update, offset: &mut usize, end: Option<End>) -> Value {
    json!({
        "index": index,
        "text": piece.text,
        "logprobs": logprobs(head, &piece.logprobs, offset),
        "finish_reason": end.map(finish_reason),
    })
}

fn logprobs(head: &Head, tokens: &[TokenLogprob], offset: &mut usize) -> Value {
    if !head.logprobs {
        return Value::Null;
    }
    let name = |id: u32| {
        String::from_utf8_lossy(head.model.tokenizer.token_bytes(id).unwrap_or_default()).into_owned()
    };
    let mut offsets = Vec::new();
    let mut names = Vec::new();
    for t in tokens {
        let name = name(t.token);
        offsets.push(*offset);
        *offset += name.chars().count();
        names.push(name);
    }
    let top: Vec<Map<String, Value>> =
        tokens.iter().map(|t| t.top.iter().map(|&(id, p)| (name(id), shown(p))).collect()).collect();
    json!({
        "tokens": names,
        "token_logprobs": tokens.iter().map(|t| shown(t.logprob)).collect::<Vec<_>>(),
        "top_logprobs": top,
        "text_offset": offsets,
    })
}

struct Chunks {
    head: Head,
    /// What stands before each choice, until it is out.
    echo: Vec<String>,
    offsets: Vec<usize>,
}

impl Format for Chunks {
    fn update(&mut self, choice: usize, mut update: Update) -> Vec<Value> {
        let end = update.end.filter(|e| matches!(e, End::Stop | End::Length));
        let echo = std::mem::take(&mut self.echo[choice]);
        self.offsets[choice] += echo.chars().count();
        update.text.insert_str(0, &echo);
        if update.text.is_empty() && update.logprobs.is_empty() && end.is_none() {
            return Vec::new();
        }
        vec![self.head.piece(self::choice(&self.head, choice, &update, &mut self.offsets[choice], end))]
    }

    fn usage(&mut self, usage: Usage) -> Vec<Value> {
        self.head.last(usage)
    }
}

pub(super) fn describe() -> Value {
    let limits = Limits::default();
    let mut properties = request::schema(&limits);
    let ids = json!({ "type": "array", "minItems": 1, "items": { "type": "integer", "minimum": 0 } });
    let texts =
        json!({ "type": "array", "minItems": 1, "maxItems": limits.prompts, "items": { "type": "string" } });
    let lists = json!({ "type": "array", "minItems": 1, "maxItems": limits.prompts, "items": ids });
    let more = json!({
        "prompt": { "anyOf": [{ "type": "string" }, texts, ids, lists] },
        "max_tokens": { "type": "integer", "minimum": 1, "maximum": i32::MAX, "default": DEFAULT_TOKENS },
        "logprobs": { "type": "integer", "minimum": 0, "maximum": limits.top_logprobs },
        "echo": { "type": "boolean" },
        "best_of": { "type": "integer", "minimum": 1, "maximum": limits.choices, "description": "As `n`" },
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut properties, more) {
        all.extend(more);
    }
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["prompt"], "properties": properties
    });
    let choice = json!({
        "type": "object",
        "required": ["index", "text", "finish_reason"],
        "properties": {
            "index": { "type": "integer" }, "text": { "type": "string" }, "finish_reason": { "enum": ["stop", "length"] }
        }
    });
    let answer = json!({
        "type": "object",
        "required": ["id", "object", "created", "model", "choices", "usage"],
        "properties": {
            "id": { "type": "string" }, "object": { "const": "text_completion" }, "created": { "type": "integer" },
            "model": { "type": "string" }, "choices": { "type": "array", "items": choice }, "usage": usage_schema(),
            "seed": { "type": "integer", "description": "With this seed the same request gives the same answer" },
        }
    });
    let mut it = operation("complete", "The continuation of texts", Some(&body), &answer);
    it["responses"]["200"]["content"]["text/event-stream"] = json!({ "schema": { "type": "string" } });
    it
}
