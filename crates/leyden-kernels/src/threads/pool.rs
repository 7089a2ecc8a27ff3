//! Persistent team of threads that runs one indexed job at a time.
//!
//! `run(n, f)` calls `f(0..n)` once each, spread over the team, and returns when all calls have returned. Each member
//! owns a contiguous range of the indices (so a weight matrix is read as one stream per core) and takes from the
//! others' ranges when its own is done (so a preempted member delays at most one index).
//!
//! A [`Pool`] is a view of a team, and may use fewer members than there are: decoding one token is bound by memory,
//! which fewer members saturate than the products of a prompt keep busy. The others sleep meanwhile.
//!
//! The caller does not wait for a member that sleeps through a job: it closes the job when every index has been taken
//! and waits only for members inside it. Idle members spin for a few microseconds, then park, so an idle process uses
//! no processor. If other processes compete for its processor, a member rests between indices ([`yielding`]).

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{OnceLock, PoisonError};

use super::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, JoinHandle, Mutex, Ordering, SPINS, Thread,
    available_parallelism, spin_loop, thread, thread_local,
};
use super::yielding;
use crate::cpu::topology::CpuList;
use crate::threads::affinity::bind_thread;

thread_local! {
    /// Address of the team whose task this thread runs; 0 outside tasks.
    static IN_TASK_OF: Cell<usize> = const { Cell::new(0) };
}

/// Value aligned to two cache lines: x86 prefetches neighbouring lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Padded<T>(T);

/// Mask of the number of members inside the job. The state word holds, from the upper bits down: generation of the job,
/// OPEN, number of members of the job, number of members inside. A member beyond that number sees so without entering.
const INSIDE: u64 = MEMBERS - 1;
const MEMBERS: u64 = 1 << 12;
const OPEN: u64 = 1 << 24;
const GENERATION: u64 = 1 << 25;
/// Stack size of a member. Kernels need little of it, but callers' jobs may compile grammars; unused stack takes no
/// memory.
const STACK_BYTES: usize = 16 << 20;

/// Maximum number of members; fits both counts of the state word.
pub(super) const MAX_MEMBERS: usize = 1024;

/// Returns the number of members of the job in `state`.
fn members_in(state: u64) -> u64 {
    state / MEMBERS % (OPEN / MEMBERS)
}

/// Type-erased reference to the job's closure, and the index of the range that each of its members owns.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const (), usize),
    data: *const (),
    ranges: *const [usize],
}

/// Number of indices between two looks at the clock.
const LOOK_EVERY: usize = 8;
/// Limit of the fraction of time that the caller waits for a processor, above which members do not rest. Beside one
/// busy loop on two processors the fraction is 0.1 to 0.3.
const CALLER_WAITS: f32 = 0.37;

struct Shared {
    state: Padded<AtomicU64>,
    stop: AtomicBool,
    job: Padded<std::cell::UnsafeCell<Job>>,
    next: Vec<Padded<AtomicUsize>>,
    end: Vec<Padded<AtomicUsize>>,
    parked: Vec<Padded<AtomicBool>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// First error of binding a member.
    unbound: OnceLock<std::io::Error>,
    /// True if the caller waits for a processor much of its time ([`yielding`]).
    caller_waits: AtomicBool,
    spins: u32,
}

// SAFETY: `job` is written only while the state is closed and no member is inside, and read only by members that
// entered while it was open; the state word orders the two. Everything else is atomic or locked.
unsafe impl Sync for Shared {}
// SAFETY: the raw pointers in `job` are used only while the caller of `run` keeps the closure and its ranges alive.
unsafe impl Send for Shared {}

impl Shared {
    /// Returns true if a member should rest. The caller never rests, because all members wait for it between jobs; and
    /// if it waits for half of its time, as beside two busy loops on two processors, resting members gain nothing.
    fn should_rest(&self, me: usize) -> bool {
        let (waiting, due) = yielding::look();
        if me == 0 {
            let waits = waiting > CALLER_WAITS;
            if self.caller_waits.load(Ordering::Relaxed) != waits {
                self.caller_waits.store(waits, Ordering::Relaxed);
            }
            return false;
        }
        due && !self.caller_waits.load(Ordering::Relaxed)
    }

