//! [`Summary`]: the figures of a run. Times are in seconds.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::record::{Class, Record};
use crate::run::Run;
use crate::slo::{Outcome, Slo, Verdict};
use crate::stats::{Percentiles, Samples};

/// Maximum trustworthy lag of the generator: seconds, 99th percentile.
pub const MAX_LAG: f64 = 0.010;

/// The figures of a run. All but the rates are about requests that count: those due after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Measured time in seconds: from the end of the warm-up to the last request that was due, or to the last answer
    /// if a number of requests ended the run.
    pub seconds: f64,
    /// Numbers of requests.
    pub requests: Counts,
    /// Seconds to the first event with content, for all requests that had one.
    pub ttft_s: Option<Percentiles>,
    /// Seconds between two events with content.
    pub itl_s: Option<Percentiles>,
    /// Seconds to the end of complete answers.
    pub e2e_s: Option<Percentiles>,
    /// Tokens per second of users.
    pub user_tps: Option<UserRate>,
    /// Answer tokens per second that arrived in the measured time, from any request.
    pub output_tps: f64,
    /// Prompt tokens per second, counted when the first event of the answer arrived.
    pub input_tps: f64,
    /// Complete answers per second.
    pub requests_per_s: f64,
    /// Prompt tokens.
    pub prompt_tokens: Option<Percentiles>,
    /// Tokens of complete answers.
    pub output_tokens: Option<Percentiles>,
    /// Share of prompt tokens that the server had cached; `None` if it does not report it.
    pub cached_share: Option<f64>,
    /// Mean tokens per event with content; if above 1, gaps are between groups of tokens.
    pub tokens_per_event: Option<f64>,
    /// Share of events with content that had arrived already when the previous one was read: the server sent them
    /// together, or the generator lacked CPU time. Their gaps are 0.
    pub together_share: Option<f64>,
    /// Number of complete answers with fewer tokens than asked for.
    pub short_answers: usize,
    /// Seconds by which the generator itself sent requests too late.
    pub send_lag_s: Option<Percentiles>,
    /// Failures.
    pub errors: Vec<ErrorRow>,
    /// Results for the objectives.
    pub slo: Option<SloReport>,
    /// True if the run was stopped before its end.
    pub interrupted: bool,
}

/// Numbers of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests that count.
    pub measured: usize,
    /// Requests that count, with a complete answer.
    pub completed: usize,
    /// Requests that count and failed.
    pub failed: usize,
    /// Rejections of requests that were accepted later.
    pub rejections: u64,
    /// Requests of the warm-up.
    pub warmup: usize,
    /// Failed requests of the warm-up.
    pub warmup_failed: usize,
}

/// Tokens per second of users.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UserRate {
    /// Number of requests with a rate: complete answers of at least two tokens in at least two events.
    pub count: usize,
    /// Median.
    pub p50: f64,
    /// 5th percentile: 95 of 100 users had at least this.
    pub p5: f64,
    /// Lowest.
    pub min: f64,
}

/// Failures of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorRow {
    /// Class.
    pub class: Class,
    /// Number of failures.
    pub count: usize,
    /// Message of one of them.
    pub example: String,
}

/// Results for the objectives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SloReport {
    /// Verdict on all objectives: pass if all passed.
    pub verdict: Verdict,
    /// Result for each objective.
    pub limits: Vec<Outcome>,
    /// Share of requests that met every limit by themselves.
    pub goodput: f64,
    /// Such requests per second, completed in the measured time.
    pub goodput_per_s: f64,
}

