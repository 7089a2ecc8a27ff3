//! Loop of the worker thread: accept requests, plan a step, compute it, sample, and send the output.

use super::active::Active;
use super::backlog::{self, Rest};
use super::job::{Job, Task, Work};
use super::parts::{Command, Parts};
use super::trials;
use crate::mailbox::End;
use crate::metrics::ModelMetrics;
use leyden_engine::schedule::{
    Arrival, Decision, Finish, Refusal, Request, RequestId, Scheduler, SchedulerOptions, Step,
};
use leyden_engine::{Generator, Outcome};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Time to wait for commands when there are requests but none of them can run.
const NOTHING_RUNS: Duration = Duration::from_millis(5);
/// Time after which the state of the promise is shown anew.
const SHOWN: Duration = Duration::from_millis(500);

/// State of the worker thread.
pub(super) struct Loop {
    parts: Parts,
    /// `None` while the engine is made again, and after that has failed.
    generator: Option<Generator<Active>>,
    /// Requests with choices that are not in the scheduler yet, in the order of their arrival.
    backlog: Vec<Rest>,
    /// Under a promise, requests whose first choice waits, with their other choices: they may still be refused.
    undecided: HashMap<RequestId, Rest>,
    /// Time at which the state of the promise was shown last.
    shown: Option<Instant>,
    next: u64,
    /// Origin of the scheduler's clock.
    started: Instant,
    metrics: Arc<ModelMetrics>,
    alive: Arc<AtomicBool>,
}

impl Loop {
    pub(super) fn new(
        parts: Parts,
        generator: Generator<Active>,
        metrics: Arc<ModelMetrics>,
        alive: Arc<AtomicBool>,
    ) -> Loop {
        metrics.kv_blocks.set(generator.engine().tables().total_blocks());
        let generator = Some(generator);
        if let Some(promise) = parts.options.promise {
            metrics.service_level.set_promise(promise);
        }
        let (backlog, undecided) = (Vec::new(), HashMap::new());
        let started = Instant::now();
        Loop { parts, generator, backlog, undecided, shown: None, next: 0, started, metrics, alive }
    }

    /// Serves until it is told to stop, or until all senders of commands are dropped.
    pub(super) fn run(&mut self, commands: &Receiver<Command>) {
        loop {
            if !self.serves() && self.backlog.is_empty() && self.is_idle() {
                // An idle server waits here, without using processor time.
                self.gauges();
                match commands.recv() {
                    Ok(Command::Stop) | Err(_) => return,
                    Ok(command) => self.obey(command),
                }
            }
            while let Ok(command) = commands.try_recv() {
                if matches!(command, Command::Stop) {
                    return;
                }
                self.obey(command);
            }
            if !self.advance() && self.serves() {
                match commands.recv_timeout(NOTHING_RUNS) {
                    Ok(Command::Stop) => return,
                    Ok(command) => self.obey(command),
                    Err(_) => {}
                }
            }
            self.gauges();
        }
    }

    /// Returns true if there are requests in the scheduler.
    fn serves(&self) -> bool {
        self.generator.as_ref().is_some_and(|g| g.active().next().is_some())
    }

    fn is_idle(&self) -> bool {
        self.generator.as_ref().is_none_or(Generator::is_idle)
    }

    fn gauges(&mut self) {
        let m = &self.metrics;
        let (waiting, running) = match &self.generator {
            Some(generator) => (generator.scheduler().waiting(), generator.scheduler().running()),
            None => (0, 0),
        };
        m.waiting.set(waiting + self.backlog.iter().map(|r| r.tasks.len()).sum::<usize>());
        m.running.set(running);
        if let Some(generator) = self.generator.as_ref().filter(|_| self.parts.options.promise.is_some())
            && (running == 0 || self.shown.is_none_or(|at| at.elapsed() > SHOWN))
        {
            let outlook = generator.scheduler().outlook(self.started.elapsed());
            m.service_level.set_outlook(outlook.unwrap_or_default());
            self.shown = Some(Instant::now());
        }
        if let Some(tables) = self.generator.as_ref().map(|g| g.engine().tables()) {
            m.kv_blocks_used.set(tables.total_blocks() - tables.available_blocks());
            m.kv_blocks_cached.set(tables.cached_blocks());
            m.state_checkpoints.set(tables.state_checkpoints());
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Job(job) => self.take(*job),
            Command::Close => {
                self.drop_requests(End::Closing, |_| true);
                self.give_up_rests(End::Closing);
            }
            Command::Stop => {}
        }
    }

