//! The interface under test: request bodies, and the parsing of streamed answers.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::http::{Head, Sink};
use crate::record::{Class, Fail};
use crate::sse::Events;

/// Maximum size of an answer in bytes.
const MAX_ANSWER_BYTES: u64 = 256 << 20;
/// Maximum number of events in an answer.
const MAX_EVENTS: usize = 1 << 20;
/// Maximum bytes of a refusal's text that are kept.
const MAX_REFUSAL_BYTES: usize = 8 << 10;
/// Maximum characters of a server's text in messages.
const SHOWN: usize = 200;

/// Interface under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Endpoint {
    /// `/v1/chat/completions`.
    #[default]
    Chat,
    /// `/v1/completions`.
    Completions,
}

impl Endpoint {
    /// Returns the path.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
        }
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "chat" => Ok(Self::Chat),
            "completions" => Ok(Self::Completions),
            _ => Err(Error::setting(text, "neither `chat` nor `completions`")),
        }
    }
}

/// Fields that every request has beside its prompt and length.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Interface.
    pub endpoint: Endpoint,
    /// True if `ignore_eos: true` is sent, so that answers have the wanted length. OpenAI's interface does not know
    /// this field.
    pub ignore_eos: bool,
    /// Fields that are added to every body; they replace those of the same name.
    pub extra: Map<String, Value>,
}

impl Ask {
    /// Returns the body of a request for a streamed answer with usage.
    pub(crate) fn body(&self, model: &str, prefix: Option<&str>, prompt: &str, max_tokens: u32) -> Vec<u8> {
        let mut body = Map::new();
        body.insert("model".into(), model.into());
        match self.endpoint {
            Endpoint::Chat => {
                let system = prefix.map(|text| json!({ "role": "system", "content": text }));
                let user = json!({ "role": "user", "content": prompt });
                body.insert("messages".into(), system.into_iter().chain([user]).collect());
            }
            Endpoint::Completions => {
                let text = prefix.map_or_else(|| prompt.to_owned(), |prefix| format!("{prefix} {prompt}"));
                body.insert("prompt".into(), text.into());
            }
        }
        body.insert("max_tokens".into(), max_tokens.into());
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({ "include_usage": true }));
        if self.ignore_eos {
            body.insert("ignore_eos".into(), true.into());
        }
        body.extend(self.extra.clone());
        Value::Object(body).to_string().into_bytes()
    }
}

/// The relevant fields of an event.
#[derive(Debug, Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(default)]
    tool_calls: Option<Value>,
}

impl Choice<'_> {
    /// Returns true if the event has new content for the user.
    fn has_content(&self) -> bool {
        let filled = |text: &Option<Cow<'_, str>>| text.as_ref().is_some_and(|text| !text.is_empty());
        let delta = self.delta.as_ref().is_some_and(|delta| {
            filled(&delta.content)
                || filled(&delta.reasoning_content)
                || filled(&delta.reasoning)
                || delta
                    .tool_calls
                    .as_ref()
                    .is_some_and(|calls| calls.as_array().is_some_and(|c| !c.is_empty()))
        });
        delta || filled(&self.text)
    }
}

/// Token counts of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: u32,
    #[serde(default)]
    pub(crate) completion_tokens: u32,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u32>,
}

impl Usage {
    pub(crate) fn cached(&self) -> Option<u32> {
        self.prompt_tokens_details?.cached_tokens
    }
}

/// A reader of a streamed answer.
#[derive(Debug)]
pub(crate) struct Answer {
    begin: Instant,
    status: u16,
    streams: bool,
    retry_after: Option<Duration>,
    events: Events,
    bytes: u64,
    refusal: Vec<u8>,
    /// Values found in the events so far.
    pub(crate) found: Found,
}

/// Content of an answer.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Time of each event with content, in microseconds since the begin.
    pub(crate) times: Vec<u32>,
    pub(crate) usage: Option<Usage>,
    /// Time at which `[DONE]` arrived.
    pub(crate) done: Option<Instant>,
    finished: bool,
}

impl Answer {
    /// Makes a reader whose latencies are relative to `begin`.
    pub(crate) fn new(begin: Instant) -> Self {
        Self {
            begin,
            status: 0,
            streams: false,
            retry_after: None,
            events: Events::default(),
            bytes: 0,
            refusal: Vec::new(),
            found: Found::default(),
        }
    }

    /// Returns the error of a complete answer, if it has one.
    pub(crate) fn verdict(&self) -> std::result::Result<(), Fail> {
        if self.status != 200 {
            let class = match self.status {
                429 => Class::Rejected,
                400..=499 => Class::Http4xx,
                500.. => Class::Http5xx,
                _ => Class::Protocol,
            };
            let said = reason(&self.refusal).map(|text| format!(": {text}")).unwrap_or_default();
            let mut fail = Fail::new(class, format!("status {}{said}", self.status));
            fail.retry_after = self.retry_after;
            return Err(fail);
        }
        if !self.streams {
            return Err(Fail::new(Class::Protocol, "the answer is not a stream of events"));
        }
        if self.found.done.is_none() && !self.found.finished {
            return Err(Fail::new(
                Class::Stream,
                "the stream ended without a finish_reason and without [DONE]",
            ));
        }
        Ok(())
    }
}

impl Sink for Answer {
    fn head(&mut self, head: &Head) -> std::result::Result<(), Fail> {
        self.status = head.status;
        self.retry_after = head.retry_after;
        self.streams = head.media_type == "text/event-stream";
        Ok(())
    }

