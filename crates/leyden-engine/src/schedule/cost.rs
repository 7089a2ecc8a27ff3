//! What a step costs on this machine, from the times of past steps.

use std::time::Duration;

/// Weight of the past when a step is added: what is older than some 200 steps hardly counts.
const MEMORY: f64 = 0.995;
/// Steps before anything is said.
const LEAST_STEPS: u32 = 16;

/// The line `time = fixed + each × tokens` through the steps seen, by least squares in which older steps weigh less.
/// The fixed part is the reading of the weights; it is what guesses can save, and `each` what prompts cost others.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepCost {
    steps: u32,
    weight: f64,
    mean_tokens: f64,
    mean_time: f64,
    /// Weighted sum of squared differences from the mean number of tokens.
    spread: f64,
    /// The same of the products of both differences.
    product: f64,
}

impl StepCost {
    /// A step of so many tokens took so long.
    pub fn observe(&mut self, tokens: usize, time: Duration) {
        let (x, y) = (tokens as f64, time.as_secs_f64());
        self.steps = self.steps.saturating_add(1);
        self.weight = self.weight * MEMORY + 1.0;
        // West's update (1979) with forgetting.
        let (dx, dy) = (x - self.mean_tokens, y - self.mean_time);
        self.mean_tokens += dx / self.weight;
        self.mean_time += dy / self.weight;
        self.spread = self.spread * MEMORY + dx * (x - self.mean_tokens);
        self.product = self.product * MEMORY + dx * (y - self.mean_time);
    }

    /// The time of a step without its tokens and that of each token, in seconds; `None` until steps of different sizes
    /// have been seen that show what a token costs.
    #[must_use]
    pub fn line(&self) -> Option<(f64, f64)> {
        // Steps that hardly differ say nothing about the slope.
        if self.steps < LEAST_STEPS || self.spread / self.weight < 0.5 {
            return None;
        }
        let each = self.product / self.spread;
        let fixed = (self.mean_time - each * self.mean_tokens).max(0.0);
        (each > 0.0).then_some((fixed, each))
    }

    /// For [`super::SchedulerOptions::weights_read_tokens`].
    #[must_use]
    pub fn weights_read_tokens(&self) -> Option<f64> {
        self.line().map(|(fixed, each)| fixed / each)
    }

    /// How many prompt tokens beside those who decode lengthen a step by at most `time`: for
    /// [`super::SchedulerOptions::prompt_tokens_beside_decode`]. At least 1.
    #[must_use]
    pub fn tokens_within(&self, time: Duration) -> Option<usize> {
        // The conversion saturates.
        self.line().map(|(_, each)| ((time.as_secs_f64() / each) as usize).max(1))
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
            cost.observe(n, time(n, 8000, 2000));
        }
        assert!((cost.weights_read_tokens().unwrap() - 4.0).abs() < 1e-3);
        assert_eq!(cost.tokens_within(Duration::from_micros(256_100)), Some(128));
        // The machine has become slower.
        for i in 0..2000 {
            let n = 1 + i % 5 * 3;
            cost.observe(n, time(n, 9000, 3000));
        }
        assert!((cost.weights_read_tokens().unwrap() - 3.0).abs() < 0.05);
    }

    #[test]
    fn steps_of_one_size_say_nothing() {
        let mut cost = StepCost::default();
        (0..100).for_each(|_| cost.observe(1, Duration::from_millis(10)));
        assert_eq!(cost.line(), None);
    }
}
