//! [`Slo`]: state of admission under a promise, and its rules that need no scheduler.

use super::promise::Promise;
use super::request::{Arrival, KeyId};
use super::step_time::{StepLoad, StepTime, quantile};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Bounds of the suggested time until a refused request is sent again. Common clients ignore longer ones.
const MIN_RETRY: f64 = 1.0;
const MAX_RETRY: f64 = 60.0;
/// Number of latest first tokens from which the error of their prediction is known, and the age up to which they count.
const LATENESSES: usize = 128;
const MAX_AGE: Duration = Duration::from_secs(300);
/// Bounds of the factor on predicted times of first tokens, and its minimum while few were measured.
const MIN_LATE: f64 = 1.05;
const MAX_LATE: f64 = 3.0;
const LATE_AT_FIRST: f64 = 1.2;
const MIN_LATENESSES: usize = 16;
/// Lengths assumed before any were seen, and the weight of each length in their mean.
const ANSWER_AT_FIRST: f64 = 128.0;
const PROMPT_AT_FIRST: f64 = 128.0;
const PART_OF_MEAN: f64 = 1.0 / 16.0;
/// Maximum number of keys for which a place is kept free.
const MAX_OWED: usize = 64;
/// Maximum number of refused requests that are expected to come back.
const MAX_RETURNING: usize = 4096;

/// Promised service of a request, as seen by the scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub(super) arrival: Arrival,
    /// Number of the last step before it arrived.
    pub(super) submitted_in: u64,
    /// Number of its leading tokens that were cached when it was first considered.
    pub(super) cached: Option<usize>,
    /// Predicted time from its admission to its first token in seconds, and the time of the admission.
    pub(super) predicted: Option<(f64, Duration)>,
    /// Time of its first token.
    pub(super) first_token: Option<Duration>,
}

/// Prediction for one more request, and counts of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outlook {
    /// Predicted time to the first token of a request that arrives now, with a prompt of usual length, in seconds;
    /// `None` before any step.
    pub ttft: Option<f64>,
    /// Predicted tokens per second of every running request with one more beside them; `None` before any step.
    pub user_tps: Option<f64>,
    /// Number of admitted requests.
    pub admitted: u64,
    /// Number of those that waited for longer than a step.
    pub delayed: u64,
    /// Number of refused requests.
    pub refused: u64,
}

/// State of admission under a promise.
#[derive(Debug)]
pub(super) struct Slo {
    pub(super) promise: Promise,
    pub(super) time: StepTime,
    /// Ratios of the times to first tokens to their predictions, with the times at which they were measured.
    pub(super) latenesses: VecDeque<(Duration, f64)>,
    /// Mean numbers of tokens of answers, and of prompts that were not cached.
    pub(super) mean_answer: f64,
    pub(super) mean_prompt: f64,
    /// Mean time of a step in seconds.
    pub(super) mean_step: f64,
    /// Keys of refused requests, with the times until which a place is kept free for each, and the work on its prompt.
    pub(super) owed: BTreeMap<KeyId, (Duration, Work)>,
    /// Times at which refused requests of each key are to be sent again, ascending.
    returning: BTreeMap<KeyId, VecDeque<Duration>>,
    /// Time of the last plan.
    pub(super) planned: Duration,
    /// End of the last step.
    pub(super) measured: Option<Duration>,
    /// Requests that ended in the step under way.
    pub(super) ended: Vec<(Served, usize)>,
    pub(super) admitted: u64,
    pub(super) delayed: u64,
    pub(super) refused: u64,
}

/// Work on a prompt in the time to a first token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Cost in tokens at the beginning of a text.
    pub(super) cost: f64,
    /// Length of the text if it is decoded after that.
    pub(super) decodes_at: Option<f64>,
}

impl Slo {
    pub(super) fn new(promise: Promise) -> Slo {
        Slo {
            promise,
            time: StepTime::default(),
            latenesses: VecDeque::new(),
            mean_answer: ANSWER_AT_FIRST,
            mean_prompt: PROMPT_AT_FIRST,
            mean_step: 0.0,
            owed: BTreeMap::new(),
            returning: BTreeMap::new(),
            planned: Duration::ZERO,
            measured: None,
            ended: Vec::new(),
            admitted: 0,
            delayed: 0,
            refused: 0,
        }
    }

    /// Returns the factor on the predicted time to a first token that the promised share of requests does not exceed.
    pub(super) fn late(&self, share: f64) -> f64 {
        let few = self.latenesses.len() < MIN_LATENESSES;
        let least = if few { LATE_AT_FIRST } else { MIN_LATE };
        let measured = quantile(self.latenesses.iter().map(|(_, ratio)| *ratio), share);
        measured.unwrap_or(least).clamp(least, MAX_LATE)
    }

