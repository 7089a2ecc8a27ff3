//! [`ServiceLevel`]: the promise of an engine, what it predicts, and what was measured.

use leyden_engine::schedule::{Bound, Outlook, Promise};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which measured values count, and their maximum number.
const WINDOW: Duration = Duration::from_secs(300);
const MAX_VALUES: usize = 4096;

/// Values of the last minutes, with their times.
#[derive(Debug, Default)]
struct Values(VecDeque<(Instant, f64)>);

impl Values {
    fn add(&mut self, value: f64, now: Instant) {
        if self.0.len() == MAX_VALUES {
            self.0.pop_front();
        }
        self.0.push_back((now, value));
    }

    fn recent(&self, now: Instant) -> impl Iterator<Item = f64> {
        self.0
            .iter()
            .filter(move |(at, _)| now.saturating_duration_since(*at) <= WINDOW)
            .map(|(_, value)| *value)
    }
}

#[derive(Debug, Default)]
struct State {
    promise: Option<Promise>,
    outlook: Outlook,
    first_token: Values,
    between_tokens: Values,
    user_tps: Values,
}

/// State of one engine's promise.
#[derive(Debug, Default)]
pub(crate) struct ServiceLevel(Mutex<State>);

/// Figure of one metric of a promise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Name of the metric, as in the promise.
    pub(crate) metric: &'static str,
    pub(crate) bound: Bound,
    /// Prediction for one more request.
    pub(crate) estimate: Option<f64>,
    /// Measured percentile of the last minutes, and the number of values.
    pub(crate) measured: Option<f64>,
    pub(crate) count: usize,
}

impl ServiceLevel {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_promise(&self, promise: Promise) {
        self.lock().promise = Some(promise);
    }

    pub(crate) fn set_outlook(&self, outlook: Outlook) {
        self.lock().outlook = outlook;
    }

    /// Records the time from arrival to the first token, or to the result.
    pub(crate) fn first_token(&self, time: Duration) {
        let mut state = self.lock();
        if state.promise.is_some() {
            state.first_token.add(time.as_secs_f64(), Instant::now());
        }
    }

    /// Records the time between two tokens.
    pub(crate) fn between_tokens(&self, time: Duration) {
        let mut state = self.lock();
        if state.promise.is_some_and(|promise| promise.itl.is_some()) {
            state.between_tokens.add(time.as_secs_f64(), Instant::now());
        }
    }

    /// Records a complete answer of so many tokens, the first of which took no part of the time.
    pub(crate) fn answer(&self, tokens: usize, time: Duration) {
        let mut state = self.lock();
        if state.promise.is_some() && tokens > 1 {
            let seconds = time.as_secs_f64().max(1e-6);
            state.user_tps.add((tokens - 1) as f64 / seconds, Instant::now());
        }
    }

    /// Returns the promise, if there is one.
    pub(crate) fn promise(&self) -> Option<Promise> {
        self.lock().promise
    }

    pub(crate) fn outlook(&self) -> Outlook {
        self.lock().outlook
    }
}

/// Returns the figures of the metrics that all these engines of a model promise, taken together: the best estimate, as a
/// request goes to the engine with the least load, and the percentiles of all values.
pub(crate) fn figures<'a>(engines: impl Iterator<Item = &'a ServiceLevel>) -> Vec<Figure> {
    let states: Vec<MutexGuard<'_, State>> = engines.map(ServiceLevel::lock).collect();
    let now = Instant::now();
    let Some(promise) = states.first().and_then(|state| state.promise) else { return Vec::new() };
    let mut figures = Vec::new();
    let mut add = |metric, bound: Option<Bound>, estimate: Option<f64>, values: Vec<f64>| {
        let Some(bound) = bound else { return };
        let (measured, count) = (percentile(&values, bound.percentile), values.len());
        figures.push(Figure { metric, bound, estimate, measured, count });
    };
    let all = |of: fn(&State) -> &Values| states.iter().flat_map(|s| of(s).recent(now)).collect();
    let of = |read: fn(&Outlook) -> Option<f64>| states.iter().filter_map(move |s| read(&s.outlook));
    let fastest = of(|o| o.user_tps).max_by(f64::total_cmp);
    add("ttft", promise.ttft, of(|o| o.ttft).min_by(f64::total_cmp), all(|s| &s.first_token));
    add("itl", promise.itl, fastest.map(|tps| 1.0 / tps), all(|s| &s.between_tokens));
    add("user_tps", promise.user_tps, fastest, all(|s| &s.user_tps));
    figures
}

/// Returns the percentile of values: the least one that so many percent do not exceed.
fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
    values.get(rank.clamp(1, values.len().max(1)) - 1).copied()
}

/// Returns the state of a model's promise as a document; null without a promise.
pub(crate) fn document(engines: &[&ServiceLevel]) -> Value {
    let levels = || engines.iter().copied();
    let Some(promise) = levels().next().and_then(ServiceLevel::promise) else { return Value::Null };
    let sum = |read: fn(&Outlook) -> u64| levels().map(|level| read(&level.outlook())).sum::<u64>();
    let metrics: Vec<Value> = figures(levels())
        .into_iter()
        .map(|figure| {
            json!({
                "metric": figure.metric, "percentile": figure.bound.percentile, "bound": figure.bound.value,
                "estimate": figure.estimate, "measured": figure.measured, "count": figure.count,
            })
        })
        .collect();
    json!({
        "promise": promise.to_string(), "metrics": metrics, "admitted": sum(|o| o.admitted),
        "delayed": sum(|o| o.delayed), "refused": sum(|o| o.refused),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_taken_together() {
        let bound = |percentile, value| Some(Bound { percentile, value });
        let promise = Promise { ttft: bound(95.0, 2.0), itl: None, user_tps: bound(5.0, 4.0) };
        let engines = [ServiceLevel::default(), ServiceLevel::default()];
        for (i, engine) in (0_u64..).zip(&engines) {
            // Before the promise is known, nothing is kept.
            engine.first_token(Duration::from_secs(99));
            engine.set_promise(promise);
            let (ttft, user_tps) = (Some(1.0 + i as f64), Some(6.0 + i as f64));
            engine.set_outlook(Outlook { ttft, user_tps, admitted: 3, delayed: 1, refused: 2 });
            (0..10).for_each(|k| engine.first_token(Duration::from_millis(100 * (10 * i + k + 1))));
            engine.between_tokens(Duration::from_secs(1));
            engine.answer(1, Duration::ZERO);
            engine.answer(11, Duration::from_secs(2 + i));
        }
        let of = |metric, bound: Option<Bound>, estimate, measured, count| Figure {
            metric,
            bound: bound.unwrap(),
            estimate: Some(estimate),
            measured: Some(measured),
            count,
        };
        let wanted =
            [of("ttft", promise.ttft, 1.0, 1.9, 20), of("user_tps", promise.user_tps, 7.0, 10.0 / 3.0, 2)];
        assert_eq!(figures(engines.iter()), wanted);
        assert_eq!(figures([].into_iter()), []);
    }
}
