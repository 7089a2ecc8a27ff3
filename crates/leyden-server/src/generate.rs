//! Submission of a checked request to a worker, and its answer, as a whole or as a stream.

use crate::answer_bytes;
use crate::app::App;
use crate::auth::Caller;
use crate::body::{Piece, Reply};
use crate::call::Call;
use crate::error::ApiError;
use crate::log::Entry;
use crate::mailbox::{End, Mailbox, Update, mailbox};
use crate::request_model::RequestModel;
use crate::result_digest::ResultDigest;
use crate::usage::Usage;
use crate::worker::{Job, Task, Unreachable, Work};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use leyden_audit::{AdapterFacts, ModelFacts, sha256};
use leyden_engine::Scope;
use leyden_engine::schedule::{Promise, Refusal, SloRefusal};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Sender};

/// Maximum number of chunks of a stream that wait for the client; further output stays in the mailbox.
const PIECES: usize = 16;
/// Bytes after which the output of several choices is sent.
const PIECE: usize = 64 << 10;
/// Interval of the heartbeats of a stream without output.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Request in progress.
pub(crate) struct Running {
    call: Call,
    mailbox: Mailbox,
    pub(crate) usage: Usage,
    /// Tokens generated so far, by choice.
    generated: Vec<usize>,
    /// Numbers of draft tokens so far and of accepted ones, by choice.
    drafts: Vec<(usize, usize)>,
    open: usize,
    reserved: Reserved,
    /// Digest of the answer for the audit log, and the place of the computation in the request's record.
    result: Option<(usize, ResultDigest)>,
}

/// Tokens of a key's rate limit that are reserved for a request, and settled when it is over.
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

/// Submits a request to one of the model's workers.
pub(crate) async fn submit(
    app: Arc<App>,
    call: Call,
    model: &RequestModel,
    tasks: Vec<Task>,
    salt: String,
) -> Result<Running, ApiError> {
    if !model.generates && tasks.iter().any(|task| matches!(task.work, Work::Text(_))) {
        let message =
            format!("`{}` does not generate text; use /v1/embeddings, /rerank or /classify", model.name);
        return Err(ApiError::field("model", message));
    }
    let config = model.network.config();
    let labels = config.classifier().map_or(0, |classifier| classifier.labels.len());
    let width = model.width.max(model.vector_width).max(config.token_width()).max(labels);
    let (key, deadline) = (call.caller.fairness(), call.deadline(&app).into());
    let bytes = answer_bytes::bytes(&tasks, width).saturating_add(call.shown_bytes());
    call.entry.hold(app.answer_memory.hold(key, bytes, deadline).await?);
    let choices = tasks.len();
    // A prompt with several choices counts once.
    let mut prompt = 0;
    for (i, task) in tasks.iter().enumerate() {
        if i == 0 || !Arc::ptr_eq(&task.prompt, &tasks[i - 1].prompt) {
            prompt += task.prompt.len();
        }
    }
    let max_tokens =
        tasks.iter().filter(|task| matches!(task.work, Work::Text(_))).map(|task| task.max_tokens).max();
    let answers = tasks.iter().map(|task| match task.work {
        Work::Text(_) => task.max_tokens,
        Work::Head { .. } => 0,
    });
    let most = answers.fold(prompt, usize::saturating_add);
    let mut reserved = Reserved::new(&app, &call.caller, most)?;
    let scope = Scope {
        model: model.name.clone(),
        kv_type: model.kv_type,
        owner: call.caller.id.clone(),
        adapters: model.adapters().clone(),
        salt,
    };
    let result = match call.entry.trail() {
        Some(trail) => {
            Some((trail.computes(facts(model).await, &prompts_of(&tasks)), ResultDigest::new(choices)))
        }
        None => None,
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
        f.max_tokens = max_tokens;
        f.submitted = f.submitted.or_else(|| Some(Instant::now()));
    });
    model.replicas.submit(job).map_err(|e| match e {
        Unreachable::Busy => {
            ApiError::unavailable("overloaded", "the server is overloaded", Duration::from_secs(1))
        }
        Unreachable::Dead => dead(),
    })?;
    match mailbox.verdict().await {
        Ok(Ok(())) => {}
        Ok(Err(refusal)) => return Err(refused(&refusal, model.promise)),
        Err(_) => return Err(dead()),
    }
    reserved.taken = prompt;
    let usage = Usage { prompt, ..Usage::default() };
    Ok(Running {
        call,
        mailbox,
        usage,
        generated: vec![0; choices],
        drafts: vec![(0, 0); choices],
        open: choices,
        reserved,
        result,
    })
}

