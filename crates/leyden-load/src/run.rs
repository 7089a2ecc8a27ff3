//! [`run`]: sends a workload to a target and keeps a record of every request.
//!
//! There is a thread for every user, or for every request in flight if arrival times are given. A thread builds its
//! request before it is due, sleeps, sends, and then only reads, so a busy generator shows as lag and not as latency
//! of the server.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::api::Answer;
use crate::control::Control;
use crate::error::{Error, ErrorKind, Result};
use crate::http::{Client, Gate};
use crate::lengths::Pause;
use crate::record::{Class, Fail, Record};
use crate::target::Target;
use crate::workload::{Arrivals, MAX_USERS, Ticket, WARM, Workload};

/// Time before it is due at which a request is handed to a thread.
const LEAD: Duration = Duration::from_millis(20);
/// Interval of progress reports and of checks for the end of a run.
const TICK: Duration = Duration::from_millis(100);
/// Time that a user waits after a failure for which the server gives no time, to avoid a busy loop.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Maximum time that a user waits because the server asks for it.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Maximum number of times that a rejected request is sent again.
const MAX_RETRIES: u32 = 100;
/// Maximum duration of a run, relative to `duration`, while it has too few requests.
const STRETCH: u32 = 4;
/// Stack size: threads do little more than read and parse; encrypted connections need most of this.
const STACK_BYTES: usize = 512 << 10;

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Time since the begin.
    pub elapsed: Duration,
    /// Number of requests in flight.
    pub running: u64,
    /// Number of complete requests that count.
    pub completed: u64,
    /// Number of failed requests.
    pub failed: u64,
}

/// Measurements of a run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Requests in the order of their begin.
    pub records: Vec<Record>,
    /// Time at which requests began to count, since the start.
    pub from: Duration,
    /// Time at which the last of them was due; if a number of requests ended the run, time of the last answer.
    pub to: Duration,
    /// True if it was stopped before its end.
    pub interrupted: bool,
}

/// State shared by the threads of a run.
struct Shared<'a> {
    target: &'a Target,
    workload: &'a Workload,
    prefix: Option<String>,
    gate: Arc<Gate>,
    start: Instant,
    /// Number of requests that count and were begun, and of requests of the warm-up.
    counted: AtomicU64,
    warm: AtomicU64,
    running: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    records: Mutex<Vec<Record>>,
    jobs: Mutex<Jobs>,
    more: Condvar,
}

/// Requests that are due soon, for the idle threads.
#[derive(Default)]
struct Jobs {
    queue: VecDeque<(Duration, Ticket)>,
    idle: usize,
    threads: u32,
    over: bool,
}

