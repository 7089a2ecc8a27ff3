//! Service level objective of a served model, read as for `leyden load`.

use leyden_load::{Metric, Slo};
use leyden_server::{Bound, Promise};

/// Parses an objective. If a metric has several limits, the server keeps the strictest bound for the largest share.
///
/// # Errors
/// The text is no objective, or one of a metric that the server cannot promise.
pub(super) fn promise(text: &str) -> Result<Promise, String> {
    let slo: Slo = text.parse().map_err(|error: leyden_load::Error| error.to_string())?;
    let mut promise = Promise::default();
    for limit in slo.limits() {
        let bound = Bound { percentile: limit.percentile, value: limit.bound };
        let (place, stricter): (_, fn(f64, f64) -> f64) = match limit.metric {
            Metric::Ttft => (&mut promise.ttft, f64::min),
            Metric::Itl => (&mut promise.itl, f64::min),
            Metric::UserTps => (&mut promise.user_tps, f64::max),
            Metric::E2e => {
                let why = "the time of a whole answer depends on its length, which is not known before: promise ttft and user_tps";
                return Err(format!("{limit}: {why}"));
            }
        };
        let more = |a: f64, b: f64| if limit.metric == Metric::UserTps { a.min(b) } else { a.max(b) };
        *place = Some(place.map_or(bound, |old: Bound| Bound {
            percentile: more(old.percentile, bound.percentile),
            value: stricter(old.value, bound.value),
        }));
    }
    Ok(promise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_those_of_load() {
        for text in [
            "ttft_p95=2s",
            "user_tps>=5",
            " itl_p99 <= 200ms , ttft_p99.9=1.5m",
            "ttft_p50=500ms,itl_p95=0.1,user_tps_p10>=8.5",
        ] {
            let slo: Slo = text.parse().unwrap();
            assert_eq!(
                promise(text).unwrap().to_string().parse::<Slo>().unwrap().limits().len(),
                slo.limits().len()
            );
            let mut shown: Vec<String> = slo.limits().iter().map(ToString::to_string).collect();
            shown
                .sort_by_key(|limit| ["ttft", "itl", "user"].iter().position(|name| limit.starts_with(name)));
            assert_eq!(promise(text).unwrap().to_string(), shown.join(","), "{text}");
        }
        let strictest = promise("ttft_p50=1s,ttft_p99=4s,user_tps>=5,user_tps_p50>=8").unwrap();
        assert_eq!(strictest.to_string(), "ttft_p99<=1s,user_tps_p5>=8");
    }

    #[test]
    fn other_texts_are_refused_as_by_load() {
        for text in
            ["", "ttft=1s", "ttft_p0=1s", "user_tps<=5", "user_tps>=nan", "ttft_p95=1s,", "speed_p95=1s"]
        {
            let wanted = text.parse::<Slo>().unwrap_err().to_string();
            assert_eq!(promise(text).unwrap_err(), wanted, "{text}");
        }
        let error = promise("ttft_p95=2s,e2e_p95=30s").unwrap_err();
        assert!(error.contains("e2e_p95<=30s") && error.contains("promise ttft and user_tps"), "{error}");
    }
}
