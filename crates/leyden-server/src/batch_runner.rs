//! Running of batches: a thread that looks for batches, and one for each running batch, whose rows are requests of this server.
//!
//! A row takes the way of a request over HTTP from the router on: the same checks, limits, records and answers. It has a lower
//! priority than all requests of clients. Answers go to a journal first, so that a batch goes on after a kill; the outputs are
//! written from the journal when all rows are done, in the order of the input.

use crate::admission::Admitted;
use crate::app::App;
use crate::auth::{Access, Caller, Scope};
use crate::batches::{BATCH_ENDPOINTS, Batches, Input, InputError, Record, RowRequest, Status, check};
use crate::body::Reply;
use crate::file_store::{NewFile, Writing};
use crate::timestamp::unix_time;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode, Uri};
use leyden_batch::{Answer, Computation, Feed, Item, JournalSink, Limits, Next, Progress, Run, Source};
use leyden_rows::{Error as RowsError, Journal};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// Maximum number of batches that run at a time.
const MAX_RUNNING: usize = 4;
/// Difference between the priorities of a key and of the rows of its batches: more than keys differ by.
const PRIORITY_STEP: i32 = 1 << 20;
/// Interval of looks at the state of the server.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time after which a batch is tried again that failed for lack of room on the disk.
const RETRY_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of times that a row is tried which the server cannot take, and that it is tried after a timeout.
const MAX_TRIALS: usize = 100;
const MAX_TIMEOUTS: usize = 3;
/// Maximum time before the next trial.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Starts the thread that runs batches, if the server has any. It ends when the server retires.
pub(crate) fn start(app: &Arc<App>, handle: &Handle) -> Option<JoinHandle<()>> {
    let batches = Arc::clone(app.batches.as_ref()?);
    let (app, handle) = (Arc::downgrade(app), handle.clone());
    let thread = thread::Builder::new().name("batches".to_owned());
    // Without the thread batches wait, as they do while a server is not there.
    thread.spawn(move || look(&batches, &app, &handle)).ok()
}

/// Runs unfinished batches.
fn look(batches: &Arc<Batches>, app: &Weak<App>, handle: &Handle) {
    let mut running: HashMap<u64, JoinHandle<()>> = HashMap::new();
    while let Some(app) = app.upgrade().filter(|app| !app.is_retiring()) {
        running.retain(|_, thread| !thread.is_finished());
        let numbers: Vec<u64> = running.keys().copied().collect();
        let next = (running.len() < MAX_RUNNING)
            .then(|| batches.next(&numbers, |owner| caller(&app, owner).is_some()))
            .flatten();
        let Some(number) = next else {
            drop(app);
            batches.wait(LOOK_EVERY);
            continue;
        };
        let (batches, handle) = (Arc::clone(batches), handle.clone());
        let thread = thread::Builder::new().name("batch".to_owned());
        match thread.spawn(move || advance(&batches, &app, &handle, number)) {
            Ok(thread) => drop(running.insert(number, thread)),
            Err(_) => thread::sleep(LOOK_EVERY),
        }
    }
    running.into_values().for_each(|thread| drop(thread.join()));
}

/// Returns the caller of a key's batches; `None` if there is no such key at present, or it may not compute.
fn caller(app: &App, owner: &str) -> Option<Caller> {
    let mut caller = match &app.keys {
        None => Some(Caller::anybody()).filter(|_| owner.is_empty()),
        Some(keys) => keys.named(owner, Access::Needs(Scope::Inference)),
    }?;
    caller.priority = caller.priority.saturating_sub(PRIORITY_STEP);
    Some(caller)
}

