//! Scheduler: distributes the tokens of each step among the requests.
//!
//! The scheduler is deterministic: times are arguments, and the same calls give the same plans. The caller repeats
//! [`Scheduler::plan`], [`crate::Engine::step`], sampling and [`Scheduler::commit`].
//!
//! **One budget.** There is no separate phase for prompts. Every task has more known tokens than computed ones, and
//! every step distributes [`SchedulerOptions::step_tokens`] among tasks: first one to each decoding task, then the rest
//! to prompts, in chunks (chunked prefill), then to drafts ([`Lookup`]). While any task decodes, prompts and drafts
//! together cost at most [`SchedulerOptions::prompt_tokens_beside_decode`], which bounds how much longer a step takes
//! for the decoding tasks, whatever the number, length and progress of prompts. While none does, they cost at most
//! [`SchedulerOptions::prompt_tokens_alone`], which bounds how long a new request waits. In a step that completes a
//! prompt, whose first token is then due, other prompts get no more than in a step with decoding tasks.
//!
//! **Order.** Higher priority goes first. Within a priority the key that has received the least service goes next
//! (virtual token counters, Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024). Of two keys of one
//! priority that both have requests waiting for an interval, the weighted tokens computed for them in it differ by at
//! most 2 U, where U is the weighted length of the requests that one key can have running: `running` times the longest
//! request (the paper's bound; its M is the capacity of the memory). Slots and blocks are divided too: a key that has
//! less than an equal share of them takes it, by preemption, from keys that have more.
//!
//! Within a key the prompt with the fewest tokens left goes first, and of equal ones the earlier: a short prompt passes
//! long ones. The number of tokens of later prompts that may be computed before an earlier prompt, its slack, is
//! limited: to a tenth of the earlier prompt's tokens, or a block; half of that at once and the rest as it is computed
//! itself. Prompts without slack left go before all others, in the order of arrival (`priority_ageing`).
//!
//! **Memory.** A task is admitted when all its known tokens fit, with one spare block for every eight running tasks. If
//! an answer grows and no block is free, a task is preempted: of the lowest priority, then of the key that exceeds its
//! share the most, then the latest. A preempted task keeps its tokens and recomputes them later, except those still in
//! the prefix cache. Of the running tasks, the oldest of the highest priority is preempted by a higher priority only
//! and gets at least one token in every step, so some request always finishes.
//!
//! **Promise.** With [`SchedulerOptions::promise`], a request runs only if the promise is kept for it and all others,
//! waits while that is possible, and is else refused (`slo`).
//!
//! **Prefix cache.** Full blocks are shared among requests of one [`crate::Scope`]; in models with recurrent layers,
//! the blocks before a checkpoint of their states. If another request of the same key is computing a request's prefix,
//! the request waits for it; for recurrent layers a checkpoint is added where the shared prefix ends.

mod acceptance;
mod cost;
mod counters;
mod draft_plan;
mod drafting;
mod lookup;
mod options;
mod plan;
mod preempt;
mod priority_ageing;
mod promise;
mod queue;
mod request;
mod retry;
mod slo;
mod slo_state;
mod step_time;
mod task;

use crate::error::{Error, ErrorKind};
use crate::tables::BlockTables;
pub use cost::StepCost;
use counters::Counters;
pub use draft_plan::DraftCost;
use draft_plan::DraftPlan;
use leyden_kernels::attention::BLOCK_TOKENS;
pub use lookup::{Lookup, draft, verify};
pub use options::SchedulerOptions;
pub use promise::{Bound, Promise};
use queue::Queue;
pub use request::{
    Arrival, Chosen, Decision, Draft, Finish, Held, KeyId, Progress, PromptRows, Refusal, Request, RequestId,
    Scheduled, SloRefusal, Step, Wish,
};
use retry::RetryHint;
pub use slo_state::Outlook;
use slo_state::Slo;
use std::sync::Arc;
use std::time::Duration;
pub use step_time::{StepLoad, StepTime};
use task::{Part, Task};

