//! One line per request on standard error, without anything that a client or a model wrote.

use hyper::StatusCode;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The form of the lines.
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
    /// By its name: `text`, `json` or `off`.
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

/// Where lines go.
pub(crate) struct Log {
    format: LogFormat,
    out: Mutex<Box<dyn Write + Send>>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Log {
    pub(crate) fn new(format: LogFormat, out: Box<dyn Write + Send>) -> Log {
        Log { format, out: Mutex::new(out) }
    }

    /// Writes a line.
    pub(crate) fn event(&self, fields: &[(&str, Value)]) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_millis() as f64 / 1e3);
        let mut line = match self.format {
            LogFormat::Off => return,
            LogFormat::Json => {
                let mut map = Map::new();
                map.insert("time".to_owned(), json!(time));
                map.extend(fields.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
                Value::Object(map).to_string()
            }
            LogFormat::Text => {
                let pairs = fields.iter().map(|(k, v)| format!(" {k}={v}"));
                format!("time={time:.3}{}", pairs.collect::<String>())
            }
        };
        line.push('\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody is left to tell if this fails.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// What is said about a request.
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
    pub(crate) finish: Option<&'static str>,
}

/// The line of a request, written when its answer has been sent or its client has gone.
#[derive(Debug)]
pub(crate) struct Entry {
    log: Arc<Log>,
    id: String,
    route: &'static str,
    started: Instant,
    facts: Mutex<Facts>,
}

impl Entry {
    pub(crate) fn new(log: Arc<Log>, id: String, route: &'static str) -> Entry {
        Entry { log, id, route, started: Instant::now(), facts: Mutex::default() }
    }

    /// The request's number.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// When the request came.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Adds something.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.facts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let facts = self.facts.get_mut().unwrap_or_else(PoisonError::into_inner);
        let ms = |instant: Instant| ((instant - self.started).as_secs_f64() * 1e4).round() / 10.0;
        let mut fields: Vec<(&str, Value)> =
            vec![("request", self.id.as_str().into()), ("route", self.route.into())];
        let optional = [
            ("key", facts.key.take().map(Value::from)),
            ("model", facts.model.take().map(Value::from)),
            // Without a status the client went before there was one.
            ("status", Some(facts.status.map_or(499, |s| s.as_u16()).into())),
            ("code", facts.code.map(Value::from)),
            ("prompt_tokens", facts.prompt_tokens.map(Value::from)),
            ("cached_tokens", facts.cached_tokens.map(Value::from)),
            ("completion_tokens", facts.completion_tokens.map(Value::from)),
            ("finish", facts.finish.map(Value::from)),
            ("first_token_ms", facts.first_token.map(|t| ms(t).into())),
            ("total_ms", Some(ms(Instant::now()).into())),
        ];
        fields.extend(optional.into_iter().filter_map(|(k, v)| Some((k, v?))));
        self.log.event(&fields);
    }
}
