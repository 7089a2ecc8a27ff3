//! [`Record`]: the measurements of one request.

use std::time::Duration;

use serde::Serialize;

/// Reason for which a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// The server rejected it as too busy: status 429.
    Rejected,
    /// Any other status from 400 to 499.
    Http4xx,
    /// A status from 500 on.
    Http5xx,
    /// No connection could be made.
    Connect,
    /// The connection broke.
    Connection,
    /// The answer was not complete in time.
    Timeout,
    /// The answer violates HTTP, server-sent events or the interface.
    Protocol,
    /// The server reported an error in the middle of its answer.
    Stream,
    /// The run ended before the answer.
    Unfinished,
}

impl Class {
    /// Returns the name used in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Http4xx => "http4xx",
            Self::Http5xx => "http5xx",
            Self::Connect => "connect",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::Stream => "stream",
            Self::Unfinished => "unfinished",
        }
    }
}

/// The failure of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fail {
    /// Class.
    pub class: Class,
    /// Message of limited length, which may contain text of the server.
    pub message: String,
    /// Time that a busy server asks to wait.
    pub retry_after: Option<Duration>,
}

impl Fail {
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None }
    }
}

/// One request. Times are since the start of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Number of the request in the workload; prompts and lengths depend on it and the seed.
    pub index: u64,
    /// True if it counts: it was due after the warm-up and before the end.
    pub measured: bool,
    /// Time at which it was due.
    pub planned: Duration,
    /// Time at which it was sent.
    pub sent: Duration,
    /// Begin of its latencies: `planned` if arrival times are given, `sent` if users wait for answers.
    pub begin: Duration,
    /// Time at which its answer was complete, or it failed.
    pub end: Duration,
    /// Time of each event with content, in microseconds after `begin`.
    pub events: Vec<u32>,
    /// Maximum tokens of the answer (`max_tokens`).
    pub wanted_output: u32,
    /// Number of prompt tokens reported by the server.
    pub prompt_tokens: Option<u32>,
    /// Number of prompt tokens that the server had cached.
    pub cached_tokens: Option<u32>,
    /// Number of answer tokens reported by the server.
    pub output_tokens: Option<u32>,
    /// Number of rejections before the server accepted the request.
    pub rejections: u32,
    /// Failure, if any.
    pub fail: Option<Fail>,
}

impl Record {
    /// Returns the seconds to the first content; `None` if none came.
    #[must_use]
    pub fn ttft(&self) -> Option<f64> {
        self.events.first().map(|&us| f64::from(us) / 1e6)
    }

    /// Returns the seconds to the end of a complete answer.
    #[must_use]
    pub fn e2e(&self) -> Option<f64> {
        self.fail.is_none().then(|| self.end.saturating_sub(self.begin).as_secs_f64())
    }

    /// Returns the seconds between consecutive content events.
    pub fn gaps(&self) -> impl Iterator<Item = f64> {
        self.events.windows(2).map(|pair| f64::from(pair[1].saturating_sub(pair[0])) / 1e6)
    }

    /// Returns the number of answer tokens: as the server reports, else the number of events.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.output_tokens.unwrap_or(u32::try_from(self.events.len()).unwrap_or(u32::MAX))
    }

    /// Returns the tokens per second that the user gets once the answer has begun: all tokens but the first, divided
    /// by the time from the first event to the last, which is at least one microsecond. `None` if there is only one
    /// event, or the answer is not complete.
    #[must_use]
    pub fn user_tps(&self) -> Option<f64> {
        let (first, last) = (self.events.first()?, self.events.last()?);
        let seconds = f64::from(last.saturating_sub(*first).max(1)) / 1e6;
        (self.fail.is_none() && self.events.len() > 1 && self.tokens() > 1)
            .then(|| f64::from(self.tokens() - 1) / seconds)
    }

    /// Returns the seconds by which it was sent too late.
    #[must_use]
    pub fn lag(&self) -> f64 {
        self.sent.saturating_sub(self.planned).as_secs_f64()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a complete answer with an event at each of these milliseconds.
    pub(crate) fn record(begin_ms: u64, events_ms: &[u32]) -> Record {
        let begin = Duration::from_millis(begin_ms);
        let last = events_ms.last().copied().unwrap_or(0);
        Record {
            index: begin_ms,
            measured: true,
            planned: begin,
            sent: begin,
            begin,
            end: begin + Duration::from_millis(u64::from(last)),
            events: events_ms.iter().map(|ms| ms * 1000).collect(),
            wanted_output: 8,
            prompt_tokens: Some(10),
            cached_tokens: None,
            output_tokens: Some(u32::try_from(events_ms.len()).unwrap()),
            rejections: 0,
            fail: None,
        }
    }

    #[test]
    fn figures_of_one_request() {
        let mut one = record(500, &[100, 150, 350]);
        assert_eq!((one.ttft(), one.e2e()), (Some(0.1), Some(0.35)));
        let gaps: Vec<u32> = one.gaps().map(|s| (s * 1000.0).round() as u32).collect();
        assert_eq!(gaps, [50, 200]);
        assert_eq!(one.user_tps(), Some(8.0));
        // Two tokens in an event.
        one.output_tokens = Some(6);
        assert_eq!(one.user_tps(), Some(20.0));
        one.fail = Some(Fail::new(Class::Connection, ""));
        assert_eq!((one.user_tps(), one.e2e(), one.ttft()), (None, None, Some(0.1)));
        assert_eq!((record(0, &[5]).user_tps(), record(0, &[]).ttft()), (None, None));
    }
}
