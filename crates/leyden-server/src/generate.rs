//! From a checked request to an answer, whole or in pieces: what chats and completions share.

use crate::app::{App, Call, Served, closing};
use crate::body::Reply;
use crate::error::ApiError;
use crate::fields::{self, Fields, wrong};
use crate::limits::Limits;
use crate::mailbox::{End, Mailbox, Update, mailbox};
use crate::sampling::{self, Sampling};
use crate::usage::Usage;
use crate::worker::{Choice, Job, Task, Unreachable, Work};
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use leyden_engine::Scope;
use leyden_engine::schedule::Refusal;
use leyden_text::AnswerText;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Sender};

/// Pieces of a stream that may wait for the client; the rest waits in the mailbox.
const PIECES: usize = 16;
/// How often a stream without news says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Fields that both kinds of requests have.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) model: Arc<Served>,
    pub(crate) sampling: Sampling,
    pub(crate) choices: usize,
    pub(crate) stop: Vec<String>,
    pub(crate) stream: bool,
    pub(crate) usage_in_stream: bool,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) ignore_end: bool,
    pub(crate) cache_salt: String,
}

/// Fields that change nothing about an answer.
const HARMLESS: [&str; 5] =
    ["user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"];

/// Takes them. `max_names` are the fields for the most tokens, of which at most one may be there.
pub(crate) fn common(body: &mut Fields, app: &App, max_names: &[&str]) -> Result<Common, ApiError> {
    let limits = &app.limits;
    let model = app.model(body.text("model", limits.name_bytes)?.as_deref())?;
    let stream = body.flag("stream")?.unwrap_or(false);
    let usage_in_stream = stream_options(body, stream)?;
    let mut max_tokens = None;
    for name in max_names {
        if let Some(n) = body.size(name, 1, i32::MAX as usize)?
            && max_tokens.replace(n).is_some_and(|other| other != n)
        {
            return Err(ApiError::field(*name, format!("{} contradict each other", max_names.join(" and "))));
        }
    }
    if let Some(tier) = body.text("service_tier", limits.name_bytes)?
        && !["auto", "default"].contains(&tier.as_str())
    {
        return Err(ApiError::unsupported("service_tier", "`service_tier` is neither `auto` nor `default`"));
    }
    if body.flag("store")? == Some(true) {
        return Err(ApiError::unsupported("store", "`store`: nothing is stored here"));
    }
    body.harmless(&HARMLESS);
    Ok(Common {
        sampling: sampling::read(body, model, limits)?,
        choices: body.size("n", 1, limits.choices)?.unwrap_or(1),
        stop: stop(body, limits)?,
        stream,
        usage_in_stream,
        max_tokens,
        ignore_end: body.flag("ignore_eos")?.unwrap_or(false),
        cache_salt: body.text("cache_salt", limits.name_bytes)?.unwrap_or_default(),
        model: Arc::clone(model),
    })
}

fn stream_options(body: &mut Fields, stream: bool) -> Result<bool, ApiError> {
    let Some(value) = body.take("stream_options") else { return Ok(false) };
    let mut options = Fields::at("stream_options", value)?;
    if !stream {
        return Err(ApiError::field("stream_options", "`stream_options` needs `stream`"));
    }
    let usage = options.flag("include_usage")?.unwrap_or(false);
    // Pieces are not padded, so there is nothing to switch off.
    if options.flag("include_obfuscation")? == Some(true) {
        let path = "stream_options.include_obfuscation";
        return Err(ApiError::unsupported(path, format!("`{path}` is not supported")));
    }
    options.finish()?;
    Ok(usage)
}

fn stop(body: &mut Fields, limits: &Limits) -> Result<Vec<String>, ApiError> {
    let checked = |path: &str, value| {
        let text = fields::text(path, value, limits.stop_bytes)?;
        if text.is_empty() { Err(ApiError::field(path, format!("`{path}` is empty"))) } else { Ok(text) }
    };
    match body.take("stop") {
        None => Ok(Vec::new()),
        Some(value @ Value::String(_)) => Ok(vec![checked("stop", value)?]),
        Some(Value::Array(items)) if items.len() <= limits.stops => {
            items.into_iter().enumerate().map(|(i, v)| checked(&format!("stop[{i}]"), v)).collect()
        }
        Some(Value::Array(items)) => {
            let message = format!("`stop` has {} items; {} are the most", items.len(), limits.stops);
            Err(ApiError::field("stop", message))
        }
        Some(other) => Err(wrong("stop", "a text or a list of texts", &other)),
    }
}

/// The texts to generate for one prompt.
pub(crate) struct Wanted {
    pub(crate) prompt: Arc<Vec<u32>>,
    /// How many tokens can follow.
    pub(crate) room: usize,
}

/// What goes beyond the common fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// Alternatives with each token, if logarithmic probabilities are wanted.
    pub(crate) logprobs: Option<usize>,
    /// Whether the text has the names of special tokens.
    pub(crate) special_tokens: bool,
}

