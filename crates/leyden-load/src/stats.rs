//! [`Samples`]: percentiles by the nearest rank, so that every figure is a measured value.

use serde::Serialize;

/// Sorted samples. NaN is left out; infinity is allowed and stands for "never".
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    sorted: Vec<f64>,
}

/// Percentiles shown by a report, in the unit of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Number of samples.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Samples {
    /// Sorts samples.
    #[must_use]
    pub fn new(mut values: Vec<f64>) -> Self {
        values.retain(|value| !value.is_nan());
        values.sort_unstable_by(f64::total_cmp);
        Self { sorted: values }
    }

    /// Returns percentile `p` by the nearest rank: the smallest sample that is not exceeded by at least `p` in 100
    /// samples. `p` of 0 gives the smallest, 100 the largest; `None` if there is no sample.
    ///
    /// ```
    /// let samples = leyden_load::Samples::new(vec![4.0, 1.0, 3.0, 2.0]);
    /// assert_eq!([50.0, 51.0, 100.0].map(|p| samples.percentile(p)), [Some(2.0), Some(3.0), Some(4.0)]);
    /// ```
    #[must_use]
    pub fn percentile(&self, p: f64) -> Option<f64> {
        let n = self.sorted.len();
        // 95 * 20 / 100 is 19 exactly, while 0.95 * 20 need not be.
        let rank = (p * n as f64 / 100.0).ceil().max(1.0) as usize;
        self.sorted.get(rank.min(n).checked_sub(1)?).copied()
    }

    /// Returns the usual percentiles; `None` if there is no sample.
    #[must_use]
    pub fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles {
            count: self.sorted.len(),
            mean: self.mean()?,
            p50: self.percentile(50.0)?,
            p90: self.percentile(90.0)?,
            p95: self.percentile(95.0)?,
            p99: self.percentile(99.0)?,
            max: *self.sorted.last()?,
        })
    }

    /// Returns the arithmetic mean; `None` if there is no sample.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.sorted.is_empty()).then(|| self.sorted.iter().sum::<f64>() / self.sorted.len() as f64)
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns true if there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Returns the samples in ascending order.
    #[must_use]
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }
}

/// Returns the median of few values, the mean of the middle two if their number is even; `None` for no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let samples = Samples::new(values.to_vec());
    let (sorted, n) = (samples.sorted(), samples.len());
    Some((sorted.get(n / 2)? + sorted.get(n.saturating_sub(1) / 2)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_counts() {
        assert_eq!(Samples::new(Vec::new()).percentile(50.0), None);
        assert_eq!(Samples::new(vec![f64::NAN]).percentiles(), None);
        let one = Samples::new(vec![3.0]);
        assert_eq!((one.percentile(0.0), one.percentile(100.0)), (Some(3.0), Some(3.0)));
        let twenty = Samples::new((1..=20).map(f64::from).collect());
        assert_eq!([95.0, 95.1, 5.0].map(|p| twenty.percentile(p)), [Some(19.0), Some(20.0), Some(1.0)]);
        let late = Samples::new(vec![1.0, f64::INFINITY]);
        assert_eq!(late.percentile(99.0), Some(f64::INFINITY));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!((median(&[1.0, 2.0]), median(&[])), (Some(1.5), None));
    }

    proptest! {
        #[test]
        fn a_percentile_keeps_its_definition(
            values in proptest::collection::vec(-1e6f64..1e6, 1..200),
            p in 0.01f64..100.0,
        ) {
            let samples = Samples::new(values.clone());
            let value = samples.percentile(p).unwrap();
            prop_assert!(values.contains(&value));
            let n = values.len() as f64;
            let not_above = |limit: f64| values.iter().filter(|v| **v <= limit).count() as f64;
            // At least p in 100 samples do not exceed it, and this is true of no smaller sample.
            prop_assert!(not_above(value) * 100.0 >= p * n - 1e-6);
            let smaller = values.iter().copied().filter(|v| *v < value).fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(not_above(smaller) * 100.0 < p * n + 1e-6);
        }

        #[test]
        fn percentiles_ascend(values in proptest::collection::vec(0f64..1e9, 1..50)) {
            let p = Samples::new(values).percentiles().unwrap();
            prop_assert!(p.p50 <= p.p90 && p.p90 <= p.p95 && p.p95 <= p.p99 && p.p99 <= p.max);
            prop_assert!(p.mean <= p.max * (1.0 + 1e-9));
        }
    }
}
