//! [`StepTime`]: time of a step that was not computed yet, predicted from past steps.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Unit of positions, in thousands, so that all sums have similar magnitudes.
const POSITIONS: f64 = 1e-3;
/// Maximum weight of the past in the mean of a cell: steps more than some 20 ago hardly count.
const MAX_WEIGHT: f64 = 16.0;
/// Maximum ratio of the time of a step to the prediction that is believed at once: a machine that was suspended is no
/// measure of its speed.
const MAX_RATIO: f64 = 3.0;
/// Minimum number of steps for a prediction, and for a limit of the ratio.
const MIN_STEPS: u32 = 3;
const MIN_STEPS_OF_RATIO: u32 = 12;
/// Weight of the assumption that a sampled token takes as long as one of a prompt, against that of a step.
const ASSUMPTION: f64 = 0.01;
/// Number of latest steps from which the error of the prediction is known.
const ERRORS: usize = 128;
/// Number of steps over which an answer's speed is a mean, at the least.
const STEPS_OF_MEAN: f64 = 16.0;

/// Size of a step: what its time depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepLoad {
    /// Number of tokens with logits to sample from.
    pub samples: f64,
    /// Number of other tokens.
    pub others: f64,
    /// Sum of the positions of all tokens.
    pub positions: f64,
}

type Vector = [f64; 4];

impl StepLoad {
    fn vector(self) -> Vector {
        [1.0, self.samples, self.others, self.positions * POSITIONS]
    }

    fn cell(self) -> (u8, u8) {
        (cell_of(self.samples), cell_of(self.others))
    }

    fn is_finite(self) -> bool {
        self.vector().iter().all(|x| x.is_finite() && *x >= 0.0)
    }
}

/// Returns the number of the cell of a count: one each up to 4, then four for each doubling.
fn cell_of(n: f64) -> u8 {
    if n <= 4.0 { n.max(0.0).round() as u8 } else { (4.0 * n.log2() - 4.0).round() as u8 }
}

/// Mean of the steps of nearly the same size.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    weight: f64,
    x: Vector,
    seconds: f64,
}

/// Estimate of `time = fixed + sample × samples + other × others + deep × positions`.
///
/// Steps of nearly the same size are averaged in a cell, in which older ones weigh less; the coefficients, none of them
/// negative, are those of the least squares of the relative errors over all cells. So a thousand steps of one size do
/// not make it forget the others. As the time is no linear function of the size, a prediction is corrected by the error
/// of the cell that it falls in.
#[derive(Clone, Debug, Default)]
pub struct StepTime {
    steps: u32,
    cells: BTreeMap<(u8, u8), Cell>,
    coefficients: Vector,
    /// Ratios of times to predictions.
    ratios: VecDeque<f64>,
}

impl StepTime {
    /// Records the time of a step.
    pub fn observe(&mut self, load: StepLoad, time: Duration) {
        if !load.is_finite() {
            return;
        }
        let mut seconds = time.as_secs_f64().clamp(1e-7, 3600.0);
        if let Some(predicted) = self.predict(load).filter(|_| self.steps >= MIN_STEPS_OF_RATIO) {
            let ratio = (seconds / predicted).clamp(1.0 / MAX_RATIO, MAX_RATIO);
            seconds = ratio * predicted;
            self.ratios.push_back(ratio);
            if self.ratios.len() > ERRORS {
                self.ratios.pop_front();
            }
        }
        self.steps = self.steps.saturating_add(1);
        let cell = self.cells.entry(load.cell()).or_default();
        cell.weight = (cell.weight + 1.0).min(MAX_WEIGHT);
        let part = 1.0 / cell.weight;
        for (mean, x) in cell.x.iter_mut().zip(load.vector()) {
            *mean += (x - *mean) * part;
        }
        cell.seconds += (seconds - cell.seconds) * part;
        self.fit();
    }

    /// Computes the coefficients: non-negative least squares by coordinate descent, from the last ones.
    fn fit(&mut self) {
        let (mut squares, mut products) = ([[0.0; 4]; 4], [0.0; 4]);
        let mut add = |x: Vector, y: f64, weight: f64| {
            for i in 0..4 {
                for j in 0..4 {
                    squares[i][j] += weight * x[i] * x[j];
                }
                products[i] += weight * x[i] * y;
            }
        };
        let mut least = f64::INFINITY;
        for cell in self.cells.values() {
            add(cell.x, cell.seconds, cell.seconds.powi(-2));
            least = least.min(cell.seconds);
        }
        add([0.0, 1.0, -1.0, 0.0], 0.0, ASSUMPTION * least.powi(-2));
        for _ in 0..100 {
            for i in 0..4 {
                if squares[i][i] > 0.0 {
                    let others: f64 =
                        (0..4).filter(|j| *j != i).map(|j| squares[i][j] * self.coefficients[j]).sum();
                    self.coefficients[i] = ((products[i] - others) / squares[i][i]).max(0.0);
                }
            }
        }
    }

    fn linear(&self, x: Vector) -> f64 {
        self.coefficients.iter().zip(x).map(|(c, x)| c * x).sum()
    }

    /// Returns the predicted time of a step in seconds, above 0; `None` until some steps were recorded.
    #[must_use]
    pub fn predict(&self, load: StepLoad) -> Option<f64> {
        if self.steps < MIN_STEPS {
            return None;
        }
        let cell = self.cells.get(&load.cell()).filter(|cell| cell.weight >= 2.0);
        let error = cell.map_or(1.0, |cell| cell.seconds / self.linear(cell.x).max(1e-7));
        Some((self.linear(load.vector()) * error.clamp(0.5, 2.0)).max(1e-7))
    }

