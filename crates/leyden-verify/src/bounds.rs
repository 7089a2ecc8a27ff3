//! One-sided confidence of statements about a mean.
//!
//! - [`Tally`]: values out of a short list, such as the outcomes of questions. The bound is Gaffke's (2005): weights
//!   of the values are drawn from the Dirichlet distribution of their counts, with one more count at the worst value
//!   of the list. For right and wrong answers it is the exact bound of Clopper and Pearson (1934). Unlike a plain
//!   bootstrap, ten equal outcomes do not give an interval of width 0.
//! - [`Studentised`]: means of text windows, by the bootstrap-t (Efron, 1981), which corrects for skewed values. Tokens
//!   of a window depend on each other, so windows are resampled.
//!
//! A confidence of at least [`CONFIDENCE`] in a statement is a statement that is wrong with a probability of at most
//! 5 %.

use crate::random::Random;

/// Confidence from which on a statement is made.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Confidences in the two statements about a quantity and a limit, and its one-sided bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decision {
    /// Confidence that the quantity is at the limit or on its good side.
    pub(crate) pass: f64,
    /// Confidence that it is on the bad side.
    pub(crate) fail: f64,
    /// Lower and upper bound, each with 95 % confidence.
    pub(crate) bounds: (f64, f64),
}

/// Values with their counts. Values that cannot be exceeded are listed with count 0.
#[derive(Clone, Debug)]
pub(crate) struct Tally(Vec<(f64, usize)>);

impl Tally {
    pub(crate) fn new(values: &[(f64, usize)]) -> Tally {
        Tally(values.to_vec())
    }

    fn count(&self) -> usize {
        self.0.iter().map(|(_, n)| n).sum()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().map(|(value, n)| value * *n as f64).sum::<f64>() / self.count().max(1) as f64
    }

    /// Returns means of weighted values, sorted, with one more count at the smallest or at the largest value.
    fn draws(&self, worst_is_smallest: bool, draws: usize, random: &mut Random) -> Vec<f64> {
        let is_worse = |a: f64, b: f64| if worst_is_smallest { a < b } else { a > b };
        let mut worst = 0;
        for (i, (value, _)) in self.0.iter().enumerate() {
            if is_worse(*value, self.0[worst].0) {
                worst = i;
            }
        }
        let mut means: Vec<f64> = (0..draws)
            .map(|_| {
                let (mut sum, mut weights) = (0.0, 0.0);
                for (i, (value, n)) in self.0.iter().enumerate() {
                    let weight = random.gamma(n + usize::from(i == worst));
                    (sum, weights) = (sum + weight * value, weights + weight);
                }
                sum / weights
            })
            .collect();
        means.sort_unstable_by(f64::total_cmp);
        means
    }

    /// Decides whether the mean is at least `limit`.
    pub(crate) fn at_least(&self, limit: f64, draws: usize, seed: u64) -> Decision {
        if self.count() == 0 {
            return Decision { pass: 0.0, fail: 0.0, bounds: (f64::NEG_INFINITY, f64::INFINITY) };
        }
        let mut random = Random::new(seed);
        let low = self.draws(true, draws, &mut random);
        let high = self.draws(false, draws, &mut random);
        Decision {
            pass: confidence(low.partition_point(|x| *x < limit), draws),
            fail: confidence(draws - high.partition_point(|x| *x < limit), draws),
            bounds: (quantile(&low, 1.0 - CONFIDENCE), quantile(&high, CONFIDENCE)),
        }
    }

