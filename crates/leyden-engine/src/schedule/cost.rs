//! [`StepCost`]: time of a step on this machine, estimated from past steps.

use std::time::Duration;

/// Factor on the weights of all past steps when a step is added: steps more than some 200 ago hardly count.
const MEMORY: f64 = 0.995;
/// Minimum number of steps for an estimate.
const MIN_STEPS: u32 = 16;
/// Minimum number of tokens of a step that gives an upper bound on the time of a token.
const MIN_STEP_TOKENS: usize = 8;
/// Unit of positions, in thousands, so that all sums have similar magnitudes.
const POSITIONS: f64 = 1e-3;
/// Maximum time of a token's attention to one position, in times of a token: some hundred times that of small models.
const MAX_POSITION_COST: f64 = 0.1;

/// Least-squares fit of `time = fixed + each × tokens + deep × positions` to past steps, in which older steps weigh
/// less; `positions` is the sum of the positions of the tokens, as attention to earlier tokens takes time in proportion
/// to it. The fixed part is the time of reading the weights, which accepted draft tokens save; the others are the time
/// that prompts add to the steps of decoding requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepCost {
    steps: u32,
    /// Weighted sums of the products of 1, tokens and positions with each other.
    squares: [[f64; 3]; 3],
    products: [f64; 3],
    /// Least time per token, with all of a step's time counted, used until the fit is known.
    cheapest: Option<f64>,
}

/// Coefficients of the fit, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Plane {
    fixed: f64,
    each: f64,
    /// Time for a token and a thousand positions.
    deep: f64,
}

impl StepCost {
    /// Records a step: its number of tokens, the sum of their positions and its time.
    pub fn observe(&mut self, tokens: usize, positions: f64, time: Duration) {
        let (x, y) = ([1.0, tokens as f64, positions * POSITIONS], time.as_secs_f64());
        self.steps = self.steps.saturating_add(1);
        for (i, row) in self.squares.iter_mut().enumerate() {
            for (j, sum) in row.iter_mut().enumerate() {
                *sum = *sum * MEMORY + x[i] * x[j];
            }
            self.products[i] = self.products[i] * MEMORY + x[i] * y;
        }
        if tokens >= MIN_STEP_TOKENS {
            let each = y / tokens as f64;
            self.cheapest = Some(self.cheapest.map_or(each, |least| least.min(each)));
        }
    }

    /// Returns the fit; `None` until there have been enough steps of different sizes.
    fn plane(&self) -> Option<Plane> {
        let [[weight, tokens, _], [_, squares, _], _] = self.squares;
        // Steps of nearly the same size give no slope.
        if self.steps < MIN_STEPS || squares / weight - (tokens / weight).powi(2) < 0.5 {
            return None;
        }
        // No coefficient may be negative: one that would be is left out.
        let all = self.solve([true, true, true]).filter(|p| p.deep >= 0.0);
        let level = all.or_else(|| self.solve([true, true, false]))?;
        let plane = if level.fixed >= 0.0 {
            level
        } else {
            let through = self.solve([false, true, true]).filter(|p| p.deep >= 0.0);
            through.or_else(|| self.solve([false, true, false]))?
        };
        (plane.each > 0.0).then_some(plane)
    }

    /// Solves the least squares with some of the coefficients.
    fn solve(&self, with: [bool; 3]) -> Option<Plane> {
        let mut rows = [[0.0; 4]; 3];
        for i in 0..3 {
            for j in 0..3 {
                rows[i][j] = if with[i] && with[j] { self.squares[i][j] } else { f64::from(i == j) };
            }
            rows[i][3] = if with[i] { self.products[i] } else { 0.0 };
        }
        // Gauss-Jordan elimination without pivoting: the matrix is positive semidefinite.
        for i in 0..3 {
            let pivot = rows[i][i];
            if pivot <= self.squares[i][i] * 1e-9 {
                return None;
            }
            rows[i] = rows[i].map(|value| value / pivot);
            let pivot = rows[i];
            for row in rows.iter_mut().enumerate().filter(|(j, _)| *j != i).map(|(_, row)| row) {
                let factor = row[i];
                row.iter_mut().zip(pivot).for_each(|(value, above)| *value -= factor * above);
            }
        }
        Some(Plane { fixed: rows[0][3], each: rows[1][3], deep: rows[2][3] })
    }

