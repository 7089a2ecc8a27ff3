//! From a checked request to an answer, whole or in pieces.

use crate::app::{App, Call, Served, closing};
use crate::auth::Caller;
use crate::body::Reply;
use crate::error::ApiError;
use crate::mailbox::{End, Mailbox, Update, mailbox};
use crate::usage::Usage;
use crate::worker::{Job, Task, Unreachable, Work};
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use leyden_engine::Scope;
use leyden_engine::schedule::Refusal;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Sender};

/// Pieces of a stream that may wait for the client; the rest waits in the mailbox.
const PIECES: usize = 16;
/// How often a stream without news says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A request that runs.
pub(crate) struct Running {
    call: Call,
    mailbox: Mailbox,
    pub(crate) usage: Usage,
    /// Tokens so far, by choice.
    generated: Vec<usize>,
    open: usize,
    reserved: Reserved,
}

/// Tokens of a key's budget that are set aside for a request, and settled when it is over.
struct Reserved {
    app: Arc<App>,
    caller: Caller,
    tokens: usize,
    taken: usize,
}

impl Reserved {
    fn new(app: &Arc<App>, caller: &Caller, tokens: usize) -> Result<Reserved, ApiError> {
        if let Some(keys) = &app.keys {
            keys.reserve(caller, tokens, Instant::now())?;
        }
        Ok(Reserved { app: Arc::clone(app), caller: caller.clone(), tokens, taken: 0 })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(keys) = &self.app.keys {
            keys.settle(&self.caller, self.tokens, self.taken);
        }
    }
}

/// Hands a request to one of the model's workers.
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
    let answers = tasks.iter().map(|task| match task.work {
        Work::Text(_) => task.max_tokens,
        Work::State(_) => 0,
    });
    let most = answers.fold(prompt, usize::saturating_add);
    let mut reserved = Reserved::new(&app, &call.caller, most)?;
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
    model.replicas.submit(job).map_err(|e| match e {
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
    reserved.taken = prompt;
    let usage = Usage { prompt, ..Usage::default() };
    Ok(Running { call, mailbox, usage, generated: vec![0; choices], open: choices, reserved })
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

/// The request took too long.
pub(crate) fn deadline() -> ApiError {
    ApiError::unavailable("deadline_exceeded", "the request took too long", Duration::from_secs(1))
}

/// The failure that an end stands for, if it is one.
fn failure(end: End) -> Option<ApiError> {
    match end {
        End::Stop | End::Length => None,
        End::Deadline => Some(deadline()),
        End::Closing => Some(closing()),
        End::Failed => Some(ApiError::internal("the step that computed this request failed")),
        End::Stuck => {
            let message = "no token of the model continues the grammar, or finding one takes too long";
            Some(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "grammar_dead_end", message))
        }
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
                w.say(update.parts);
                w.logprobs.extend(update.logprobs);
                w.prompt_logprobs.extend(update.prompt_logprobs);
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
        self.reserved.taken += tokens;
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