/// Brings a batch to its end, or as far as the server lives.
fn advance(batches: &Batches, app: &Arc<App>, handle: &Handle, number: u64) {
    while let Some(record) = batches.of_number(number).filter(|record| !record.status.is_final()) {
        let step = match record.status {
            Status::Validating => validate(batches, app, &record),
            Status::Finalizing => finish(batches, &record),
            _ => compute(batches, app, handle, &record),
        };
        let status = match step {
            Ok(true) => batches.of_number(number).map(|record| record.status),
            // The server retires.
            Ok(false) => return,
            // A full disk may have room again, so answers are kept and the batch is tried again, until it expires.
            Err(error) if record.status != Status::Validating && unix_time() < record.expires_at => {
                let what = error.to_string();
                app.log().event(&[
                    ("event", "batch_waits".into()),
                    ("batch", record.id.into()),
                    ("error", what.into()),
                ]);
                pause(app);
                return;
            }
            Err(error) => {
                let message = format!("the server could not go on with the batch: {error}");
                let error = InputError { code: "server_error".to_owned(), message, param: None, line: None };
                if fail(batches, number, vec![error]).is_err() {
                    pause(app);
                    return;
                }
                Some(Status::Failed)
            }
        };
        let status = status.map_or(Value::Null, |status| json!(status));
        app.log().event(&[("event", "batch".into()), ("batch", record.id.into()), ("status", status)]);
    }
}

/// Waits before a batch is tried again, unless the server retires.
fn pause(app: &App) {
    let steps = RETRY_EVERY.as_millis() / LOOK_EVERY.as_millis();
    (0..steps).take_while(|_| !app.is_retiring()).for_each(|_| thread::sleep(LOOK_EVERY));
}

fn fail(batches: &Batches, number: u64, errors: Vec<InputError>) -> io::Result<()> {
    let change = batches.change(number, |record| {
        record.errors = errors;
        record.set(Status::Failed, unix_time());
    });
    change.map(drop)
}

/// Checks the input. Returns true if the batch goes on, false if the server retires.
fn validate(batches: &Batches, app: &App, record: &Record) -> io::Result<bool> {
    match check(batches.input(record)?, &record.endpoint, app.limits.batch_rows)? {
        Err(errors) => fail(batches, record.number, errors)?,
        Ok(rows) => {
            batches.change(record.number, |record| {
                record.total = rows;
                // It may be cancelled meanwhile.
                if record.status == Status::Validating {
                    record.set(Status::InProgress, unix_time());
                }
            })?;
        }
    }
    Ok(true)
}

/// Opens the journal of a batch.
fn journal(batches: &Batches, record: &Record) -> io::Result<Journal> {
    Journal::open(&batches.journal(record), &record.id).map_err(io::Error::other)
}

/// Computes the rows that have no answer yet. Returns true if the batch goes on, false if the server retires.
fn compute(batches: &Batches, app: &Arc<App>, handle: &Handle, record: &Record) -> io::Result<bool> {
    let number = record.number;
    let Some(caller) = caller(app, &record.owner) else { return Ok(false) };
    let Some(endpoint) = BATCH_ENDPOINTS.iter().find(|endpoint| **endpoint == record.endpoint).copied()
    else {
        return Err(io::Error::other("unknown endpoint"));
    };
    let ends_as = || match batches.of_number(number) {
        Some(record) if record.status == Status::Cancelling => Some(Status::Cancelled),
        Some(record) if record.expires_at <= unix_time() => Some(Status::Expired),
        _ => None,
    };
    let mut sink = JournalSink::new(journal(batches, record)?);
    let stop = || app.is_retiring() || ends_as().is_some();
    let count = |progress: &Progress| batches.count(number, progress.done, progress.failed);
    let error_row =
        |item: &Item, reason: &str| not_computed(app, item.id.as_deref(), "internal_error", reason);
    let at_once = app.limits.batch_rows_at_once.max(1);
    let limits = Limits::default().window(at_once * 4);
    let run = Run::new(Box::new(batches.input(record)?), &mut sink, &error_row);
    let mut rows = Rows { app, handle, caller, endpoint, at_once };
    let summary = leyden_batch::run(run.limits(limits).stop(&stop).progress(&count), &mut rows);
    let summary = summary.map_err(|error| io::Error::other(error.to_string()))?;
    drop(sink);
    batches.count(number, summary.done, summary.failed);
    let ends_as = match summary.stopped {
        false => Status::Completed,
        true => match ends_as() {
            Some(end) => end,
            None => return Ok(false),
        },
    };
    let (output, errors) = (batches.files.new_id(), batches.files.new_id());
    batches.change(number, |record| {
        (record.completed, record.failed) = (summary.done, summary.failed);
        (record.output_file_id, record.error_file_id) = (Some(output), Some(errors));
        record.ends_as = Some(ends_as);
        record.set(Status::Finalizing, unix_time());
    })?;
    Ok(true)
}

