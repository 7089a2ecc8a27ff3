//! `/v1/completions`: the continuation of texts.

use crate::app::{App, Call, Served, document};
use crate::body::Reply;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate::{self, Format, finish_reason};
use crate::grammars;
use crate::head::{Head, Names, shown};
use crate::mailbox::{End, TokenLogprob, Update};
use crate::openapi::{answer_schema, events_schema, operation, several_schema};
use crate::prompt;
use crate::request::{self, Binding, Common, Extras, Form, Wanted};
use crate::token_name;
use crate::usage::Usage;
use hyper::{Response, StatusCode};
use leyden_text::Detokenizer;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The most tokens where a request does not say, as with OpenAI.
const DEFAULT_TOKENS: usize = 16;

const NAMES: Names = Names { id: "cmpl", whole: "text_completion", piece: "text_completion" };

struct Ready {
    common: Common,
    wanted: Vec<Wanted>,
    extras: Extras,
    form: Option<Form>,
    /// By prompt, what stands before its choices.
    echo: Vec<String>,
    /// How many of the choices of a prompt are shown, and with how many alternatives for each token.
    shown: usize,
    logprobs: Option<usize>,
}

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, ready) = prompt::prepare(&app, call, read).await?;
    let Ready { common, wanted, extras, form, echo, shown, logprobs } = ready;
    let (common, tasks) = common.tasks_after(&app, &call, wanted, extras, form).await?;
    let salt = common.cache_salt.clone();
    let running = generate::submit(app, call, &common.model, tasks, salt).await?;
    let head = Head::new(NAMES, &running, &common, logprobs);
    if common.stream {
        let echo: Vec<String> =
            echo.into_iter().flat_map(|echo| std::iter::repeat_n(echo, common.choices)).collect();
        return Ok(running.stream(Chunks { head, moved: vec![0; echo.len()], echo }));
    }
    let (mut answers, usage) = running.collect().await?;
    let mut choices = Vec::new();
    for (of_prompt, echo) in answers.chunks_mut(common.choices).zip(&echo) {
        if shown < of_prompt.len() {
            of_prompt.sort_by(|a, b| mean_logprob(b).total_cmp(&mean_logprob(a)));
        }
        for answer in &of_prompt[..shown] {
            let text = format!("{echo}{}", answer.text());
            let moved = echo.chars().count();
            choices.push(choice(&head, choices.len(), &text, &answer.logprobs, moved, answer.end));
        }
    }
    Ok(document(StatusCode::OK, &head.whole(&choices, usage)))
}

/// What `best_of` goes by: the logarithmic probability per token. An answer without any comes last.
fn mean_logprob(answer: &Update) -> f64 {
    let sum: f64 = answer.logprobs.iter().map(|t| f64::from(t.logprob)).sum();
    if answer.logprobs.is_empty() { f64::NEG_INFINITY } else { sum / answer.logprobs.len() as f64 }
}

fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let limits = &app.limits;
    let mut body = Fields::of_body(call.json(limits)?)?;
    let mut common = request::read(&mut body, app, &["max_tokens"], 0)?;
    let least = common.ending.min_tokens;
    common.max_tokens.get_or_insert(DEFAULT_TOKENS.max(least));
    let extent = prompt::Extent::of_model(&common.model, call);
    let (given, most) = (body.required("prompt")?, limits.prompts);
    let prompts = prompt::several(&common.model, extent, "prompt", given, most, prompt::of_text)?;
    let top = body.size("logprobs", 0, limits.top_logprobs)?;
    let echoes = body.flag("echo")?.unwrap_or(false);
    if echoes && top.is_some() {
        return Err(ApiError::conflict("echo", "`echo` together with `logprobs` is not supported"));
    }
    let shown = common.choices;
    if let Some(best) = body.size("best_of", 1, limits.choices)? {
        if best < shown {
            return Err(ApiError::conflict("best_of", "`best_of` is less than `n`"));
        }
        if best > shown && common.stream {
            let message = "`best_of` greater than `n` cannot be streamed: which are best is known at the end";
            return Err(ApiError::conflict("best_of", message));
        }
        common.choices = best;
    }
    if prompts.len().saturating_mul(common.choices) > limits.texts {
        let message = format!(
            "{} prompts with {} choices each are more than {} texts; send several requests",
            prompts.len(),
            common.choices,
            limits.texts
        );
        return Err(ApiError::conflict("n", message));
    }
    let shape = grammars::shape(&mut body, limits)?;
    body.finish()?;
    let form = shape.map(|shape| Form { shape, binding: Binding::Whole { gate: None } });
    let mut wanted = Vec::new();
    let mut echo = Vec::new();
    for (_, tokens) in prompts {
        let room = prompt::room(&common.model, "prompt", tokens.len())?;
        echo.push(if echoes { text(&common.model, &tokens) } else { String::new() });
        wanted.push(Wanted { prompt: Arc::new(tokens), room });
    }
    // Which are best is a matter of probabilities.
    let logprobs = top.or((common.choices > shown).then_some(0));
    let extras = Extras { logprobs, ..Extras::default() };
    Ok(Ready { common, wanted, extras, form, echo, shown, logprobs: top })
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

/// A choice or a piece of one. Before its tokens stand `moved` characters.
fn choice(
    head: &Head,
    index: usize,
    text: &str,
    tokens: &[TokenLogprob],
    moved: usize,
    end: Option<End>,
) -> Value {
    json!({
        "index": index,
        "text": text,
        "logprobs": logprobs(head, tokens, moved),
        "finish_reason": end.map(finish_reason),
    })
}

fn logprobs(head: &Head, tokens: &[TokenLogprob], moved: usize) -> Value {
    if head.logprobs.is_none() {
        return Value::Null;
    }
    let name = |id: u32| token_name::key(head.model.tokenizer.token_bytes(id).unwrap_or_default());
    let top = |t: &TokenLogprob| {
        let mut named = Map::new();
        for &(id, logprob) in &t.top {
            // Vocabularies may have a text twice; vLLM's name of a token by its id tells them apart.
            let name = name(id);
            let taken = named.contains_key(&name);
            named.insert(if taken { format!("token_id:{id}") } else { name }, shown(logprob));
        }
        named
    };
    json!({
        "tokens": tokens.iter().map(|t| name(t.token)).collect::<Vec<_>>(),
        "token_logprobs": tokens.iter().map(|t| shown(t.logprob)).collect::<Vec<_>>(),
        "top_logprobs": tokens.iter().map(top).collect::<Vec<_>>(),
        "text_offset": tokens.iter().map(|t| moved + t.offset).collect::<Vec<_>>(),
    })
}

struct Chunks {
    head: Head,
    /// By choice, what stands before it, until it is out, and then how many characters that were.
    echo: Vec<String>,
    moved: Vec<usize>,
}

impl Format for Chunks {
    fn update(&mut self, choice: usize, update: Update) -> Vec<Value> {
        let end = update.end.filter(|e| matches!(e, End::Stop | End::Length));
        let echo = std::mem::take(&mut self.echo[choice]);
        self.moved[choice] += echo.chars().count();
        let text = format!("{echo}{}", update.text());
        if text.is_empty() && update.logprobs.is_empty() && end.is_none() {
            return Vec::new();
        }
        let moved = self.moved[choice];
        vec![self.head.piece(self::choice(&self.head, choice, &text, &update.logprobs, moved, end))]
    }

    fn usage(&mut self, usage: Usage) -> Vec<Value> {
        self.head.last(usage)
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
        "max_tokens": { "type": "integer", "minimum": 0, "maximum": i32::MAX, "default": DEFAULT_TOKENS },
        "logprobs": { "type": "integer", "minimum": 0, "maximum": limits.top_logprobs },
        "echo": { "type": "boolean", "description": "Not together with `logprobs`" },
        "best_of": { "type": "integer", "minimum": 1, "maximum": limits.choices, "description": "So many choices are made, and the `n` with the highest probability per token are shown; at least `n`, and not more with `stream`" },
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
