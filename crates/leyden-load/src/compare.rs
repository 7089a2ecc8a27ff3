//! [`Comparison`]: two servers under the same load, in alternating blocks.

use serde::Serialize;

use crate::stats::median;
use crate::summary::Summary;

/// One figure of two servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// Name of the figure.
    pub metric: &'static str,
    /// True if a larger value is better.
    pub more_is_better: bool,
    /// Value of the first server: median over its blocks.
    pub a: Option<f64>,
    /// Value of the second server.
    pub b: Option<f64>,
    /// First value divided by the second.
    pub ratio: Option<f64>,
    /// Smallest ratio of a pair of blocks.
    pub least: Option<f64>,
    /// Largest ratio of a pair of blocks.
    pub most: Option<f64>,
}

/// Comparison of two servers under the same load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The figures.
    pub ratios: Vec<Ratio>,
}

/// A function that gets a figure from a block's summary.
type Figure = fn(&Summary) -> Option<f64>;

/// Name, true if more is better, and function of each figure.
const FIGURES: &[(&str, bool, Figure)] = &[
    ("output_tps", true, |s| Some(s.output_tps)),
    ("input_tps", true, |s| Some(s.input_tps)),
    ("requests_per_s", true, |s| Some(s.requests_per_s)),
    ("user_tps_p50", true, |s| Some(s.user_tps?.p50)),
    ("user_tps_p5", true, |s| Some(s.user_tps?.p5)),
    ("ttft_p50_s", false, |s| Some(s.ttft_s?.p50)),
    ("ttft_p95_s", false, |s| Some(s.ttft_s?.p95)),
    ("itl_p50_s", false, |s| Some(s.itl_s?.p50)),
    ("itl_p99_s", false, |s| Some(s.itl_s?.p99)),
    ("e2e_p50_s", false, |s| Some(s.e2e_s?.p50)),
    ("e2e_p95_s", false, |s| Some(s.e2e_s?.p95)),
];

impl Comparison {
    /// Compares pairs of blocks of the first and the second server, run alternately.
    #[must_use]
    pub fn new(blocks: &[(Summary, Summary)]) -> Self {
        let ratio_of = |a: f64, b: f64| Some(a / b).filter(|ratio| ratio.is_finite());
        let ratios = FIGURES.iter().map(|&(metric, more_is_better, figure)| {
            let side = |values: Vec<Option<f64>>| median(&values.into_iter().flatten().collect::<Vec<f64>>());
            let a = side(blocks.iter().map(|(a, _)| figure(a)).collect());
            let b = side(blocks.iter().map(|(_, b)| figure(b)).collect());
            let pairs = blocks.iter().filter_map(|(a, b)| ratio_of(figure(a)?, figure(b)?));
            let pairs: Vec<f64> = pairs.collect();
            Ratio {
                metric,
                more_is_better,
                a,
                b,
                ratio: a.zip(b).and_then(|(a, b)| ratio_of(a, b)),
                least: pairs.iter().copied().reduce(f64::min),
                most: pairs.iter().copied().reduce(f64::max),
            }
        });
        Self { ratios: ratios.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use crate::run::Run;
    use std::time::Duration;

    fn block(ttft: u32) -> Summary {
        let records = vec![record(0, &[ttft, ttft + 10])];
        Summary::new(&Run { records, to: Duration::from_secs(1), ..Run::default() }, None)
    }

    #[test]
    fn medians_are_divided() {
        let blocks = [(block(100), block(50)), (block(300), block(100)), (block(200), block(40))];
        let compared = Comparison::new(&blocks);
        let ttft = compared.ratios.iter().find(|row| row.metric == "ttft_p50_s").unwrap();
        assert_eq!((ttft.a, ttft.b, ttft.ratio), (Some(0.2), Some(0.05), Some(4.0)));
        let near = |value: Option<f64>, wanted: f64| (value.unwrap() - wanted).abs() < 1e-9;
        assert!(near(ttft.least, 2.0) && near(ttft.most, 5.0) && !ttft.more_is_better);
        let none = Comparison::new(&[]);
        assert!(none.ratios.iter().all(|row| row.a.is_none() && row.ratio.is_none()));
    }
}
