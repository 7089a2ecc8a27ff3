//! Binomial distribution: tail probabilities, exact bounds of a share, quantiles of beta distributions.

/// Steps of a bisection between 0 and 1, after which the ends are neighbours.
const BISECTIONS: usize = 60;
/// Terms of the continued fraction; it converges in about the square root of the larger argument.
const MAX_TERMS: usize = 20_000;

/// Returns the probability of at most `k` successes in `n` trials with success probability `p`.
///
/// ```
/// use leyden_tasks::calibration::binomial_at_most;
///
/// assert!((binomial_at_most(2, 10, 0.5) - 0.0546875).abs() < 1e-12);
/// assert_eq!(binomial_at_most(10, 10, 0.9), 1.0);
/// ```
#[must_use]
pub fn binomial_at_most(k: usize, n: usize, p: f64) -> f64 {
    match () {
        () if k >= n || p <= 0.0 => 1.0,
        () if p >= 1.0 => 0.0,
        () => incomplete_beta((n - k) as f64, k as f64 + 1.0, 1.0 - p),
    }
}

/// Returns the upper bound of Clopper and Pearson (1934) of a share: the success probability with which `k` or fewer
/// successes in `n` trials have the probability `1 - confidence`; 1 without trials.
///
/// ```
/// let bound = leyden_tasks::calibration::upper_bound(0, 149, 0.95);
/// assert!((bound - 0.0199).abs() < 1e-4);
/// ```
#[must_use]
pub fn upper_bound(k: usize, n: usize, confidence: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    bisect(|p| binomial_at_most(k, n, p) <= 1.0 - confidence).1
}

/// Returns the lower bound of Clopper and Pearson of a share; 0 without successes.
#[must_use]
pub fn lower_bound(k: usize, n: usize, confidence: f64) -> f64 {
    if k == 0 || n == 0 {
        return 0.0;
    }
    bisect(|p| 1.0 - binomial_at_most(k - 1, n, p) > 1.0 - confidence).0
}

/// Returns the quantile of the beta distribution with whole parameters `a` and `b`, both at least 1.
#[must_use]
pub fn beta_quantile(a: usize, b: usize, share: f64) -> f64 {
    bisect(|x| incomplete_beta(a as f64, b as f64, x) >= share).1
}

/// Returns the interval in which the number of hits among `m` further rows lies with the probability `share`, its ends
/// included, if the probability of a hit has the beta distribution with parameters `a` and `b`, both at least 1.
#[must_use]
pub fn beta_binomial_interval(m: usize, (a, b): (usize, usize), share: f64) -> (usize, usize) {
    let (a, b, n) = (a as f64, b as f64, m as f64);
    // The probability of no hit, and then the ratio of neighbours.
    let mut log = ln_gamma(b + n) + ln_gamma(a + b) - ln_gamma(a + b + n) - ln_gamma(b);
    let (mut sum, mut low, mut high) = (0.0, None, m);
    for hits in 0..=m {
        sum += log.exp();
        let h = hits as f64;
        if low.is_none() && sum > (1.0 - share) / 2.0 {
            low = Some(hits);
        }
        if sum >= (1.0 + share) / 2.0 {
            high = hits;
            break;
        }
        log += ((n - h) * (a + h) / ((h + 1.0) * (b + n - h - 1.0))).ln();
    }
    (low.unwrap_or(m), high)
}

/// Returns the neighbours between which a condition that holds at 1 begins to hold.
fn bisect(holds: impl Fn(f64) -> bool) -> (f64, f64) {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (low + high);
        if holds(middle) { high = middle } else { low = middle }
    }
    (low, high)
}

/// Returns the regularised incomplete beta function by its continued fraction (DLMF 8.17.22), evaluated by the method of
/// Lentz (1976).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return f64::from(x >= 1.0);
    }
    // On the other side of the mean the fraction converges slowly.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p() - a.ln();
    let nonzero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d, mut fraction) = (1.0_f64, 0.0_f64, 1.0_f64);
    for i in 0..MAX_TERMS {
        let m = (i / 2) as f64;
        let term = match i {
            0 => 1.0,
            i if i % 2 == 0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        d = 1.0 / nonzero(1.0 + term * d);
        c = nonzero(1.0 + term / c);
        fraction *= c * d;
        if i > 0 && (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (front.exp() * (fraction - 1.0)).clamp(0.0, 1.0)
}

/// Returns the logarithm of the gamma function of a positive number, by Stirling's series (DLMF 5.11.1).
fn ln_gamma(x: f64) -> f64 {
    // The series is exact to rounding from about 10; the recurrence leads there.
    let (mut x, mut below) = (x, 0.0);
    while x < 12.0 {
        below += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0
        - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse * (1.0 / 1680.0 - inverse / 1188.0))))
        / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - below
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of terms, which are products of ratios.
    fn plain(k: usize, n: usize, p: f64) -> f64 {
        let (mut term, mut sum) = ((1.0 - p).powi(n as i32), 0.0);
        for i in 0..=k {
            sum += term;
            term *= (n - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
        }
        sum
    }

    #[test]
    fn tails_are_sums_of_terms() {
        for n in [1, 2, 7, 40, 120] {
            for k in 0..n {
                for p in [0.01, 0.1, 0.37, 0.5, 0.83, 0.97] {
                    let (found, want) = (binomial_at_most(k, n, p), plain(k, n, p));
                    assert!((found - want).abs() < 1e-10, "{k} of {n} at {p}: {found} {want}");
                }
            }
        }
        assert_eq!(binomial_at_most(3, 3, 0.5), 1.0);
        assert_eq!((binomial_at_most(0, 5, 0.0), binomial_at_most(0, 5, 1.0)), (1.0, 0.0));
        // Large counts, against the normal distribution.
        assert!((binomial_at_most(500_000, 1_000_000, 0.5) - 0.5).abs() < 1e-3);
    }

    /// R's `binom.test(k, n, conf.level = 0.9)$conf.int`.
    #[test]
    fn bounds_are_those_of_clopper_and_pearson() {
        for (k, n, low, high) in [
            (0, 10, 0.0, 0.258_866),
            (10, 10, 0.741_134, 1.0),
            (8, 10, 0.493_099, 0.963_229),
            (90, 100, 0.836_282, 0.944_737),
        ] {
            assert!((lower_bound(k, n, 0.95) - low).abs() < 1e-5, "{k} of {n}");
            assert!((upper_bound(k, n, 0.95) - high).abs() < 1e-5, "{k} of {n}");
        }
        assert_eq!((lower_bound(0, 0, 0.95), upper_bound(0, 0, 0.95)), (0.0, 1.0));
    }

    #[test]
    fn quantiles_and_intervals_have_their_probability() {
        // Of Beta(1, 1) and of Beta(2, 1), whose distribution function is a square.
        assert!((beta_quantile(1, 1, 0.3) - 0.3).abs() < 1e-12);
        assert!((beta_quantile(2, 1, 0.25) - 0.5).abs() < 1e-12);
        // With equal parameters of 1 every number of hits is equally probable.
        assert_eq!(beta_binomial_interval(99, (1, 1), 0.93), (3, 96));
        let (low, high) = beta_binomial_interval(1540, (1171, 62), 0.95);
        let mean = 1540.0 * 1171.0 / 1233.0;
        assert!((low as f64) < mean && mean < high as f64 && high - low < 80, "{low} {high}");
    }
}
