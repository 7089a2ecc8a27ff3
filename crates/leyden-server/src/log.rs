//! Log on standard error, one line per request. It has no text of a client or a model, except a request's id and the
//! names of ignored fields.
//!
//! A thread of its own writes the lines: standard error may be a pipe that is not read, which must not block the
//! server. Lines beyond a limit are dropped and counted.

use crate::answer_memory::MemoryReservation;
use crate::metrics::Counter;
use crate::timestamp::rfc3339;
use crate::trace::{Measured, Moments, RequestTrace};
use crate::trail::{Outcome, Trail};
use hyper::StatusCode;
use leyden_audit::{AuditLog, Phase};
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;

/// Format of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value` pairs.
    #[default]
    Text,
    /// A JSON object per line.
    Json,
    /// No lines.
    Off,
}

impl LogFormat {
    /// Returns the format with this name: `text`, `json` or `off`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<LogFormat> {
        match name {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            "off" => Some(LogFormat::Off),
            _ => None,
        }
    }
}

/// Maximum number of lines that wait to be written, some hundred bytes each.
const WAITING: usize = 4096;
/// Time to write the last lines when the server shuts down.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Command for the writing thread.
enum Command {
    Line(String),
    /// Reports that all lines before it have been written.
    Flush(SyncSender<()>),
}

