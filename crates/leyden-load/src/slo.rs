//! [`Slo`]: service level objectives, and whether a run met them.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::lengths::parse_duration;
use crate::record::Record;
use crate::stats::Samples;

/// Metric of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Time to the first content.
    Ttft,
    /// Time between two events with content.
    Itl,
    /// Time to the end of the answer.
    E2e,
    /// Tokens per second of a user.
    UserTps,
}

impl Metric {
    fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Itl => "itl",
            Self::E2e => "e2e",
            Self::UserTps => "user_tps",
        }
    }
}

/// One objective: a percentile of a metric and its bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Metric.
    pub metric: Metric,
    /// Percentile, above 0 and below 100. For a rate, the bound is a minimum for all values above the percentile.
    pub percentile: f64,
    /// Maximum in seconds; for a rate, minimum in tokens per second.
    pub bound: f64,
}

/// Objectives, separated by commas: `ttft_p95=2s,itl_p99=200ms,e2e_p95=30s,user_tps>=5`.
///
/// `user_tps` without a percentile is `user_tps_p5`: 95 of 100 users get at least that.
///
/// ```
/// let slo: leyden_load::Slo = "ttft_p95=2s,user_tps>=5".parse()?;
/// assert_eq!(slo.to_string(), "ttft_p95<=2s,user_tps_p5>=5");
/// # Ok::<(), leyden_load::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Slo {
    limits: Vec<Limit>,
}

/// Verdict on an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was met.
    Pass,
    /// It was missed.
    Fail,
    /// Too few samples.
    Unsure,
}

/// Result for one objective.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Text of the objective.
    pub limit: String,
    /// Measured percentile in seconds, or in tokens per second; `None` if it is infinite because many requests
    /// failed, or if there is no sample.
    pub value: Option<f64>,
    /// Number of samples.
    pub count: usize,
    /// Verdict.
    pub verdict: Verdict,
}

impl Limit {
    /// Returns the samples of a request. A failed request has infinite latency and a rate of 0.
    fn samples(&self, record: &Record) -> Vec<f64> {
        let failed = record.fail.is_some();
        match self.metric {
            Metric::Ttft => vec![record.ttft().unwrap_or(f64::INFINITY)],
            Metric::E2e => vec![record.e2e().unwrap_or(f64::INFINITY)],
            Metric::Itl => record.gaps().chain(failed.then_some(f64::INFINITY)).collect(),
            // An answer of one token has no rate.
            Metric::UserTps if failed => vec![0.0],
            Metric::UserTps => record.user_tps().into_iter().collect(),
        }
    }

    fn holds(&self, value: f64) -> bool {
        if self.metric == Metric::UserTps { value >= self.bound } else { value <= self.bound }
    }

    /// Returns true if a request by itself met the limit: its latency or rate, or the percentile of its gaps.
    fn met_by(&self, record: &Record) -> bool {
        let percentile = if self.metric == Metric::Itl { self.percentile } else { 50.0 };
        Samples::new(self.samples(record)).percentile(percentile).is_none_or(|value| self.holds(value))
    }

    /// Returns the result for `records`.
    fn judge(&self, records: &[&Record]) -> Outcome {
        let samples = Samples::new(records.iter().flat_map(|record| self.samples(record)).collect());
        // With few samples a high percentile is the largest one, and with very few that means little.
        let tail = if self.metric == Metric::UserTps { self.percentile } else { 100.0 - self.percentile };
        let enough = samples.len() as f64 * tail >= 100.0 - 1e-6;
        let value = samples.percentile(self.percentile);
        let verdict = match value {
            Some(value) if enough => {
                if self.holds(value) {
                    Verdict::Pass
                } else {
                    Verdict::Fail
                }
            }
            // If even the median is beyond the bound, more samples would not change the result.
            Some(_) if !samples.percentile(50.0).is_some_and(|value| self.holds(value)) => Verdict::Fail,
            _ => Verdict::Unsure,
        };
        let value = value.filter(|value| value.is_finite());
        Outcome { limit: self.to_string(), value, count: samples.len(), verdict }
    }
}

