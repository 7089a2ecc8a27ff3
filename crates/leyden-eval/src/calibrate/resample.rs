//! [`resample`]: the check of a promise on held-out halves of the labelled rows.

use super::fit::{FitOptions, ScoredRows, fit_in_order, shuffled};
use crate::stats::{Random, percentile};
use leyden_tasks::calibration::{
    Answer, Basis, Calibration, CalibrationError, Decider, LabelKind, Promise, beta_binomial_interval,
    lower_bound,
};

/// Share of resamples whose hits lie in the interval of the theory.
const INTERVAL: f64 = 0.95;

/// Figures of a promise on held-out rows, over all resamples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resampled {
    /// Number of resamples.
    pub resamples: usize,
    /// Numbers of rows that were calibrated on and held out in each.
    pub rows: (usize, usize),
    /// Share of held-out texts with the right label in the set, or of right labels in sets; 0 for an error rate.
    pub coverage: f64,
    /// Smallest and largest coverage or error rate of a resample.
    pub range: (f64, f64),
    /// Expected coverage, and the interval in which 95 % of resamples lie; absent for an error rate and for texts with
    /// any number of labels.
    pub expected: Option<(f64, (f64, f64))>,
    /// Number of resamples in that interval.
    pub inside: usize,
    /// Share of wrong answers among the answers, or of wrong labels among the given ones.
    pub error: f64,
    /// Number of resamples with a larger error rate than promised.
    pub above: usize,
    /// Number of those in which it is larger beyond chance: the lower bound of Clopper and Pearson with the confidence
    /// of the promise is above it.
    pub far_above: usize,
    /// Number of resamples in which no threshold kept the error rate, so that nothing was answered.
    pub without_threshold: usize,
    /// Shares of texts that got one label, a set, and nothing.
    pub shares: (f64, f64, f64),
    /// Mean number of labels of a set, abstentions included.
    pub set_size: f64,
}

/// Promise to check, and the number of labels above which a set is an abstention.
pub type Checked = (Promise, Option<usize>);

/// Calibrates on one random half of the rows and decides on the other, many times. Returns the figures of each promise,
/// or the error of one for which a half has too few rows.
#[must_use]
pub fn resample(
    rows: &ScoredRows<'_>,
    options: &FitOptions,
    promises: &[Checked],
    resamples: usize,
) -> Vec<Result<Resampled, CalibrationError>> {
    let n = rows.logits.len();
    let (half, mut random) = (n.div_ceil(2), Random::new(options.seed ^ 0x5eed));
    let mut all: Vec<Result<Check, CalibrationError>> = Vec::new();
    all.resize_with(promises.len(), || Ok(Check::default()));
    for _ in 0..resamples {
        let order = shuffled(n, &mut random);
        let (known, held_out) = order.split_at(half);
        let calibration = fit_in_order(rows, known, options).calibration;
        for (check, promise) in all.iter_mut().zip(promises) {
            let added = match check {
                Ok(check) => check.add(rows, held_out, &calibration, *promise),
                Err(_) => Ok(()),
            };
            if let Err(error) = added {
                *check = Err(error);
            }
        }
    }
    let rows = (half, n - half);
    let of = |(check, promise): (Result<Check, _>, &Checked)| Ok(check?.finish(promise.0, resamples, rows));
    all.into_iter().zip(promises).map(of).collect()
}

/// Figures of a promise so far.
#[derive(Clone, Debug, Default)]
struct Check {
    found: Resampled,
    sums: Counts,
    /// Coverage or error rate of each resample.
    each: Vec<f64>,
}

impl Check {
    /// Adds the decisions of a calibration on held-out rows.
    fn add(
        &mut self,
        rows: &ScoredRows<'_>,
        held_out: &[usize],
        calibration: &Calibration,
        (promise, max_set): Checked,
    ) -> Result<(), CalibrationError> {
        let decider = match Decider::new(calibration, promise, max_set) {
            Err(CalibrationError::NoThreshold { .. }) => None,
            decider => Some(decider?),
        };
        let (found, m) = (&mut self.found, held_out.len());
        let mut counts = Counts { texts: m, ..Counts::default() };
        match &decider {
            Some(decider) => {
                for (logits, labels) in rows.each(held_out) {
                    counts.add(decider, logits, labels)?;
                }
            }
            None => found.without_threshold += 1,
        }
        match promise {
            Promise::Coverage { per_class, .. } => {
                self.each.push(counts.hits as f64 / counts.right.max(1) as f64);
                if let Some(Basis::Coverage { rows: count, rank, .. }) = decider.map(|d| d.basis())
                    && rows.kind == LabelKind::One
                    && !per_class
                {
                    let (low, high) = beta_binomial_interval(m, (rank, count + 1 - rank), INTERVAL);
                    found.inside += usize::from((low..=high).contains(&counts.hits));
                    let share = |hits: usize| hits as f64 / m as f64;
                    found.expected = Some((rank as f64 / (count + 1) as f64, (share(low), share(high))));
                }
            }
            Promise::MaxError { max_error, confidence } => {
                let rate = counts.wrong as f64 / counts.given.max(1) as f64;
                self.each.push(rate);
                found.above += usize::from(rate > max_error);
                let bound = lower_bound(counts.wrong, counts.given, confidence);
                found.far_above += usize::from(bound > max_error);
            }
        }
        self.sums.join(&counts);
        Ok(())
    }

