//! llama-server's own endpoints: `/completion`, `/apply-template`, `/props` and `/slots`.

use super::stops::Stops;
use crate::app::App;
use crate::auth;
use crate::body::Reply;
use crate::call::Call;
use crate::dialect::{self, Dialect};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate::Format;
use crate::inference::{self, Inference, RunningInference};
use crate::json_form;
use crate::log::Entry;
use crate::logprobs::shown;
use crate::mailbox::{End, TokenLogprob, Update};
use crate::messages;
use crate::operation::{operation, several_schema};
use crate::prompt;
use crate::rendering;
use crate::replies::document;
use crate::request;
use crate::request_model::RequestModel;
use crate::served::Served;
use crate::streamed_json::{self, StreamedJson};
use crate::timings::{self, Tokens};
use crate::token_name;
use crate::tools;
use crate::usage::Usage;
use hyper::{Response, StatusCode};
use leyden_engine::sample::{SamplingParams, SamplingStep};
use leyden_text::output::OutputEvent;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// llama-server's dialect.
pub(crate) static LLAMA_SERVER: Dialect =
    Dialect { name: "LlamaServerError", error, error_schema, any_content: false, key: auth::x_api_key };

fn error(error: &ApiError) -> Value {
    let class = match error.status.as_u16() {
        _ if error.code == "context_length_exceeded" => "exceed_context_size_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        501 => "not_supported_error",
        503 => "unavailable_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    json!({ "error": { "code": error.status.as_u16(), "message": error.message, "type": class } })
}

fn error_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object", "required": ["error"],
        "properties": { "error": {
            "type": "object", "required": ["code", "message", "type"],
            "properties": { "code": { "type": "integer" }, "message": text, "type": text }
        } }
    })
}

/// State of an answer that is sent.
struct AnswerState {
    model: Arc<Served>,
    /// Name of the model in the answer.
    name: String,
    entry: Arc<Entry>,
    /// Number of alternatives per token, if log probabilities are requested.
    probabilities: Option<usize>,
    /// True if token ids are requested.
    tokens: bool,
    settings: Value,
    /// Per choice: number of prompt tokens, text held back because it may be a stop string, and number of tokens so
    /// far.
    prompts: Vec<usize>,
    stops: Vec<Stops>,
    generated: Vec<usize>,
    cached: usize,
}

/// A read request: the inference, its stop strings, the number of alternatives per token, and true if token ids are
/// requested.
pub(super) type Ready = (Inference, Vec<String>, Option<usize>, bool);

pub(crate) async fn completion(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let read = |app: &App, call: &Call| {
        let mut body = call.fields(app)?;
        read(app, call, RequestModel::take(app, &mut body)?, body)
    };
    let (call, ready) = prompt::prepare(&app, call, read).await?;
    respond(app, call, ready).await
}

/// Answers a request that has been read.
pub(super) async fn respond(app: Arc<App>, call: Call, ready: Ready) -> Result<Response<Reply>, ApiError> {
    let (inference, stops, probabilities, tokens) = ready;
    let prompts: Vec<usize> = inference.wanted.iter().map(|wanted| wanted.prompt.len()).collect();
    let begun = inference::begin(app, call, inference).await?;
    let choices = begun.common.choices;
    let prompts: Vec<usize> = prompts.into_iter().flat_map(|n| std::iter::repeat_n(n, choices)).collect();
    let mut state = AnswerState {
        model: Arc::clone(&begun.common.model),
        name: begun.common.model.answer_name(),
        entry: Arc::clone(&begun.entry),
        probabilities,
        tokens,
        settings: settings(&begun.common.sampling.params, begun.common.max_tokens, &stops),
        stops: vec![Stops::new(stops); prompts.len()],
        generated: vec![0; prompts.len()],
        prompts,
        cached: 0,
    };
    let RunningInference { running, common, .. } = begun;
    if common.stream {
        return Ok(running.stream(state));
    }
    let (answers, usage) = running.collect().await?;
    state.cached = usage.cached;
    let (answers, mut pieces) = (answers.into_iter().enumerate(), StreamedJson::new());
    let mut all: Vec<Value> =
        answers.map(|(choice, update)| state.last(&mut pieces, choice, update)).collect();
    // The answer to a single prompt is not a list.
    let shown = if all.len() == 1 { all.swap_remove(0) } else { Value::Array(all) };
    Ok(pieces.document(&shown))
}

