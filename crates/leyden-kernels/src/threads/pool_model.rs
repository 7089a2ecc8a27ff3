//! Model of the pool: its source compiled with primitives of shuttle, which runs each test under many schedules of its
//! threads and reports a schedule that deadlocks, does not end, or breaks an assertion.
//!
//! All atomics are sequentially consistent here; a weaker ordering that the pool names is not checked.

#[path = "pool.rs"]
#[allow(dead_code, unreachable_pub, clippy::duplicate_mod, reason = "the models use a part of the pool")]
mod pool;

/// Primitives of the model.
mod sync {
    pub(super) use shuttle::hint::spin_loop;
    pub(super) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(super) use shuttle::sync::{Arc, Mutex};
    pub(super) use shuttle::thread::{self, JoinHandle, Thread};
    pub(super) use shuttle::thread_local;
    pub(super) use std::thread::available_parallelism;

    pub(super) struct Spins {
        pub(super) idle: u32,
        pub(super) crowded: u32,
        pub(super) caller: u32,
    }

    /// Few rounds: each is a step of the schedule.
    pub(super) const SPINS: Spins = Spins { idle: 1, crowded: 1, caller: 1 };
}

/// Rests at random instead of by the clock.
mod yielding {
    use shuttle::rand::{Rng, thread_rng};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// True if members rest. Not part of the schedule.
    pub(super) static RESTS: AtomicBool = AtomicBool::new(false);

    pub(super) fn look() -> (f32, bool) {
        (0.0, RESTS.load(Ordering::Relaxed) && thread_rng().gen_bool(0.3))
    }

    pub(super) fn rest() {
        shuttle::thread::yield_now();
    }
}

use pool::Pool;
use shuttle::sync::Barrier;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use sync::{Arc, AtomicBool, AtomicUsize, Ordering, thread};

/// Lock of the tests, because [`yielding::RESTS`] is that of the process.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Runs a test under schedules drawn at random, and under those of the PCT algorithm (Burckhardt et al., 2010), which
/// finds bugs that need few switches between threads.
fn check(rests: bool, test: fn()) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    yielding::RESTS.store(rests, Ordering::Relaxed);
    shuttle::check_random(test, 400);
    shuttle::check_pct(test, 400, 3);
}

/// Calls of a job's function that began or ended after the return of `run`. They are no panics there, because the pool
/// would keep those.
#[derive(Clone, Default)]
struct Late(Arc<AtomicUsize>);

impl Late {
    /// Runs a job of `n` indices, and checks that each is computed once.
    fn job(&self, pool: &Pool, n: usize) {
        let hits: Arc<Vec<AtomicUsize>> = Arc::new((0..n).map(|_| AtomicUsize::new(0)).collect());
        let open = Arc::new(AtomicBool::new(true));
        let (inner, is_open, late) = (Arc::clone(&hits), Arc::clone(&open), self.clone());
        pool.run(n, move |i| {
            let begun = is_open.load(Ordering::SeqCst);
            thread::yield_now();
            inner[i].fetch_add(1, Ordering::SeqCst);
            if !begun || !is_open.load(Ordering::SeqCst) {
                late.0.fetch_add(1, Ordering::SeqCst);
            }
        });
        open.store(false, Ordering::SeqCst);
        let hits: Vec<usize> = hits.iter().map(|hit| hit.load(Ordering::SeqCst)).collect();
        assert_eq!(hits, vec![1; n]);
    }

    fn check(&self) {
        assert_eq!(self.0.load(Ordering::SeqCst), 0, "calls of a job after its end");
    }
}

#[test]
fn jobs_compute_each_index_once_and_end_with_the_last() {
    for rests in [false, true] {
        check(rests, || {
            let (pool, late) = (Pool::new(3).unwrap(), Late::default());
            for n in [3, 2, 5] {
                late.job(&pool, n);
            }
            drop(pool);
            late.check();
        });
    }
}

#[test]
fn views_and_callers_take_turns() {
    check(true, || {
        let late = Late::default();
        let whole = Arc::new(Pool::new(3).unwrap());
        let few = whole.limited(2);
        let (other, seen) = (Arc::clone(&whole), late.clone());
        let caller = thread::spawn(move || seen.job(&other, 4));
        late.job(&few, 3);
        late.job(&whole, 3);
        caller.join().unwrap();
        drop((few, whole));
        late.check();
    });
}

/// A parked member is woken: an index ends only when another member has begun the other one, so a member that sleeps on
/// is a deadlock.
#[test]
fn a_job_wakes_its_members() {
    check(false, || {
        let pool = Pool::new(2).unwrap();
        for _ in 0..2 {
            let both = Arc::new(Barrier::new(2));
            pool.run(2, move |_| {
                both.wait();
            });
        }
    });
}

#[test]
fn a_panic_reaches_the_caller_after_all_indices() {
    check(true, || {
        let pool = Pool::new(2).unwrap();
        let hits = Arc::new(AtomicUsize::new(0));
        let inner = Arc::clone(&hits);
        let run = AssertUnwindSafe(|| {
            pool.run(3, move |i| {
                inner.fetch_add(1, Ordering::SeqCst);
                if i == 1 {
                    std::panic::resume_unwind(Box::new("index 1"));
                }
            });
        });
        assert_eq!(catch_unwind(run).unwrap_err().downcast_ref(), Some(&"index 1"));
        assert_eq!(hits.load(Ordering::SeqCst), 3);
        Late::default().job(&pool, 3);
    });
}
