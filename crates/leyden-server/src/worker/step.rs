//! The loop: take requests in, plan, compute, choose, tell.

use super::active::Active;
use super::backlog::{self, Rest};
use super::job::{Job, Work};
use super::{Command, Parts, choices};
use crate::mailbox::End;
use crate::metrics::ModelMetrics;
use leyden_engine::Engine;
use leyden_engine::schedule::{
    Chosen, Decision, Finish, Refusal, Request, RequestId, Scheduled, Scheduler, SchedulerOptions, Step,
    StepCost,
};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// The fewest prompt tokens beside those who decode: fewer would make long prompts endless.
const LEAST_PROMPT_TOKENS: usize = 16;
/// How many times longer a step in which nobody decodes may take: only those who come meanwhile wait for it.
const ALONE: u32 = 2;
/// How many times longer computing the tokens of such a step takes at least than reading the weights for it, so that
/// longer steps would save little; and the fewest tokens of it.
const LEAST_ALONE: (f64, usize) = (16.0, 64);
/// How long to wait for news when nothing can run although there are requests.
const NOTHING_RUNS: Duration = Duration::from_millis(5);

/// The thread's state.
pub(super) struct Loop {
    parts: Parts,
    /// `None` while it is made anew, and after that failed.
    engine: Option<Engine>,
    scheduler: Scheduler,
    active: HashMap<RequestId, Active>,
    /// Requests whose choices are not all in the scheduler yet, the first first.
    backlog: Vec<Rest>,
    next: u64,
    cost: StepCost,
    /// The zero of the scheduler's clock.
    started: Instant,
    metrics: Arc<ModelMetrics>,
    alive: Arc<AtomicBool>,
}

impl Loop {
    pub(super) fn new(
        parts: Parts,
        engine: Engine,
        metrics: Arc<ModelMetrics>,
        alive: Arc<AtomicBool>,
    ) -> Loop {
        let scheduler = scheduler(&parts, &engine);
        metrics.kv_blocks.set(engine.tables().total_blocks());
        Loop {
            parts,
            engine: Some(engine),
            scheduler,
            active: HashMap::new(),
            backlog: Vec::new(),
            next: 0,
            cost: StepCost::default(),
            started: Instant::now(),
            metrics,
            alive,
        }
    }