    /// Accepts a request if there is a place in the queue for its first choice; the others follow as there are places.
    fn take(&mut self, job: Job) {
        if self.generator.is_none() {
            // Dropping the mailbox reports it.
            return;
        }
        let mut rest = Rest::new(job);
        let first = RequestId(self.next);
        let verdict = self.enter(&mut rest);
        if let Err(refusal) = &verdict {
            self.metrics.refused[refusal_kind(refusal)].add(1);
        }
        let promises = self.parts.options.promise.is_some_and(|promise| promise.ttft.is_some());
        if verdict.is_ok() && promises && first != RequestId(self.next) {
            // It is decided when its first choice is admitted or refused.
            self.undecided.insert(first, rest);
            return;
        }
        let taken = verdict.is_ok();
        rest.mailbox.decide(verdict);
        if taken {
            rest.decided = true;
            self.proceed_with(rest);
        }
    }

    /// Accepts a request whose first choice has been admitted, and queues the other choices.
    fn accept(&mut self, first: RequestId) {
        if let Some(mut rest) = self.undecided.remove(&first) {
            rest.mailbox.decide(Ok(()));
            rest.decided = true;
            self.proceed_with(rest);
        }
    }

    /// Ends the choices that are not in the scheduler.
    fn give_up_rests(&mut self, end: End) {
        let rests = self.backlog.drain(..).chain(self.undecided.drain().map(|(_, rest)| rest));
        rests.for_each(|rest| {
            rest.mailbox.decide(Ok(()));
            rest.give_up(end, &self.metrics);
        });
    }

    /// Queues the next choice of a request.
    fn enter(&mut self, rest: &mut Rest) -> Result<(), Refusal> {
        let Some(generator) = &mut self.generator else { return Ok(()) };
        let Some((choice, Task { prompt, max_tokens, work })) = rest.tasks.pop_front() else { return Ok(()) };
        let id = RequestId(self.next);
        self.next += 1;
        // Texts of an encoder are never cached.
        let shares = work.shares() && !self.parts.network.config().needs_whole_texts();
        let request = Request {
            id,
            key: rest.key,
            priority: rest.priority,
            prompt: prompt.to_vec(),
            max_tokens,
            // The cache has no hidden states, so a request that needs those of all tokens neither uses nor fills it.
            scope: shares.then(|| Arc::clone(&rest.scope)),
            adapters: rest.scope.adapters.clone(),
            deadline: Some(rest.deadline.saturating_duration_since(self.started)),
            speculate: self.parts.options.speculate && matches!(work, Work::Text(_)),
            rows: work.rows(),
            held: None,
        };
        // The user of a request for several outputs waits for all of them.
        let more = rest.tasks.iter().filter(|(_, task)| matches!(task.work, Work::Head { .. }));
        let arrival = Arrival {
            at: rest.arrived.saturating_duration_since(self.started),
            refusable: !rest.decided,
            more_tokens: if rest.decided { 0 } else { more.map(|(_, task)| task.prompt.len()).sum() },
        };
        let active = Active {
            work,
            tokenizer: Arc::clone(&self.parts.tokenizer),
            metrics: Arc::clone(&self.metrics),
            mailbox: Arc::clone(&rest.mailbox),
            choice,
            arrived: rest.arrived,
            admitted: false,
            generated: 0,
            drafts: (0, 0),
            first_token: None,
            last_token: None,
            arrival,
            end: None,
        };
        generator.submit_arrived(request, active, arrival, self.started.elapsed()).map_err(
            |(refusal, active)| {
                rest.tasks.push_front((choice, Task { prompt, max_tokens, work: active.work }));
                refusal
            },
        )
    }

    /// Queues the next choices of a request, as far as its share and the free places allow, and keeps the rest in the
    /// backlog.
    fn proceed_with(&mut self, mut rest: Rest) {
        if rest.mailbox.is_closed() {
            return rest.give_up(End::Closing, &self.metrics);
        }
        let Some(generator) = &self.generator else { return rest.give_up(End::Failed, &self.metrics) };
        let waits = |(_, a): &(&Request, &Active)| !a.admitted && Arc::ptr_eq(&a.mailbox, &rest.mailbox);
        let waiting = if rest.tasks.is_empty() { 0 } else { generator.active().filter(waits).count() };
        for _ in waiting..backlog::places(self.parts.options.queue_per_key) {
            let has_place = |g: &Generator<Active>| g.scheduler().has_place(rest.key);
            if rest.tasks.is_empty() || !self.generator.as_ref().is_some_and(has_place) {
                break;
            }
            match self.enter(&mut rest) {
                Ok(()) => {}
                Err(Refusal::Late) => return rest.give_up(End::Deadline, &self.metrics),
                // The request was checked before, and there is a place, so this is a bug of the server.
                Err(_) => return rest.give_up(End::Failed, &self.metrics),
            }
        }
        if !rest.tasks.is_empty() {
            self.backlog.push(rest);
        }
    }