/// Sends `workload` to `target` until it is over, calls `on_progress` ten times a second, and returns the
/// measurements. A run that was stopped returns those so far.
///
/// # Errors
/// The workload is not valid, the system cannot start a thread, or `control` was stopped before the run began.
pub fn run(
    target: &Target,
    workload: &Workload,
    control: &Control,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Run> {
    workload.check()?;
    let shared = Shared {
        target,
        workload,
        prefix: workload.prefix_text(target),
        gate: control.enter()?,
        start: Instant::now(),
        counted: AtomicU64::new(0),
        warm: AtomicU64::new(0),
        running: AtomicU64::new(0),
        completed: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        records: Mutex::default(),
        jobs: Mutex::default(),
        more: Condvar::new(),
    };
    let to = thread::scope(|scope| {
        let result = match workload.arrivals {
            Arrivals::Users(n, pause) => shared.users(scope, n, pause, on_progress),
            _ => shared.arrivals(scope, on_progress),
        };
        // The scope waits for its threads.
        if result.is_err() {
            shared.gate.cut();
        }
        result
    })?;
    let mut records = shared.records.into_inner().unwrap_or_else(PoisonError::into_inner);
    records.sort_by_key(|record| (record.begin, record.index));
    let interrupted = control.is_stopped();
    Ok(Run { records, from: workload.warmup + workload.ramp, to, interrupted })
}

impl Shared<'_> {
    /// Runs users that wait for answers. Returns at the end of the measured time.
    fn users<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        n: u32,
        pause: Pause,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<Duration> {
        let mut threads = Vec::new();
        for user in 0..n {
            let begin = self.workload.ramp.mul_f64(f64::from(user) / f64::from(n));
            threads.push(spawn(scope, move || self.user(user, begin, pause))?);
        }
        let all_over = |threads: &[thread::ScopedJoinHandle<'_, ()>]| {
            threads.iter().all(thread::ScopedJoinHandle::is_finished)
        };
        while !all_over(&threads) && !self.is_time() {
            self.wait(on_progress);
        }
        let to = (!all_over(&threads)).then(|| self.start.elapsed());
        self.gate.close();
        self.drain(on_progress, &mut || all_over(&threads));
        Ok(to.unwrap_or_else(|| self.last_end()))
    }

    fn user(&self, user: u32, begin: Duration, pause: Pause) {
        let mut client = self.client();
        let mut random = self.workload.user(user);
        let mut due = begin;
        loop {
            // The due time is known only now: requests before the end of the warm-up do not count.
            let measured = due >= self.workload.warmup + self.workload.ramp;
            let counter = if measured { &self.counted } else { &self.warm };
            let number = counter.fetch_add(1, Ordering::Relaxed);
            if measured && self.workload.requests.is_some_and(|most| number >= most) {
                return;
            }
            let ticket = self.workload.ticket(if measured { number } else { WARM + number }, measured);
            let request = self.request(&ticket);
            if !self.gate.sleep_until(self.start + due) {
                return;
            }
            let record = self.send(&mut client, &request, &ticket, due);
            // Not the end of the answer: the user is busy until everything that the server sends after it is read.
            let free = self.start.elapsed();
            let rest =
                record.fail.as_ref().map(|fail| fail.retry_after.map_or(AFTER_FAILURE, |t| t.min(MAX_WAIT)));
            due = free + pause.draw(&mut random).max(rest.unwrap_or_default());
            self.keep(record);
        }
    }

    /// Sends requests at given arrival times. Returns at the end of the measured time.
    fn arrivals<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<Duration> {
        let mut schedule = self.workload.schedule();
        let ended_by_itself = loop {
            let Some((due, ticket)) = schedule.next() else { break true };
            while !self.is_time() && self.start.elapsed() + LEAD < due {
                self.wait_until(due.saturating_sub(LEAD), on_progress);
            }
            if self.is_time() || self.end().is_some_and(|end| due > end) {
                break false;
            }
            let mut jobs = self.jobs();
            jobs.queue.push_back((due, ticket));
            if jobs.queue.len() > jobs.idle && jobs.threads < MAX_USERS {
                jobs.threads += 1;
                drop(jobs);
                spawn(scope, || self.worker())?;
            }
            self.more.notify_one();
        };
        while !ended_by_itself && !self.is_time() {
            self.wait(on_progress);
        }
        let to = (!ended_by_itself).then(|| self.start.elapsed());
        self.jobs().over = true;
        self.more.notify_all();
        // Requests that are due are still sent, if threads become idle in time.
        self.drain(on_progress, &mut || self.jobs().threads == 0);
        let left = std::mem::take(&mut self.jobs().queue);
        for (due, ticket) in left {
            self.keep(self.unsent(due, &ticket));
        }
        Ok(to.unwrap_or_else(|| self.last_end()))
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time at which the last answer was complete: the end of a run without a duration.
    fn last_end(&self) -> Duration {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().map(|record| record.end).max().unwrap_or_else(|| self.start.elapsed())
    }

    fn worker(&self) {
        let mut client = self.client();
        loop {
            let mut jobs = self.jobs();
            jobs.idle += 1;
            let job = loop {
                // Requests still in the queue when the run is cut were never sent, and are counted as such.
                let job = if self.gate.is_cut() { None } else { jobs.queue.pop_front() };
                if job.is_some() || jobs.over || self.gate.is_cut() {
                    break job;
                }
                jobs = self.more.wait_timeout(jobs, TICK).unwrap_or_else(PoisonError::into_inner).0;
            };
            jobs.idle -= 1;
            let Some((due, ticket)) = job else {
                jobs.threads -= 1;
                return;
            };
            drop(jobs);
            let request = self.request(&ticket);
            // A failure repeats, and is counted, when the request is sent.
            let _ = client.connect(Instant::now() + self.workload.timeout);
            let record = if self.gate.sleep_until(self.start + due) {
                self.send(&mut client, &request, &ticket, due)
            } else {
                self.unsent(due, &ticket)
            };
            self.keep(record);
        }
    }

    fn client(&self) -> Client {
        Client::new(Arc::clone(&self.target.server), Arc::clone(&self.gate))
    }

    fn request(&self, ticket: &Ticket) -> Vec<u8> {
        let body = self.workload.body(self.target, self.prefix.as_deref(), ticket);
        self.target.server.request(self.target.ask.endpoint.path(), Some(&body))
    }

    /// Sends a request, and retries if a busy server asks for it and the workload allows it.
    fn send(&self, client: &mut Client, request: &[u8], ticket: &Ticket, due: Duration) -> Record {
        self.running.fetch_add(1, Ordering::Relaxed);
        let sent = Instant::now();
        let begin = if self.workload.is_open() { self.start + due } else { sent };
        let deadline = sent + self.workload.timeout;
        let mut rejections = 0;
        let (answer, result) = loop {
            let mut answer = Answer::new(begin);
            let result = client.exchange(request, deadline, &mut answer).and_then(|()| answer.verdict());
            let rejected = matches!(&result, Err(fail) if fail.class == Class::Rejected);
            if !rejected || !self.workload.retry || rejections == MAX_RETRIES {
                break (answer, result);
            }
            let asked = result.as_ref().err().and_then(|fail| fail.retry_after).unwrap_or(AFTER_FAILURE);
            let again = Instant::now() + asked.min(MAX_WAIT);
            if again >= deadline || !self.gate.sleep_until(again) {
                break (answer, result);
            }
            rejections += 1;
        };
        self.running.fetch_sub(1, Ordering::Relaxed);
        let end = answer.found.done.filter(|_| result.is_ok()).unwrap_or_else(Instant::now);
        let usage = answer.found.usage;
        let since = |at: Instant| at.saturating_duration_since(self.start);
        Record {
            index: ticket.index,
            measured: ticket.measured,
            planned: due,
            sent: since(sent),
            begin: since(begin),
            end: since(end),
            wanted_output: ticket.output,
            prompt_tokens: usage.map(|usage| usage.prompt_tokens),
            cached_tokens: usage.and_then(|usage| usage.cached()),
            output_tokens: usage.map(|usage| usage.completion_tokens),
            events: answer.found.times,
            rejections,
            fail: result.err(),
        }
    }

    /// Records a request for which no thread became idle.
    fn unsent(&self, due: Duration, ticket: &Ticket) -> Record {
        let now = self.start.elapsed();
        let fail = Fail::new(Class::Unfinished, "the run ended before the generator could send it");
        Record {
            index: ticket.index,
            measured: ticket.measured,
            planned: due,
            sent: now,
            begin: due,
            end: now,
            wanted_output: ticket.output,
            prompt_tokens: None,
            cached_tokens: None,
            output_tokens: None,
            events: Vec::new(),
            rejections: 0,
            fail: Some(fail),
        }
    }

    fn keep(&self, record: Record) {
        if record.fail.is_some() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        } else if record.measured {
            self.completed.fetch_add(1, Ordering::Relaxed);
        }
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }

    /// Returns the time at which sending stops, if there is one.
    fn end(&self) -> Option<Duration> {
        let duration = self.workload.duration?;
        let enough = self.completed.load(Ordering::Relaxed) >= self.workload.least;
        let duration = if enough { duration } else { duration.saturating_mul(STRETCH) };
        Some(self.workload.warmup + self.workload.ramp + duration)
    }

    fn is_time(&self) -> bool {
        self.gate.is_closed() || self.end().is_some_and(|end| self.start.elapsed() >= end)
    }

    /// Sleeps for a tick, but not beyond the end.
    fn wait(&self, on_progress: &mut dyn FnMut(&Progress)) {
        self.wait_until(Duration::MAX, on_progress);
    }

    fn wait_until(&self, until: Duration, on_progress: &mut dyn FnMut(&Progress)) {
        let until = until.min(self.start.elapsed() + TICK).min(self.end().unwrap_or(Duration::MAX));
        self.gate.sleep_until(self.start + until);
        self.report(on_progress);
    }

    fn report(&self, on_progress: &mut dyn FnMut(&Progress)) {
        on_progress(&Progress {
            elapsed: self.start.elapsed(),
            running: self.running.load(Ordering::Relaxed),
            completed: self.completed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        });
    }

    /// Waits for the answers in flight, for a limited time.
    fn drain(&self, on_progress: &mut dyn FnMut(&Progress), over: &mut dyn FnMut() -> bool) {
        let end = Instant::now() + self.workload.drain;
        while !over() {
            if Instant::now() >= end || self.gate.is_cut() {
                self.gate.cut();
                return;
            }
            // The gate may be closed already, so waiting for it would not sleep.
            thread::sleep(Duration::from_millis(5));
            self.report(on_progress);
        }
    }
}

fn spawn<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    work: impl FnOnce() + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, ()>> {
    let builder = thread::Builder::new().name("user".into()).stack_size(STACK_BYTES);
    builder.spawn_scoped(scope, work).map_err(|error| Error::new("", ErrorKind::Threads(error)))
}