impl Summary {
    /// Computes the figures of a run.
    #[must_use]
    pub fn new(run: &Run, slo: Option<&Slo>) -> Self {
        let measured: Vec<&Record> = run.records.iter().filter(|record| record.measured).collect();
        let complete: Vec<&Record> =
            measured.iter().copied().filter(|record| record.fail.is_none()).collect();
        let seconds = run.to.saturating_sub(run.from).as_secs_f64();
        let per_second = |n: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
        let of = |values: Vec<f64>| Samples::new(values).percentiles();
        let (output, input, done) = arrived(run);
        let warmup = run.records.len() - measured.len();
        Self {
            seconds,
            requests: Counts {
                measured: measured.len(),
                completed: complete.len(),
                failed: measured.len() - complete.len(),
                rejections: measured.iter().map(|record| u64::from(record.rejections)).sum(),
                warmup,
                warmup_failed: run.records.iter().filter(|r| !r.measured && r.fail.is_some()).count(),
            },
            ttft_s: of(measured.iter().filter_map(|record| record.ttft()).collect()),
            itl_s: of(measured.iter().flat_map(|record| record.gaps()).collect()),
            e2e_s: of(measured.iter().filter_map(|record| record.e2e()).collect()),
            user_tps: user_rate(&complete),
            output_tps: per_second(output),
            input_tps: per_second(input),
            requests_per_s: per_second(done),
            prompt_tokens: of(measured.iter().filter_map(|r| r.prompt_tokens.map(f64::from)).collect()),
            output_tokens: of(complete.iter().map(|record| f64::from(record.tokens())).collect()),
            cached_share: cached_share(&complete),
            tokens_per_event: tokens_per_event(&complete),
            together_share: together_share(&measured),
            short_answers: complete.iter().filter(|record| record.tokens() < record.wanted_output).count(),
            send_lag_s: of(measured.iter().map(|record| record.lag()).collect()),
            errors: errors(&measured),
            slo: slo.map(|slo| SloReport::new(slo, &measured, run)),
            interrupted: run.interrupted,
        }
    }

    /// Returns true if the generator was so late that the figures are not reliable.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.send_lag_s.is_some_and(|lag| lag.p99 > MAX_LAG)
    }
}

impl SloReport {
    fn new(slo: &Slo, measured: &[&Record], run: &Run) -> Self {
        let limits = slo.judge(measured);
        let any = |verdict| limits.iter().any(|outcome| outcome.verdict == verdict);
        let verdict = if any(Verdict::Fail) {
            Verdict::Fail
        } else if any(Verdict::Unsure) {
            Verdict::Unsure
        } else {
            Verdict::Pass
        };
        let good: Vec<&&Record> = measured.iter().filter(|record| slo.met_by(record)).collect();
        let in_time = good.iter().filter(|record| record.end <= run.to).count() as f64;
        let seconds = run.to.saturating_sub(run.from).as_secs_f64();
        Self {
            verdict,
            limits,
            goodput: if measured.is_empty() { 0.0 } else { good.len() as f64 / measured.len() as f64 },
            goodput_per_s: if seconds > 0.0 { in_time / seconds } else { 0.0 },
        }
    }
}

/// Returns the answer tokens, prompt tokens and complete answers that arrived in the measured time.
fn arrived(run: &Run) -> (f64, f64, f64) {
    let (from, to) = (run.from.as_secs_f64(), run.to.as_secs_f64());
    let within = |at: f64| at >= from && at <= to;
    let (mut output, mut input, mut done) = (0.0, 0.0, 0.0);
    for record in &run.records {
        let begin = record.begin.as_secs_f64();
        let at = |us: &u32| begin + f64::from(*us) / 1e6;
        let weight = weight(record);
        output += weight * record.events.iter().filter(|us| within(at(us))).count() as f64;
        if record.events.first().is_some_and(|us| within(at(us))) {
            input += f64::from(record.prompt_tokens.unwrap_or(0));
        }
        done += f64::from(u8::from(record.fail.is_none() && within(record.end.as_secs_f64())));
    }
    (output, input, done)
}

/// Returns the mean tokens per event of a request.
pub(crate) fn weight(record: &Record) -> f64 {
    let events = record.events.len() as f64;
    record.output_tokens.filter(|_| events > 0.0).map_or(1.0, |tokens| f64::from(tokens) / events)
}

fn user_rate(complete: &[&Record]) -> Option<UserRate> {
    let rates = Samples::new(complete.iter().filter_map(|record| record.user_tps()).collect());
    Some(UserRate {
        count: rates.len(),
        p50: rates.percentile(50.0)?,
        p5: rates.percentile(5.0)?,
        min: rates.percentile(0.0)?,
    })
}

