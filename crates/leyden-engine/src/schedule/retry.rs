//! [`RetryHint`]: suggested time until a refused request is sent again.

use std::time::Duration;

/// Bounds of the suggested time.
const MIN: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(120);

/// Speed of the queue. Successive refused requests get ever later times, so that they do not all return at once: each
/// gets the time at which a place is likely to be free for it.
#[derive(Debug, Default)]
pub(crate) struct RetryHint {
    /// Smoothed time between two departures from the queue.
    interval: Option<Duration>,
    last: Option<Duration>,
    /// Number of refused requests whose suggested time has not come yet.
    ahead: u32,
}

impl RetryHint {
    /// Records that a request left the queue.
    pub(crate) fn departed(&mut self, now: Duration) {
        self.ahead = self.ahead.saturating_sub(1);
        if let Some(last) = self.last {
            let new = now.saturating_sub(last).min(MAX);
            self.interval = Some(self.interval.map_or(new, |old| (old * 7 + new) / 8));
        }
        self.last = Some(now);
    }

    /// Resets the count of refused requests: the queue is empty.
    pub(crate) fn drained(&mut self) {
        self.ahead = 0;
        // The time until the next departure is no measure of the queue's speed.
        self.last = None;
    }

    /// Records a refusal, and returns the suggested time until the next try.
    pub(crate) fn refused(&mut self) -> Duration {
        self.ahead = self.ahead.saturating_add(1);
        self.interval.unwrap_or(MIN).saturating_mul(self.ahead).clamp(MIN, MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_follow_the_pace_and_spread() {
        let mut r = RetryHint::default();
        assert_eq!(r.refused(), MIN);
        for i in 0..50 {
            r.departed(Duration::from_secs(4 * i));
        }
        let hints: Vec<Duration> = (0..3).map(|_| r.refused()).collect();
        assert_eq!(hints, [4, 8, 12].map(Duration::from_secs));
        (0..1000).for_each(|_| assert!(r.refused() <= MAX));
        r.drained();
        assert_eq!(r.refused(), Duration::from_secs(4));
    }
}