/// Takes the fields of a completion with a model.
pub(super) fn read(app: &App, call: &Call, model: RequestModel, mut body: Fields) -> Result<Ready, ApiError> {
    let stops = match body.take("stop") {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    body.put("stop", stops.clone());
    body.put("include_stop_str_in_output", true);
    json_form::closed_by_default(&mut body, app);
    let asked = body.size("logprobs");
    let probabilities = body.size("n_probs").or(asked).filter(|n| *n > 0);
    let tokens = body.flag("return_tokens").unwrap_or(false);
    // Token ids are delivered with log probabilities.
    if let Some(n) = probabilities.or(tokens.then_some(0)) {
        body.put("logprobs", n);
    }
    Ok((inference::completion(app, call, model, &mut body)?, stops, probabilities, tokens))
}

impl AnswerState {
    /// Returns the document for an update of an answer that is not at its end.
    fn piece(&mut self, pieces: &mut StreamedJson, choice: usize, update: Update) -> Value {
        let said: String =
            self.stops[choice].push(update.parts).into_iter().map(|part| content(Some(part))).collect();
        let mut piece = json!({
            "index": choice, "content": said, "tokens": self.ids(&update.logprobs), "stop": false, "id_slot": choice,
            "tokens_predicted": self.generated[choice], "tokens_evaluated": self.prompts[choice],
        });
        if let Some(most) = self.probabilities {
            let model = Arc::clone(&self.model);
            piece["completion_probabilities"] = pieces.list(update.logprobs, move |token, out| {
                streamed_json::json(&probability(&model, &token, most), out);
            });
        }
        piece
    }

    /// Returns the document for the last update, with the end of the answer.
    fn last(&mut self, pieces: &mut StreamedJson, choice: usize, mut update: Update) -> Value {
        let end = update.end.take().unwrap_or(End::Stop);
        self.generated[choice] = update.generated.max(self.generated[choice]);
        let drafts = update.drafts;
        let mut last = self.piece(pieces, choice, update);
        let (rest, word) = self.stops[choice].end(end == End::Stop);
        let text = format!("{}{}", last["content"].as_str().unwrap_or_default(), content(rest));
        let kind = match (end, &word) {
            (End::Length, _) => "limit",
            (_, Some(_)) => "word",
            _ => "eos",
        };
        let tokens = Tokens {
            prompt: self.prompts[choice],
            cached: self.cached,
            generated: self.generated[choice],
            drafts,
        };
        let more = json!({
            "content": text, "stop": true, "stop_type": kind, "stopping_word": word.unwrap_or_default(),
            "model": self.name, "truncated": false, "tokens_cached": self.cached,
            "generation_settings": self.settings,
            "timings": timings::so_far(&self.entry, tokens),
        });
        if let (Value::Object(last), Value::Object(more)) = (&mut last, more) {
            last.extend(more);
        }
        last
    }

    fn ids(&self, tokens: &[TokenLogprob]) -> Vec<u32> {
        tokens.iter().filter(|_| self.tokens).map(|token| token.token).collect()
    }
}

/// Returns a token with its log probability and the most likely tokens.
fn probability(model: &Served, token: &TokenLogprob, most: usize) -> Value {
    let one = |id: u32, logprob: f32| {
        let bytes = model.tokenizer.token_bytes(id).unwrap_or_default();
        json!({ "id": id, "token": token_name::shown(bytes), "bytes": bytes, "logprob": shown(logprob) })
    };
    let mut probability = one(token.token, token.logprob);
    probability["top_logprobs"] = token.top.iter().take(most).map(|&(id, p)| one(id, p)).collect();
    probability
}

fn content(part: Option<OutputEvent>) -> String {
    match part {
        Some(OutputEvent::Content(text)) => text,
        _ => String::new(),
    }
}

impl Format for AnswerState {
    fn update(&mut self, choice: usize, update: Update, out: &mut Vec<u8>) {
        self.cached = update.cached.unwrap_or(self.cached);
        self.generated[choice] = update.generated.max(self.generated[choice]);
        match update.end {
            Some(End::Stop | End::Length) => {
                let mut pieces = StreamedJson::new();
                let last = self.last(&mut pieces, choice, update);
                dialect::data_of(pieces, &last, out);
            }
            Some(_) => {}
            None => {
                let tokens = !update.logprobs.is_empty();
                let mut pieces = StreamedJson::new();
                let piece = self.piece(&mut pieces, choice, update);
                // Text that may be a stop string is held back.
                if tokens || piece["content"] != "" {
                    dialect::data_of(pieces, &piece, out);
                }
            }
        }
    }

    fn end(&mut self, _: Usage, _: &mut Vec<u8>) {}

    fn fail(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        dialect::data(&self::error(error), out);
    }
}

/// Returns the sampling parameters as llama-server shows them.
fn settings(params: &SamplingParams, most: Option<usize>, stops: &[String]) -> Value {
    let steps: Vec<&str> = params.order.iter().map(|step: &SamplingStep| step.name()).collect();
    json!({
        "seed": params.seed, "temperature": params.temperature, "top_k": params.top_k, "top_p": params.top_p,
        "min_p": params.min_p, "typical_p": params.typical, "top_n_sigma": params.top_n_sigma,
        "repeat_penalty": params.penalties.repeat, "presence_penalty": params.penalties.presence,
        "frequency_penalty": params.penalties.frequency, "samplers": steps, "stop": stops,
        "n_predict": most.map_or(json!(-1), |n| json!(n)),
    })
}

pub(crate) async fn apply_template(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (_, text) = prompt::prepare(&app, call, render).await?;
    Ok(document(StatusCode::OK, &json!({ "prompt": text })))
}

fn render(app: &App, call: &Call) -> Result<String, ApiError> {
    let mut body = call.fields(app)?;
    let model = RequestModel::take(app, &mut body)?;
    let (conversed, _) =
        inference::conversation(app, call, &model, prompt::EncodingLimits::of_body(call), &mut body)?;
    Ok(conversed.text)
}

pub(crate) async fn props(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    // llama-server has one model: of several, the first loaded one is shown.
    let all = app.models.served();
    let Some(model) = all.first() else {
        let message = "no model is loaded; name one in a request to load it";
        return Err(ApiError::unavailable("model_not_loaded", message, Duration::from_secs(1)));
    };
    let tokenizer = &model.tokenizer;
    let token =
        |id: Option<u32>| token_name::shown(id.and_then(|id| tokenizer.token_bytes(id)).unwrap_or_default());
    let params = settings(&model.sampling, None, &[]);
    let shown = json!({
        "default_generation_settings": { "n_ctx": model.context, "params": params },
        "total_slots": model.replicas.parallel(), "model_alias": model.name, "model_path": model.name,
        "modalities": { "vision": false, "audio": false },
        "chat_template": model.template.as_ref().map_or("", |template| template.source()),
        "bos_token": token(tokenizer.bos()), "eos_token": token(tokenizer.eos()),
        "build_info": concat!("leyden-", env!("CARGO_PKG_VERSION")),
    });
    Ok(document(StatusCode::OK, &shown))
}

pub(crate) async fn slots(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    let mut all = Vec::new();
    for model in &app.models.served() {
        let running: u64 = model.replicas.metrics().map(|m| m.running.get()).sum();
        for i in 0..model.replicas.parallel() {
            all.push(json!({
                "id": all.len(), "model": model.name, "n_ctx": model.context, "is_processing": (i as u64) < running,
            }));
        }
    }
    Ok(document(StatusCode::OK, &Value::Array(all)))
}

pub(crate) fn describe_completion(app: &App) -> Value {
    let mut properties = request::schema(app);
    let more = json!({
        "prompt": several_schema(app, app.limits.prompts),
        "n": { "const": 1 },
        "n_probs": { "type": "integer", "minimum": 0, "maximum": app.limits.top_logprobs,
            "description": "Number of most likely tokens returned with their probabilities at each position" },
        "logprobs": { "type": "integer", "minimum": 0, "maximum": app.limits.top_logprobs, "description": "The same as `n_probs`" },
        "max_completion_tokens": request::max_tokens_schema(),
        "return_tokens": { "type": "boolean", "description": "Whether the answer contains token ids" },
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut properties, more) {
        all.extend(more);
    }
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["prompt"], "properties": properties
    });
    let one = json!({
        "type": "object", "required": ["content", "stop", "tokens_predicted", "tokens_evaluated"],
        "properties": {
            "content": { "type": "string" }, "stop": { "type": "boolean" }, "tokens_predicted": { "type": "integer" },
            "tokens_evaluated": { "type": "integer" }, "stop_type": { "enum": ["eos", "limit", "word"] }
        }
    });
    let answer = json!({ "anyOf": [one, { "type": "array", "items": one }] });
    let mut it = operation("llamaCompletion", "llama-server: create a completion", Some(&body), &answer);
    let piece = json!({ "type": "object", "required": ["data"], "properties": { "data": {
        "type": "string", "contentMediaType": "application/json", "contentSchema": { "type": "object" }
    } } });
    it["responses"]["200"]["content"]["text/event-stream"] = json!({ "schema": piece });
    it
}

