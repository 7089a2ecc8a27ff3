//! [`Limit`]: a limit of an SLO, from its text.

use crate::chart::Mark;

/// Limit of an SLO.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    /// Text.
    pub(super) text: String,
    /// Metric, such as `ttft`.
    pub(super) metric: String,
    /// Percentile.
    pub(super) percentile: String,
    /// Bound, in seconds or tokens per second.
    pub(super) bound: f64,
}

impl Limit {
    /// Reads a text such as `ttft_p95<=2s` or `user_tps_p5>=5`.
    pub(super) fn read(text: &str) -> Option<Limit> {
        let at = text.find(['<', '>', '='])?;
        let (name, bound) = text.split_at(at);
        let (metric, percentile) = name.rsplit_once("_p")?;
        let bound = bound.trim_start_matches(['<', '>', '=']);
        let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
        let unit = units.iter().find_map(|(name, factor)| Some((bound.strip_suffix(name)?, *factor)));
        let (number, factor) = unit.unwrap_or((bound, 1.0));
        let bound = number.parse::<f64>().ok().filter(|n| n.is_finite())? * factor;
        Some(Limit {
            text: text.to_owned(),
            metric: metric.to_owned(),
            percentile: percentile.to_owned(),
            bound,
        })
    }

    /// Returns the line of the limit.
    pub(super) fn mark(&self) -> Mark {
        Mark { at: self.bound, label: self.text.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_metric_percentile_and_bound() {
        for (text, metric, percentile, bound) in [
            ("ttft_p95<=2s", "ttft", "95", 2.0),
            ("itl_p99<=200ms", "itl", "99", 0.2),
            ("e2e_p99.9<=1m", "e2e", "99.9", 60.0),
            ("user_tps_p5>=5", "user_tps", "5", 5.0),
        ] {
            let limit = Limit::read(text).unwrap();
            assert_eq!((&limit.metric[..], &limit.percentile[..], limit.bound), (metric, percentile, bound));
        }
        assert!(
            ["", "ttft", "ttft_p95<=", "<=2s", "ttft_p95<=xs"].iter().all(|text| Limit::read(text).is_none())
        );
    }
}