    /// Returns the number of values, in the same proportions, that would decide about `limit`, in steps of a tenth;
    /// `None` if a million are not enough.
    pub(crate) fn needed(&self, limit: f64, seed: u64) -> Option<usize> {
        /// Maximum number of values that is considered.
        const MAX: f64 = 1e6;
        /// Draws of each step: the confidence is known within one percent.
        const DRAWS: usize = 2000;
        let count = self.count();
        let mut factor = 1.1_f64;
        while count > 0 && factor * count as f64 <= MAX {
            let scaled = self.0.iter().map(|(value, n)| (*value, (*n as f64 * factor).round() as usize));
            let scaled = Tally(scaled.collect());
            let decision = scaled.at_least(limit, DRAWS, seed);
            if decision.pass.max(decision.fail) >= CONFIDENCE {
                return Some(scaled.count());
            }
            factor *= 1.1;
        }
        None
    }
}

/// Returns the confidence in a statement that so many of the draws contradict (Davison and Hinkley, 1997, section 4.2.5).
fn confidence(against: usize, draws: usize) -> f64 {
    1.0 - (against + 1) as f64 / (draws + 1) as f64
}

/// Value at a share of sorted values: the smaller neighbour.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (share * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Mean of values, its standard error, and the distribution of its error in standard errors.
#[derive(Clone, Debug)]
pub(crate) struct Studentised {
    pub(crate) mean: f64,
    error: f64,
    /// Sorted.
    t: Vec<f64>,
}

/// Returns mean and standard error of the mean.
fn mean_and_error(values: impl Iterator<Item = f64> + Clone, n: usize) -> (f64, f64) {
    let mean = values.clone().sum::<f64>() / n as f64;
    let squares: f64 = values.map(|x| (x - mean) * (x - mean)).sum();
    (mean, (squares / (n as f64 * (n as f64 - 1.0))).sqrt())
}

impl Studentised {
    /// Resamples at least two values.
    pub(crate) fn new(values: &[f64], draws: usize, seed: u64) -> Studentised {
        let n = values.len();
        let (mean, error) = mean_and_error(values.iter().copied(), n);
        // Of log-normal values with the spread of windows, 5.2 to 5.8 % of the bounds would be too narrow without the
        // factor, and 4.1 to 5.2 % are with it.
        let error = error * n as f64 / (n as f64 - 1.0);
        let mut random = Random::new(seed);
        let mut resample = vec![0.0; n];
        let mut t: Vec<f64> = (0..draws)
            .map(|_| {
                resample.iter_mut().for_each(|x| *x = values[random.below(n)]);
                let (other, its_error) = mean_and_error(resample.iter().copied(), n);
                match other - mean {
                    // Equal values in the whole resample.
                    difference if its_error == 0.0 && difference != 0.0 => difference * f64::INFINITY,
                    _ if its_error == 0.0 => 0.0,
                    difference => difference / its_error,
                }
            })
            .collect();
        t.sort_unstable_by(f64::total_cmp);
        Studentised { mean, error, t }
    }

    /// Decides whether the mean is at most `limit`.
    pub(crate) fn at_most(&self, limit: f64) -> Decision {
        let bounds = (
            self.mean - times(quantile(&self.t, CONFIDENCE), self.error),
            self.mean - times(quantile(&self.t, 1.0 - CONFIDENCE), self.error),
        );
        if self.error == 0.0 {
            let holds = f64::from(self.mean <= limit);
            return Decision { pass: holds, fail: 1.0 - holds, bounds };
        }
        let at = (self.mean - limit) / self.error;
        let (below, draws) = (self.t.partition_point(|t| *t < at), self.t.len());
        Decision { pass: confidence(below, draws), fail: confidence(draws - below, draws), bounds }
    }

    /// Decides whether the mean is at least `limit`.
    pub(crate) fn at_least(&self, limit: f64) -> Decision {
        let Decision { pass, fail, bounds } = self.at_most(limit);
        match self.mean == limit && self.error == 0.0 {
            true => Decision { pass: 1.0, fail: 0.0, bounds },
            false => Decision { pass: fail, fail: pass, bounds },
        }
    }