    /// Takes indices until none are left, from its own range first. Returns true if none are left; otherwise the member
    /// should rest.
    fn work(&self, me: usize, job: Job) -> bool {
        // SAFETY: the ranges belong to the pool that runs the job, which cannot end while this member is inside.
        let ranges = unsafe { &*job.ranges };
        let members = ranges.len();
        let mut taken = 0_usize;
        for i in 0..members {
            let victim = (ranges[me] + i) % members;
            let end = self.end[victim].0.load(Ordering::Relaxed);
            loop {
                // A plain load first: a fetch_add on an exhausted range would only move its cache line between cores.
                if self.next[victim].0.load(Ordering::Relaxed) >= end {
                    break;
                }
                if taken.is_multiple_of(LOOK_EVERY) && self.should_rest(me) {
                    return false;
                }
                taken += 1;
                let index = self.next[victim].0.fetch_add(1, Ordering::Relaxed);
                if index >= end {
                    break;
                }
                let outer = IN_TASK_OF.with(|team| team.replace(std::ptr::from_ref(self).addr()));
                // SAFETY: the closure outlives the job, which cannot close while this member is inside.
                let result = catch_unwind(AssertUnwindSafe(|| unsafe { (job.call)(job.data, index) }));
                IN_TASK_OF.with(|team| team.set(outer));
                if let Err(payload) = result {
                    *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
                }
            }
        }
        true
    }

    fn member(&self, me: usize) {
        let mut seen = 0;
        loop {
            let mut spins = 0;
            let is_new = |state: u64| {
                state & OPEN != 0 && state / GENERATION != seen && (me as u64) < members_in(state)
            };
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
                    spin_loop();
                    continue;
                }
                self.parked[me].0.store(true, Ordering::SeqCst);
                // Check again: a job published before the flag was set woke no member.
                let quiet = !is_new(self.state.0.load(Ordering::SeqCst));
                if quiet && !self.stop.load(Ordering::SeqCst) {
                    thread::park();
                }
                self.parked[me].0.store(false, Ordering::SeqCst);
            };
            // Enter the job, unless it was closed meanwhile.
            let entered =
                self.state.0.compare_exchange(state, state + 1, Ordering::SeqCst, Ordering::Relaxed);
            if entered.is_err() {
                continue;
            }
            // SAFETY: this member is inside an open job, so the cell is not written.
            let job = unsafe { *self.job.0.get() };
            let done = self.work(me, job);
            self.state.0.fetch_sub(1, Ordering::SeqCst);
            if done {
                seen = state / GENERATION;
            } else {
                // Outside the job, so that the caller does not wait.
                yielding::rest();
            }
        }
    }
}

/// Threads of a team.
struct Team {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
    handles: Vec<JoinHandle<()>>,
    /// Index of each member's group.
    groups: Vec<usize>,
    /// Lock held while a job runs, so that callers on several threads take turns.
    turn: Mutex<()>,
}

/// Members that share a set of CPUs, those of a NUMA node or of a shared cache: a worker bound to a single core that
/// another process keeps busy would delay all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberGroup {
    /// CPUs to bind them to; `None` leaves them unbound.
    pub cpus: Option<CpuList>,
    /// Number of members.
    pub members: usize,
}

/// Team of threads, or its first members. The thread that calls [`Pool::run`] is the first member.
pub struct Pool {
    team: Arc<Team>,
    /// Index of each member's range. Members of one group own neighbouring ranges, so that a node reads neighbouring
    /// rows.
    ranges: Box<[usize]>,
}