/// Writes the outputs of a batch from its journal, under the ids that its record has.
fn finish(batches: &Batches, record: &Record) -> io::Result<bool> {
    let ends_as = record.ends_as.unwrap_or(Status::Completed);
    let mut journal = journal(batches, record)?;
    let mut files = Vec::new();
    for id in [&record.output_file_id, &record.error_file_id] {
        files.push(batches.files.begin(id.clone())?);
    }
    let (code, message) = match ends_as {
        Status::Expired => ("batch_expired", "the completion window ended before this request was computed"),
        _ => ("batch_cancelled", "the batch was cancelled before this request was computed"),
    };
    let path = batches.journal(record);
    let mut pass = Pass {
        input: batches.input(record)?,
        read: 0,
        next: 0,
        error: json!({ "code": code, "message": message }),
    };
    journal
        .each(|_, entry| {
            pass.up_to(entry.number, &mut files[1]).map_err(|error| RowsError::new(path.display(), error))?;
            pass.next = entry.number + 1;
            let written = files[usize::from(entry.failed)].write(format!("{}\n", entry.row).as_bytes());
            written.map_err(|error| RowsError::new(path.display(), error))
        })
        .map_err(io::Error::other)?;
    drop(journal);
    pass.up_to(u64::MAX, &mut files[1])?;
    let total = pass.read;
    let mut ids = Vec::new();
    for (writing, name) in files.into_iter().zip(["output", "error"]) {
        if writing.bytes() == 0 {
            ids.push(None);
            continue;
        }
        let filename = format!("{}_{name}.jsonl", record.id);
        let new = NewFile {
            owner: record.owner.clone(),
            filename,
            purpose: "batch_output",
            lifetime: record.output_lifetime,
        };
        ids.push(Some(batches.files.finish(writing, new)?.id));
    }
    batches.change(record.number, |record| {
        // A batch that was cancelled at once was not counted.
        record.total = total;
        (record.error_file_id, record.output_file_id) = (ids.pop().flatten(), ids.pop().flatten());
        record.set(ends_as, unix_time());
    })?;
    batches.remove_journal(record);
    Ok(true)
}

/// Rows without an answer, which batches have that did not run to their end.
struct Pass {
    input: Input,
    /// Number of rows that were read, and of those that are written.
    read: u64,
    next: u64,
    error: Value,
}

impl Pass {
    /// Writes the rows before this one; the answer to the row itself is written by the caller.
    fn up_to(&mut self, number: u64, to: &mut Writing) -> io::Result<()> {
        while self.read < number {
            let Some(row) = self.input.next().map_err(io::Error::other)? else { return Ok(()) };
            if self.read >= self.next {
                let id = RowRequest::of_row(&row).map(|(id, _)| id);
                let line = json!({ "id": null, "custom_id": id, "response": null, "error": self.error });
                to.write(format!("{line}\n").as_bytes())?;
            }
            self.read += 1;
        }
        Ok(())
    }
}

/// Computation of a batch's rows as requests of this server.
struct Rows<'a> {
    app: &'a Arc<App>,
    handle: &'a Handle,
    caller: Caller,
    endpoint: &'static str,
    at_once: usize,
}