    /// Returns the maximum predicted time of a step with decoding requests in seconds, by the promised speed.
    pub(super) fn mean_budget(&self) -> Option<f64> {
        self.promise.mean_step().map(|step| step / self.time.margin_of_mean())
    }

    /// Returns the maximum predicted time of any step with decoding requests in seconds.
    pub(super) fn step_budget(&self) -> f64 {
        let each = self.promise.between_tokens();
        each.map_or(f64::INFINITY, |(most, share)| most / self.time.margin_of_step(share))
    }

    /// Returns the predicted time of a step of so many decoding requests whose positions have this sum.
    pub(super) fn decode(&self, n: f64, positions: f64) -> Option<f64> {
        self.time.predict(StepLoad { samples: n, others: 0.0, positions })
    }

    /// Returns the mean time between two ends of answers in seconds, if so many requests run.
    pub(super) fn interval(&self, running: usize) -> f64 {
        self.mean_answer * self.mean_step / running.max(1) as f64
    }

    /// Records that a request with so many tokens to compute left the queue for the first time.
    pub(super) fn admit(&mut self, key: KeyId, tokens: usize, waited: bool) {
        self.admitted += 1;
        self.delayed += u64::from(waited);
        self.owed.remove(&key);
        self.mean_prompt += (tokens as f64 - self.mean_prompt) * PART_OF_MEAN;
    }

    /// Records the length of an answer.
    pub(super) fn answered(&mut self, tokens: usize) {
        self.mean_answer += (tokens as f64 - self.mean_answer) * PART_OF_MEAN;
    }

    /// Records the time of a first token.
    pub(super) fn first_token(&mut self, served: &Served, at: Duration) {
        let Some((predicted, admitted)) = served.predicted else { return };
        let ratio = at.saturating_sub(admitted).as_secs_f64() / predicted.max(1e-6);
        self.latenesses.push_back((at, ratio));
        let old = |first: &(Duration, f64)| first.0 + MAX_AGE < at;
        while self.latenesses.len() > LATENESSES || self.latenesses.front().is_some_and(old) {
            self.latenesses.pop_front();
        }
    }

    /// Records a refusal, and returns the suggested time until the next try.
    pub(super) fn refuse(&mut self, key: KeyId, work: Work, now: Duration, places: &Places) -> Duration {
        self.refused += 1;
        let retry = Duration::from_secs_f64(places.of(self.requests_before(key)).clamp(MIN_RETRY, MAX_RETRY));
        let returning = self.returning.entry(key).or_default();
        if returning.len() < MAX_RETURNING {
            let at = returning.partition_point(|time| *time <= now + retry);
            returning.insert(at, now + retry);
        }
        if self.owed.len() < MAX_OWED || self.owed.contains_key(&key) {
            // Some time for the way, and for the wait after it.
            let grace = self.promise.first_token().map_or(1.0, |(limit, _)| limit.min(MAX_RETRY));
            self.owed.insert(key, (now + retry + Duration::from_secs_f64(grace), work));
        }
        retry
    }

    /// Returns the number of refused requests that are to come back and go before one more of this key: all of its own,
    /// and as many of each other key.
    fn requests_before(&self, key: KeyId) -> usize {
        let own = self.returning.get(&key).map_or(0, VecDeque::len);
        let others = self.returning.iter().filter(|(other, _)| **other != key);
        own + others.map(|(_, times)| times.len().min(own + 1)).sum::<usize>()
    }

    /// Forgets what is over.
    pub(super) fn forget(&mut self, now: Duration) {
        self.owed.retain(|_, (until, _)| *until > now);
        self.returning.retain(|_, times| {
            times.drain(..times.partition_point(|time| *time <= now));
            !times.is_empty()
        });
    }
}

/// Times at which there are likely to be places for refused requests.
#[derive(Debug)]
pub(super) struct Places {
    /// Number of places that are free but for the prompts before them, and the seconds for each of these.
    pub(super) free: usize,
    pub(super) prompt: f64,
    /// Seconds until the first running answer ends, and between two ends.
    pub(super) first: f64,
    pub(super) interval: f64,
}

impl Places {
    /// Returns the seconds until there is a place for a request after `before` others.
    fn of(&self, before: usize) -> f64 {
        match before.checked_sub(self.free) {
            None => self.prompt * (before + 1) as f64,
            Some(more) => self.first + self.interval * more as f64,
        }
    }
}