/// Returns the facts of a model for the audit log. Its files are hashed at the first request, if they are not yet.
async fn facts(model: &RequestModel) -> ModelFacts {
    let mut adapters = Vec::new();
    for (served, scale) in model.served_adapters() {
        let sha256 = served.digest.known_or_computed().await;
        let name = served.name.clone().unwrap_or_else(|| served.path.clone());
        adapters.push(AdapterFacts { name, sha256, scale });
    }
    let template = model.template.as_ref().map(|template| sha256(template.source().as_bytes()));
    ModelFacts {
        name: model.answer_name(),
        sha256: model.info.digest.known_or_computed().await,
        template_sha256: template,
        adapters,
    }
}

/// Returns the prompts of tasks; a prompt with several choices once.
fn prompts_of(tasks: &[Task]) -> Vec<Arc<Vec<u32>>> {
    let mut prompts: Vec<Arc<Vec<u32>>> = tasks.iter().map(|task| Arc::clone(&task.prompt)).collect();
    prompts.dedup_by(|a, b| Arc::ptr_eq(a, b));
    prompts
}

fn dead() -> ApiError {
    ApiError::unavailable("model_failed", "the model has failed", Duration::from_secs(30))
}

fn refused(refusal: &Refusal, promise: Option<Promise>) -> ApiError {
    let promise = || promise.map_or_else(String::new, |promise| promise.to_string());
    match refusal {
        Refusal::Slo(SloRefusal::Busy { expected, retry_after }) => {
            let message = format!(
                "the server is too busy to keep its service level ({}) for this request: its first token would come after \
                 about {:.1} s",
                promise(),
                expected.as_secs_f64()
            );
            ApiError::too_many("slo_busy", message, *retry_after)
        }
        Refusal::Slo(SloRefusal::TooLong { expected }) => {
            let message = format!(
                "the prompt is too long for the server's service level ({}): its first token would come after about {:.1} s \
                 even without other requests; send a shorter prompt",
                promise(),
                expected.as_secs_f64()
            );
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "slo_prompt_too_long", message)
        }
        Refusal::QueueFull { retry_after } => {
            ApiError::too_many("queue_full", "too many requests are waiting", *retry_after)
        }
        Refusal::KeyQueueFull { retry_after } => {
            ApiError::too_many("queue_full", "too many requests of this key are waiting", *retry_after)
        }
        Refusal::Late => ApiError::deadline(),
        // The request was checked before, so another refusal is a bug of the server.
        _ => ApiError::internal("the request was refused"),
    }
}

/// Returns the error of an end, if it is a failure.
fn failure(end: End) -> Option<ApiError> {
    match end {
        End::Stop | End::Length => None,
        End::Deadline => Some(ApiError::deadline()),
        End::Closing => Some(ApiError::closing()),
        End::Failed => Some(ApiError::internal("the step that computed this request failed")),
        End::Stuck => {
            let message = "no token of the model continues the grammar, or finding one takes too long";
            Some(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "grammar_dead_end", message))
        }
        End::NotFinite => Some(ApiError::internal("the model computed values that are not finite")),
    }
}

impl Running {
    /// Returns the request's id.
    pub(crate) fn id(&self) -> String {
        self.call.entry.id().to_owned()
    }

    /// Returns the request's log entry, which has its times.
    pub(crate) fn entry(&self) -> Arc<Entry> {
        Arc::clone(&self.call.entry)
    }

    /// Adds an update of a choice to the counts.
    fn count(&mut self, choice: usize, update: &Update) {
        if let Some((_, digest)) = &mut self.result {
            digest.add(choice, update);
        }
        if let Some(cached) = update.cached {
            // The cached tokens are those of the first choice, which computed the prompt.
            self.usage.cached = if choice == 0 { cached } else { self.usage.cached };
            self.call.entry.note(|f| {
                f.cached_tokens = Some(f.cached_tokens.unwrap_or(cached));
                f.admitted = f.admitted.or(update.admitted);
            });
        }
        if update.generated > 0 {
            self.generated[choice] = update.generated;
            self.drafts[choice] = update.drafts;
            self.call.entry.note(|f| {
                f.first_token.get_or_insert_with(Instant::now);
            });
        }
        if let Some(end) = update.end {
            self.open -= 1;
            let name = match end {
                End::Stop => "stop",
                End::Length => "length",
                _ => "error",
            };
            self.call.entry.note(|f| {
                f.finish = Some(name);
                f.ended = Some(Instant::now());
            });
        }
        self.usage.completion = self.generated.iter().sum();
        self.usage.drafts =
            self.drafts.iter().fold((0, 0), |all, (made, right)| (all.0 + made, all.1 + right));
    }