fn cached_share(complete: &[&Record]) -> Option<f64> {
    let known =
        complete.iter().filter_map(|r| Some((f64::from(r.cached_tokens?), f64::from(r.prompt_tokens?))));
    let (cached, all) = known.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (all > 0.0).then(|| cached / all)
}

fn tokens_per_event(complete: &[&Record]) -> Option<f64> {
    let counted = complete.iter().filter_map(|r| Some((f64::from(r.output_tokens?), r.events.len() as f64)));
    let (tokens, events) = counted.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (events > 0.0).then(|| tokens / events)
}

fn together_share(measured: &[&Record]) -> Option<f64> {
    let gaps = || measured.iter().flat_map(|record| record.gaps());
    let (together, all) = (gaps().filter(|gap| *gap == 0.0).count(), gaps().count());
    (all > 0).then(|| together as f64 / all as f64)
}

fn errors(measured: &[&Record]) -> Vec<ErrorRow> {
    let mut classes: BTreeMap<Class, (usize, &str)> = BTreeMap::new();
    for fail in measured.iter().filter_map(|record| record.fail.as_ref()) {
        classes.entry(fail.class).or_insert((0, &fail.message)).0 += 1;
    }
    let row = |(class, (count, example)): (Class, (usize, &str))| ErrorRow {
        class,
        count,
        example: example.into(),
    };
    classes.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Fail;
    use crate::record::tests::record;
    use std::time::Duration;

    fn run(records: Vec<Record>) -> Run {
        let (from, to) = (Duration::from_secs(1), Duration::from_secs(3));
        Run { records, from, to, interrupted: false }
    }

    #[test]
    fn rates_count_what_arrived_in_the_measured_time() {
        // Begun in the warm-up, and two of its four tokens arrive after it; the other request ends after the measured
        // time.
        let mut warm = record(500, &[100, 400, 600, 1000]);
        warm.measured = false;
        let mut late = record(2500, &[100, 400, 900]);
        late.output_tokens = Some(6);
        let summary = Summary::new(&run(vec![warm, late]), None);
        assert!((summary.output_tps - (2.0 + 2.0 * 2.0) / 2.0).abs() < 1e-9);
        assert!((summary.input_tps - 5.0).abs() < 1e-9);
        assert!((summary.requests_per_s - 0.5).abs() < 1e-9);
        assert_eq!((summary.requests.measured, summary.requests.warmup), (1, 1));
        assert_eq!((summary.tokens_per_event, summary.short_answers), (Some(2.0), 1));
        assert_eq!(summary.together_share, Some(0.0));
    }

    #[test]
    fn failures_are_counted_by_class() {
        let mut records: Vec<Record> = (0..4).map(|i| record(1000 + i, &[10, 20])).collect();
        records[1].fail = Some(Fail::new(Class::Timeout, "late"));
        records[2].fail = Some(Fail::new(Class::Timeout, "later"));
        records[3].fail = Some(Fail::new(Class::Rejected, "full"));
        records[0].cached_tokens = Some(5);
        let slo = "ttft_p50=1s".parse().unwrap();
        let summary = Summary::new(&run(records), Some(&slo));
        let rows: Vec<_> =
            summary.errors.iter().map(|row| (row.class, row.count, row.example.as_str())).collect();
        assert_eq!(rows, [(Class::Rejected, 1, "full"), (Class::Timeout, 2, "late")]);
        assert_eq!((summary.requests.completed, summary.requests.failed), (1, 3));
        assert_eq!((summary.cached_share, summary.slo.as_ref().unwrap().goodput), (Some(0.5), 0.25));
        assert!(!summary.is_late() && summary.ttft_s.unwrap().count == 4);
    }

    #[test]
    fn nothing_measured_is_no_figure() {
        let summary = Summary::new(&Run::default(), Some(&"ttft_p95=1s".parse().unwrap()));
        assert!(summary.ttft_s.is_none() && summary.user_tps.is_none() && summary.output_tps == 0.0);
        assert_eq!(summary.slo.unwrap().verdict, Verdict::Unsure);
    }
}
