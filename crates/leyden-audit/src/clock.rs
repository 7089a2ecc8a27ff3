//! [`Stamp`]: wall time and monotonic counter of a line.

use crate::error::Error;
use leyden_verify::Time;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Difference between wall time and counter, in microseconds, above which the clock was set.
pub(crate) const TOLERANCE_MICROS: i128 = 1_000_000;
/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// Wall time and counter, both in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Time since 1970.
    pub(crate) time: u64,
    /// Time since the log was opened, of a clock that nobody sets.
    pub(crate) tick: u64,
}

impl Stamp {
    /// Returns by how many microseconds the clock was set since `before`, which is of the same opening; 0 if it was not.
    pub(crate) fn jump_since(self, before: Stamp) -> i128 {
        let passed = i128::from(self.tick) - i128::from(before.tick);
        let jump = i128::from(self.time) - i128::from(before.time) - passed;
        if jump.abs() > TOLERANCE_MICROS { jump } else { 0 }
    }

    /// Returns by how many microseconds the time is before that of an earlier opening; 0 if it is not.
    pub(crate) fn jump_back_since(self, before: Stamp) -> i128 {
        let jump = i128::from(self.time) - i128::from(before.time);
        if jump < 0 { jump } else { 0 }
    }
}

/// Source of stamps.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    opened: Instant,
    /// Microseconds by which the wall time is set in tests.
    #[cfg(test)]
    pub(crate) set_by: std::sync::Arc<std::sync::atomic::AtomicI64>,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock {
            opened: Instant::now(),
            #[cfg(test)]
            set_by: std::sync::Arc::default(),
        }
    }

    /// Returns the present stamp.
    pub(crate) fn now(&self) -> Stamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        #[cfg(test)]
        let time = time.saturating_add_signed(self.set_by.load(std::sync::atomic::Ordering::SeqCst));
        let tick = u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX);
        Stamp { time, tick }
    }
}

/// Returns a time as in RFC 3339, with microseconds.
pub(crate) fn written(time: u64) -> String {
    let seconds = Time(time / SECOND).to_string();
    format!("{}.{:06}Z", seconds.trim_end_matches('Z'), time % SECOND)
}

/// Reads a time that [`written`] wrote.
///
/// # Errors
/// It is another text.
pub(crate) fn read(text: &str) -> Result<u64, Error> {
    let wrong = || Error::new(format!("time: `{text}` is no time such as 2026-11-28T23:50:00.000000Z"));
    let (seconds, micros) = text.strip_suffix('Z').and_then(|t| t.split_once('.')).ok_or_else(wrong)?;
    let plain = micros.len() == 6 && micros.bytes().all(|byte| byte.is_ascii_digit());
    let micros: u64 = micros.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
    let Time(seconds) = format!("{seconds}Z").parse().map_err(|_| wrong())?;
    seconds.checked_mul(SECOND).and_then(|time| time.checked_add(micros)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for time in [0, 1, 1_800_000_000_123_456] {
            assert_eq!(read(&written(time)).unwrap(), time);
        }
        for wrong in
            ["", "2026-11-28T23:50:00Z", "2026-11-28T23:50:00.1Z", "2026-11-28T23:50:00.12345xZ", "x.000000Z"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_clock_that_was_set_differs_from_the_counter() {
        let before = Stamp { time: 10_000_000, tick: 500 };
        let after = |time, tick| Stamp { time, tick }.jump_since(before);
        assert_eq!(after(13_000_000, 3_000_500), 0);
        assert_eq!(after(7_000_000, 1_000_500), -4_000_000);
        assert_eq!(after(20_000_000, 500), 10_000_000);
        assert_eq!(Stamp { time: 9_999_999, tick: 0 }.jump_back_since(before), -1);
        assert_eq!(Stamp { time: u64::MAX, tick: 0 }.jump_back_since(before), 0);
    }
}