impl Common {
    /// The tasks for prompts: all choices of the first, then all of the second.
    pub(crate) fn tasks(&self, prompts: &[Wanted], extras: Extras) -> Result<Vec<Task>, ApiError> {
        let mut tasks = Vec::new();
        let tokenizer = self.model.tokenizer.as_ref();
        for wanted in prompts {
            for choice in 0..self.choices {
                let text = AnswerText::new(tokenizer, &wanted.prompt, &self.stop);
                let choice = Choice {
                    sampler: self.sampling.sampler(&self.model, choice, &wanted.prompt)?,
                    text: if extras.special_tokens { text.with_special_tokens() } else { text },
                    logprobs: extras.logprobs,
                    ignore_end: self.ignore_end,
                };
                tasks.push(Task {
                    prompt: Arc::clone(&wanted.prompt),
                    max_tokens: self.max_tokens.unwrap_or(usize::MAX).min(wanted.room),
                    work: Work::Text(Box::new(choice)),
                });
            }
        }
        Ok(tasks)
    }
}

/// A request that runs.
pub(crate) struct Running {
    app: Arc<App>,
    call: Call,
    mailbox: Mailbox,
    pub(crate) usage: Usage,
    /// Tokens so far, by choice.
    generated: Vec<usize>,
    open: usize,
}

/// Hands a request to the model's worker.
pub(crate) async fn submit(
    app: Arc<App>,
    call: Call,
    model: &Served,
    tasks: Vec<Task>,
    salt: String,
) -> Result<Running, ApiError> {
    let choices = tasks.len();
    // A prompt counts once, however many choices there are of it.
    let mut prompt = 0;
    for (i, task) in tasks.iter().enumerate() {
        if i == 0 || !Arc::ptr_eq(&task.prompt, &tasks[i - 1].prompt) {
            prompt += task.prompt.len();
        }
    }
    let scope = Scope {
        model: model.name.clone(),
        kv_type: model.kv_type,
        owner: call.caller.id.clone(),
        adapter: String::new(),
        salt,
    };
    let (sender, mut mailbox) = mailbox(choices);
    let arrived = call.entry.started();
    let job = Job {
        key: call.caller.fairness(),
        priority: call.caller.priority,
        scope: Arc::new(scope),
        arrived,
        deadline: arrived + app.request_time,
        tasks,
        mailbox: Arc::new(sender),
    };
    call.entry.note(|f| {
        f.model = Some(model.name.clone());
        f.prompt_tokens = Some(prompt);
    });
    model.worker.submit(job).map_err(|e| match e {
        Unreachable::Busy => {
            ApiError::unavailable("overloaded", "the server is overloaded", Duration::from_secs(1))
        }
        Unreachable::Dead => dead(),
    })?;
    match mailbox.verdict().await {
        Ok(Ok(())) => {}
        Ok(Err(refusal)) => return Err(refused(&refusal)),
        Err(_) => return Err(dead()),
    }
    if let Some(keys) = &app.keys {
        keys.charge(&call.caller, prompt);
    }
    let usage = Usage { prompt, ..Usage::default() };
    Ok(Running { app, call, mailbox, usage, generated: vec![0; choices], open: choices })
}

fn dead() -> ApiError {
    ApiError::unavailable("model_failed", "the model cannot answer any more", Duration::from_secs(30))
}

fn refused(refusal: &Refusal) -> ApiError {
    match refusal {
        Refusal::QueueFull { retry_after } => {
            ApiError::too_many("queue_full", "too many requests are waiting", *retry_after)
        }
        Refusal::KeyQueueFull { retry_after } => {
            ApiError::too_many("queue_full", "too many requests of this key are waiting", *retry_after)
        }
        Refusal::Late => deadline(),
        // The request was checked before; that these differ is a fault of the server.
        _ => ApiError::internal("the request was not taken"),
    }
}

fn deadline() -> ApiError {
    ApiError::unavailable("deadline_exceeded", "the request took too long", Duration::from_secs(1))
}

/// The failure that an end stands for, if it is one.
fn failure(end: End) -> Option<ApiError> {
    match end {
        End::Stop | End::Length => None,
        End::Deadline => Some(deadline()),
        End::Closing => Some(closing()),
        End::Failed => Some(ApiError::internal("the step that computed this request failed")),
        End::NotFinite => Some(ApiError::internal("the model computed values that are not numbers")),
    }
}

/// OpenAI's names.
pub(crate) fn finish_reason(end: End) -> &'static str {
    if end == End::Length { "length" } else { "stop" }
}

impl Running {
    /// The request's number.
    pub(crate) fn id(&self) -> String {
        self.call.entry.id().to_owned()
    }

