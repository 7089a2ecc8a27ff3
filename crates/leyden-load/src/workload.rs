//! [`Workload`]: the requests and their times, which depend only on the seed and the requests' numbers.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::lengths::{Lengths, MAX_TOKENS, Pause};
use crate::random::Random;
use crate::target::Target;
use crate::trace::Trace;
use crate::words;

/// Maximum number of users, and of requests in flight: each is a thread.
pub const MAX_USERS: u32 = 4096;
/// Maximum number of requests in a run.
pub const MAX_REQUESTS: u64 = 10_000_000;
/// First number of the requests of the warm-up.
pub(crate) const WARM: u64 = 1 << 40;
/// First number of the random streams of users.
const USERS: u64 = 1 << 60;
/// Random stream of the shared prefix.
const PREFIX: u64 = 1 << 61;
/// Random stream of arrivals.
const ARRIVALS: u64 = 1 << 62;

/// Arrival process of the requests.
#[derive(Debug, Clone)]
pub enum Arrivals {
    /// A number of users, each of whom waits for an answer and pauses before the next request.
    Users(u32, Pause),
    /// A Poisson process with this mean number of requests per second, independent of the server.
    Rate(f64),
    /// The arrivals of a trace.
    Trace {
        /// Arrivals and lengths.
        trace: Arc<Trace>,
        /// Factor of the arrival rate: 0.1 is ten times slower than recorded.
        scale: f64,
        /// Factor of the recorded lengths.
        length_scale: f64,
    },
}

/// A system prompt that requests share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedPrefix {
    /// Number of its tokens, which come before those of the prompt.
    pub tokens: u32,
    /// Share of requests that have it, from 0 to 1.
    pub share: f64,
}

/// Definition of the requests and their times.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Prompt tokens; a trace has its own.
    pub prompt: Lengths,
    /// Answer tokens; a trace has its own.
    pub output: Lengths,
    /// System prompt that requests share.
    pub prefix: Option<SharedPrefix>,
    /// Time in which requests that count are sent, after the warm-up; `None` for no limit but `requests` or the
    /// trace's end.
    pub duration: Option<Duration>,
    /// Minimum number of complete requests that count; the run is extended to up to four times `duration` for it.
    pub least: u64,
    /// Maximum number of requests that count.
    pub requests: Option<u64>,
    /// Time at the begin in which requests do not count.
    pub warmup: Duration,
    /// Time over which users start, or the rate rises from 0.
    pub ramp: Duration,
    /// Maximum time to wait for answers after the last request was due.
    pub drain: Duration,
    /// Maximum time of a request.
    pub timeout: Duration,
    /// True if a rejected request is sent again when the server asks for it.
    pub retry: bool,
    /// Seed of every random choice.
    pub seed: u64,
}

/// A request of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ticket {
    pub(crate) index: u64,
    pub(crate) measured: bool,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
}

impl Workload {
    /// Checks the settings.
    ///
    /// # Errors
    /// A setting is not valid.
    pub fn check(&self) -> Result<()> {
        let wrong = |at: &str, why: &str| Err(Error::setting(at, why));
        match &self.arrivals {
            Arrivals::Users(n, _) if !(1..=MAX_USERS).contains(n) => {
                return wrong("users", "not from 1 to 4096");
            }
            Arrivals::Rate(r) if !(*r > 0.0 && *r <= 1e5) => {
                return wrong("rate", "not above 0 and at most 100000 requests per second");
            }
            Arrivals::Trace { scale, length_scale, .. } => {
                if ![*scale, *length_scale].iter().all(|s| (1e-6..=1e6).contains(s)) {
                    return wrong("scale", "not from 0.000001 to 1000000");
                }
                if !self.ramp.is_zero() {
                    return wrong("ramp", "a trace has its own arrivals");
                }
            }
            _ => {}
        }
        if self.requests.is_some_and(|n| !(1..=MAX_REQUESTS).contains(&n)) {
            return wrong("requests", "not from 1 to 10000000");
        }
        if self.duration.is_some_and(|d| d.is_zero()) {
            return wrong("duration", "nothing can be measured in no time");
        }
        let endless = self.duration.is_none() && self.requests.is_none();
        if endless && !matches!(self.arrivals, Arrivals::Trace { .. }) {
            return wrong("duration", "neither a duration nor a number of requests is given");
        }
        if self.timeout < Duration::from_millis(1) || self.timeout > Duration::from_secs(3600) {
            return wrong("timeout", "not from 1 ms to 1 h");
        }
        if let Some(prefix) = &self.prefix
            && !((1..=MAX_TOKENS).contains(&prefix.tokens) && (0.0..=1.0).contains(&prefix.share))
        {
            return wrong("shared prefix", "not from 1 to 1048576 tokens, or its share is not from 0 to 1");
        }
        Ok(())
    }

