//! When a thread that shares its processor with others rests.
//!
//! A system that has more threads to run than processors stops one wherever it is, for some milliseconds, and a member of a team
//! that is stopped within an index holds all others up until it runs again. One that sleeps for a moment between two indices waits
//! for its turn there, while the others take what it would have, and is hardly ever stopped elsewhere; its share of the processor
//! stays what it was. `docs/benchmarks.md` has what that brings beside a busy loop.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread works between rests, and how long it asks to rest. Beside a busy loop a team of two was slower with 2 ms of
/// work, as its member was stopped within it again, and with 0.3 ms of each, as it did not get its share.
const WORK: Duration = Duration::from_millis(1);
const REST: Duration = Duration::from_micros(50);

/// How often a thread looks how long it waited for a processor, and how much of what it sees counts beside what it saw before.
const LOOK: Duration = Duration::from_millis(10);
const NEWS: f32 = 0.25;
/// A thread that waits for more than this part of its time shares its processor. One that rests goes on waiting, and one that need
/// not share any longer does not wait.
const SHARES: f32 = 0.15;

/// What a thread knows of itself.
#[derive(Clone, Copy)]
struct Watch {
    looked: Instant,
    /// How long it had waited for a processor when it looked.
    waited: Duration,
    /// The part of its time that it waits, lately.
    part: f32,
    /// When its last rest ended.
    rested: Instant,
}

thread_local! {
    static WATCH: Cell<Option<Watch>> = const { Cell::new(None) };
}

/// What part of its time the calling thread waits for a processor, and whether it shares one and has worked for so long that it
/// should rest.
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

/// Rests.
pub(crate) fn rest() {
    thread::sleep(REST);
    if let Some(watch) = WATCH.get() {
        WATCH.set(Some(Watch { rested: Instant::now(), ..watch }));
    }
}

/// How long the calling thread could have run but waited for a processor, ever; zero where the system does not say.
fn waited() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    waited_of(&statistics).unwrap_or_default()
}

/// The second number of Linux's `schedstat` of a thread ("Scheduler Statistics" in its documentation), in nanoseconds.
fn waited_of(statistics: &str) -> Option<Duration> {
    statistics.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Whether all threads rest at every look.
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