pub(crate) fn describe_apply_template(app: &App) -> Value {
    let mut properties = json!({ "model": app.model_schema(), "messages": messages::schema(&app.limits) });
    for more in [rendering::schema(&app.limits), tools::schema(&app.limits)] {
        if let (Value::Object(all), Value::Object(more)) = (&mut properties, more) {
            all.extend(more);
        }
    }
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["messages"], "properties": properties
    });
    let answer = json!({
        "type": "object", "required": ["prompt"], "properties": { "prompt": { "type": "string" } }
    });
    operation(
        "applyTemplate",
        "llama-server: apply the chat template to a conversation",
        Some(&body),
        &answer,
    )
}

pub(crate) fn describe_props(_: &App) -> Value {
    let answer = json!({ "type": "object", "required": ["default_generation_settings", "total_slots", "chat_template"] });
    operation("props", "llama-server: properties of the server", None, &answer)
}

pub(crate) fn describe_slots(_: &App) -> Value {
    let slot = json!({
        "type": "object", "required": ["id", "n_ctx", "is_processing"], "properties": {
            "id": { "type": "integer" }, "n_ctx": { "type": "integer" }, "is_processing": { "type": "boolean" }
        }
    });
    operation(
        "slots",
        "llama-server: slots of running requests",
        None,
        &json!({ "type": "array", "items": slot }),
    )
}