impl Pool {
    /// Starts a team of `members` threads (1 to 1024, the caller included), unbound.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    pub fn new(members: usize) -> std::io::Result<Pool> {
        Pool::grouped(&[MemberGroup { cpus: None, members }])
    }

    /// Starts a team whose members are bound to the CPUs of their groups. The caller, a member of the first group, is
    /// not bound: see [`bind_thread`]. Members are taken from all groups in proportion, whatever the size of a view.
    ///
    /// # Errors
    /// If the operating system refuses a thread. A refused binding is no error: see [`Pool::unbound`].
    pub fn grouped(groups: &[MemberGroup]) -> std::io::Result<Pool> {
        let order = spread(groups);
        let members = order.len();
        let cpus = match groups {
            [MemberGroup { cpus: Some(cpus), .. }] => cpus.len(),
            _ => available_parallelism().map_or(1, usize::from),
        };
        let padded = || (0..members).map(|_| Padded::<AtomicUsize>::default()).collect();
        unsafe fn nothing(_: *const (), _: usize) {}
        let ranges: *const [usize] = &[];
        let shared = Arc::new(Shared {
            state: Padded(AtomicU64::new(GENERATION)),
            stop: AtomicBool::new(false),
            job: Padded(std::cell::UnsafeCell::new(Job { call: nothing, data: std::ptr::null(), ranges })),
            next: padded(),
            end: padded(),
            parked: (0..members).map(|_| Padded::default()).collect(),
            panic: Mutex::new(None),
            unbound: OnceLock::new(),
            caller_waits: AtomicBool::new(false),
            // Fewer if there are more members than processors, because then a spinning member keeps a working one from
            // running.
            spins: if members > cpus { SPINS.crowded } else { SPINS.idle },
        });
        let mut handles = Vec::new();
        for me in 1..members {
            let cpus = groups.get(order[me]).and_then(|group| group.cpus.clone());
            let shared = Arc::clone(&shared);
            let body = move || {
                if let Some(Err(error)) = cpus.as_ref().map(bind_thread) {
                    let _ = shared.unbound.set(error);
                }
                shared.member(me);
            };
            let builder = thread::Builder::new().name(format!("leyden-{me}")).stack_size(STACK_BYTES);
            handles.push(builder.spawn(body)?);
        }
        let threads = handles.iter().map(|h| h.thread().clone()).collect();
        let ranges = ranges_of(&order);
        let team = Arc::new(Team { shared, threads, handles, groups: order, turn: Mutex::new(()) });
        Ok(Pool { team, ranges })
    }

    /// Returns a view of the same team with at most `members` of its members, and at least one. Jobs of both take
    /// turns.
    #[must_use]
    pub fn limited(&self, members: usize) -> Pool {
        let members = members.clamp(1, self.members());
        Pool { team: Arc::clone(&self.team), ranges: ranges_of(&self.team.groups[..members]) }
    }

    /// Returns the number of members, the caller included.
    #[must_use]
    pub fn members(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the error of binding a member to its CPUs, if there was one; that member is then unbound.
    #[must_use]
    pub fn unbound(&self) -> Option<&std::io::Error> {
        self.team.shared.unbound.get()
    }

    /// Calls `f(i)` once for every `i < n`, in parallel, and returns when all have returned.
    ///
    /// # Panics
    /// If a call of `f` panicked, with that panic, after all calls have ended; or if this is called from inside `f`,
    /// where both calls need more than one thread.
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
        let own = std::ptr::from_ref(&*self.team.shared).addr();
        assert_ne!(
            IN_TASK_OF.with(Cell::get),
            own,
            "a task of a thread pool runs another job on the same team"
        );
        let _turn = self.team.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let s = &*self.team.shared;
        for m in 0..members {
            s.end[m].0.store(n * (m + 1) / members, Ordering::Relaxed);
            s.next[m].0.store(n * m / members, Ordering::Relaxed);
        }
        let job =
            Job { call: call::<F>, data: std::ptr::from_ref(&f).cast(), ranges: &raw const *self.ranges };
        // SAFETY: the job is closed and no member is inside (established at the end of the last run).
        unsafe { *s.job.0.get() = job };
        // No other thread changes the state while the job is closed and no member is inside.
        let generation = s.state.0.load(Ordering::SeqCst) / GENERATION + 1;
        let open = generation.wrapping_mul(GENERATION) | OPEN | (members as u64 * MEMBERS);
        s.state.0.store(open, Ordering::SeqCst);
        // Wakes at most as many members as there are indices beside the caller's.
        for (thread, parked) in self.team.threads.iter().zip(&s.parked[1..]).take((members - 1).min(n - 1)) {
            if parked.0.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        s.work(0, job);
        // No index is left: members that arrive later stay out, and those inside finish their last index.
        s.state.0.fetch_sub(OPEN, Ordering::SeqCst);
        let mut spins = 0_u32;
        while s.state.0.load(Ordering::SeqCst) & INSIDE != 0 {
            spins += 1;
            if spins < SPINS.caller { spin_loop() } else { thread::yield_now() }
        }
        let panic = s.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

/// Returns the group of each member, in an order in which any number of first members are spread over the groups in
/// proportion to their sizes.
pub(super) fn spread(groups: &[MemberGroup]) -> Vec<usize> {
    let total = groups.iter().fold(0_usize, |n, g| n.saturating_add(g.members)).clamp(1, MAX_MEMBERS);
    let mut taken = vec![0_usize; groups.len()];
    let mut order = Vec::with_capacity(total);
    for _ in 0..total {
        // The group furthest behind its share: the smallest (taken + 1) / members, compared in integers.
        let behind = (0..groups.len())
            .filter(|&g| taken[g] < groups[g].members)
            .min_by_key(|&g| (((taken[g] as u64 + 1) << 32) / groups[g].members as u64, g));
        let group = behind.unwrap_or(0);
        order.push(group);
        if let Some(taken) = taken.get_mut(group) {
            *taken += 1;
        }
    }
    order
}

/// Returns the index of each member's range: groups in order, and within a group members in order.
pub(super) fn ranges_of(groups: &[usize]) -> Box<[usize]> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&member| groups[member]);
    let mut ranges = vec![0; groups.len()];
    for (range, &member) in order.iter().enumerate() {
        ranges[member] = range;
    }
    ranges.into()
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for t in &self.threads {
            t.unpark();
        }
        for h in self.handles.drain(..) {
            // A member cannot panic: panics of the job's calls are caught.
            let _ = h.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("members", &self.members()).finish_non_exhaustive()
    }
}
