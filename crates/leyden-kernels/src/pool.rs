//! A persistent team of threads that runs one indexed job at a time.
//!
//! `run(n, f)` calls `f(0..n)` once each, spread over the team, and returns when all calls have returned. Each
//! member owns a contiguous range of the indices (so a weight matrix is read as one stream per core) and takes
//! from the others' ranges when its own is done (so a preempted member holds back at most one index).
//!
//! A member that sleeps through a job is not waited for: the caller closes the job when every index has been
//! handed out and waits only for members inside it. Idle members spin for a few microseconds, then park, so an
//! idle process uses no processor.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};

/// Two cache lines: neighbouring lines are fetched in pairs on x86.
#[repr(align(128))]
#[derive(Default)]
struct Padded<T>(T);

/// State word: generation of the job in the upper bits, then OPEN, then the number of members inside.
const OPEN: u64 = 1 << 16;
const GENERATION: u64 = 1 << 17;
const INSIDE: u64 = OPEN - 1;

/// A type-erased reference to the job's closure.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const (), usize),
    data: *const (),
}

struct Shared {
    state: Padded<AtomicU64>,
    stop: AtomicBool,
    job: Padded<std::cell::UnsafeCell<Job>>,
    next: Vec<Padded<AtomicUsize>>,
    end: Vec<Padded<AtomicUsize>>,
    parked: Vec<Padded<AtomicBool>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    spins: u32,
}

// SAFETY: `job` is written only while the state is closed with nobody inside, and read only by members that
// entered while it was open; the state word orders the two. Everything else is atomic or locked.
unsafe impl Sync for Shared {}
// SAFETY: the raw pointers in `job` are used only while the caller of `run` keeps the closure alive.
unsafe impl Send for Shared {}

impl Shared {
    /// Takes indices until none are left, own range first.
    fn work(&self, me: usize, job: Job) {
        let members = self.next.len();
        for i in 0..members {
            let victim = (me + i) % members;
            let end = self.end[victim].0.load(Ordering::Relaxed);
            loop {
                // A plain look first: a fetch_add on an exhausted range would bounce its cache line for nothing.
                if self.next[victim].0.load(Ordering::Relaxed) >= end {
                    break;
                }
                let index = self.next[victim].0.fetch_add(1, Ordering::Relaxed);
                if index >= end {
                    break;
                }
                // SAFETY: the closure outlives the job, which cannot close while we are inside.
                let result = catch_unwind(AssertUnwindSafe(|| unsafe { (job.call)(job.data, index) }));
                if let Err(payload) = result {
                    *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
                }
            }
        }
    }

