//! Selective classification: the confidence from which a text is answered, so that few answers are wrong.
//!
//! The candidate thresholds, and the one to begin with, follow from rows that are used for nothing else. From there the
//! thresholds are tested in descending order on the other rows, each with the exact test of a binomial share (Clopper
//! and Pearson, 1934; Geifman and El-Yaniv, 2017), until the first one fails. Because the order is fixed before
//! those rows are looked at, no correction for several tests is needed (Learn then Test: Angelopoulos et al., 2021;
//! fixed-sequence testing: Wiens, 2003).

use super::binomial::binomial_at_most;
use serde::{Deserialize, Serialize};

/// Maximum number of candidates.
const MAX_CANDIDATES: usize = 64;

/// Candidate threshold, with the rows at or above it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Minimum confidence of an answer.
    pub at_least: f32,
    /// Number of tuning rows that it answers, and of those that are wrong.
    pub tuning: (u32, u32),
    /// Number of wrong ones that the confidences of these tuning rows let expect: the sum of 1 - confidence.
    pub expected: f32,
    /// Number of threshold rows that it answers, and of those that are wrong.
    pub rows: (u32, u32),
}

/// Returns the candidates in descending order, from the confidences of answers and true for right ones, of tuning rows
/// and of threshold rows.
#[must_use]
pub fn candidates(tuning: &[(f32, bool)], rows: &[(f32, bool)]) -> Vec<Candidate> {
    let mut sorted: Vec<f32> = tuning.iter().map(|(confidence, _)| *confidence).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let steps = sorted.len().min(MAX_CANDIDATES - 1);
    let mut at: Vec<f32> = (1..=steps).map(|i| sorted[(i * sorted.len()).div_ceil(steps) - 1]).collect();
    // The last one answers every text.
    at.push(0.0);
    at.dedup();
    let count = |all: &[(f32, bool)], at: f32| {
        let answered = all.iter().filter(|(confidence, _)| *confidence >= at);
        let wrong = answered.clone().filter(|(_, right)| !right).count();
        (answered.count() as u32, wrong as u32)
    };
    let expected = |at: f32| {
        let answered =
            tuning.iter().map(|(confidence, _)| *confidence).filter(|confidence| *confidence >= at);
        answered.map(|confidence| f64::from(1.0 - confidence)).sum::<f64>() as f32
    };
    at.into_iter()
        .map(|at| Candidate {
            at_least: at,
            tuning: count(tuning, at),
            expected: expected(at),
            rows: count(rows, at),
        })
        .collect()
}

/// Returns the index of the lowest threshold that keeps the error rate of answers at most `max_error` with this
/// confidence.
///
/// # Errors
/// There is none: the index of the one that was tried first, if there are any.
pub(super) fn choose(
    candidates: &[Candidate],
    (max_error, confidence): (f64, f64),
) -> Result<usize, Option<usize>> {
    // Number of rows that a candidate will answer, and its errors, by the tuning rows alone. Counted errors are few, and
    // confidences know no wrong labels in the data; on banking77 their mean finds the better beginnings.
    let all = |of: fn(&Candidate) -> u32| candidates.last().map_or(0, of);
    let factor = f64::from(all(|c| c.rows.0)) / f64::from(all(|c| c.tuning.0).max(1));
    // The errors that all tuning rows let expect are made to be those that were counted.
    let scale = candidates.last().filter(|c| c.expected > 0.0);
    let scale = scale.map_or(0.0, |c| f64::from(c.tuning.1) / f64::from(c.expected));
    let expected = |candidate: &Candidate| {
        let (answered, wrong) = candidate.tuning;
        let rows = (f64::from(answered) * factor) as usize;
        let errors = 0.5 * (f64::from(wrong) + scale * f64::from(candidate.expected));
        let rate = errors / f64::from(answered.max(1));
        binomial_at_most((rate * rows as f64).round() as usize, rows, max_error)
    };
    let begin =
        (0..candidates.len()).min_by(|a, b| expected(&candidates[*a]).total_cmp(&expected(&candidates[*b])));
    let Some(begin) = begin else { return Err(None) };
    let passes = |candidate: &Candidate| {
        let (answered, wrong) = candidate.rows;
        answered > 0 && binomial_at_most(wrong as usize, answered as usize, max_error) <= 1.0 - confidence
    };
    match candidates[begin..].iter().take_while(|candidate| passes(candidate)).count() {
        0 => Err(Some(begin)),
        passed => Ok(begin + passed - 1),
    }
}

/// Returns the minimum number of answered rows, all of them right, that show an error rate.
#[must_use]
pub fn rows_for_error(max_error: f64, confidence: f64) -> usize {
    ((1.0 - confidence).ln() / (-max_error).ln_1p() - 1e-9).ceil().max(1.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_quantiles_of_the_tuning_rows() {
        let tuning: Vec<(f32, bool)> = (0..1000).map(|i| (i as f32 / 1000.0, i % 10 > 0)).collect();
        let all = candidates(&tuning, &tuning[500..]);
        assert!(all.len() == 64 || all.len() == 63, "{}", all.len());
        assert!(all.windows(2).all(|pair| pair[0].at_least > pair[1].at_least));
        let last = all.last().unwrap();
        assert_eq!((last.at_least, last.tuning, last.rows), (0.0, (1000, 100), (500, 50)));
        let equal = candidates(&[(0.5, true); 20], &[(0.5, true), (0.4, false)]);
        assert_eq!(equal.iter().map(|c| c.rows).collect::<Vec<_>>(), [(1, 0), (2, 1)]);
        assert_eq!(candidates(&[], &[(0.5, true)]).len(), 1);
    }

    #[test]
    fn rows_without_an_error_are_counted() {
        assert_eq!(rows_for_error(0.02, 0.95), 149);
        assert_eq!(rows_for_error(0.5, 0.5), 1);
        for (error, confidence) in [(0.01, 0.9), (0.05, 0.99), (0.1, 0.95)] {
            let n = rows_for_error(error, confidence);
            assert!(binomial_at_most(0, n, error) <= 1.0 - confidence);
            assert!(binomial_at_most(0, n - 1, error) > 1.0 - confidence);
        }
    }

    #[test]
    fn the_lowest_threshold_that_passes_is_chosen() {
        // Rows above 0.5 are right; below, every second one is wrong.
        let rows = |n: usize| -> Vec<(f32, bool)> {
            (0..n).map(|i| (i as f32 / n as f32, 2 * i >= n || i % 2 == 0)).collect()
        };
        let all = candidates(&rows(400), &rows(1600));
        let chosen = all[choose(&all, (0.05, 0.95)).unwrap()];
        assert!(chosen.at_least > 0.4 && chosen.at_least <= 0.5, "{chosen:?}");
        let (answered, wrong) = chosen.rows;
        assert!(f64::from(wrong) / f64::from(answered) < 0.05);
        // All wrong, and too few rows.
        let wrong: Vec<(f32, bool)> = rows(400).iter().map(|(c, _)| (*c, false)).collect();
        assert!(choose(&candidates(&wrong, &wrong), (0.05, 0.95)).is_err());
        let few = candidates(&[(0.5, true); 10], &[(0.5, true); 40]);
        assert!(choose(&few, (0.02, 0.95)).is_err() && choose(&few, (0.1, 0.95)).is_ok());
        assert_eq!(choose(&[], (0.1, 0.95)), Err(None));
    }
}
