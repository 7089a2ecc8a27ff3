//! [`Promise`]: service level objective that admission keeps.

use std::fmt::{self, Display};

/// Percentile of a metric and its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Percentile, above 0 and below 100. For a rate, the bound is a minimum for all values above the percentile.
    pub percentile: f64,
    /// Maximum in seconds; for a rate, minimum in tokens per second.
    pub value: f64,
}

impl Bound {
    /// Returns the share of values that must be within the bound, 0.5 to 0.999. For a rate, the percentile is counted
    /// from the other end.
    fn share(self, is_rate: bool) -> f64 {
        let percent = if is_rate { 100.0 - self.percentile } else { self.percentile };
        (percent / 100.0).clamp(0.5, 0.999)
    }

    fn is_usable(self) -> bool {
        self.value.is_finite() && self.value > 0.0 && self.percentile > 0.0 && self.percentile < 100.0
    }
}

/// Service level objective of a scheduler, with at most one bound for each metric.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Promise {
    /// Time from the arrival of a request to its first token, or to its result if it generates none.
    pub ttft: Option<Bound>,
    /// Time between two tokens of an answer.
    pub itl: Option<Bound>,
    /// Tokens per second of an answer after its first token.
    pub user_tps: Option<Bound>,
}

impl Promise {
    /// Returns the promise without bounds that are no positive finite numbers; `None` if no bound is left.
    pub(super) fn settled(self) -> Option<Promise> {
        let usable = |bound: Option<Bound>| bound.filter(|bound| bound.is_usable());
        let it = Promise { ttft: usable(self.ttft), itl: usable(self.itl), user_tps: usable(self.user_tps) };
        (it != Promise::default()).then_some(it)
    }

    /// Returns the maximum time to the first token in seconds, and the share of requests that it holds for.
    pub(super) fn first_token(&self) -> Option<(f64, f64)> {
        self.ttft.map(|bound| (bound.value, bound.share(false)))
    }

    /// Returns the maximum time between two tokens in seconds, and the share of tokens to plan it for: half of the
    /// others are left for errors of the plan.
    pub(super) fn between_tokens(&self) -> Option<(f64, f64)> {
        self.itl.map(|bound| (bound.value, (1.0 + bound.share(false)) / 2.0))
    }

    /// Returns the maximum of the mean time of an answer's steps in seconds.
    pub(super) fn mean_step(&self) -> Option<f64> {
        self.user_tps.map(|bound| 1.0 / bound.value)
    }
}

/// Writes the promise in the form in which `leyden load` writes objectives: `ttft_p95<=2s,user_tps_p5>=5`.
impl Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (name, bound) in [("ttft", self.ttft), ("itl", self.itl)] {
            let Some(Bound { percentile, value }) = bound else { continue };
            write!(f, "{comma}{name}_p{percentile}<=")?;
            if value < 1.0 {
                write!(f, "{}ms", (value * 1e6).round() / 1e3)?
            } else {
                write!(f, "{value}s")?
            }
            comma = ",";
        }
        if let Some(Bound { percentile, value }) = self.user_tps {
            write!(f, "{comma}user_tps_p{percentile}>={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_bounds_are_dropped() {
        let bound = |percentile, value| Some(Bound { percentile, value });
        for (percentile, value) in [
            (95.0, f64::NAN),
            (95.0, f64::INFINITY),
            (95.0, 0.0),
            (95.0, -1.0),
            (0.0, 1.0),
            (100.0, 1.0),
            (f64::NAN, 1.0),
        ] {
            let all = bound(percentile, value);
            assert_eq!(Promise { ttft: all, itl: all, user_tps: all }.settled(), None, "{all:?}");
        }
        let some = Promise { ttft: bound(95.0, 0.5), itl: bound(99.0, 0.0), user_tps: bound(5.0, 4.5) };
        let settled = some.settled().unwrap();
        assert_eq!(settled.to_string(), "ttft_p95<=500ms,user_tps_p5>=4.5");
        assert_eq!((settled.first_token(), settled.mean_step()), (Some((0.5, 0.95)), Some(1.0 / 4.5)));
    }
}
