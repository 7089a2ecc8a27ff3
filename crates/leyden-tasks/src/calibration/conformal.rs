//! Split conformal prediction: scores of labels, ranks, and the thresholds of sets.
//!
//! The score of a label says how badly it fits a text. A set has the labels whose score is at most the `k`-th smallest
//! score of the right labels of `n` calibration rows, with `k = ceil((n + 1) c)`. The right label of a further
//! exchangeable row is in its set with a probability of at least `c` (Vovk, Gammerman and Shafer, 2005), and the coverage
//! that one calibration gives has the distribution Beta(k, n + 1 - k) (Vovk, 2012).

use serde::{Deserialize, Serialize};

/// Addition to the score of a label per rank beyond [`FREE_RANKS`], in [`SetScore::Raps`].
const RANK_PENALTY: f64 = 0.01;
/// Number of ranks without a penalty.
const FREE_RANKS: usize = 5;

/// Score of a label, by which it belongs to a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetScore {
    /// 1 minus the probability of the label (Sadinle, Lei and Wasserman, 2019): the smallest sets on average; a set may
    /// be empty.
    #[default]
    Lac,
    /// Probability of the labels before it, the most probable first (Romano, Sesia and Candès, 2020, without
    /// randomisation): sets grow with the uncertainty, and always have the best label.
    Aps,
    /// As [`Aps`](SetScore::Aps), with 0.01 more for each rank beyond the fifth (Angelopoulos et al., 2021): fewer large
    /// sets.
    Raps,
}

impl SetScore {
    /// All scores, with their names.
    pub const ALL: [(SetScore, &'static str); 3] =
        [(SetScore::Lac, "lac"), (SetScore::Aps, "aps"), (SetScore::Raps, "raps")];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        SetScore::ALL[self as usize].1
    }

    /// Returns the score of each label from the probabilities.
    #[must_use]
    pub fn of(self, probabilities: &[f64]) -> Vec<f32> {
        if self == SetScore::Lac {
            return probabilities.iter().map(|p| (1.0 - p) as f32).collect();
        }
        let mut order: Vec<usize> = (0..probabilities.len()).collect();
        order.sort_by(|a, b| probabilities[*b].total_cmp(&probabilities[*a]));
        let (mut scores, mut before) = (vec![0.0; order.len()], 0.0);
        for (rank, label) in order.into_iter().enumerate() {
            let penalty = match self {
                SetScore::Raps => RANK_PENALTY * (rank + 1).saturating_sub(FREE_RANKS) as f64,
                _ => 0.0,
            };
            scores[label] = (before + penalty) as f32;
            before += probabilities[label];
        }
        scores
    }
}

/// Returns the rank of the threshold among `n` sorted scores, from 1; more than `n` if there are too few.
#[must_use]
pub fn rank(n: usize, coverage: f64) -> usize {
    // 0.95 has no exact binary fraction, and a product that should be whole may be a little above.
    (((n as f64 + 1.0) * coverage - 1e-9).ceil() as usize).max(1)
}

/// Largest number of rows that is counted.
const MAX_ROWS: f64 = 1e12;

/// Returns the minimum number of scores for a coverage; the largest number for one that is not between 0 and 1, or too
/// near 1.
#[must_use]
pub fn rows_for_coverage(coverage: f64) -> usize {
    if !(coverage > 0.0 && coverage / (1.0 - coverage) < MAX_ROWS && coverage < 1.0) {
        return usize::MAX;
    }
    let estimate = (coverage / (1.0 - coverage)).ceil() as usize;
    (estimate.saturating_sub(2)..).find(|n| rank(*n, coverage) <= *n).unwrap_or(usize::MAX)
}

/// Returns the threshold of sorted scores; `None` if there are too few.
pub(super) fn threshold(sorted: &[f32], coverage: f64) -> Option<f32> {
    sorted.get(rank(sorted.len(), coverage) - 1).copied()
}

/// Returns the labels in groups with a threshold of their own each: labels with enough rows alone, and the others
/// together, with the rarest of those with enough rows where the others have too few together. The groups follow from
/// the numbers of rows alone, so the scores of a group are exchangeable.
pub(super) fn groups(rows: &[usize], coverage: f64) -> Vec<Vec<usize>> {
    let needed = rows_for_coverage(coverage);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|label| (rows[*label], *label));
    let (mut rest, mut sum) = (Vec::new(), 0);
    for label in order.iter().copied() {
        if rows[label] >= needed && (rest.is_empty() || sum >= needed) {
            break;
        }
        rest.push(label);
        sum += rows[label];
    }
    let alone = order[rest.len()..].iter().map(|label| vec![*label]);
    let mut groups: Vec<Vec<usize>> = alone.collect();
    if !rest.is_empty() {
        groups.push(rest);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_order_the_labels() {
        let p = [0.1, 0.6, 0.3];
        let close = |a: Vec<f32>, b: [f32; 3]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close(SetScore::Lac.of(&p), [0.9, 0.4, 0.7]));
        assert!(close(SetScore::Aps.of(&p), [0.9, 0.0, 0.6]));
        let many = vec![0.125; 8];
        let raps = SetScore::Raps.of(&many);
        assert!((raps[4] - 0.5).abs() < 1e-6 && (raps[7] - 0.905).abs() < 1e-6, "{raps:?}");
        for (score, name) in SetScore::ALL {
            assert_eq!(score.name(), name);
        }
    }

    #[test]
    fn ranks_are_those_of_the_finite_sample() {
        assert_eq!((rank(19, 0.95), rank(99, 0.95), rank(100, 0.95), rank(18, 0.95)), (19, 95, 96, 19));
        assert_eq!([0.5, 0.9, 0.95, 0.99, 0.999].map(rows_for_coverage), [1, 9, 19, 99, 999]);
        for odd in [0.0, 1.0, 1.5, -1.0, f64::NAN, 1.0 - 1e-15] {
            assert_eq!(rows_for_coverage(odd), usize::MAX, "{odd}");
        }
        assert_eq!(threshold(&[0.1; 18], 0.95), None);
        let scores: Vec<f32> = (1..=19).map(|i| i as f32).collect();
        assert_eq!((threshold(&scores, 0.95), threshold(&scores, 0.5)), (Some(19.0), Some(10.0)));
    }

    #[test]
    fn rare_labels_share_a_threshold() {
        // 19 rows are needed.
        assert_eq!(groups(&[30, 40, 20], 0.95), [vec![2], vec![0], vec![1]]);
        assert_eq!(groups(&[30, 10, 0, 12], 0.95), [vec![0], vec![2, 1, 3]]);
        assert_eq!(groups(&[30, 10, 0, 50], 0.95), [vec![3], vec![2, 1, 0]]);
        assert_eq!(groups(&[1, 2], 0.95), [vec![0, 1]]);
    }
}
