//! Rests of threads that share their processor with other processes.
//!
//! With more runnable threads than processors, the operating system stops threads anywhere, for some milliseconds, and
//! a member of a team that is stopped within an index delays all others until it runs again. A member that sleeps for a
//! moment between two indices is descheduled there, while the others take its indices, and is hardly ever stopped
//! elsewhere; its share of the processor stays the same. `docs/benchmarks.md` has measurements beside a busy loop.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// Time between rests; `REST` is the length of a rest. Beside a busy loop a team of two was slower with 2 ms of work,
/// because its member was stopped within it again, and with 0.3 ms of each, because it did not get its share.
const WORK: Duration = Duration::from_millis(1);
const REST: Duration = Duration::from_micros(50);

/// Interval between measurements of the time a thread waited for a processor; `NEWS` is the weight of a new measurement
/// in the running average.
const LOOK: Duration = Duration::from_millis(10);
const NEWS: f32 = 0.25;
/// Waiting fraction above which a thread shares its processor. A resting thread still waits, and a thread that no
/// longer shares its processor does not.
const SHARES: f32 = 0.15;

/// Measurements of a thread.
#[derive(Clone, Copy)]
struct Watch {
    looked: Instant,
    /// Total time waited for a processor at the last measurement.
    waited: Duration,
    /// Running average of the fraction of time spent waiting.
    part: f32,
    /// End of the last rest.
    rested: Instant,
}

thread_local! {
    static WATCH: Cell<Option<Watch>> = const { Cell::new(None) };
}

/// Returns the fraction of time that the calling thread waits for a processor, and whether it should rest: it shares
/// its processor and has worked long enough.
pub(crate) fn look() -> (f32, bool) {
    #[cfg(test)]
    if tests::ALWAYS.load(std::sync::atomic::Ordering::Relaxed) {
        return (0.0, true);
    }
    let now = Instant::now();
    let mut watch =
        WATCH.get().unwrap_or_else(|| Watch { looked: now, waited: waited(), part: 0.0, rested: now });
    let passed = now - watch.looked;
    if passed >= LOOK {
        let all = waited();
        let part = all.saturating_sub(watch.waited).as_secs_f32() / passed.as_secs_f32();
        watch.part += NEWS * (part - watch.part);
        (watch.looked, watch.waited) = (now, all);
    }
    WATCH.set(Some(watch));
    (watch.part, watch.part > SHARES && now - watch.rested >= WORK)
}

/// Sleeps for a rest.
pub(crate) fn rest() {
    thread::sleep(REST);
    if let Some(watch) = WATCH.get() {
        WATCH.set(Some(Watch { rested: Instant::now(), ..watch }));
    }
}

/// Returns the total time that the calling thread was runnable but waited for a processor; zero if the system does not
/// say.
fn waited() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    waited_of(&statistics).unwrap_or_default()
}

/// Parses the second number of a thread's `schedstat` in Linux ("Scheduler Statistics" in its documentation), in
/// nanoseconds.
fn waited_of(statistics: &str) -> Option<Duration> {
    statistics.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// True if all threads rest at every look.
    pub(crate) static ALWAYS: AtomicBool = AtomicBool::new(false);

    #[test]
    fn statistics_of_a_thread_are_read_or_zero() {
        assert_eq!(waited_of("1200 34 5\n"), Some(Duration::from_nanos(34)));
        for odd in ["", "12", "a b c", "1 -2 3", "1 99999999999999999999 3"] {
            assert_eq!(waited_of(odd), None, "{odd:?}");
        }
        assert!(waited() <= waited());
    }
}