    /// Serves until told to stop, or until there is no engine and nobody left to tell.
    pub(super) fn run(&mut self, commands: &Receiver<Command>) {
        loop {
            if self.active.is_empty() && self.backlog.is_empty() && self.scheduler.is_idle() {
                // Here an idle server waits, and uses no time.
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
            if !self.advance() && !self.active.is_empty() {
                match commands.recv_timeout(NOTHING_RUNS) {
                    Ok(Command::Stop) => return,
                    Ok(command) => self.obey(command),
                    Err(_) => {}
                }
            }
            self.gauges();
        }
    }

    fn gauges(&self) {
        let m = &self.metrics;
        m.waiting.set(self.scheduler.waiting() + self.backlog.iter().map(|r| r.tasks.len()).sum::<usize>());
        m.running.set(self.scheduler.running());
        if let Some(tables) = self.engine.as_ref().map(Engine::tables) {
            m.kv_blocks_used.set(tables.total_blocks() - tables.available_blocks());
            m.kv_blocks_cached.set(tables.cached_blocks());
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Job(job) => self.take(*job),
            Command::Close => {
                for id in self.active.keys().copied().collect::<Vec<_>>() {
                    self.drop_request(id, End::Closing);
                }
                self.backlog.drain(..).for_each(|rest| rest.give_up(End::Closing, &self.metrics));
            }
            Command::Stop => {}
        }
    }

    /// Takes a request if there is a place in the queue for its first choice; the others follow as there are places.
    fn take(&mut self, job: Job) {
        if self.engine.is_none() {
            // The mailbox says so when it is dropped.
            return;
        }
        let mut rest = Rest::new(job);
        let verdict = self.enter(&mut rest);
        if let Err(refusal) = &verdict {
            self.metrics.refused[refusal_kind(refusal)].add(1);
        }
        let taken = verdict.is_ok();
        rest.mailbox.decide(verdict);
        if taken {
            self.proceed_with(rest);
        }
    }

    /// Puts the next choice of a request in the queue.
    fn enter(&mut self, rest: &mut Rest) -> Result<(), Refusal> {
        let Some((choice, task)) = rest.tasks.pop_front() else { return Ok(()) };
        let id = RequestId(self.next);
        self.next += 1;
        let request = Request {
            id,
            key: rest.key,
            priority: rest.priority,
            prompt: task.prompt.to_vec(),
            max_tokens: task.max_tokens,
            // What is in the cache has no states, and texts for vectors leave it to those that share.
            scope: task.work.shares().then(|| Arc::clone(&rest.scope)),
            deadline: Some(rest.deadline.saturating_duration_since(self.started)),
            speculate: self.parts.options.speculate && matches!(task.work, Work::Text(_)),
            rows: task.work.rows(task.prompt.len()),
            held: None,
        };
        if let Err(refusal) = self.scheduler.submit(request.clone(), self.started.elapsed()) {
            rest.tasks.push_front((choice, task));
            return Err(refusal);
        }
        let active = Active {
            work: task.work,
            request,
            mailbox: Arc::clone(&rest.mailbox),
            choice,
            arrived: rest.arrived,
            admitted: false,
            generated: 0,
            last_token: None,
            end: None,
        };
        self.active.insert(id, active);
        Ok(())
    }

    /// Gives a request's next choices the places that it may have and that there are, and keeps the rest.
    fn proceed_with(&mut self, mut rest: Rest) {
        if rest.mailbox.is_closed() {
            return rest.give_up(End::Closing, &self.metrics);
        }
        let waits = |a: &&Active| !a.admitted && Arc::ptr_eq(&a.mailbox, &rest.mailbox);
        let waiting = if rest.tasks.is_empty() { 0 } else { self.active.values().filter(waits).count() };
        for _ in waiting..backlog::places(self.parts.options.queue_per_key) {
            if rest.tasks.is_empty() || !self.scheduler.has_place(rest.key) {
                break;
            }
            match self.enter(&mut rest) {
                Ok(()) => {}
                Err(Refusal::Late) => return rest.give_up(End::Deadline, &self.metrics),
                // It was checked before, and there is a place: a fault of the server.
                Err(_) => return rest.give_up(End::Failed, &self.metrics),
            }
        }
        if !rest.tasks.is_empty() {
            self.backlog.push(rest);
        }
    }

    /// Takes a request out of the scheduler and tells its reader.
    fn drop_request(&mut self, id: RequestId, end: End) {
        if let Some(active) = self.active.remove(&id) {
            self.tell_end(active, end);
        }
        if let Some(engine) = &mut self.engine {
            self.scheduler.cancel(id, engine.tables_mut());
        }
    }

    /// Plans and computes a step. Returns whether there was anything to compute.
    fn advance(&mut self) -> bool {
        let gone = |(id, a): (&RequestId, &Active)| a.mailbox.is_closed().then_some(*id);
        for id in self.active.iter().filter_map(gone).collect::<Vec<_>>() {
            self.drop_request(id, End::Closing);
        }
        for rest in std::mem::take(&mut self.backlog) {
            self.proceed_with(rest);
        }
        let Some(engine) = &mut self.engine else { return false };
        let step = match self.scheduler.plan(self.started.elapsed(), engine.tables_mut()) {
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
        let begun = Instant::now();
        let computed = catch_unwind(AssertUnwindSafe(|| self.compute(&step)));
        let time = begun.elapsed();
        let m = Arc::clone(&self.metrics);
        match computed {
            Ok(Ok(chosen)) => {
                m.steps.add(1);
                m.step.observe(time);
                self.learn(&step, time);
                self.commit(&chosen);
            }
            Ok(Err(_)) => {
                m.failed_steps.add(1);
                let Some(engine) = &mut self.engine else { return false };
                let decisions = self.scheduler.abandon(engine.tables_mut());
                self.follow(&decisions);
            }
            Err(panic) => {
                m.failed_steps.add(1);
                let what = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
                let what = what.or_else(|| panic.downcast_ref::<String>().cloned());
                self.restart(&what.unwrap_or_else(|| "a panic".to_owned()));
            }
        }
        true
    }

    fn commit(&mut self, chosen: &[Chosen]) {
        let Some(engine) = &mut self.engine else { return };
        match self.scheduler.commit(chosen, engine.tables_mut()) {
            Ok(decisions) => self.follow(&decisions),
            Err(error) => self.restart(&error.to_string()),
        }
    }

    /// Adjusts the scheduler to what steps have cost.
    fn learn(&mut self, step: &Step, time: Duration) {
        let tokens = step.scheduled.iter().map(|s| s.tokens).sum();
        let positions = |s: &Scheduled| s.tokens as f64 * (s.position as f64 + s.tokens as f64 / 2.0);
        self.cost.observe(tokens, step.scheduled.iter().map(positions).sum(), time);
        let (cost, o) = (&self.cost, &self.parts.options);
        let weights = cost.weights_read_tokens();
        self.scheduler.tune(|tuned| {
            let clamp = |tokens: usize, least: usize| tokens.clamp(least.min(o.step_tokens), o.step_tokens);
            if let Some(beside) = cost.tokens_within(o.prompt_stall) {
                tuned.prompt_tokens_beside_decode = clamp(beside, LEAST_PROMPT_TOKENS);
            }
            if let (Some(alone), Some(weights)) = (cost.tokens_within(o.prompt_stall * ALONE), weights) {
                let worth = (weights * LEAST_ALONE.0) as usize;
                tuned.prompt_tokens_alone = clamp(alone, worth.max(LEAST_ALONE.1));
                tuned.weights_read_tokens = weights;
            }
            tuned.position_cost = cost.position_cost().unwrap_or(tuned.position_cost);
        });
    }

    /// Runs the step and chooses tokens.
    fn compute(&mut self, step: &Step) -> Result<Vec<Chosen>, leyden_engine::Error> {
        let Some(engine) = &mut self.engine else { return Ok(Vec::new()) };
        if let Some(token) = self.parts.options.panic_token {
            let plants = |s: &Scheduled| {
                self.active.get(&s.request).is_some_and(|a| a.request.prompt.first() == Some(&token))
            };
            assert!(!step.scheduled.iter().any(plants), "a panic that a test planted");
        }
        let output = engine.step(&step.plan)?;
        Ok(choices::choose(&self.parts, step, &output, &mut self.active, &self.metrics))
    }

    /// Passes on what the scheduler decided.
    fn follow(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            match *decision {
                Decision::Admitted { request, cached_tokens } => {
                    let Some(a) = self.active.get_mut(&request) else { continue };
                    if a.admitted {
                        continue;
                    }
                    a.admitted = true;
                    let m = &self.metrics;
                    m.queue.observe(a.arrived.elapsed());
                    m.prompt_tokens.add(a.request.prompt.len());
                    m.prefix_queries.add(a.request.prompt.len());
                    m.prefix_hits.add(cached_tokens);
                    a.mailbox.update(a.choice, |u| u.cached = Some(cached_tokens));
                }
                Decision::Preempted { .. } => self.metrics.preemptions.add(1),
                Decision::Finished { request, finish, .. } => {
                    let Some(a) = self.active.remove(&request) else { continue };
                    let end = a.end.unwrap_or(match finish {
                        Finish::Stop => End::Stop,
                        Finish::Length | Finish::Computed => End::Length,
                        Finish::Deadline => End::Deadline,
                        Finish::Cancelled => End::Closing,
                        Finish::Failed => End::Failed,
                    });
                    self.tell_end(a, end);
                }
            }
        }
    }

    /// The last word on a choice.
    fn tell_end(&self, mut active: Active, end: End) {
        let held = match (&mut active.work, end) {
            (Work::Text(choice), End::Length | End::Deadline) => choice.finish(),
            _ => Default::default(),
        };
        let finished = if active.mailbox.is_closed() { End::Closing } else { end }.finish();
        self.metrics.finished[finished].add(1);
        self.metrics.end_to_end.observe(active.arrived.elapsed());
        active.mailbox.update(active.choice, |u| {
            u.say(held.0);
            u.logprobs.extend(held.1);
            u.generated = active.generated;
            u.end = Some(end);
        });
    }

    /// Makes the engine anew after a panic or a broken promise between it and the scheduler. What ran has failed; what
    /// waits goes on waiting.
    fn restart(&mut self, why: &str) {
        self.metrics.restarts.add(1);
        self.parts.log.event(&[("event", "engine_restart".into()), ("why", why.into())]);
        // First the memory of the old one is given back.
        self.engine = None;
        let (ran, mut waits): (Vec<_>, Vec<_>) = self.active.drain().partition(|(_, active)| active.admitted);
        ran.into_iter().for_each(|(_, active)| self.tell_end(active, End::Failed));
        match self.parts.engine() {
            Ok(engine) => {
                self.scheduler = scheduler(&self.parts, &engine);
                self.engine = Some(engine);
            }
            Err(_) => {
                self.alive.store(false, Ordering::SeqCst);
                self.scheduler = Scheduler::new(SchedulerOptions::default(), 0);
                waits.drain(..).for_each(|(_, active)| self.tell_end(active, End::Failed));
                self.backlog.drain(..).for_each(|rest| rest.give_up(End::Failed, &self.metrics));
                return;
            }
        }
        waits.sort_by_key(|(id, _)| *id);
        let now = self.started.elapsed();
        for (id, active) in waits {
            match self.scheduler.submit(active.request.clone(), now) {
                Ok(()) => drop(self.active.insert(id, active)),
                Err(_) => self.tell_end(active, End::Deadline),
            }
        }
    }
}

fn refusal_kind(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::QueueFull { .. } => 0,
        Refusal::KeyQueueFull { .. } => 1,
        _ => 2,
    }
}

fn scheduler(parts: &Parts, engine: &Engine) -> Scheduler {
    let o = &parts.options;
    let options = SchedulerOptions {
        step_tokens: o.step_tokens,
        running: o.parallel,
        waiting: o.queue,
        waiting_per_key: o.queue_per_key,
        context: o.context,
        vocabulary: engine.model().vocabulary(),
        logit_rows: SchedulerOptions::logit_rows_for(engine.model().vocabulary()),
        ..SchedulerOptions::default()
    };
    Scheduler::new(options, engine.tables().total_blocks())
}