impl Slo {
    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Returns the result for each limit.
    #[must_use]
    pub fn judge(&self, records: &[&Record]) -> Vec<Outcome> {
        self.limits.iter().map(|limit| limit.judge(records)).collect()
    }

    /// Returns true if a request met all limits; goodput counts these.
    #[must_use]
    pub fn met_by(&self, record: &Record) -> bool {
        record.fail.is_none() && self.limits.iter().all(|limit| limit.met_by(record))
    }

    /// Returns the number of complete requests that are needed to judge every percentile.
    #[must_use]
    pub fn least_requests(&self) -> u64 {
        let least = |limit: &Limit| match limit.metric {
            // A request has many gaps.
            Metric::Itl => 1,
            Metric::UserTps => (100.0 / limit.percentile).ceil() as u64,
            _ => (100.0 / (100.0 - limit.percentile)).ceil() as u64,
        };
        self.limits.iter().map(least).max().unwrap_or(1)
    }
}

impl FromStr for Slo {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let limits = text.split(',').map(|part| limit(part.trim())).collect::<Result<Vec<_>>>()?;
        for (i, a) in limits.iter().enumerate() {
            if limits[..i].iter().any(|b| a.metric == b.metric && a.percentile == b.percentile) {
                return Err(Error::setting(text, format!("{a} is given twice")));
            }
        }
        Ok(Self { limits })
    }
}

fn limit(text: &str) -> Result<Limit> {
    let wrong = |why: &str| Error::setting(text, why);
    let at = text.find(['<', '>', '=']).ok_or_else(|| wrong("not METRIC=VALUE, such as ttft_p95=2s"))?;
    let (name, rest) = text.split_at(at);
    let name = name.trim_end();
    let (base, percentile) = match name.rsplit_once("_p") {
        Some((base, digits)) => {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let value = digits.parse::<f64>().ok().filter(|p| plain && *p > 0.0 && *p < 100.0);
            (base, Some(value.ok_or_else(|| wrong("its percentile is not above 0 and below 100"))?))
        }
        None => (name, None),
    };
    let metrics = [Metric::Ttft, Metric::Itl, Metric::E2e, Metric::UserTps];
    let metric = metrics.into_iter().find(|metric| metric.name() == base);
    let metric = metric.ok_or_else(|| wrong("its metric is none of ttft, itl, e2e and user_tps"))?;
    let percentile = match (percentile, metric) {
        (Some(percentile), _) => percentile,
        (None, Metric::UserTps) => 5.0,
        _ => return Err(wrong("it lacks a percentile, such as _p95")),
    };
    let rate = metric == Metric::UserTps;
    let (sign, value) = rest.split_at(if rest.get(1..2) == Some("=") { 2 } else { 1 });
    if !(sign == "=" || sign == if rate { ">=" } else { "<=" }) {
        return Err(wrong(if rate {
            "a rate needs a minimum: >="
        } else {
            "a time needs a maximum: = or <="
        }));
    }
    let bound = if rate {
        value
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|v| v.is_finite())
            .ok_or_else(|| wrong("its value is not a number"))?
    } else {
        parse_duration(value).map_err(|error| wrong(&error.to_string()))?.as_secs_f64()
    };
    if bound <= 0.0 {
        return Err(wrong("its value is not above 0"));
    }
    Ok(Limit { metric, percentile, bound })
}

impl Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_p{}", self.metric.name(), self.percentile)?;
        match self.metric {
            Metric::UserTps => write!(f, ">={}", self.bound),
            _ if self.bound < 1.0 => write!(f, "<={}ms", (self.bound * 1e6).round() / 1e3),
            _ => write!(f, "<={}s", self.bound),
        }
    }
}