    /// Returns the estimate for [`super::SchedulerOptions::weights_read_tokens`].
    #[must_use]
    pub fn weights_read_tokens(&self) -> Option<f64> {
        self.plane().map(|plane| plane.fixed / plane.each)
    }

    /// Returns the estimate for [`super::SchedulerOptions::position_cost`].
    #[must_use]
    pub fn position_cost(&self) -> Option<f64> {
        // A fit of noisy times may leave next to nothing for `each`.
        self.plane().map(|plane| (plane.deep * POSITIONS / plane.each).min(MAX_POSITION_COST))
    }

    /// Returns the number of tokens at the beginning of a text that take at most `time`, at least 1: the estimate for
    /// [`super::SchedulerOptions::prompt_tokens_beside_decode`]. Until the fit is known, the whole time of a step is
    /// attributed to its tokens; `None` before any step of some tokens.
    #[must_use]
    pub fn tokens_within(&self, time: Duration) -> Option<usize> {
        let each = self.plane().map(|plane| plane.each).or(self.cheapest)?;
        // The conversion saturates.
        Some(((time.as_secs_f64() / each) as usize).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_and_followed() {
        let mut cost = StepCost::default();
        let time = |n: usize, fixed, each| Duration::from_micros(fixed + each * n as u64);
        for i in 0..100 {
            let n = 1 + i % 7 * 20;
            cost.observe(n, 0.0, time(n, 8000, 2000));
        }
        assert!((cost.weights_read_tokens().unwrap() - 4.0).abs() < 1e-3);
        assert_eq!(cost.tokens_within(Duration::from_micros(256_100)), Some(128));
        assert_eq!(cost.position_cost(), Some(0.0));
        // The machine becomes slower.
        for i in 0..2000 {
            let n = 1 + i % 5 * 3;
            cost.observe(n, 0.0, time(n, 9000, 3000));
        }
        assert!((cost.weights_read_tokens().unwrap() - 3.0).abs() < 0.05);
    }

    #[test]
    fn positions_are_told_from_tokens() {
        let mut cost = StepCost::default();
        for i in 0..60 {
            let (n, at) = (1 + i % 4 * 50, 100.0 * i as f64);
            let seconds = 0.01 + n as f64 * (0.002 + 0.000_001 * at);
            cost.observe(n, n as f64 * at, Duration::from_secs_f64(seconds));
        }
        assert!((cost.position_cost().unwrap() - 0.0005).abs() < 1e-6, "{:?}", cost.position_cost());
        assert!((cost.weights_read_tokens().unwrap() - 5.0).abs() < 1e-3);
        assert_eq!(cost.tokens_within(Duration::from_millis(201)), Some(100));
    }

    #[test]
    fn steps_of_one_size_say_nothing() {
        let mut cost = StepCost::default();
        (0..100).for_each(|_| cost.observe(1, 5.0, Duration::from_millis(10)));
        assert_eq!((cost.weights_read_tokens(), cost.tokens_within(Duration::from_secs(1))), (None, None));
    }

    #[test]
    fn one_step_says_what_a_token_costs_at_most() {
        let mut cost = StepCost::default();
        cost.observe(100, 0.0, Duration::from_millis(200));
        assert_eq!(cost.tokens_within(Duration::from_millis(251)), Some(125));
        cost.observe(8, 0.0, Duration::from_millis(100));
        assert_eq!(cost.tokens_within(Duration::from_millis(251)), Some(125));
        assert_eq!(cost.weights_read_tokens(), None);
    }

    proptest::proptest! {
        /// Any observations give usable estimates.
        #[test]
        fn no_part_is_negative(steps in proptest::collection::vec((1_usize..600, 0_usize..9000, 0_u64..3000), 1..200)) {
            let mut cost = StepCost::default();
            for (n, at, milliseconds) in steps {
                cost.observe(n, (n * at) as f64, Duration::from_millis(milliseconds));
                let known = [cost.weights_read_tokens(), cost.position_cost()];
                proptest::prop_assert!(known.into_iter().flatten().all(|x| x >= 0.0 && x.is_finite()), "{known:?}");
                proptest::prop_assert!(cost.position_cost().is_none_or(|x| x <= MAX_POSITION_COST));
                proptest::prop_assert!(cost.tokens_within(Duration::from_secs(1)).is_none_or(|n| n > 0));
            }
        }
    }
}