    /// Counts what is new.
    fn count(&mut self, choice: usize, update: &Update) {
        if let Some(cached) = update.cached {
            // Of several choices the first is the one that computed the prompt.
            self.usage.cached = if choice == 0 { cached } else { self.usage.cached };
            self.call.entry.note(|f| f.cached_tokens = Some(f.cached_tokens.unwrap_or(cached)));
        }
        if update.generated > 0 {
            self.generated[choice] = update.generated;
            self.call.entry.note(|f| {
                f.first_token.get_or_insert_with(Instant::now);
            });
        }
        if let Some(end) = update.end {
            self.open -= 1;
            let name = if failure(end).is_none() { finish_reason(end) } else { "error" };
            self.call.entry.note(|f| f.finish = Some(name));
        }
        self.usage.completion = self.generated.iter().sum();
    }

    /// The whole answer: what was said for every choice.
    pub(crate) async fn collect(mut self) -> Result<(Vec<Update>, Usage), ApiError> {
        let mut whole = vec![Update::default(); self.generated.len()];
        while self.open > 0 {
            for (choice, update) in self.mailbox.next().await.map_err(|_| dead())? {
                self.count(choice, &update);
                if let Some(error) = update.end.and_then(failure) {
                    return Err(error);
                }
                let w = &mut whole[choice];
                w.text.push_str(&update.text);
                w.logprobs.extend(update.logprobs);
                w.state.extend(update.state);
                w.end = w.end.or(update.end);
            }
        }
        Ok((whole, self.usage))
    }

    /// The answer as a stream of events, in the words of `format`.
    pub(crate) fn stream(self, format: impl Format) -> Response<Reply> {
        let (pieces, receiver) = mpsc::channel(PIECES);
        tokio::spawn(self.tell(format, pieces));
        let mut response = Response::new(Reply::stream(receiver));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        *response.status_mut() = StatusCode::OK;
        response
    }

    /// Sends events until the answer ends or the client goes; then the mailbox is dropped, which ends the request.
    async fn tell(mut self, mut format: impl Format, pieces: Sender<Bytes>) {
        while self.open > 0 {
            let news = tokio::select! {
                () = pieces.closed() => return,
                news = self.mailbox.next_within(HEARTBEAT) => news,
            };
            let news = match news {
                None => {
                    if pieces.send(Bytes::from_static(b": still here\n\n")).await.is_err() {
                        return;
                    }
                    continue;
                }
                Some(Err(_)) => {
                    let _ = pieces.send(event(&dead().json())).await;
                    return;
                }
                Some(Ok(news)) => news,
            };
            let mut bytes = Vec::new();
            let mut failed = None;
            for (choice, update) in news {
                self.count(choice, &update);
                format.update(choice, update.clone()).iter().for_each(|v| bytes.extend(event(v)));
                failed = failed.or(update.end.and_then(failure));
            }
            if let Some(error) = &failed {
                self.call.entry.note(|f| f.code = Some(error.code));
                bytes.extend(event(&error.json()));
            } else if self.open == 0 {
                format.usage(self.usage).iter().for_each(|v| bytes.extend(event(v)));
                bytes.extend_from_slice(b"data: [DONE]\n\n");
            }
            if !bytes.is_empty() && pieces.send(bytes.into()).await.is_err() {
                return;
            }
            if failed.is_some() {
                return;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let tokens = self.usage.completion;
        self.call.entry.note(|f| f.completion_tokens = Some(tokens));
        if let Some(keys) = &self.app.keys {
            keys.charge(&self.call.caller, tokens);
        }
    }
}

/// How the events of a stream look.
pub(crate) trait Format: Send + 'static {
    /// Events for what is new about a choice. The end of one that failed needs none.
    fn update(&mut self, choice: usize, update: Update) -> Vec<Value>;

    /// Events behind the last choice.
    fn usage(&mut self, usage: Usage) -> Vec<Value>;
}

fn event(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}

/// Fields of requests in the OpenAPI document that chats and completions share.
pub(crate) fn schema(limits: &Limits) -> Value {
    let stop = json!({ "type": "string", "minLength": 1, "maxLength": limits.stop_bytes });
    let mut all = sampling::schema();
    let more = json!({
        "model": { "type": "string", "maxLength": limits.name_bytes },
        "stream": { "type": "boolean" },
        "stream_options": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "include_usage": { "type": "boolean" }, "include_obfuscation": { "type": "boolean", "const": false }
            }
        },
        "n": { "type": "integer", "minimum": 1, "maximum": limits.choices },
        "stop": { "anyOf": [stop, { "type": "array", "maxItems": limits.stops, "items": stop }] },
        "service_tier": { "enum": ["auto", "default"] },
        "store": { "const": false },
        "user": {}, "metadata": {}, "safety_identifier": {}, "prompt_cache_key": {}, "prompt_cache_retention": {},
        "ignore_eos": { "type": "boolean", "description": "Whether the model's end does not end the answer" },
        "cache_salt": {
            "type": "string",
            "maxLength": limits.name_bytes,
            "description": "Only requests with the same salt share cached prompts"
        },
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
        all.extend(more);
    }
    all
}