    /// Returns the figures of all resamples.
    fn finish(self, promise: Promise, resamples: usize, rows: (usize, usize)) -> Resampled {
        let Check { found, sums, mut each } = self;
        each.sort_by(f64::total_cmp);
        let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
        let is_coverage = matches!(promise, Promise::Coverage { .. });
        Resampled {
            resamples,
            rows,
            range: (percentile(&each, 0.0), percentile(&each, 1.0)),
            coverage: if is_coverage { share(sums.hits, sums.right) } else { 0.0 },
            error: share(sums.wrong, sums.given),
            shares: (
                share(sums.single, sums.texts),
                share(sums.several, sums.texts),
                share(sums.texts - sums.single - sums.several, sums.texts),
            ),
            set_size: share(sums.labels, sums.texts),
            ..found
        }
    }
}

/// Counts of decisions.
#[derive(Clone, Debug, Default)]
struct Counts {
    texts: usize,
    /// Right labels, and those of them in sets.
    right: usize,
    hits: usize,
    /// Given labels outside abstentions, and those of them that are wrong.
    given: usize,
    wrong: usize,
    single: usize,
    several: usize,
    /// Labels of all sets.
    labels: usize,
}

impl Counts {
    fn add(&mut self, decider: &Decider, logits: &[f32], labels: &[usize]) -> Result<(), CalibrationError> {
        let decision = decider.decide(logits)?;
        self.right += labels.len();
        self.hits += decision.labels.iter().filter(|(label, _)| labels.contains(label)).count();
        self.labels += decision.labels.len();
        if decision.answer != Answer::Abstain {
            self.given += decision.labels.len();
            self.wrong += decision.labels.iter().filter(|(label, _)| !labels.contains(label)).count();
        }
        self.single += usize::from(decision.answer == Answer::Label);
        self.several += usize::from(decision.answer == Answer::Set);
        Ok(())
    }

    fn join(&mut self, other: &Counts) {
        self.texts += other.texts;
        self.right += other.right;
        self.hits += other.hits;
        self.given += other.given;
        self.wrong += other.wrong;
        self.single += other.single;
        self.several += other.several;
        self.labels += other.labels;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_tasks::calibration::{MadeFor, SetScore};

    /// Logits of texts with three labels; the best one is right more often the larger its lead is.
    fn rows(n: usize) -> (Vec<Vec<f32>>, Vec<Vec<usize>>) {
        let mut random = Random::new(5);
        let mut unit = || (random.below(1 << 30) as f64 + 0.5) / f64::from(1 << 30);
        let row = |_| {
            let (label, lead) = ((unit() * 3.0) as usize, 6.0 * unit());
            let mut logits: Vec<f32> = (0..3).map(|_| unit() as f32).collect();
            logits[label] += lead as f32;
            let right = unit() > 0.4 * (-lead).exp() + 0.02;
            (logits, vec![if right { label } else { (label + 1) % 3 }])
        };
        (0..n).map(row).unzip()
    }

    fn options() -> FitOptions {
        let made_for =
            MadeFor { sha256: "00".repeat(32), int8: false, exact: false, truncate: false, max_tokens: 9 };
        let labels = ["a", "b", "c"].map(str::to_owned).to_vec();
        FitOptions { made_for, labels, score: SetScore::Lac, seed: 1 }
    }

    fn one(
        rows: &ScoredRows<'_>,
        options: &FitOptions,
        promise: Promise,
        resamples: usize,
    ) -> Result<Resampled, CalibrationError> {
        resample(rows, options, &[(promise, None)], resamples).pop().unwrap()
    }

    #[test]
    fn promises_hold_on_held_out_halves() {
        let (logits, labels) = rows(1200);
        let scored = ScoredRows { logits: &logits, labels: &labels, kind: LabelKind::One };
        for score in [SetScore::Lac, SetScore::Raps] {
            let coverage = Promise::Coverage { coverage: 0.9, per_class: false };
            let options = FitOptions { score, ..options() };
            let found = one(&scored, &options, coverage, 200).unwrap();
            let (expected, interval) = found.expected.unwrap();
            assert_eq!(found.rows, (600, 600));
            assert!(found.coverage > expected - 0.005 && interval.0 < expected, "{found:?}");
            if score == SetScore::Lac {
                assert!((found.coverage - expected).abs() < 0.005 && found.inside >= 180, "{found:?}");
            }
            let (one, several, none) = found.shares;
            assert!((one + several + none - 1.0).abs() < 1e-9);
        }
        let promise = Promise::MaxError { max_error: 0.08, confidence: 0.95 };
        let found = one(&scored, &options(), promise, 200).unwrap();
        assert!(found.error < 0.08 && found.far_above <= 10, "{found:?}");
        assert!(found.shares.0 > 0.5 && found.without_threshold < 10, "{found:?}");
        let many = Promise::Coverage { coverage: 0.9999, per_class: false };
        let error = one(&scored, &options(), many, 2).unwrap_err();
        assert!(matches!(error, CalibrationError::TooFew { .. }), "{error}");
    }
}
