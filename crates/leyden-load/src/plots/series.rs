//! Series to draw, thinned out to the resolution of the eye.

use crate::record::Record;
use crate::run::Run;
use crate::stats::Samples;
use crate::summary::weight;
use leyden_report::{Series, Shape};

/// Maximum number of points of a curve.
const POINTS: usize = 400;
/// Maximum number of requests that are drawn.
const REQUESTS: usize = 1500;
/// Number of intervals into which a run is divided.
const BINS: f64 = 120.0;

/// Returns the cumulative distribution: values, and the share of samples that does not exceed them.
pub(super) fn cdf(samples: &Samples) -> Vec<(f64, f64)> {
    let (sorted, n) = (samples.sorted(), samples.len());
    let finite = sorted.iter().filter(|value| value.is_finite()).count();
    let step = finite.div_ceil(POINTS).max(1);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (i, value) in sorted[..finite].iter().enumerate() {
        if i == 0 {
            points.push((*value, 0.0));
        }
        if i % step == 0 || i + 1 == finite {
            points.push((*value, (i + 1) as f64 / n as f64));
        }
    }
    points
}

/// Intervals of equal length.
pub(super) struct Bins {
    width: f64,
    n: usize,
}

impl Bins {
    pub(super) fn over(run: &Run) -> Self {
        let ends = run.records.iter().map(|record| record.end);
        let end = ends.max().unwrap_or(run.to).max(run.to).as_secs_f64();
        // Whole seconds, and tenths of a second for short runs, so that interval ends are round.
        let grain = if end < 30.0 { 0.1 } else { 1.0 };
        let width = ((end / BINS / grain).ceil() * grain).max(grain);
        Self { width, n: ((end / width).ceil() as usize).max(1) }
    }

    fn bin(&self, at: f64) -> usize {
        ((at / self.width) as usize).min(self.n - 1)
    }

    fn points(&self, values: &[f64]) -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(i, value)| ((i as f64 + 0.5) * self.width, *value)).collect()
    }

    /// Returns the answer tokens per second.
    pub(super) fn tokens(&self, run: &Run) -> Vec<(f64, f64)> {
        let mut sums = vec![0.0; self.n];
        for record in &run.records {
            let (begin, weight) = (record.begin.as_secs_f64(), weight(record) / self.width);
            for us in &record.events {
                sums[self.bin(begin + f64::from(*us) / 1e6)] += weight;
            }
        }
        self.points(&sums)
    }

    /// Returns the requests in flight, and those of them whose answer had begun, as means over each interval.
    pub(super) fn running(&self, run: &Run) -> [Vec<(f64, f64)>; 2] {
        let (mut running, mut answering) = (vec![0.0; self.n], vec![0.0; self.n]);
        for record in &run.records {
            let (sent, end) = (record.sent.as_secs_f64(), record.end.as_secs_f64());
            self.add(&mut running, sent, end);
            if let Some(ttft) = record.ttft() {
                self.add(&mut answering, record.begin.as_secs_f64() + ttft, end);
            }
        }
        [self.points(&running), self.points(&answering)]
    }

    /// Adds the share of each interval that lies between two times.
    fn add(&self, sums: &mut [f64], from: f64, to: f64) {
        for (i, sum) in sums.iter_mut().enumerate().take(self.bin(to) + 1).skip(self.bin(from)) {
            let (low, high) = (i as f64 * self.width, (i as f64 + 1.0) * self.width);
            *sum += ((to.min(high) - from.max(low)) / self.width).max(0.0);
        }
    }
}

/// Returns requests as points: begin and duration.
pub(super) fn requests(run: &Run) -> Vec<Series> {
    let step = run.records.len().div_ceil(REQUESTS).max(1);
    let shown = || run.records.iter().step_by(step);
    let at = |record: &Record| record.begin.as_secs_f64();
    let complete = shown().filter_map(|record| Some((at(record), record.e2e()?))).collect();
    let first = shown().filter_map(|record| Some((at(record), record.ttft()?))).collect();
    // Failures are usually few, and all should be visible.
    let failures = run.records.iter().filter(|record| record.fail.is_some());
    let failed = failures.take(REQUESTS).map(|r| (at(r), (r.end.saturating_sub(r.begin)).as_secs_f64()));
    let failed: Vec<_> = failed.collect();
    let mut curves = vec![
        Series::new("end to end", 1, Shape::Dots, complete),
        Series::new("first token", 0, Shape::Dots, first),
    ];
    if !failed.is_empty() {
        let failed = Series::new("failed", 0, Shape::Dots, failed);
        curves.push(Series { colour: None, ..failed });
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use std::time::Duration;

    #[test]
    fn series_add_up() {
        let run = Run { records: vec![record(0, &[500, 1000]), record(500, &[1500])], ..Run::default() };
        let bins = Bins::over(&run);
        let sum = |points: &[(f64, f64)]| points.iter().map(|p| p.1).sum::<f64>() * bins.width;
        assert!((sum(&bins.tokens(&run)) - 3.0).abs() < 1e-9);
        let [running, answering] = bins.running(&run);
        assert!((sum(&running) - 2.5).abs() < 1e-9 && (sum(&answering) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_distribution_rises_to_the_share_that_ever_came() {
        let points = cdf(&Samples::new(vec![1.0, 2.0, 3.0, f64::INFINITY]));
        assert_eq!(points, [(1.0, 0.0), (1.0, 0.25), (2.0, 0.5), (3.0, 0.75)]);
        let many = cdf(&Samples::new((0..100_000).map(f64::from).collect()));
        assert!(many.len() <= POINTS + 2 && many.last() == Some(&(99_999.0, 1.0)));
        assert!(cdf(&Samples::default()).is_empty());
        let long = Run { to: Duration::from_secs(86400), ..Run::default() };
        assert!(Bins::over(&long).n <= 120);
    }
}