    /// Returns true if requests arrive independently of the server.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.arrivals, Arrivals::Users(..))
    }

    /// Returns a request with lengths drawn for its number.
    pub(crate) fn ticket(&self, index: u64, measured: bool) -> Ticket {
        let mut random = Random::new(self.seed, index);
        Ticket {
            index,
            measured,
            prompt: self.prompt.draw(&mut random),
            output: self.output.draw(&mut random),
        }
    }

    /// Returns the random numbers of a user's pauses.
    pub(crate) fn user(&self, user: u32) -> Random {
        Random::new(self.seed, USERS + u64::from(user))
    }

    /// Returns the system prompt that requests share.
    pub(crate) fn prefix_text(&self, target: &Target) -> Option<String> {
        let prefix = self.prefix?;
        let n = target.calibration.words_alone(prefix.tokens);
        Some(words::text(&mut Random::new(self.seed, PREFIX), n))
    }

    /// Returns the body of a request.
    pub(crate) fn body(&self, target: &Target, prefix: Option<&str>, ticket: &Ticket) -> Vec<u8> {
        // A stream of its own, so that words and lengths can change independently.
        let mut random = Random::new(self.seed ^ 1 << 63, ticket.index);
        let share = self.prefix.map_or(0.0, |prefix| prefix.share);
        let prefix = prefix.filter(|_| random.unit() < share);
        let words = words::text(&mut random, target.calibration.words(ticket.prompt));
        target.ask.body(&target.model, prefix, &words, ticket.output)
    }

    /// Returns the due times and requests of an open workload.
    pub(crate) fn schedule(&self) -> Schedule<'_> {
        Schedule { workload: self, random: Random::new(self.seed, ARRIVALS), sum: 0.0, sent: 0, counted: 0 }
    }
}

/// Arrivals of an open workload, in order.
#[derive(Debug)]
pub(crate) struct Schedule<'a> {
    workload: &'a Workload,
    random: Random,
    /// Sum of the gaps of a process with rate 1.
    sum: f64,
    sent: u64,
    counted: u64,
}