    /// Removes requests, and reports their end to their mailboxes.
    fn drop_requests(&mut self, end: End, which: impl Fn(&Active) -> bool) {
        let Some(generator) = &mut self.generator else { return };
        let ids = generator.active().filter_map(|(r, a)| which(a).then_some(r.id));
        let ids: Vec<RequestId> = ids.collect();
        let taken: Vec<Active> = ids.into_iter().filter_map(|id| Some(generator.take(id)?.1)).collect();
        taken.into_iter().for_each(|active| self.tell_end(active, end));
    }

    /// Plans and computes a step. Returns whether there was anything to do.
    fn advance(&mut self) -> bool {
        self.drop_requests(End::Closing, |active| active.mailbox.is_closed());
        self.undecided.retain(|_, rest| !rest.mailbox.is_closed());
        for rest in std::mem::take(&mut self.backlog) {
            self.proceed_with(rest);
        }
        let Some(generator) = &mut self.generator else { return false };
        let mut step = match generator.plan(self.started.elapsed()) {
            Ok(step) => step,
            Err(error) => {
                self.restart(&error.to_string());
                return true;
            }
        };
        self.follow(&step.decisions);
        if step.scheduled.is_empty() {
            return false;
        }
        if !self.draft(&mut step) {
            return true;
        }
        let begun = Instant::now();
        let computed = catch_unwind(AssertUnwindSafe(|| self.compute(&step)));
        let time = begun.elapsed();
        let m = Arc::clone(&self.metrics);
        match computed {
            Ok(Ok(outcome)) => {
                if outcome.failed.is_some() {
                    m.failed_steps.add(1);
                } else {
                    m.steps.add(1);
                    m.step.observe(time);
                    m.guesses.add(outcome.drafted);
                    m.right_guesses.add(outcome.accepted);
                    let stall = self.parts.options.prompt_stall;
                    self.generator.iter_mut().for_each(|g| g.observe(&step, time, stall));
                }
                self.follow(&outcome.decisions);
            }
            Ok(Err(error)) => self.restart(&error.to_string()),
            Err(panic) => {
                m.failed_steps.add(1);
                let what = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
                let what = what.or_else(|| panic.downcast_ref::<String>().cloned());
                self.restart(&what.unwrap_or_else(|| "a panic".to_owned()));
            }
        }
        true
    }