    fn data(&mut self, at: Instant, bytes: &[u8]) -> std::result::Result<(), Fail> {
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_ANSWER_BYTES {
            return Err(Fail::new(Class::Protocol, "the answer is longer than 256 MiB"));
        }
        if self.status != 200 || !self.streams {
            let room = MAX_REFUSAL_BYTES.saturating_sub(self.refusal.len());
            self.refusal.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return Ok(());
        }
        let (begin, found) = (self.begin, &mut self.found);
        self.events.push(bytes, &mut |data| found.event(begin, at, data))
    }
}

impl Found {
    fn event(&mut self, begin: Instant, at: Instant, data: &str) -> std::result::Result<(), Fail> {
        if data.trim() == "[DONE]" {
            self.done.get_or_insert(at);
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_str(data)
            .map_err(|error| Fail::new(Class::Protocol, format!("an event is not valid: {error}")))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let text = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
            return Err(Fail::new(Class::Stream, format!("error in the stream: {}", shown(&text))));
        }
        self.usage = chunk.usage.or(self.usage);
        self.finished |= chunk.choices.iter().any(|choice| choice.finish_reason.is_some());
        if chunk.choices.iter().any(Choice::has_content) {
            if self.times.len() == MAX_EVENTS {
                return Err(Fail::new(Class::Protocol, "the answer has more than 1048576 events"));
            }
            let time = at.saturating_duration_since(begin).as_micros();
            self.times.push(u32::try_from(time).unwrap_or(u32::MAX));
        }
        Ok(())
    }
}

/// Returns the reason in a refusal: `{"error": {"message": …}}`, similar objects, or the text itself.
pub(crate) fn reason(body: &[u8]) -> Option<String> {
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(json) => {
            let found = [&json["error"]["message"], &json["error"], &json["message"], &json["detail"]];
            let text = found.into_iter().find_map(Value::as_str).map(str::to_owned);
            text.unwrap_or_else(|| json.to_string())
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    Some(shown(&text)).filter(|text| !text.is_empty())
}

/// Shortens a server's text and removes characters that could control a terminal.
fn shown(text: &str) -> String {
    let plain = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = plain.take(SHOWN).collect();
    if text.trim().chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Head;

    fn head(status: u16, media_type: &str) -> Head {
        let framing = crate::http::Framing::Close;
        Head { status, framing, keep: true, media_type: media_type.into(), retry_after: None }
    }

    fn answer(events: &[&str]) -> std::result::Result<Answer, Fail> {
        let begin = Instant::now();
        let mut answer = Answer::new(begin);
        answer.head(&head(200, "text/event-stream"))?;
        for (n, event) in (1u64..).zip(events) {
            answer.data(begin + Duration::from_millis(n), format!("data: {event}\n\n").as_bytes())?;
        }
        answer.verdict()?;
        Ok(answer)
    }

    #[test]
    fn bodies() {
        let mut ask = Ask { ignore_eos: true, ..Ask::default() };
        let body: Value = serde_json::from_slice(&ask.body("m", Some("be brief"), "hi", 7)).unwrap();
        assert_eq!(
            body,
            json!({
                "model": "m",
                "messages": [{ "role": "system", "content": "be brief" }, { "role": "user", "content": "hi" }],
                "max_tokens": 7, "stream": true, "stream_options": { "include_usage": true }, "ignore_eos": true,
            })
        );
        ask = Ask { endpoint: Endpoint::Completions, ..Ask::default() };
        ask.extra.insert("max_tokens".into(), 9.into());
        let body: Value = serde_json::from_slice(&ask.body("m", Some("a"), "b", 7)).unwrap();
        assert_eq!((&body["prompt"], &body["max_tokens"]), (&json!("a b"), &json!(9)));
        assert!("image".parse::<Endpoint>().is_err());
    }

    #[test]
    fn events_with_content_are_timed() {
        let found = answer(&[
            r#"{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a\n"}}],"usage":null,"new":{"x":[1]}}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}}"#,
            "[DONE]",
        ])
        .unwrap()
        .found;
        assert_eq!(found.times, [2000, 3000, 4000]);
        let usage = found.usage.unwrap();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.cached()), (5, 3, Some(2)));
        let text = answer(&[r#"{"choices":[{"text":"x","finish_reason":"length"}]}"#]).unwrap();
        assert_eq!(text.found.times, [1000]);
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        for (events, class) in [
            (&["{}"][..], Class::Stream),
            (&[r#"{"choices":[{"text":"x"}]}"#], Class::Stream),
            (&[r#"{"error":{"message":"out of memory"}}"#], Class::Stream),
            (&["nonsense"], Class::Protocol),
            (&[r#"{"choices":3}"#], Class::Protocol),
        ] {
            assert_eq!(answer(events).unwrap_err().class, class, "{events:?}");
        }
        for (status, body, class, wanted) in [
            (429, r#"{"error":{"message":"full"}}"#, Class::Rejected, "status 429: full"),
            (400, r#"{"error":"bad \u001b[31m"}"#, Class::Http4xx, "status 400: bad  [31m"),
            (503, "<html>", Class::Http5xx, "status 503: <html>"),
            (302, "", Class::Protocol, "status 302"),
            (200, "{}", Class::Protocol, "the answer is not a stream of events"),
        ] {
            let mut answer = Answer::new(Instant::now());
            answer.head(&head(status, "application/json")).unwrap();
            answer.data(Instant::now(), body.as_bytes()).unwrap();
            let fail = answer.verdict().unwrap_err();
            assert_eq!((fail.class, fail.message.as_str()), (class, wanted));
        }
    }
}