impl Iterator for Schedule<'_> {
    type Item = (Duration, Ticket);

    fn next(&mut self) -> Option<Self::Item> {
        let workload = self.workload;
        let (due, recorded) = match &workload.arrivals {
            Arrivals::Users(..) => return None,
            Arrivals::Rate(rate) => {
                self.sum += self.random.exponential();
                // The inverse of the expected arrivals until then: rate * t^2 / (2 ramp), and then a straight line.
                let ramp = workload.ramp.as_secs_f64();
                let in_ramp = rate * ramp / 2.0;
                let due = if self.sum < in_ramp {
                    (2.0 * ramp * self.sum / rate).sqrt()
                } else {
                    ramp / 2.0 + self.sum / rate
                };
                (due, None)
            }
            Arrivals::Trace { trace, scale, length_scale } => {
                let arrival = trace.arrivals().get(usize::try_from(self.sent).ok()?)?;
                let length = |n: u32| ((f64::from(n) * length_scale).round() as u32).clamp(1, MAX_TOKENS);
                (arrival.at.as_secs_f64() / scale, Some((length(arrival.prompt), length(arrival.output))))
            }
        };
        let due = Duration::try_from_secs_f64(due).ok()?;
        let measured = due >= workload.warmup + workload.ramp;
        let index = if measured { self.counted } else { WARM + self.sent };
        if measured && workload.requests.is_some_and(|most| self.counted >= most) {
            return None;
        }
        let mut ticket = workload.ticket(index, measured);
        (ticket.prompt, ticket.output) = recorded.unwrap_or((ticket.prompt, ticket.output));
        self.sent += 1;
        self.counted += u64::from(measured);
        Some((due, ticket))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::stats::Samples;
    use std::path::Path;

    /// Returns a small workload.
    pub(crate) fn workload(arrivals: Arrivals) -> Workload {
        Workload {
            arrivals,
            prompt: Lengths::Fixed(8),
            output: Lengths::Uniform(2, 5),
            prefix: None,
            duration: None,
            least: 0,
            requests: Some(10),
            warmup: Duration::ZERO,
            ramp: Duration::ZERO,
            drain: Duration::from_secs(60),
            timeout: Duration::from_secs(60),
            retry: false,
            seed: 5,
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let refused = |change: fn(&mut Workload)| {
            let mut workload = workload(Arrivals::Rate(1.0));
            assert!(workload.check().is_ok());
            change(&mut workload);
            workload.check().unwrap_err().to_string()
        };
        assert!(refused(|w| w.arrivals = Arrivals::Users(0, Pause::default())).starts_with("users: "));
        assert!(refused(|w| w.arrivals = Arrivals::Rate(f64::NAN)).starts_with("rate: "));
        assert!(refused(|w| w.requests = Some(0)).starts_with("requests: "));
        assert!(refused(|w| w.requests = None).starts_with("duration: "));
        assert!(refused(|w| w.duration = Some(Duration::ZERO)).starts_with("duration: "));
        assert!(refused(|w| w.timeout = Duration::MAX).starts_with("timeout: "));
        assert!(refused(|w| w.prefix = Some(SharedPrefix { tokens: 1, share: 2.0 })).starts_with("shared"));
    }

    #[test]
    fn a_poisson_process_has_its_rate_and_its_ramp() {
        let mut w = workload(Arrivals::Rate(50.0));
        w.requests = Some(20_000);
        let dues: Vec<f64> = w.schedule().map(|(due, _)| due.as_secs_f64()).collect();
        assert_eq!(dues.len(), 20_000);
        // Five standard errors of a sum of 20000 exponentials.
        assert!((dues[19_999] / 400.0 - 1.0).abs() < 0.036 && dues.is_sorted());
        let gaps = Samples::new(dues.windows(2).map(|pair| pair[1] - pair[0]).collect());
        assert!((gaps.percentile(50.0).unwrap() / (0.02 * 2f64.ln()) - 1.0).abs() < 0.05);
        w.ramp = Duration::from_secs(100);
        let all: Vec<_> = w.schedule().collect();
        let warm = all.iter().filter(|(_, ticket)| !ticket.measured).count() as f64;
        assert!((warm / 2500.0 - 1.0).abs() < 0.1, "{warm}");
        assert!(all.iter().all(|(due, ticket)| ticket.measured == (due.as_secs() >= 100)));
    }

    #[test]
    fn a_trace_is_scaled() {
        let csv = "timestamp,contexttokens,generatedtokens\n0,100,10\n3,7,1\n";
        let trace = Arc::new(Trace::read(csv.as_bytes(), Path::new("")).unwrap());
        let w = workload(Arrivals::Trace { trace, scale: 2.0, length_scale: 0.1 });
        let all: Vec<_> =
            w.schedule().map(|(due, ticket)| (due.as_secs_f64(), ticket.prompt, ticket.output)).collect();
        assert_eq!(all, [(0.0, 10, 1), (1.5, 1, 1)]);
    }

    #[test]
    fn a_request_depends_on_seed_and_number_alone() {
        let w = workload(Arrivals::Rate(1.0));
        assert_eq!(w.ticket(3, true), w.ticket(3, true));
        let lengths: Vec<u32> = (0..50).map(|i| w.ticket(i, true).output).collect();
        assert!((2..=5).all(|n| lengths.contains(&n)));
    }
}