    /// Lets the draft model add drafts to the step; its own steps are measured apart. Returns false after a panic.
    fn draft(&mut self, step: &mut Step) -> bool {
        let (started, Some(generator)) = (self.started, &mut self.generator) else { return true };
        match catch_unwind(AssertUnwindSafe(|| generator.draft(step, &|| started.elapsed()))) {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                let why = error.to_string();
                self.parts.log.event(&[("event", "draft_model_dropped".into()), ("why", why.into())]);
                true
            }
            Err(_) => {
                self.metrics.failed_steps.add(1);
                self.restart("a panic in the draft model");
                false
            }
        }
    }

    /// Computes the step, and samples for its requests.
    fn compute(&mut self, step: &Step) -> Result<Outcome, leyden_engine::Error> {
        let Some(generator) = &mut self.generator else { return Ok(Outcome::default()) };
        if let Some(token) = self.parts.options.panic_token {
            let plants = |r: &Request| {
                r.prompt.first() == Some(&token) && step.scheduled.iter().any(|s| s.request == r.id)
            };
            assert!(!generator.active().any(|(r, _)| plants(r)), "a panic that a test planted");
        }
        generator.compute(step)
    }

    /// Reports the decisions of the scheduler to metrics and mailboxes.
    fn follow(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            match *decision {
                Decision::Admitted { request, cached_tokens } => {
                    let Some((r, a)) = self.generator.as_mut().and_then(|g| g.get_mut(request)) else {
                        continue;
                    };
                    if a.admitted {
                        continue;
                    }
                    a.admitted = true;
                    let m = &self.metrics;
                    m.queue.observe(a.arrived.elapsed());
                    m.prompt_tokens.add(r.prompt.len());
                    m.prefix_queries.add(r.prompt.len());
                    m.prefix_hits.add(cached_tokens);
                    a.mailbox.update(a.choice, |u| {
                        u.cached = Some(cached_tokens);
                        u.admitted = Some(Instant::now());
                    });
                    self.accept(request);
                }
                Decision::Refused { request, why } => {
                    self.metrics.refused[refusal_kind(&Refusal::Slo(why))].add(1);
                    self.undecided.remove(&request);
                    if let Some((_, active)) = self.generator.as_mut().and_then(|g| g.take(request)) {
                        active.mailbox.decide(Err(Refusal::Slo(why)));
                    }
                }
                Decision::Preempted { .. } => self.metrics.preemptions.add(1),
                Decision::Finished { request, finish, .. } => {
                    let Some((_, a)) = self.generator.as_mut().and_then(|g| g.take(request)) else {
                        continue;
                    };
                    let end = a.end.unwrap_or(match finish {
                        Finish::Stop => End::Stop,
                        Finish::Length | Finish::Computed => End::Length,
                        Finish::Deadline => End::Deadline,
                        Finish::Cancelled => End::Closing,
                        Finish::Failed => End::Failed,
                    });
                    self.tell_end(a, end);
                    if let Some(rest) = self.undecided.remove(&request) {
                        rest.give_up(end, &self.metrics);
                    }
                }
            }
        }
    }

    /// Reports the end of a choice.
    fn tell_end(&self, mut active: Active, end: End) {
        let held = match (&mut active.work, end) {
            (Work::Text(choice), End::Length | End::Deadline) => choice.finish(),
            _ => Default::default(),
        };
        if let (Some(first), Some(last), End::Stop | End::Length) =
            (active.first_token, active.last_token, end)
        {
            self.metrics.service_level.answer(active.generated, last - first);
        }
        // A request that ended while it waited counts as accepted.
        active.mailbox.decide(Ok(()));
        let finished = if active.mailbox.is_closed() { End::Closing } else { end }.finish();
        self.metrics.finished[finished].add(1);
        self.metrics.end_to_end.observe(active.arrived.elapsed());
        active.mailbox.update(active.choice, |u| {
            u.say(held.0);
            u.logprobs.extend(held.1);
            u.generated = active.generated;
            u.drafts = active.drafts;
            u.end = Some(end);
        });
    }

    /// Makes the engine again after a panic or an inconsistency between it and the scheduler. Requests that ran fail;
    /// those that wait stay in the queue.
    fn restart(&mut self, why: &str) {
        self.metrics.restarts.add(1);
        self.parts.log.event(&[("event", "engine_restart".into()), ("why", why.into())]);
        // The memory of the old engine is freed first.
        let requests = self.generator.take().map(Generator::into_active).unwrap_or_default();
        let (ran, mut waits): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|(_, active)| active.admitted);
        ran.into_iter().for_each(|(_, active)| self.tell_end(active, End::Failed));
        let mut generator = match generator(&self.parts) {
            Ok(generator) => generator,
            Err(_) => {
                self.alive.store(false, Ordering::SeqCst);
                waits.drain(..).for_each(|(_, active)| self.tell_end(active, End::Failed));
                self.give_up_rests(End::Failed);
                return;
            }
        };
        waits.sort_by_key(|(request, _)| request.id);
        let now = self.started.elapsed();
        for (request, active) in waits {
            let (id, arrival) = (request.id, active.arrival);
            if let Err((_, active)) = generator.submit_arrived(request, active, arrival, now) {
                self.tell_end(active, End::Deadline);
                if let Some(rest) = self.undecided.remove(&id) {
                    rest.give_up(End::Deadline, &self.metrics);
                }
            }
        }
        self.generator = Some(generator);
    }
}

fn refusal_kind(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::QueueFull { .. } => 0,
        Refusal::KeyQueueFull { .. } => 1,
        Refusal::Slo(_) => 3,
        _ => 2,
    }
}

/// Makes an engine and a generator without requests.
///
/// # Errors
/// There is too little memory.
pub(super) fn generator(parts: &Parts) -> Result<Generator<Active>, leyden_engine::Error> {
    let (engine, draft) = (parts.engine()?, parts.draft_engine()?);
    let o = &parts.options;
    let options = SchedulerOptions {
        step_tokens: o.step_tokens,
        running: o.parallel,
        waiting: o.queue,
        waiting_per_key: o.queue_per_key,
        context: o.context,
        vocabulary: engine.model().vocabulary(),
        logit_rows: SchedulerOptions::logit_rows_for(engine.model().vocabulary()),
        whole_prompts: engine.model().config().needs_whole_texts(),
        promise: o.promise,
        ..SchedulerOptions::default()
    };
    let scheduler = Scheduler::new(options, engine.tables().total_blocks());
    let mut generator = Generator::new(engine, scheduler);
    if o.promise.is_some() {
        trials::measure(&mut generator, &options);
    }
    match draft {
        Some(draft) => generator.with_draft(draft),
        None => Ok(generator),
    }
}