/// Log of a server.
pub(crate) struct Log {
    format: LogFormat,
    /// Channel to the writing thread; `None` if the log is off.
    commands: Option<SyncSender<Command>>,
    dropped: Arc<Counter>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Log {
    /// Starts the writing thread. It ends when the log is dropped, as soon as its lines are written.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn new(format: LogFormat, out: Box<dyn Write + Send>) -> io::Result<Log> {
        let dropped = Arc::new(Counter::default());
        if format == LogFormat::Off {
            return Ok(Log { format, commands: None, dropped });
        }
        let (commands, receiver) = mpsc::sync_channel(WAITING);
        let counter = Arc::clone(&dropped);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write(format, out, &receiver, &counter))?;
        Ok(Log { format, commands: Some(commands), dropped })
    }

    /// Queues a line, or drops it if too many wait already.
    pub(crate) fn event(&self, fields: &[(&str, Value)]) {
        let Some(commands) = &self.commands else { return };
        if commands.try_send(Command::Line(line(self.format, fields))).is_err() {
            self.dropped.add(1);
        }
    }

    /// Returns the number of dropped lines.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Waits up to `LAST_LINES` for the lines to be written.
    pub(crate) fn flush(&self) {
        let (done, written) = mpsc::sync_channel(1);
        let deadline = Instant::now() + LAST_LINES;
        let Some(commands) = &self.commands else { return };
        let mut command = Command::Flush(done);
        while let Err(TrySendError::Full(back)) = commands.try_send(command) {
            if Instant::now() >= deadline {
                return;
            }
            command = back;
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = written.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Writes lines until the log is dropped. Reports how many were dropped as soon as there is room again.
fn write(format: LogFormat, mut out: Box<dyn Write + Send>, commands: &Receiver<Command>, dropped: &Counter) {
    let mut reported = 0;
    // There is no way to report that writing fails.
    let mut put = |line: &str| {
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    };
    for command in commands {
        let now = dropped.get();
        if now > reported {
            put(&line(format, &[("event", "log_lines_dropped".into()), ("lines", (now - reported).into())]));
            reported = now;
        }
        match command {
            Command::Line(line) => put(&line),
            Command::Flush(done) => drop(done.try_send(())),
        }
    }
}

fn line(format: LogFormat, fields: &[(&str, Value)]) -> String {
    let time = rfc3339(SystemTime::now());
    let mut line = if format == LogFormat::Json {
        let mut map = Map::new();
        map.insert("time".to_owned(), time.into());
        map.extend(fields.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
        Value::Object(map).to_string()
    } else {
        let pairs = fields.iter().map(|(k, v)| format!(" {k}={v}"));
        format!("time={time}{}", pairs.collect::<String>())
    };
    line.push('\n');
    line
}

/// Facts about a request for its line.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) key: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) code: Option<&'static str>,
    pub(crate) prompt_tokens: Option<usize>,
    pub(crate) cached_tokens: Option<usize>,
    pub(crate) completion_tokens: Option<usize>,
    pub(crate) first_token: Option<Instant>,
    /// Time at which an engine got the request.
    pub(crate) submitted: Option<Instant>,
    /// Time at which the engine began to compute it.
    pub(crate) admitted: Option<Instant>,
    /// Time at which the engine ended it.
    pub(crate) ended: Option<Instant>,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) finish: Option<&'static str>,
    /// Unknown fields of the body, which were ignored.
    pub(crate) ignored: Option<String>,
}

/// Log entry of a request, written when its response has been sent or its client has disconnected.
#[derive(Debug)]
pub(crate) struct Entry {
    log: Arc<Log>,
    id: String,
    /// Id that the client gave.
    given: Option<String>,
    route: &'static str,
    started: Instant,
    facts: Mutex<Facts>,
    trace: Option<RequestTrace>,
    /// Memory reserved for the answer, until it has been sent.
    held: Mutex<MemoryReservation>,
    /// Facts for the audit log, if the server has one.
    trail: Option<Trail>,
}

impl Entry {
    pub(crate) fn new(log: Arc<Log>, id: String, given: Option<String>, route: &'static str) -> Entry {
        Entry {
            log,
            id,
            given,
            route,
            started: Instant::now(),
            facts: Mutex::default(),
            trace: None,
            held: Mutex::default(),
            trail: None,
        }
    }

    /// Adds the trace of the request.
    pub(crate) fn traced(mut self, trace: Option<RequestTrace>) -> Entry {
        self.trace = trace;
        self
    }

    /// Returns the trace of the request, if it is recorded.
    pub(crate) fn trace(&self) -> Option<&RequestTrace> {
        self.trace.as_ref()
    }

    /// Adds the audit log to which the request is written if it computes.
    pub(crate) fn with_audit(mut self, audit: Option<&Arc<AuditLog>>) -> Entry {
        self.trail = audit.map(|log| Trail::new(Arc::clone(log)));
        self
    }

    /// Returns the request's unique id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the id that the client knows: its own, or else the unique one.
    pub(crate) fn shown(&self) -> &str {
        self.given.as_deref().unwrap_or(&self.id)
    }

    /// Returns the time of the request's arrival.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Returns the time since the request's arrival, and the time from its arrival to its first token.
    pub(crate) fn times(&self) -> (Duration, Duration) {
        let first = self.facts.lock().unwrap_or_else(PoisonError::into_inner).first_token;
        let all = self.started.elapsed();
        (all, first.map_or(all, |first| first - self.started))
    }

    /// Returns the fields that were ignored.
    pub(crate) fn ignored(&self) -> Option<String> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).ignored.clone()
    }

    /// Holds memory for the answer until it has been sent or its client has disconnected.
    pub(crate) fn hold(&self, held: MemoryReservation) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    /// Returns the facts for the audit log.
    pub(crate) fn trail(&self) -> Option<&Trail> {
        self.trail.as_ref()
    }

    /// Adds bytes of a stream that are sent.
    pub(crate) fn audit_sent(&self, bytes: &[u8]) {
        if let Some(trail) = &self.trail {
            trail.sent(bytes);
        }
    }

    /// Writes the beginning of a stream, or a whole request, to the audit log. The receiver gets `true` when it is on the
    /// disk.
    pub(crate) fn audit(&self, phase: Phase) -> oneshot::Receiver<bool> {
        let (sender, receiver) = oneshot::channel();
        if let Some(trail) = &self.trail {
            let facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
            trail.write(phase, &self.outcome(&facts), move |result| {
                // A client that disconnected waits no more.
                let _ = sender.send(result.is_ok());
            });
        }
        receiver
    }

    /// Writes the end of a stream to the audit log. The receiver gets `true` when it is on the disk.
    pub(crate) fn audit_end(&self, is_complete: bool) -> oneshot::Receiver<bool> {
        if !is_complete {
            self.note(|facts| facts.finish = Some("error"));
        }
        self.audit(Phase::End)
    }

    /// Returns the facts for the audit log.
    fn outcome<'a>(&'a self, facts: &'a Facts) -> Outcome<'a> {
        Outcome {
            id: &self.id,
            client_id: self.given.as_deref(),
            route: self.route,
            key: facts.key.as_deref(),
            status: facts.status.map(|status| status.as_u16()),
            code: facts.code,
            prompt_tokens: facts.prompt_tokens,
            completion_tokens: facts.completion_tokens,
            finish: facts.finish,
        }
    }

    /// Changes the facts.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.facts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(trail) = &self.trail
            && let Some(phase) = trail.unfinished()
        {
            // The client disconnected before the answer, or during it.
            let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
            facts.finish = Some("cancelled");
            trail.write(phase, &self.outcome(&facts), drop);
        }
        let shown = self.given.as_deref().unwrap_or(&self.id);
        let facts = self.facts.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = &self.trace {
            let measured = Measured {
                route: self.route,
                id: &self.id,
                model: facts.model.as_deref(),
                key: facts.key.as_deref(),
                status: facts.status,
                code: facts.code,
                finish: facts.finish,
                prompt_tokens: facts.prompt_tokens,
                cached_tokens: facts.cached_tokens,
                completion_tokens: facts.completion_tokens,
                max_tokens: facts.max_tokens,
                moments: Moments {
                    submitted: facts.submitted,
                    admitted: facts.admitted,
                    first_token: facts.first_token,
                    ended: facts.ended,
                },
            };
            trace.end(self.started, &measured);
        }
        let ms = |instant: Instant| ((instant - self.started).as_secs_f64() * 1e4).round() / 10.0;
        let mut fields: Vec<(&str, Value)> = vec![("request", shown.into()), ("route", self.route.into())];
        let optional = [
            ("trace", self.trace.as_ref().map(|trace| trace.id().into())),
            ("key", facts.key.take().map(Value::from)),
            ("model", facts.model.take().map(Value::from)),
            // Without a status the client disconnected before there was one.
            ("status", Some(facts.status.map_or(499, |s| s.as_u16()).into())),
            ("code", facts.code.map(Value::from)),
            ("prompt_tokens", facts.prompt_tokens.map(Value::from)),
            ("cached_tokens", facts.cached_tokens.map(Value::from)),
            ("completion_tokens", facts.completion_tokens.map(Value::from)),
            ("finish", facts.finish.map(Value::from)),
            ("warning_ignored_fields", facts.ignored.take().map(Value::from)),
            ("first_token_ms", facts.first_token.map(|t| ms(t).into())),
            ("total_ms", Some(ms(Instant::now()).into())),
        ];
        fields.extend(optional.into_iter().filter_map(|(k, v)| Some((k, v?))));
        self.log.event(&fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pipe whose writes block until it is opened.
    #[derive(Clone, Default)]
    struct Pipe {
        open: Arc<(Mutex<bool>, std::sync::Condvar)>,
        text: Arc<Mutex<String>>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let guard = self.open.0.lock().unwrap();
            drop(self.open.1.wait_while(guard, |open| !*open).unwrap());
            self.text.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_stops_nobody_else() {
        let pipe = Pipe::default();
        let log = Log::new(LogFormat::Json, Box::new(pipe.clone())).unwrap();
        for i in 0..WAITING + 100 {
            log.event(&[("number", i.into())]);
        }
        // In addition to the queued lines, the writing thread may hold one.
        let dropped = log.dropped();
        assert!((99..=100).contains(&dropped), "{dropped}");
        // Returns although nothing can be written.
        log.flush();
        assert!(pipe.text.lock().unwrap().is_empty());
        *pipe.open.0.lock().unwrap() = true;
        pipe.open.1.notify_all();
        log.flush();
        let text = pipe.text.lock().unwrap().clone();
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let missing: Vec<&Value> = lines.iter().filter(|l| l["event"] == "log_lines_dropped").collect();
        let reported: u64 = missing.iter().map(|l| l["lines"].as_u64().unwrap()).sum();
        assert_eq!(
            (reported, lines.len() - missing.len()),
            (dropped, WAITING + 100 - dropped as usize),
            "{text}"
        );
        log.event(&[("number", 0.into())]);
        log.flush();
        assert_eq!(pipe.text.lock().unwrap().lines().count(), lines.len() + 1);
    }
}