    fn member(&self, me: usize) {
        let mut seen = 0;
        loop {
            let mut spins = 0;
            let is_new = |state: u64| state & OPEN != 0 && state / GENERATION != seen;
            let state = loop {
                let state = self.state.0.load(Ordering::SeqCst);
                if self.stop.load(Ordering::SeqCst) {
                    return;
                }
                if is_new(state) {
                    break state;
                }
                if spins < self.spins {
                    spins += 1;
                    std::hint::spin_loop();
                    continue;
                }
                self.parked[me].0.store(true, Ordering::SeqCst);
                // Look again: a job published before the flag was up woke nobody.
                let quiet = !is_new(self.state.0.load(Ordering::SeqCst));
                if quiet && !self.stop.load(Ordering::SeqCst) {
                    thread::park();
                }
                self.parked[me].0.store(false, Ordering::SeqCst);
            };
            // Enter the job, unless it closed meanwhile.
            let entered =
                self.state.0.compare_exchange(state, state + 1, Ordering::SeqCst, Ordering::Relaxed);
            if entered.is_err() {
                continue;
            }
            seen = state / GENERATION;
            // SAFETY: we are inside an open job, so nobody writes the cell.
            let job = unsafe { *self.job.0.get() };
            self.work(me, job);
            self.state.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The team. The thread that calls [`Pool::run`] is its first member.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
    handles: Vec<JoinHandle<()>>,
    /// Held while a job runs, so that callers on several threads take turns.
    turn: Mutex<()>,
}

impl Pool {
    /// A team of `members` threads, the caller included.
    ///
    /// # Errors
    /// The operating system refused a thread.
    pub fn new(members: usize) -> std::io::Result<Pool> {
        let members = members.clamp(1, 1024);
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let padded = || (0..members).map(|_| Padded::<AtomicUsize>::default()).collect();
        unsafe fn nothing(_: *const (), _: usize) {}
        let shared = Arc::new(Shared {
            state: Padded(AtomicU64::new(GENERATION)),
            stop: AtomicBool::new(false),
            job: Padded(std::cell::UnsafeCell::new(Job { call: nothing, data: std::ptr::null() })),
            next: padded(),
            end: padded(),
            parked: (0..members).map(|_| Padded::default()).collect(),
            panic: Mutex::new(None),
            // About 20 microseconds; next to none where members outnumber processors, because then a spinning
            // member keeps a working one from running.
            spins: if members > cpus { 50 } else { 2_000 },
        });
        let mut handles = Vec::new();
        for me in 1..members {
            let shared = Arc::clone(&shared);
            let body = move || shared.member(me);
            handles.push(thread::Builder::new().name(format!("leyden-{me}")).spawn(body)?);
        }
        let threads = handles.iter().map(|h| h.thread().clone()).collect();
        Ok(Pool { shared, threads, handles, turn: Mutex::new(()) })
    }

    /// The number of members, the caller included.
    #[must_use]
    pub fn members(&self) -> usize {
        self.shared.next.len()
    }

    /// Calls `f(i)` once for every `i < n`, in parallel, and returns when all have returned.
    ///
    /// Must not be called from inside `f`.
    ///
    /// # Panics
    /// If a call of `f` panicked, with that panic, after all calls have ended.
    pub fn run<F: Fn(usize) + Sync>(&self, n: usize, f: F) {
        unsafe fn call<F: Fn(usize)>(data: *const (), index: usize) {
            // SAFETY: data is the &F stored by run below, alive until run returns.
            unsafe { (*data.cast::<F>())(index) }
        }
        let members = self.members();
        if members == 1 || n <= 1 {
            (0..n).for_each(f);
            return;
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let s = &*self.shared;
        for m in 0..members {
            s.end[m].0.store(n * (m + 1) / members, Ordering::Relaxed);
            s.next[m].0.store(n * m / members, Ordering::Relaxed);
        }
        let job = Job { call: call::<F>, data: std::ptr::from_ref(&f).cast() };
        // SAFETY: the job is closed with nobody inside (established at the end of the last run).
        unsafe { *s.job.0.get() = job };
        s.state.0.fetch_add(GENERATION | OPEN, Ordering::SeqCst);
        // No more helpers than there are indices beside our own.
        for (thread, parked) in self.threads.iter().zip(&s.parked[1..]).take(n - 1) {
            if parked.0.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        s.work(0, job);
        // Nothing is left to take: latecomers stay out, and those inside finish their last index.
        s.state.0.fetch_sub(OPEN, Ordering::SeqCst);
        let mut spins = 0_u32;
        while s.state.0.load(Ordering::SeqCst) & INSIDE != 0 {
            spins += 1;
            if spins < 20_000 { std::hint::spin_loop() } else { thread::yield_now() }
        }
        let panic = s.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for t in &self.threads {
            t.unpark();
        }
        for h in self.handles.drain(..) {
            // A member cannot panic: calls of the job are caught.
            let _ = h.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("members", &self.members()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_called_once_at_any_team_size() {
        for members in [1, 2, 3, 8] {
            let pool = Pool::new(members).unwrap();
            for n in [0, 1, 2, 7, 1000] {
                for _ in 0..50 {
                    let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                    pool.run(n, |i| {
                        hits[i].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
                }
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        let pool = Pool::new(3).unwrap();
        let r = catch_unwind(AssertUnwindSafe(|| pool.run(100, |i| assert!(i != 57, "index 57"))));
        assert!(r.is_err());
        let sum = AtomicUsize::new(0);
        pool.run(100, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 4950);
    }

    #[test]
    fn members_park_and_wake() {
        let pool = Pool::new(4).unwrap();
        for _ in 0..5 {
            thread::sleep(std::time::Duration::from_millis(5));
            let sum = AtomicUsize::new(0);
            pool.run(64, |i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
            assert_eq!(sum.load(Ordering::Relaxed), 2016);
        }
    }

    #[test]
    fn two_callers_take_turns() {
        let pool = Pool::new(2).unwrap();
        let sum = AtomicUsize::new(0);
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..200 {
                        pool.run(10, |i| {
                            sum.fetch_add(i, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 2 * 200 * 45);
    }
}