impl Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, limit) in self.limits.iter().enumerate() {
            write!(f, "{}{limit}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use crate::record::{Class, Fail};
    use proptest::prelude::*;

    fn slo(text: &str) -> Slo {
        text.parse().unwrap()
    }

    #[test]
    fn promises_are_read() {
        let all = "ttft_p95=2s, itl_p99<=200ms,e2e_p99.9=1m,user_tps>=5,user_tps_p50>=8.5";
        let shown = "ttft_p95<=2s,itl_p99<=200ms,e2e_p99.9<=60s,user_tps_p5>=5,user_tps_p50>=8.5";
        assert_eq!(slo(all).to_string(), shown);
        assert_eq!(slo(shown), slo(all));
        for (text, why) in [
            ("", "not METRIC=VALUE"),
            ("ttft_p95", "not METRIC=VALUE"),
            ("speed_p95=1s", "none of"),
            ("ttft=1s", "lacks a percentile"),
            ("ttft_p0=1s", "its percentile"),
            ("ttft_p100=1s", "its percentile"),
            ("ttft_pnan=1s", "its percentile"),
            ("ttft_p95>=1s", "a time needs a maximum"),
            ("user_tps<=5", "a rate needs a minimum"),
            ("user_tps>=x", "not a number"),
            ("user_tps>=0", "not above 0"),
            ("ttft_p95=fast", "not a duration"),
            ("ttft_p95=1s,ttft_p95=2s", "given twice"),
            ("ttft_p95=1s,", "not METRIC=VALUE"),
            ("ttft_p95=", "not a duration"),
            ("ttft_p95=\u{e9}", "not a duration"),
        ] {
            let error = text.parse::<Slo>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn percentiles_are_judged() {
        // One of twenty requests is late.
        let mut records: Vec<Record> = (0..20).map(|i| record(i, &[100, 200, 300])).collect();
        records[7] = record(7, &[900, 1000, 1100]);
        let judge = |text: &str, records: &[Record]| {
            let records: Vec<&Record> = records.iter().collect();
            let outcome = slo(text).judge(&records).remove(0);
            (outcome.verdict, outcome.value)
        };
        assert_eq!(judge("ttft_p95=500ms", &records), (Verdict::Pass, Some(0.1)));
        assert_eq!(judge("ttft_p99=500ms", &records), (Verdict::Unsure, Some(0.9)));
        assert_eq!(judge("ttft_p99=50ms", &records), (Verdict::Fail, Some(0.9)));
        assert_eq!(judge("user_tps>=10", &records), (Verdict::Pass, Some(10.0)));
        assert_eq!(judge("user_tps>=11", &records), (Verdict::Fail, Some(10.0)));
        assert_eq!(judge("itl_p95=100ms", &records).0, Verdict::Pass);
        records[8].fail = Some(Fail::new(Class::Connection, ""));
        assert_eq!(judge("e2e_p95=2s", &records), (Verdict::Pass, Some(1.1)));
        assert_eq!(judge("user_tps>=10", &records), (Verdict::Fail, Some(0.0)));
        records[9].fail = Some(Fail::new(Class::Connection, ""));
        assert_eq!(judge("e2e_p95=2s", &records), (Verdict::Fail, None));
        assert_eq!(judge("e2e_p95=2s", &[]), (Verdict::Unsure, None));
    }

    #[test]
    fn goodput_counts_requests_that_met_everything() {
        let all = slo("ttft_p95=500ms,itl_p50=150ms,user_tps>=5");
        assert!(all.met_by(&record(0, &[100, 200, 500])));
        assert!(!all.met_by(&record(0, &[600, 700])));
        assert!(!all.met_by(&record(0, &[100, 300])));
        assert!(!all.met_by(&record(0, &[])));
        // An answer of one token has no gap and no rate.
        assert!(all.met_by(&record(0, &[100])));
        assert_eq!((all.least_requests(), slo("ttft_p99=1s").least_requests()), (20, 100));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read(text in "[a-z0-9_p<>=.,s ]{0,30}", other in any::<String>()) {
            if let Ok(slo) = text.parse::<Slo>() {
                prop_assert_eq!(slo.to_string().parse::<Slo>().unwrap().limits().len(), slo.limits().len());
            }
            let _ = other.parse::<Slo>();
        }
    }
}