    /// Returns the whole answer: the merged updates of each choice.
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
                w.output = update.output.or(w.output.take());
                w.generated = w.generated.max(update.generated);
                w.drafts = w.drafts.max(update.drafts);
                w.end = w.end.or(update.end);
            }
        }
        Ok((whole, self.usage))
    }

    /// Returns the answer as a stream in the form of `format`.
    pub(crate) fn stream(self, format: impl Format) -> Response<Reply> {
        let (pieces, receiver) = mpsc::channel(PIECES);
        let kind = HeaderValue::from_static(format.content_type());
        tokio::spawn(self.send_all(format, pieces));
        let mut response = Response::new(Reply::stream(receiver));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        *response.status_mut() = StatusCode::OK;
        response
    }

    /// Sends pieces until the answer ends or the client disconnects; then the mailbox is dropped, which ends the
    /// request.
    async fn send_all(mut self, mut format: impl Format, pieces: Sender<Piece>) {
        let mut bytes = Vec::new();
        format.begin(self.usage, &mut bytes);
        if !write_rest(&mut format, &mut bytes, &pieces).await {
            return;
        }
        while self.open > 0 {
            if !bytes.is_empty() && pieces.send(Piece::More(std::mem::take(&mut bytes).into())).await.is_err()
            {
                return;
            }
            let news = tokio::select! {
                () = pieces.closed() => return,
                news = self.mailbox.next_within(HEARTBEAT) => news,
            };
            let news = match news {
                None => {
                    bytes.extend_from_slice(format.heartbeat());
                    continue;
                }
                Some(Err(_)) => {
                    format.fail(&dead(), &mut bytes);
                    break;
                }
                Some(Ok(news)) => news,
            };
            let mut failed = None;
            for (choice, update) in news {
                self.count(choice, &update);
                format.counted(self.usage);
                failed = failed.or(update.end.and_then(failure));
                format.update(choice, update, &mut bytes);
                if !write_rest(&mut format, &mut bytes, &pieces).await {
                    return;
                }
                // For a slow client, much output of many choices may have accumulated.
                if bytes.len() >= PIECE
                    && pieces.send(Piece::More(std::mem::take(&mut bytes).into())).await.is_err()
                {
                    return;
                }
            }
            if let Some(error) = &failed {
                self.call.entry.note(|f| f.code = Some(error.code));
                format.fail(error, &mut bytes);
                break;
            }
            if self.open == 0 {
                format.end(self.usage, &mut bytes);
            }
        }
        if write_rest(&mut format, &mut bytes, &pieces).await {
            // The facts of the answer are complete before its last piece.
            self.settle();
            let _ = pieces.send(Piece::Last(bytes.into())).await;
        }
    }
}

/// Writes all that a format holds back. Returns `false` if the client has disconnected.
async fn write_rest(format: &mut impl Format, bytes: &mut Vec<u8>, pieces: &Sender<Piece>) -> bool {
    while format.more(bytes) {
        if bytes.len() >= PIECE && pieces.send(Piece::More(std::mem::take(bytes).into())).await.is_err() {
            return false;
        }
    }
    true
}

impl Running {
    /// Notes the facts of the answer, as far as it was computed.
    fn settle(&mut self) {
        let tokens = self.usage.completion;
        self.call.entry.note(|f| f.completion_tokens = Some(tokens));
        if let (Some(trail), Some((at, digest))) = (self.call.entry.trail(), self.result.take())
            && self.open == 0
        {
            trail.result(at, digest.finish());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.settle();
        self.reserved.taken += self.usage.completion;
    }
}

/// Format of a stream: the events that are written to it.
pub(crate) trait Format: Send + 'static {
    /// Returns the content type.
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// Writes the beginning of the stream, when only the number of the prompt's tokens is known.
    fn begin(&mut self, _usage: Usage, _out: &mut Vec<u8>) {}

    /// Gets the usage so far, before each update.
    fn counted(&mut self, _usage: Usage) {}

    /// Writes an update of a choice. Nothing need be written for the end of one that failed.
    fn update(&mut self, choice: usize, update: Update, out: &mut Vec<u8>);

    /// Writes the end of the stream, after the last choice.
    fn end(&mut self, usage: Usage, out: &mut Vec<u8>);

    /// Writes the failure of the answer; nothing follows it.
    fn fail(&mut self, error: &ApiError, out: &mut Vec<u8>);

    /// Writes more of the output that was held back because it is too long to be written at once. Returns `false` when
    /// all is written.
    fn more(&mut self, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Returns the heartbeat, by default a comment of server-sent events.
    fn heartbeat(&self) -> &'static [u8] {
        b": still here\n\n"
    }
}