    /// Returns the number of values that would decide about `limit` if mean and spread stay as they are; `None` if the
    /// mean is at the limit, or a million are not enough.
    pub(crate) fn needed(&self, limit: f64, count: usize) -> Option<usize> {
        let bounds = self.at_most(limit).bounds;
        let width = if self.mean <= limit { bounds.1 - self.mean } else { self.mean - bounds.0 };
        let factor = (width / (limit - self.mean)).powi(2);
        let needed = (factor * count as f64).ceil();
        (needed.is_finite() && needed <= 1e6).then_some((needed as usize).max(count + 1))
    }
}

/// Product in which 0 times infinity is 0.
fn times(t: f64, error: f64) -> f64 {
    if error == 0.0 { 0.0 } else { t * error }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 20_000;

    /// For right and wrong answers the bounds are those of Clopper and Pearson: R's `binom.test(k, n,
    /// conf.level = 0.9)$conf.int`.
    #[test]
    fn bounds_of_two_values_are_exact() {
        for (right, n, low, high) in [
            (0, 10, 0.0, 0.258_866),
            (10, 10, 0.741_134, 1.0),
            (8, 10, 0.493_099, 0.963_229),
            (90, 100, 0.836_334, 0.944_732),
        ] {
            let found = Tally::new(&[(1.0, right), (0.0, n - right)]).at_least(0.5, DRAWS, 3).bounds;
            assert!(
                (found.0 - low).abs() < 0.006 && (found.1 - high).abs() < 0.006,
                "{right} of {n}: {found:?}"
            );
        }
        let none = Tally::new(&[(1.0, 0), (0.0, 0)]).at_least(0.5, DRAWS, 3);
        assert_eq!((none.pass, none.fail), (0.0, 0.0));
    }

    /// Confidence and bound say the same.
    #[test]
    fn confidence_agrees_with_the_bounds() {
        let tally = Tally::new(&[(0.05, 300), (1.0, 12), (-0.95, 15), (0.0, 40)]);
        for limit in [-0.05, -0.01, 0.0, 0.02, 0.05, 0.1] {
            let found = tally.at_least(limit, DRAWS, 1);
            assert_eq!(found.pass >= CONFIDENCE, found.bounds.0 >= limit, "{limit} {found:?}");
            assert!(found.pass + found.fail <= 1.0);
        }
        let values: Vec<f64> = (0..40).map(|i| 0.04 + 0.001 * f64::from(i % 7)).collect();
        let mean = Studentised::new(&values, DRAWS, 1);
        for limit in [0.04, 0.0425, 0.043, 0.0435, 0.05] {
            let found = mean.at_most(limit);
            assert_eq!(found.pass >= CONFIDENCE, found.bounds.1 <= limit, "{limit} {found:?}");
            assert!((found.pass - mean.at_least(limit).fail).abs() < 1e-12);
        }
    }

    #[test]
    fn equal_values_have_no_error() {
        let mean = Studentised::new(&[0.25; 12], 1000, 1);
        assert_eq!(mean.at_most(0.25).pass, 1.0);
        assert_eq!(mean.at_most(0.2), Decision { pass: 0.0, fail: 1.0, bounds: (0.25, 0.25) });
        assert_eq!((mean.at_least(0.25).pass, mean.at_least(0.3).fail), (1.0, 1.0));
    }

    #[test]
    fn more_data_decide() {
        let tally = Tally::new(&[(0.1, 45), (-0.9, 5)]);
        assert_eq!(tally.needed(0.0, 1), None, "the mean is at the limit");
        let tally = Tally::new(&[(0.1, 46), (-0.9, 4)]);
        let needed = tally.needed(0.0, 1).unwrap();
        assert!((300..1500).contains(&needed), "{needed}");
        let values: Vec<f64> = (0..20).map(|i| f64::from(i % 5)).collect();
        let mean = Studentised::new(&values, 2000, 1);
        assert_eq!(mean.needed(2.0, 20), None);
        let needed = mean.needed(2.1, 20).unwrap();
        assert!((300..1500).contains(&needed), "{needed}");
    }
}
