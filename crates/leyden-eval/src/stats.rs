//! Confidence intervals and significance tests.
//!
//! All random numbers are drawn from a seed, so that the same results give the same intervals.

/// A SplitMix generator (Steele et al., 2014): its n-th number follows from seed and n.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which must not be 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

/// Standard normal quantile for 95 %.
const Z95: f64 = 1.959_963_984_540_054;

/// Number of bootstrap resamples: the ends of an interval vary by a twentieth of its width between seeds.
const RESAMPLES: usize = 2000;

/// Returns the mean and its standard error, as llama-perplexity computes them: none for ten values or fewer.
#[must_use]
pub fn mean_and_error(sum: f64, squares: f64, count: usize) -> (f64, f64) {
    if count == 0 {
        return (0.0, 0.0);
    }
    let n = count as f64;
    let mean = sum / n;
    let variance = squares / n - mean * mean;
    (mean, if variance > 0.0 && count > 10 { (variance / (n - 1.0)).sqrt() } else { 0.0 })
}

/// Returns the value at a share of sorted values, interpolated between neighbours.
#[must_use]
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let below = at as usize;
    let part = at - below as f64;
    (1.0 - part) * sorted[below] + part * sorted[(below + 1).min(last)]
}

/// Returns the 95 % interval of a share (Wilson, 1927): never outside 0 and 1, and valid for few and for extreme
/// shares too.
///
/// ```
/// let (low, high) = leyden_eval::stats::wilson(8, 10);
/// assert!((low - 0.4902).abs() < 1e-4 && (high - 0.9433).abs() < 1e-4);
/// ```
#[must_use]
pub fn wilson(hits: usize, count: usize) -> (f64, f64) {
    if count == 0 {
        return (0.0, 1.0);
    }
    let (n, p) = (count as f64, hits as f64 / count as f64);
    let centre = p + Z95 * Z95 / (2.0 * n);
    let half = Z95 * (p * (1.0 - p) / n + Z95 * Z95 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z95 * Z95 / n;
    (((centre - half) / scale).max(0.0), ((centre + half) / scale).min(1.0))
}

/// Returns the 95 % interval of the mean of sums over groups of values, by a bootstrap over groups (Efron, 1979).
/// Values of a window of text depend on each other, so windows are resampled and not their tokens.
#[must_use]
pub fn bootstrap_of_groups(groups: &[(f64, usize)], seed: u64) -> (f64, f64) {
    if groups.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    let mut random = Random::new(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let (mut sum, mut count) = (0.0, 0);
            for _ in 0..groups.len() {
                let (s, n) = groups[random.below(groups.len())];
                (sum, count) = (sum + s, count + n);
            }
            sum / count.max(1) as f64
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    (percentile(&means, 0.025), percentile(&means, 0.975))
}

/// Returns the 95 % interval of a mean, by a bootstrap over values.
#[must_use]
pub fn bootstrap(values: &[f64], seed: u64) -> (f64, f64) {
    let groups: Vec<(f64, usize)> = values.iter().map(|v| (*v, 1)).collect();
    bootstrap_of_groups(&groups, seed)
}

/// Returns the p-value for two equally good models to differ at least as much: the exact test of McNemar (1947) on
/// the items that only one of them has right.
///
/// ```
/// assert!((leyden_eval::stats::mcnemar(2, 10) - 0.03857).abs() < 1e-5);
/// ```
#[must_use]
pub fn mcnemar(only_first: usize, only_second: usize) -> f64 {
    let n = only_first + only_second;
    if n == 0 {
        return 1.0;
    }
    // The sum of C(n, i) / 2^n up to the smaller count, in logarithms so that large n do not overflow.
    let mut log_term = -(n as f64) * std::f64::consts::LN_2;
    let mut sum = log_term.exp();
    for i in 1..=only_first.min(only_second) {
        log_term += ((n - i + 1) as f64 / i as f64).ln();
        sum += log_term.exp();
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_cover_what_they_should() {
        // About 95 % of the intervals of samples with a known mean contain it.
        let mut random = Random::new(7);
        let mut held = 0;
        for run in 0..200 {
            let values: Vec<f64> = (0..60).map(|_| random.below(1000) as f64 / 999.0).collect();
            let (low, high) = bootstrap(&values, run);
            held += usize::from(low <= 0.5 && 0.5 <= high);
        }
        assert!((180..=198).contains(&held), "{held} of 200");
        assert_eq!(bootstrap(&[1.0; 5], 1), (1.0, 1.0));
        assert!(wilson(0, 10).0 == 0.0 && (wilson(10, 10).1 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn percentiles_lie_between_neighbours() {
        let sorted = [0.0, 1.0, 2.0, 10.0];
        assert_eq!(percentile(&sorted, 0.5), 1.5);
        assert_eq!((percentile(&sorted, 0.0), percentile(&sorted, 1.0)), (0.0, 10.0));
        assert_eq!(mcnemar(0, 0), 1.0);
        assert_eq!(mcnemar(5, 5), 1.0);
    }
}
