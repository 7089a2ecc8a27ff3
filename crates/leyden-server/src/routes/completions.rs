//! `/v1/completions`: the continuation of texts.

use crate::app::{App, Call, Served, document, unix_time};
use crate::body::Reply;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate::{self, Format, finish_reason};
use crate::grammars::{self, Shape};
use crate::mailbox::{End, TokenLogprob, Update};
use crate::openapi::{answer_schema, events_schema, operation, several_schema};
use crate::prompt;
use crate::request::{self, Common, Extras, Wanted};
use crate::usage::Usage;
use hyper::{Response, StatusCode};
use leyden_text::Detokenizer;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The most tokens where a request does not say, as with OpenAI.
const DEFAULT_TOKENS: usize = 16;

struct Ready {
    common: Common,
    wanted: Vec<Wanted>,
    extras: Extras,
    shape: Option<Shape>,
    /// By choice, what stands before it.
    echo: Vec<String>,
}

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (here, body) = (Arc::clone(&app), call);
    let (call, ready) = prompt::aside(move || {
        let ready = read(&here, &body)?;
        Ok((body, ready))
    })
    .await?;
    let Ready { common, wanted, extras, shape, echo } = ready;
    let logprobs = extras.logprobs.is_some();
    let (common, tasks) = common.tasks_after(&app, &call, wanted, extras, shape).await?;
    let choices = tasks.len();
    let salt = common.cache_salt.clone();
    let running = generate::submit(app, call, &common.model, tasks, salt).await?;
    let head = Head {
        id: format!("cmpl-{}", running.id()),
        created: unix_time(),
        seed: common.sampling.params.seed.cast_signed(),
        logprobs,
        model: Arc::clone(&common.model),
    };
    if common.stream {
        let offsets = vec![0; choices];
        return Ok(running.stream(Chunks { head, echo, offsets, usage: common.usage_in_stream }));
    }
    let (answers, usage) = running.collect().await?;
    let choices = answers.into_iter().enumerate().map(|(i, mut a)| {
        let mut offset = echo[i].chars().count();
        a.text.insert_str(0, &echo[i]);
        head.choice(i, &a, &mut offset, a.end)
    });
    let mut shown = head.json(&choices.collect::<Vec<_>>());
    shown["usage"] = usage.json();
    Ok(document(StatusCode::OK, &shown))
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
        return Err(ApiError::conflict("echo", "`echo` together with `logprobs` is not supported"));
    }
    if let Some(best) = body.size("best_of", 1, limits.choices)?
        && best != common.choices
    {
        return Err(ApiError::conflict("best_of", "`best_of` other than `n` is not supported"));
    }
    let shape = grammars::shape(&mut body, limits)?;
    body.finish()?;
    let mut wanted = Vec::new();
    let mut echo = Vec::new();
    for (_, tokens) in prompts {
        let room = prompt::room(&common.model, "prompt", tokens.len())?;
        let before = if echoes { text(&common.model, &tokens) } else { String::new() };
        echo.extend(std::iter::repeat_n(before, common.choices));
        wanted.push(Wanted { prompt: Arc::new(tokens), room });
    }
    let extras = Extras { logprobs: top, ..Extras::default() };
    Ok(Ready { common, wanted, extras, shape, echo })
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

struct Head {
    id: String,
    created: u64,
    seed: i64,
    logprobs: bool,
    model: Arc<Served>,
}

impl Head {
    fn json(&self, choices: &[Value]) -> Value {
        json!({
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model.name,
            "choices": choices,
            "seed": self.seed,
            "system_fingerprint": concat!("leyden-", env!("CARGO_PKG_VERSION")),
        })
    }

    /// A choice or a piece of one. `offset` is where its tokens begin, in characters.
    fn choice(&self, index: usize, piece: &Update, offset: &mut usize, end: Option<End>) -> Value {
        json!({
            "index": index,
            "text": piece.text,
            "logprobs": self.logprobs(&piece.logprobs, offset),
            "finish_reason": end.map(finish_reason),
        })
    }

    fn token(&self, id: u32) -> String {
        String::from_utf8_lossy(self.model.tokenizer.token_bytes(id).unwrap_or_default()).into_owned()
    }

    fn logprobs(&self, tokens: &[TokenLogprob], offset: &mut usize) -> Value {
        if !self.logprobs {
            return Value::Null;
        }
        // Minus infinity is not JSON; OpenAI's number for "nearly impossible" stands in for it.
        let number = |p: f32| if p.is_finite() { json!(p) } else { json!(-9999.0) };
        let mut offsets = Vec::new();
        let mut names = Vec::new();
        for t in tokens {
            let name = self.token(t.token);
            offsets.push(*offset);
            *offset += name.chars().count();
            names.push(name);
        }
        let top: Vec<Map<String, Value>> = tokens
            .iter()
            .map(|t| t.top.iter().map(|&(id, p)| (self.token(id), number(p))).collect())
            .collect();
        json!({
            "tokens": names,
            "token_logprobs": tokens.iter().map(|t| number(t.logprob)).collect::<Vec<_>>(),
            "top_logprobs": top,
            "text_offset": offsets,
        })
    }
}

struct Chunks {
    head: Head,
    /// What stands before each choice, until it is out.
    echo: Vec<String>,
    offsets: Vec<usize>,
    usage: bool,
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
        let shown = self.head.choice(choice, &update, &mut self.offsets[choice], end);
        let mut chunk = self.head.json(&[shown]);
        if self.usage {
            chunk["usage"] = Value::Null;
        }
        vec![chunk]
    }

    fn usage(&mut self, usage: Usage) -> Vec<Value> {
        if !self.usage {
            return Vec::new();
        }
        let mut chunk = self.head.json(&[]);
        chunk["usage"] = usage.json();
        vec![chunk]
    }
}

pub(super) fn describe(app: &App) -> Value {
    let limits = &app.limits;
    let mut properties = request::schema(app);
    let mut rules = request::rules();
    rules.push(json!({
        "if": { "required": ["echo"], "properties": { "echo": { "const": true } } },
        "then": { "properties": { "logprobs": { "type": "null" } } }
    }));
    let more = json!({
        "prompt": several_schema(app, limits.prompts),
        "max_tokens": { "type": "integer", "minimum": 1, "maximum": i32::MAX, "default": DEFAULT_TOKENS },
        "logprobs": { "type": "integer", "minimum": 0, "maximum": limits.top_logprobs },
        "echo": { "type": "boolean", "description": "Not together with `logprobs`" },
        "best_of": { "type": "integer", "minimum": 1, "maximum": limits.choices, "description": "As `n`, nothing else" },
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut properties, more) {
        all.extend(more);
    }
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["prompt"], "properties": properties,
        "allOf": rules
    });
    let choice = json!({
        "type": "object",
        "required": ["index", "text", "finish_reason"],
        "properties": {
            "index": { "type": "integer" }, "text": { "type": "string" }, "finish_reason": { "enum": ["stop", "length"] }
        }
    });
    let answer = answer_schema("text_completion", &choice, true);
    let mut it = operation("complete", "The continuation of texts", Some(&body), &answer);
    let mut piece = choice;
    piece["properties"]["finish_reason"] = json!({ "enum": ["stop", "length", null] });
    it["responses"]["200"]["content"]["text/event-stream"] =
        events_schema(&answer_schema("text_completion", &piece, false));
    it
}
