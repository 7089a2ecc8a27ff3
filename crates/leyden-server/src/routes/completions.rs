//! `/v1/completions`: the continuation of texts.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::dialect;
use crate::dialects::openai::{self, Head, Names, finish_reason};
use crate::dialects::openai::{answer_schema, events_schema};
use crate::error::ApiError;
use crate::generate::Format;
use crate::inference::{self, Inference, RunningInference};
use crate::logprobs::shown;
use crate::mailbox::{End, TokenLogprob, Update};
use crate::operation::{operation, several_schema};
use crate::prompt;
use crate::request::{self, Wanted};
use crate::request_model::RequestModel;
use crate::served::Served;
use crate::streamed_json::{self, StreamedJson};
use crate::token_name;
use crate::usage::Usage;
use hyper::Response;
use leyden_engine::TokenLogprobs;
use leyden_text::Detokenizer;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Default maximum number of tokens, as with OpenAI.
const DEFAULT_TOKENS: usize = 16;

const NAMES: Names = Names { id: "cmpl", whole: "text_completion", piece: "text_completion" };

struct Ready {
    inference: Inference,
    /// By prompt, the text that its choices begin with (`echo`).
    echo: Vec<Arc<Echo>>,
    /// Number of choices of a prompt that are returned, and number of alternatives per token.
    shown: usize,
    logprobs: Option<usize>,
}

/// A prompt that the answer repeats.
#[derive(Default)]
struct Echo {
    text: String,
    /// Tokens, each with the number of characters before it, if log probabilities are requested for them.
    tokens: Vec<(u32, usize)>,
}

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, ready) = prompt::prepare(&app, call, read).await?;
    let Ready { inference, echo, shown, logprobs } = ready;
    let RunningInference { running, common, .. } = inference::begin(app, call, inference).await?;
    let head = Head::new(NAMES, &running, &common, logprobs);
    if common.stream {
        let echo = echo.into_iter().flat_map(|echo| std::iter::repeat_n(Some(echo), common.choices));
        let echo: Vec<Option<Arc<Echo>>> = echo.collect();
        let (scored, moved) = (vec![Vec::new(); echo.len()], vec![0; echo.len()]);
        return Ok(running.stream(Chunks { head, echo, scored, moved }));
    }
    let (mut answers, usage) = running.collect().await?;
    let (mut choices, mut pieces) = (Vec::new(), StreamedJson::new());
    for (of_prompt, echo) in answers.chunks_mut(common.choices).zip(&echo) {
        if shown < of_prompt.len() {
            of_prompt.sort_by(|a, b| mean_logprob(b).total_cmp(&mean_logprob(a)));
        }
        for answer in &mut of_prompt[..shown] {
            let text = format!("{}{}", echo.text, answer.text());
            let mut told = prompt_tokens(echo, std::mem::take(&mut answer.prompt_logprobs));
            told.extend(answer_tokens(std::mem::take(&mut answer.logprobs), echo.text.chars().count()));
            choices.push(choice(&head, &mut pieces, choices.len(), &text, told, answer.end));
        }
    }
    Ok(pieces.document(&head.whole(&choices, usage)))
}

/// Returns the criterion of `best_of`: the mean log probability of the tokens. An answer without tokens comes last.
fn mean_logprob(answer: &Update) -> f64 {
    let sum: f64 = answer.logprobs.iter().map(|t| f64::from(t.logprob)).sum();
    if answer.logprobs.is_empty() { f64::NEG_INFINITY } else { sum / answer.logprobs.len() as f64 }
}

fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let mut body = call.fields(app)?;
    // -1 is as many as fit, which is not the default here.
    let asked = body.has("max_tokens") || body.has("max_completion_tokens");
    let model = RequestModel::take(app, &mut body)?;
    let mut inference = inference::completion(app, call, model, &mut body)?;
    let Inference { common, wanted, extras, .. } = &mut inference;
    if !asked {
        common.max_tokens.get_or_insert(DEFAULT_TOKENS.max(common.ending.min_tokens));
    }
    let logprobs = extras.logprobs;
    let echoes = body.flag("echo").unwrap_or(false);
    let shown = common.choices;
    if let Some(best) = body.size("best_of") {
        if best < shown {
            return Err(ApiError::conflict("best_of", "`best_of` is less than `n`"));
        }
        if best > shown && common.stream {
            let message = "`best_of` greater than `n` cannot be combined with `stream`";
            return Err(ApiError::conflict("best_of", message));
        }
        common.choices = best;
        // The choice of the best answers needs log probabilities.
        extras.logprobs = logprobs.or((best > shown).then_some(0));
    }
    let (prompts, choices, limits) = (wanted.len(), common.choices, &app.limits);
    if prompts.saturating_mul(choices) > limits.texts {
        let message = format!(
            "{prompts} prompts with {choices} choices each exceed the maximum of {} texts; send several requests",
            limits.texts
        );
        return Err(ApiError::conflict("n", message));
    }
    extras.end_logprobs = true;
    extras.prompt_logprobs = logprobs.filter(|_| echoes);
    if let Some(top) = extras.prompt_logprobs {
        let tokens: usize = wanted.iter().map(|wanted| wanted.prompt.len()).sum();
        let told = tokens.saturating_mul(choices).saturating_mul(top + 1);
        if told > limits.prompt_logprobs {
            let message = format!(
                "`echo` with `logprobs` would tell {told} log probabilities of prompts, more than {}; \
                 ask for fewer alternatives, or send several requests",
                limits.prompt_logprobs
            );
            return Err(ApiError::conflict("logprobs", message));
        }
    }
    let echo = |wanted: &Wanted| {
        let mut stands = if echoes { echoed(&common.model, &wanted.prompt) } else { Echo::default() };
        if extras.prompt_logprobs.is_none() {
            stands.tokens.clear();
        }
        Arc::new(stands)
    };
    let echo = wanted.iter().map(echo).collect();
    Ok(Ready { inference, echo, shown, logprobs })
}

/// Returns a prompt for the answer, as text without special tokens.
fn echoed(model: &Served, tokens: &[u32]) -> Echo {
    let mut characters = Detokenizer::new();
    let mut text = String::new();
    let mut counted = Vec::with_capacity(tokens.len());
    let (mut bytes, mut before_token) = (0, 0);
    let mut previous = None;
    for &token in tokens {
        before_token += text[bytes..].chars().count();
        bytes = text.len();
        counted.push((token, before_token));
        let before = previous.replace(token).filter(|p| !model.tokenizer.is_special(*p));
        if !model.tokenizer.is_special(token) {
            text += &characters.push(&model.tokenizer.bytes_after(before, token).unwrap_or_default());
        }
    }
    text += &characters.finish();
    Echo { text, tokens: counted }
}

/// A token in the log probabilities of an answer.
struct ScoredToken {
    token: u32,
    /// Number of characters before it.
    offset: usize,
    /// Log probability and the most likely tokens; `None` for the first token of the prompt.
    logprobs: Option<(f32, Vec<(u32, f32)>)>,
}

/// Returns the tokens of a prompt, of which all but the first have log probabilities.
fn prompt_tokens(echo: &Echo, scored: Vec<TokenLogprobs>) -> Vec<ScoredToken> {
    let known = scored.into_iter().map(|t| Some((t.logprob, t.top)));
    let tokens = echo.tokens.iter().zip(std::iter::once(None).chain(known));
    tokens.map(|(&(token, offset), logprobs)| ScoredToken { token, offset, logprobs }).collect()
}

/// Returns the tokens of an answer whose text begins after `moved` characters.
fn answer_tokens(tokens: Vec<TokenLogprob>, moved: usize) -> impl Iterator<Item = ScoredToken> {
    let told = move |t: TokenLogprob| ScoredToken {
        token: t.token,
        offset: moved + t.offset,
        logprobs: Some((t.logprob, t.top)),
    };
    tokens.into_iter().map(told)
}

/// Returns a choice, whole or in part.
fn choice(
    head: &Head,
    pieces: &mut StreamedJson,
    index: usize,
    text: &str,
    told: Vec<ScoredToken>,
    end: Option<End>,
) -> Value {
    json!({
        "index": index,
        "text": text,
        "logprobs": logprobs(head, pieces, told),
        "finish_reason": end.map(finish_reason),
    })
}

