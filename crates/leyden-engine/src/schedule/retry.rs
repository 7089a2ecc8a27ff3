//! When one who is turned away should come again.

use std::time::Duration;

/// Bounds of the hint.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(120);

/// How fast the queue moves. Those who are turned away are told ever later times, so that they do not all come back at
/// once: each gets the time at which a place is likely to be free for it.
#[derive(Debug, Default)]
pub(crate) struct RetryHint {
    /// Smoothed time between two departures from the queue.
    interval: Option<Duration>,
    last: Option<Duration>,
    /// Those turned away who have not had their turn yet.
    ahead: u32,
}

impl RetryHint {
    /// A request left the queue.
    pub(crate) fn departed(&mut self, now: Duration) {
        self.ahead = self.ahead.saturating_sub(1);
        if let Some(last) = self.last {
            let new = now.saturating_sub(last).min(MOST);
            self.interval = Some(self.interval.map_or(new, |old| (old * 7 + new) / 8));
        }
        self.last = Some(now);
    }

    /// The queue is empty: nobody is behind.
    pub(crate) fn drained(&mut self) {
        self.ahead = 0;
        // The time until the next departure says nothing about how fast the queue moves.
        self.last = None;
    }

    /// Somebody is turned away: when to come again.
    pub(crate) fn turned_away(&mut self) -> Duration {
        self.ahead = self.ahead.saturating_add(1);
        self.interval.unwrap_or(LEAST).saturating_mul(self.ahead).clamp(LEAST, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_follow_the_pace_and_spread() {
        let mut r = RetryHint::default();
        assert_eq!(r.turned_away(), LEAST);
        for i in 0..50 {
            r.departed(Duration::from_secs(4 * i));
        }
        let hints: Vec<Duration> = (0..3).map(|_| r.turned_away()).collect();
        assert_eq!(hints, [4, 8, 12].map(Duration::from_secs));
        (0..1000).for_each(|_| assert!(r.turned_away() <= MOST));
        r.drained();
        assert_eq!(r.turned_away(), Duration::from_secs(4));
    }
}
