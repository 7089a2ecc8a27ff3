//! Rows that are requests to an engine: many of them run at the same time.

use super::setting::{Counts, Setting};
use crate::cli::failure::Failure;
use crate::cli::rows::Sink;
use leyden_batch::{Answer, Computation, Feed, Item, Source};
use leyden_server::InMemory;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Code of a response to a request that took too long.
const TOO_LONG: &str = "deadline_exceeded";

/// Tokens of all requests.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    prompt: AtomicU64,
    completion: AtomicU64,
}

impl Tokens {
    /// Returns the tokens of prompts and of answers.
    pub(super) fn get(&self) -> (u64, u64) {
        (self.prompt.load(Ordering::Relaxed), self.completion.load(Ordering::Relaxed))
    }

    fn add(&self, response: &Value) {
        let count = |name: &str| response["usage"][name].as_u64().unwrap_or(0);
        self.prompt.fetch_add(count("prompt_tokens"), Ordering::Relaxed);
        self.completion.fetch_add(count("completion_tokens"), Ordering::Relaxed);
    }
}

/// Translation of rows to requests, and of responses to output rows.
pub(super) trait Dialect: Sync {
    /// Returns path and body of the request of a row.
    ///
    /// # Errors
    /// The reason why the row is none.
    fn request(&self, item: &Item) -> Result<(String, Value), String>;

    /// Returns the answer from the status and the body of the response.
    ///
    /// # Errors
    /// The reason of a row with an error.
    fn answer(&self, item: &Item, status: u16, body: Value) -> Result<Answer, String>;

    /// Returns the output row of a row with an error.
    fn error_row(&self, item: &Item, reason: &str) -> String;
}

/// Computation of rows by requests.
struct Requests<'a> {
    server: InMemory,
    setting: &'a Setting<'a>,
    threads: usize,
    dialect: &'a dyn Dialect,
    tokens: &'a Tokens,
}

/// Computes all rows.
pub(super) fn run(
    setting: &Setting<'_>,
    (source, sink): (Box<dyn Source + '_>, &mut Sink<'_>),
    dialect: &dyn Dialect,
    tokens: &Tokens,
) -> Result<Counts, Failure> {
    let parallel = setting.args.parallel as usize;
    // A few requests wait, so that each place is taken at once; with a limit of time the wait would count.
    let waiting = if setting.args.row_timeout.is_some() { 0 } else { parallel.div_ceil(4) };
    let server = setting.server()?;
    let mut requests = Requests { server, setting, threads: parallel + waiting, dialect, tokens };
    let error_row = |item: &Item, reason: &str| dialect.error_row(item, reason);
    setting.session.go_over(source, sink, &error_row, &mut requests)
}

impl Computation for Requests<'_> {
    type Failure = Failure;

    fn compute(&mut self, feed: &Feed<'_>) -> Result<(), Failure> {
        let this = &*self;
        thread::scope(|scope| {
            for _ in 0..this.threads {
                let started = thread::Builder::new().spawn_scoped(scope, || this.serve(feed));
                started.map_err(|error| Failure::new(format!("no thread can be started: {error}")))?;
            }
            Ok(())
        })
    }
}

impl Requests<'_> {
    /// Computes rows one after the other.
    fn serve(&self, feed: &Feed<'_>) {
        while let Some(item) = feed.next() {
            let (path, body) = match self.dialect.request(&item) {
                Ok(request) => request,
                Err(reason) => {
                    feed.refuse(&item, &reason);
                    continue;
                }
            };
            let stop = || self.setting.stop.is_set() || feed.is_stopped();
            let body = body.to_string().into_bytes();
            let Some((status, body)) = self.server.answer_unless(&stop, "POST", &path, body) else { return };
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let code = body["error"]["code"].as_str().unwrap_or_default();
            if code == TOO_LONG {
                let seconds = self.setting.args.row_timeout.unwrap_or_default();
                feed.refuse(&item, &format!("took more than {seconds} s (--row-timeout)"));
            } else if status >= 500 {
                // The engine failed, with all its requests.
                feed.give_back(item.number, &message(&body));
            } else {
                self.tokens.add(&body);
                match self.dialect.answer(&item, status, body) {
                    Ok(answer) => feed.done(item.number, answer),
                    Err(reason) => feed.refuse(&item, &reason),
                }
            }
        }
    }
}

/// Returns the message of an error response.
pub(super) fn message(body: &Value) -> String {
    body["error"]["message"].as_str().unwrap_or("the model has failed").to_owned()
}