/// Returns the log probabilities as four lists, which are written token by token.
fn logprobs(head: &Head, pieces: &mut StreamedJson, told: Vec<ScoredToken>) -> Value {
    if head.logprobs.is_none() {
        return Value::Null;
    }
    let told: Arc<[ScoredToken]> = told.into();
    let mut list = |write: fn(&Served, &ScoredToken) -> Value| {
        let (model, told) = (Arc::clone(&head.model), Arc::clone(&told));
        pieces.list(0..told.len(), move |i, out| streamed_json::json(&write(&model, &told[i]), out))
    };
    json!({
        "tokens": list(|model, t| name(model, t.token).into()),
        "token_logprobs": list(|_, t| t.logprobs.as_ref().map_or(Value::Null, |l| shown(l.0))),
        "top_logprobs": list(|model, t| t.logprobs.as_ref().map_or(Value::Null, |l| top(model, &l.1))),
        "text_offset": list(|_, t| t.offset.into()),
    })
}

/// Returns a token's name in these lists.
fn name(model: &Served, id: u32) -> String {
    token_name::key(model.tokenizer.token_bytes(id).unwrap_or_default())
}

/// Returns the most likely tokens by name. Two tokens may have the same text; then vLLM's name by token id
/// distinguishes them.
fn top(model: &Served, top: &[(u32, f32)]) -> Value {
    let mut named = Map::new();
    for &(id, logprob) in top {
        let name = name(model, id);
        let taken = named.contains_key(&name);
        named.insert(if taken { format!("token_id:{id}") } else { name }, shown(logprob));
    }
    named.into()
}

struct Chunks {
    head: Head,
    /// By choice, the prompt that it repeats until that is sent, and then the prompt's number of characters.
    echo: Vec<Option<Arc<Echo>>>,
    moved: Vec<usize>,
    /// Log probabilities of the repeated prompt, until all are computed.
    scored: Vec<Vec<TokenLogprobs>>,
}

impl Format for Chunks {
    fn counted(&mut self, usage: Usage) {
        self.head.counted(usage);
    }

    fn update(&mut self, choice: usize, mut update: Update, out: &mut Vec<u8>) {
        let end = update.end.filter(|e| matches!(e, End::Stop | End::Length));
        self.scored[choice].append(&mut update.prompt_logprobs);
        if self.echo[choice].as_ref().is_some_and(|echo| self.scored[choice].len() + 1 < echo.tokens.len()) {
            return;
        }
        let echo = self.echo[choice].take().unwrap_or_default();
        let scored = std::mem::take(&mut self.scored[choice]);
        self.moved[choice] += echo.text.chars().count();
        let text = format!("{}{}", echo.text, update.text());
        let mut told = prompt_tokens(&echo, scored);
        told.extend(answer_tokens(update.logprobs, self.moved[choice]));
        if text.is_empty() && told.is_empty() && end.is_none() {
            return;
        }
        let mut pieces = StreamedJson::new();
        let shown = self::choice(&self.head, &mut pieces, choice, &text, told, end);
        self.head.piece(pieces, shown, out);
    }

    fn end(&mut self, usage: Usage, out: &mut Vec<u8>) {
        self.head.end(usage, out);
    }

    fn fail(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        dialect::data(&openai::error(error), out);
    }
}

pub(super) fn describe(app: &App) -> Value {
    let limits = &app.limits;
    let mut properties = request::schema(app);
    properties["max_tokens"]["default"] = DEFAULT_TOKENS.into();
    let more = json!({
        "prompt": several_schema(app, limits.prompts),
        "max_completion_tokens": request::max_tokens_schema(),
        "logprobs": {
            "anyOf": [{ "type": "integer", "minimum": 0, "maximum": limits.top_logprobs }, { "const": false }],
            "description": "Number of alternatives for each token; `false` means none"
        },
        "suffix": { "type": "string", "description": "Text after the answer, for models trained to fill in the middle; not with `echo`" },
        "echo": { "type": "boolean", "description": "Whether the answer begins with the prompt; with `logprobs`, also returns log probabilities of the prompt's tokens" },
        "best_of": { "type": "integer", "minimum": 1, "maximum": limits.choices, "description": "Number of generated choices, of which the `n` with the highest probability per token are returned; at least `n`, and equal to `n` with `stream`" },
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
    let answer = answer_schema("text_completion", &choice, true);
    let mut it = operation("complete", "Create a completion", Some(&body), &answer);
    let mut piece = choice;
    piece["properties"]["finish_reason"] = json!({ "enum": ["stop", "length", null] });
    it["responses"]["200"]["content"]["text/event-stream"] =
        events_schema(&answer_schema("text_completion", &piece, false));
    it
}