/// Scheduler of requests, waiting and running.
///
/// ```
/// use leyden_engine::BlockTables;
/// use leyden_engine::schedule::{
///     Chosen, KeyId, PromptRows, Request, RequestId, Scheduler, SchedulerOptions, Step,
/// };
/// use std::time::Duration;
///
/// // In a server, the tables are `engine.tables_mut()`.
/// let mut tables = BlockTables::new(64);
/// let mut scheduler = Scheduler::new(SchedulerOptions::default(), tables.total_blocks());
/// let request = Request {
///     id: RequestId(1),
///     key: KeyId(1),
///     priority: 0,
///     prompt: vec![5; 600],
///     max_tokens: 1,
///     scope: None,
///     adapters: Default::default(),
///     deadline: None,
///     speculate: false,
///     rows: PromptRows::None,
///     held: None,
/// };
/// scheduler.submit(request, Duration::ZERO).unwrap();
/// let step: Step = scheduler.plan(Duration::from_millis(1), &mut tables).unwrap();
/// // The prompt is longer than a step.
/// assert_eq!((step.scheduled[0].tokens, step.scheduled[0].samples), (512, false));
/// // Here `engine.step(&step.plan)` runs, and tokens are sampled for the entries that sample.
/// let chosen: Vec<Chosen> = Vec::new();
/// assert!(scheduler.commit(&chosen, &mut tables).unwrap().is_empty());
/// let step = scheduler.plan(Duration::from_millis(2), &mut tables).unwrap();
/// assert_eq!((step.scheduled[0].tokens, step.scheduled[0].samples), (88, true));
/// let chosen = [Chosen { request: RequestId(1), tokens: vec![7], stop: false }];
/// assert_eq!(scheduler.commit(&chosen, &mut tables).unwrap().len(), 1);
/// assert!(scheduler.is_idle());
/// ```
#[derive(Debug)]
pub struct Scheduler {
    options: SchedulerOptions,
    /// Number of blocks of the engine's cache.
    blocks: usize,
    queue: Queue,
    running: Vec<Task>,
    counters: Counters,
    retry: RetryHint,
    /// Admission under a promise, if one is given.
    slo: Option<Box<Slo>>,
    /// Decisions about drafts of a draft model, if there is one.
    drafts: Option<Box<DraftPlan>>,
    /// Number of tokens left for drafts in the step that was planned last.
    spare_drafts: usize,
    /// Number of requests so far.
    arrivals: u64,
    /// Number of steps so far.
    steps: u64,
    /// True if a step was planned and its results are due.
    under_way: bool,
    /// Ends of requests since the last plan, which the next one reports.
    ended: Vec<Decision>,
}

impl Scheduler {
    /// Creates a scheduler for an engine whose cache has `blocks` blocks of [`BLOCK_TOKENS`] tokens. Invalid options
    /// are replaced by the nearest valid ones.
    #[must_use]
    pub fn new(options: SchedulerOptions, blocks: usize) -> Scheduler {
        Scheduler {
            options: options.settled(),
            blocks,
            queue: Queue::default(),
            running: Vec::new(),
            counters: Counters::default(),
            retry: RetryHint::default(),
            slo: options.promise.and_then(Promise::settled).map(|promise| Box::new(Slo::new(promise))),
            drafts: None,
            spare_drafts: 0,
            arrivals: 0,
            steps: 0,
            under_way: false,
            ended: Vec::new(),
        }
    }

    /// Returns the options in force.
    #[must_use]
    pub fn options(&self) -> &SchedulerOptions {
        &self.options
    }

    /// Changes the options that depend on the machine's speed, as [`StepCost`] measures it.
    pub fn tune(&mut self, change: impl FnOnce(&mut SchedulerOptions)) {
        let mut tuned = self.options;
        change(&mut tuned);
        self.options = tuned.settled();
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of running requests.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns true if no request waits or runs, and no end is still to be reported.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.len() + self.running.len() + self.ended.len() == 0
    }

    /// Returns the weighted tokens of a key: those computed for it, and those added when it became backlogged.
    #[must_use]
    pub fn service(&self, key: KeyId) -> u64 {
        self.counters.get(key)
    }

    /// Returns whether the queue has room for another request of a key.
    #[must_use]
    pub fn has_place(&self, key: KeyId) -> bool {
        self.queue.of_key(key) < self.options.waiting_per_key && self.queue.len() < self.options.waiting
    }

    /// Puts a request in the queue.
    ///
    /// # Errors
    /// The request cannot be served, or not now; nothing has changed.
    pub fn submit(&mut self, request: Request, now: Duration) -> Result<(), Refusal> {
        self.submit_arrived(request, Arrival { at: now, refusable: true, more_tokens: 0 }, now)
    }