impl Computation for Rows<'_> {
    type Failure = Infallible;

    fn compute(&mut self, feed: &Feed<'_>) -> Result<(), Infallible> {
        let (answers, answered) = mpsc::channel();
        let mut running: HashMap<u64, AbortHandle> = HashMap::new();
        let mut ended = false;
        loop {
            while !ended && running.len() < self.at_once {
                match feed.try_next() {
                    Next::Row(item) => drop(running.insert(item.number, self.begin(item, answers.clone()))),
                    Next::Wait => break,
                    Next::End => ended = true,
                }
            }
            if feed.is_stopped() {
                running.values().for_each(AbortHandle::abort);
                return Ok(());
            }
            if running.is_empty() {
                if ended {
                    return Ok(());
                }
                thread::sleep(LOOK_EVERY);
                continue;
            }
            match answered.recv_timeout(LOOK_EVERY) {
                Ok((number, answer)) => {
                    running.remove(&number);
                    // A row whose task ended without an answer is tried again, alone.
                    match answer {
                        Some(answer) => feed.done(number, answer),
                        None => ended |= feed.is_stopped(),
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}

/// Sender of a row's answer; sends even if the task panics.
struct Telling {
    number: u64,
    answer: Option<Answer>,
    to: Sender<(u64, Option<Answer>)>,
}

impl Drop for Telling {
    fn drop(&mut self) {
        // The batch may have been stopped.
        let _ = self.to.send((self.number, self.answer.take()));
    }
}

impl Rows<'_> {
    /// Begins to compute a row.
    fn begin(&self, item: Arc<Item>, to: Sender<(u64, Option<Answer>)>) -> AbortHandle {
        let (app, caller, endpoint) = (Arc::clone(self.app), self.caller.clone(), self.endpoint);
        let task = self.handle.spawn(async move {
            let mut telling = Telling { number: item.number, answer: None, to };
            telling.answer = row(&app, &caller, endpoint, &item).await;
        });
        task.abort_handle()
    }
}

/// Returns the answer to a row; `None` if the server shuts down before.
async fn row(app: &Arc<App>, caller: &Caller, endpoint: &'static str, item: &Item) -> Option<Answer> {
    let (custom_id, body) = RowRequest::of_row(&item.row)?;
    let (mut timeouts, mut pause) = (0, Duration::from_millis(500));
    for _ in 0..MAX_TRIALS {
        let mut request = Request::new(Reply::whole(body.to_owned()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static(endpoint);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.extensions_mut().insert(Admitted(caller.clone()));
        let response = app.respond(request).await;
        if app.is_closing() && !response.status().is_success() {
            return None;
        }
        let again = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        if let (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(seconds)) =
            (response.status(), again)
        {
            timeouts += usize::from(is_timeout(&response.into_body().into_bytes().await));
            if timeouts < MAX_TIMEOUTS {
                tokio::time::sleep(Duration::from_secs(seconds).max(pause).min(MAX_PAUSE)).await;
                pause = (pause * 2).min(MAX_PAUSE);
                continue;
            }
            let reason = "the request took too long, several times";
            return Some(Answer::failed(
                not_computed(app, Some(custom_id), "deadline_exceeded", reason),
                reason,
            ));
        }
        return Some(answer(app, custom_id, response).await);
    }
    let reason = "the server could not take the request";
    Some(Answer::failed(not_computed(app, Some(custom_id), "overloaded", reason), reason))
}

fn is_timeout(body: &[u8]) -> bool {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    error["error"]["code"] == "deadline_exceeded"
}

/// Returns the output row of a response.
async fn answer(app: &App, custom_id: &str, response: Response<Reply>) -> Answer {
    let status = response.status();
    let request =
        response.headers().get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let bytes = response.into_body().into_bytes().await;
    let body = String::from_utf8(bytes).unwrap_or_default();
    // The answer's text is a JSON document already; only its form is checked: the output has a line for each row.
    let body = match body.contains('\n') {
        true => serde_json::from_str::<Value>(&body).unwrap_or_default().to_string(),
        false => body,
    };
    let (id, custom_id, request) = (row_id(app), json!(custom_id), json!(request));
    let row = format!(
        "{{\"id\":\"{id}\",\"custom_id\":{custom_id},\"response\":{{\"status_code\":{},\"request_id\":{request},\"body\":{body}}},\
         \"error\":null}}",
        status.as_u16(),
    );
    if status.is_success() {
        Answer::of(row)
    } else {
        Answer::failed(row, format!("status {}", status.as_u16()))
    }
}

/// Returns the output row of a request without a response.
fn not_computed(app: &App, custom_id: Option<&str>, code: &str, message: &str) -> String {
    let error = json!({ "code": code, "message": message });
    json!({ "id": row_id(app), "custom_id": custom_id, "response": null, "error": error }).to_string()
}

fn row_id(app: &App) -> String {
    format!("batch_req_{}", app.ids.next())
}