    /// Returns the time of a token of a prompt in seconds, above 0.
    #[must_use]
    pub fn of_prompt_token(&self) -> f64 {
        self.coefficients[2].max(1e-9)
    }

    /// Returns the time of a step without tokens in seconds: that of reading the weights.
    #[must_use]
    pub fn fixed(&self) -> f64 {
        self.coefficients[0]
    }

    /// Returns the factor on the predicted mean time of some steps that the mean rarely exceeds, 1.02 to 2.
    #[must_use]
    pub fn margin_of_mean(&self) -> f64 {
        let n = self.ratios.len() as f64;
        if n < STEPS_OF_MEAN {
            return 1.1;
        }
        let mean = self.ratios.iter().sum::<f64>() / n;
        let variance = self.ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / n;
        (mean.max(1.0) + 2.0 * (variance / STEPS_OF_MEAN).sqrt()).clamp(1.02, 2.0)
    }

    /// Returns the factor on the predicted time of a step that this share of steps does not exceed, 1.02 to 3.
    #[must_use]
    pub fn margin_of_step(&self, share: f64) -> f64 {
        let measured = quantile(self.ratios.iter().copied(), share);
        let least = if self.ratios.len() < ERRORS { 1.25 } else { 1.02 };
        measured.unwrap_or(least).clamp(least, MAX_RATIO)
    }
}

/// Returns the value that this share of the values does not exceed.
pub(super) fn quantile(values: impl Iterator<Item = f64>, share: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = (share * values.len() as f64).ceil() as usize;
    values.get(at.clamp(1, values.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(samples: usize, others: usize, positions: f64) -> StepLoad {
        StepLoad { samples: samples as f64, others: others as f64, positions }
    }

    /// Time of a step on a machine whose products are fastest for multiples of 4 sequences.
    fn machine(l: StepLoad) -> f64 {
        0.03 + 0.005 * (l.samples / 4.0).ceil() * 4.0 + 0.002 * l.others + 2e-7 * l.positions
    }

    #[test]
    fn times_of_other_sizes_are_predicted() {
        let mut time = StepTime::default();
        assert_eq!(time.predict(load(1, 0, 0.0)), None);
        for (samples, others) in [(1, 0), (2, 0), (4, 0), (8, 0), (0, 64), (1, 15), (8, 0), (1, 0)] {
            let l = load(samples, others, (samples + others) as f64 * 50.0);
            time.observe(l, Duration::from_secs_f64(machine(l)));
        }
        for (samples, others) in [(6, 0), (16, 0), (8, 100), (12, 40), (1, 200)] {
            let l = load(samples, others, (samples + others) as f64 * 60.0);
            let ratio = time.predict(l).unwrap() / machine(l);
            assert!((0.75..1.3).contains(&ratio), "{samples} and {others}: {ratio}");
        }
        // Many steps of one size, on a slower machine, change their own prediction and do not forget the others.
        let l = load(8, 0, 2000.0);
        (0..1000).for_each(|_| time.observe(l, Duration::from_secs_f64(1.3 * machine(l))));
        assert!((time.predict(l).unwrap() / machine(l) - 1.3).abs() < 0.02);
        let ratio = time.predict(load(1, 200, 9000.0)).unwrap() / machine(load(1, 200, 9000.0));
        assert!((0.8..1.4).contains(&ratio), "{ratio}");
        assert!(time.margin_of_mean() < 1.05, "{}", time.margin_of_mean());
    }

    #[test]
    fn a_suspended_machine_is_no_slow_one() {
        let mut time = StepTime::default();
        let l = load(4, 0, 400.0);
        for i in 0..100 {
            let others = load(i % 5, i % 7 * 10, (i * 7 % 900) as f64);
            time.observe(others, Duration::from_secs_f64(machine(others)));
        }
        time.observe(l, Duration::from_secs(86_400));
        assert!(time.predict(l).unwrap() < 3.0 * machine(l), "{:?}", time.predict(l));
        (0..40).for_each(|_| time.observe(l, Duration::from_secs_f64(machine(l))));
        assert!((time.predict(l).unwrap() / machine(l) - 1.0).abs() < 0.1);
        // The error was seen once in 128 steps.
        assert!(time.margin_of_step(0.95) < 1.3 && time.margin_of_step(0.999) > 2.0);
    }

    #[test]
    fn quantiles_are_values() {
        let values = [3.0, 1.0, 2.0, 4.0];
        let of = |share| quantile(values.into_iter(), share);
        assert_eq!(
            [of(0.0), of(0.5), of(0.75), of(0.76), of(1.0)].map(Option::unwrap),
            [1.0, 2.0, 3.0, 4.0, 4.0]
        );
        assert_eq!(quantile([].into_iter(), 0.5), None);
    }

    proptest::proptest! {
        /// Any observations give usable predictions.
        #[test]
        fn predictions_are_positive_and_finite(
            steps in proptest::collection::vec((0_usize..5000, 0_usize..70_000, 0.0..1e12_f64, 0_u64..10_000_000_000), 1..80)
        ) {
            let mut time = StepTime::default();
            time.observe(load(1, 1, f64::NAN), Duration::MAX);
            for (samples, others, positions, micros) in steps {
                time.observe(load(samples, others, positions), Duration::from_micros(micros));
                let known = time.predict(load(samples + 1, others / 2, positions));
                proptest::prop_assert!(known.is_none_or(|t| t > 0.0 && t.is_finite()), "{known:?}");
                proptest::prop_assert!(time.of_prompt_token() > 0.0 && time.fixed() >= 0.0);
                proptest::prop_assert!((1.02..=2.0).contains(&time.margin_of_mean()));
                proptest::prop_assert!((1.02..=3.0).contains(&time.margin_of_step(0.99)));
            }
        }
    }
}