    /// Puts a request in the queue that arrived earlier, or is a part of a larger one. `arrival` is read under a
    /// [promise](SchedulerOptions::promise) only.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_arrived(
        &mut self,
        request: Request,
        arrival: Arrival,
        now: Duration,
    ) -> Result<(), Refusal> {
        let limit = self.check(&request, now)?;
        if self.queue.of_key(request.key) >= self.options.waiting_per_key {
            return Err(Refusal::KeyQueueFull { retry_after: self.retry.refused() });
        }
        if self.queue.len() >= self.options.waiting {
            return Err(Refusal::QueueFull { retry_after: self.retry.refused() });
        }
        let mut request = request;
        if self.options.whole_prompts {
            // With bidirectional attention, the results for a prefix depend on the rest of the text.
            request.scope = None;
        }
        if let Some(scope) = request.scope.as_mut().filter(|scope| scope.adapters != request.adapters) {
            // Keys and values depend on the adapters.
            Arc::make_mut(scope).adapters = request.adapters.clone();
        }
        let mut task = Task::new(request, self.arrivals, limit);
        task.served.arrival = arrival;
        task.served.submitted_in = self.steps;
        task.is_whole = self.options.whole_prompts && matches!(task.request.rows, PromptRows::Head { .. });
        self.arrivals += 1;
        self.enqueue(task);
        Ok(())
    }

    /// Returns the maximum number of tokens of the request, or the reason why it cannot be served.
    fn check(&self, r: &Request, now: Duration) -> Result<usize, Refusal> {
        let o = &self.options;
        if r.prompt.is_empty() {
            return Err(Refusal::EmptyPrompt);
        }
        if let Some(&id) = r.prompt.iter().find(|t| **t as usize >= o.vocabulary) {
            return Err(Refusal::Token { id, vocabulary: o.vocabulary });
        }
        if r.prompt.len() > o.context {
            return Err(Refusal::PromptTooLong { tokens: r.prompt.len(), context: o.context });
        }
        if o.whole_prompts && r.prompt.len() > o.step_tokens {
            return Err(Refusal::PromptTooLong { tokens: r.prompt.len(), context: o.step_tokens });
        }
        if r.max_tokens > 0 && matches!(r.rows, PromptRows::Head { .. }) {
            return Err(Refusal::HeadWithAnswer);
        }
        // The last token of an answer is never stored.
        let limit = r.prompt.len().saturating_add(r.max_tokens).min(o.context.saturating_add(1));
        let (tokens, room) = ((limit - 1).max(r.prompt.len()), self.blocks.saturating_mul(BLOCK_TOKENS));
        if tokens > room {
            return Err(Refusal::CacheTooSmall { tokens, room });
        }
        if self.queue.contains(r.id) || self.running.iter().any(|t| t.request.id == r.id) {
            return Err(Refusal::Duplicate);
        }
        if r.deadline.is_some_and(|d| d <= now) {
            return Err(Refusal::Late);
        }
        Ok(limit)
    }

    /// Cancels a request: at once, or, if it is in a step under way, when that is committed. The end is reported by the
    /// next [`Scheduler::plan`] or that [`Scheduler::commit`]. Returns whether there was such a request.
    pub fn cancel(&mut self, id: RequestId, tables: &mut BlockTables) -> bool {
        if let Some(task) = self.queue.remove(id) {
            self.end(&task, Finish::Cancelled, tables);
            return true;
        }
        let Some(i) = self.running.iter().position(|t| t.request.id == id) else { return false };
        if self.under_way && self.running[i].is_scheduled() {
            self.running[i].cancelled = true;
        } else {
            let task = self.running.remove(i);
            self.end(&task, Finish::Cancelled, tables);
        }
        true
    }

    /// Applies the results of the step that was planned last, after the engine has run it. `chosen` has the tokens of
    /// every entry that samples; those of requests cancelled since may be left out.
    ///
    /// # Errors
    /// The results do not match the step; nothing has changed, and the step is still under way.
    pub fn commit(&mut self, chosen: &[Chosen], tables: &mut BlockTables) -> Result<Vec<Decision>, Error> {
        let chosen = self.assign(chosen)?;
        self.under_way = false;
        let decoding = self.running.iter().filter(|t| t.is_scheduled() && t.decodes()).count();
        self.drafts.iter_mut().for_each(|drafts| drafts.settle(decoding));
        let tasks = std::mem::take(&mut self.running);
        for (mut task, chosen) in tasks.into_iter().zip(chosen) {
            let part = std::mem::take(&mut task.part);
            if part.tokens == 0 {
                self.running.push(task);
                continue;
            }
            let stop = self.settle(&mut task, &part, chosen, decoding, tables);
            let full = task.generated() > 0 && task.tokens.len() >= task.limit;
            let computed = task.limit <= task.prompt_tokens && task.missing() == 0;
            let finish = match stop {
                _ if task.cancelled => Some(Finish::Cancelled),
                Err(_) => Some(Finish::Failed),
                Ok(true) => Some(Finish::Stop),
                Ok(false) if computed => Some(Finish::Computed),
                Ok(false) => full.then_some(Finish::Length),
            };
            match finish {
                Some(finish) => self.end(&task, finish, tables),
                None => self.running.push(task),
            }
        }
        Ok(std::mem::take(&mut self.ended))
    }

    /// Ends all requests of the step that was planned last, because it failed. The other requests continue.
    pub fn abandon(&mut self, tables: &mut BlockTables) -> Vec<Decision> {
        self.under_way = false;
        for task in std::mem::take(&mut self.running) {
            if task.is_scheduled() {
                self.end(&task, Finish::Failed, tables);
            } else {
                self.running.push(task);
            }
        }
        std::mem::take(&mut self.ended)
    }

    /// Checks the results, and returns them for each running task.
    fn assign<'a>(&self, chosen: &'a [Chosen]) -> Result<Vec<Option<&'a Chosen>>, Error> {
        let refuse = |id: RequestId, what| Err(ErrorKind::Commit { request: id.0, what }.into());
        let mut of_task = vec![None; self.running.len()];
        for c in chosen {
            let Some(i) = self.running.iter().position(|t| t.request.id == c.request) else {
                return refuse(c.request, "the request is not running");
            };
            let t = &self.running[i];
            if !self.under_way || !t.scheduled().is_some_and(|s| s.samples) {
                return refuse(c.request, "no token was to be sampled");
            }
            if of_task[i].replace(c).is_some() {
                return refuse(c.request, "they are given twice");
            }
            let right = t.part.draft.iter().zip(&c.tokens).take_while(|(a, b)| a == b).count();
            if c.tokens.is_empty() && !c.stop || c.tokens.len() > right + 1 {
                return refuse(c.request, "expected one token plus one per accepted draft token");
            }
            if c.tokens.iter().any(|t| *t as usize >= self.options.vocabulary) {
                return refuse(c.request, "a token is outside the vocabulary");
            }
        }
        for (t, c) in self.running.iter().zip(&of_task) {
            if c.is_none() && !t.cancelled && t.scheduled().is_some_and(|s| s.samples) {
                return refuse(t.request.id, "they are missing");
            }
        }
        Ok(of_task)
    }

    /// Applies a step's results to a task. Returns whether the request was to end; fails if the sequence is not open.
    fn settle(
        &mut self,
        task: &mut Task,
        part: &Part,
        chosen: Option<&Chosen>,
        decoding: usize,
        tables: &mut BlockTables,
    ) -> Result<bool, Error> {
        let o = &self.options;
        if task.decodes() {
            let right = chosen.map_or(0, |c| c.tokens.len().saturating_sub(1));
            let of_lookup = if part.by_model { (0, 0) } else { (part.draft.len(), right) };
            task.lookup.settle(o.weights_read_tokens, decoding, of_lookup.0, of_lookup.1);
            if let Some(drafts) = self.drafts.as_mut().filter(|_| part.by_model) {
                // A draft that the answer ends in was not checked to its end.
                let drafted = if chosen.is_some_and(|c| c.stop) { right } else { part.draft.len() };
                task.acceptance.record(drafted, right, part.doubt);
                drafts.record(drafted, right, part.doubt);
            }
        }
        task.computed += part.tokens;
        task.delivered = task.delivered.max(task.computed.min(task.prompt_tokens));
        let prompt = task.computed.min(task.prompt_tokens).saturating_sub(task.paid);
        task.paid += prompt;
        self.counters.charge(task.request.key, prompt, o.prompt_weight);
        if let Some(c) = chosen {
            // The last token is not computed yet; rejected draft tokens are rolled back.
            task.computed += c.tokens.len().saturating_sub(1);
            task.tokens.extend_from_slice(&c.tokens);
            self.counters.charge(task.request.key, c.tokens.len(), o.output_weight);
        }
        if let Some(sequence) = task.sequence {
            if !part.draft.is_empty() {
                tables.truncate(sequence, task.computed)?;
            }
            tables.publish(sequence, &task.tokens[..task.computed])?;
        }
        Ok(chosen.is_some_and(|c| c.stop))
    }

    /// Puts a task in the queue.
    fn enqueue(&mut self, task: Task) {
        let key = task.request.key;
        // A key is backlogged if a request of it is in the queue or its prompt is still being computed.
        let computing = self.running.iter().filter(|t| !t.decodes()).map(|t| t.request.key);
        let backlogged: Vec<KeyId> = self.queue.keys().chain(computing).collect();
        if !backlogged.contains(&key) {
            self.counters.lift(key, backlogged.into_iter());
        }
        self.queue.push(task);
    }

    /// Ends a task, and records the decision.
    fn end(&mut self, task: &Task, finish: Finish, tables: &mut BlockTables) {
        match (task.request.held, task.sequence) {
            (None, Some(sequence)) => tables.close(sequence),
            (Some(held), _) => tables.release_unused(held.sequence),
            (None, None) => {}
        }
        let is_whole = matches!(finish, Finish::Stop | Finish::Length | Finish::Computed);
        if let Some(slo) = self.slo.as_mut().filter(|_| is_whole) {
            slo.ended.push((task.served, task.generated()));
        }
        let generated = task.generated();
        if let Some(drafts) = self.drafts.as_mut().filter(|_| is_whole && task.request.speculate) {
            drafts.ended(generated);
        }
        self.ended.push(Decision::Finished { request: task.request.id, finish, generated });
    }
}

#[cfg(test)]
mod tests;
