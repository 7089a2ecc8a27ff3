//! Who runs in the next step.
//!
//! The scheduler is a value: times are arguments, and the same calls give the same plans. Whoever drives it repeats
//! [`Scheduler::plan`], [`crate::Engine::step`], the choice of tokens and [`Scheduler::commit`].
//!
//! **One budget.** There is no phase for prompts. Every task has tokens that are known and fewer that are computed,
//! and every step gives out [`SchedulerOptions::step_tokens`] among tasks: first one to each that decodes, then the
//! rest to prompts, in chunks, then to guesses ([`Lookup`]). While anybody decodes, prompts and guesses together cost at
//! most as much as [`SchedulerOptions::prompt_tokens_beside_decode`], which bounds how much longer a step takes for the
//! others, however many prompts there are and however far they are; while nobody does, as much as
//! [`SchedulerOptions::prompt_tokens_alone`], which bounds how long somebody who comes meanwhile waits. In a step in
//! which a prompt is completed, whose user waits for it, other prompts get no more than beside those who decode.
//!
//! **Order.** Higher priority goes first. Within a priority the key that has received the least service goes next
//! (virtual token counters, Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024). Of two keys of one
//! priority that both have requests waiting for an interval, the weighted tokens computed for them in it differ by at most
//! 2 U, where U is the weighted length of the requests that one key can have running: `running` times the longest request
//! (the paper's bound; its M is what its memory can hold). Slots and blocks are divided too: a key that has less than an
//! equal part of them takes it from keys that have more, by preemption.
//!
//! Within a key the prompt with the fewest tokens left goes first, and of equal ones whoever came first: a short prompt
//! passes long ones. But not forever: those that came later get at most a tenth of a prompt's tokens before it, or a
//! block, half of that at once and the rest as it gets on itself; whose patience is at an end goes before all others, in
//! the order of arrival (`patience`).
//!
//! **Memory.** A task is admitted when all its known tokens fit, with a block to spare for every eight tasks that run.
//! Growing answers that find no block preempt: the lowest priority first, then the key with the most beyond its part,
//! then whoever came last. A preempted task keeps its tokens and computes them again later, less what the prefix cache still
//! has. Of the tasks that run, the oldest of the highest priority gives way to a higher priority only and gets at least
//! a token in every step, so something always finishes.
//!
//! **Prefix cache.** Full blocks are shared among requests of one [`crate::Scope`]; in models with recurrent layers, those before
//! a checkpoint of their states. A request whose beginning is being computed by another of its key waits for it, and has a
//! checkpoint made where it ends.

mod cost;
mod counters;
mod lookup;
mod options;
mod patience;
mod plan;
mod preempt;
mod queue;
mod request;
mod retry;
mod task;

use crate::error::{Error, ErrorKind};
use crate::tables::BlockTables;
pub use cost::StepCost;
use counters::Counters;
use leyden_kernels::attention::BLOCK_TOKENS;
pub use lookup::{Lookup, guess, verify};
pub use options::SchedulerOptions;
use queue::Queue;
pub use request::{
    Chosen, Decision, Finish, Held, KeyId, PromptRows, Refusal, Request, RequestId, Scheduled, Step,
};
use retry::RetryHint;
use std::sync::Arc;
use std::time::Duration;
use task::{Part, Task};

/// Requests, waiting and running.
///
/// ```
/// use leyden_engine::BlockTables;
/// use leyden_engine::schedule::{
///     Chosen, KeyId, PromptRows, Request, RequestId, Scheduler, SchedulerOptions, Step,
/// };
/// use std::time::Duration;
///
/// // In a server the tables are `engine.tables_mut()`.
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
/// // Here `engine.step(&step.plan)` runs, and tokens are chosen for the entries that sample.
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
    /// Blocks of the engine's cache.
    blocks: usize,
    queue: Queue,
    running: Vec<Task>,
    counters: Counters,
    retry: RetryHint,
    /// Requests so far.
    arrivals: u64,
    /// Steps so far.
    steps: u64,
    /// Whether a step was planned and its results are due.
    under_way: bool,
    /// Ends between two plans, for the next one to report.
    ended: Vec<Decision>,
}

impl Scheduler {
    /// A scheduler for an engine whose cache has `blocks` blocks of [`BLOCK_TOKENS`] tokens. Options that make no sense
    /// are replaced by the nearest that do.
    #[must_use]
    pub fn new(options: SchedulerOptions, blocks: usize) -> Scheduler {
        Scheduler {
            options: options.settled(),
            blocks,
            queue: Queue::default(),
            running: Vec::new(),
            counters: Counters::default(),
            retry: RetryHint::default(),
            arrivals: 0,
            steps: 0,
            under_way: false,
            ended: Vec::new(),
        }
    }

    /// The options in force.
    #[must_use]
    pub fn options(&self) -> &SchedulerOptions {
        &self.options
    }

    /// Changes the options that follow from the machine's speed, as [`StepCost`] measures it.
    pub fn tune(&mut self, change: impl FnOnce(&mut SchedulerOptions)) {
        let mut tuned = self.options;
        change(&mut tuned);
        self.options = tuned.settled();
    }

    /// Requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Requests that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether there is neither.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.len() + self.running.len() + self.ended.len() == 0
    }

    /// Weighted tokens that a key has received, or been lifted to.
    #[must_use]
    pub fn service(&self, key: KeyId) -> u64 {
        self.counters.get(key)
    }

    /// Whether the queue has room for another request of a key.
    #[must_use]
    pub fn has_place(&self, key: KeyId) -> bool {
        self.queue.of_key(key) < self.options.waiting_per_key && self.queue.len() < self.options.waiting
    }

    /// Puts a request in the queue.
    ///
    /// # Errors
    /// It cannot be served, or not now; nothing has changed.
    pub fn submit(&mut self, request: Request, now: Duration) -> Result<(), Refusal> {
        let limit = self.check(&request, now)?;
        if self.queue.of_key(request.key) >= self.options.waiting_per_key {
            return Err(Refusal::KeyQueueFull { retry_after: self.retry.turned_away() });
        }
        if self.queue.len() >= self.options.waiting {
            return Err(Refusal::QueueFull { retry_after: self.retry.turned_away() });
        }
        let mut request = request;
        if self.options.whole_prompts {
            // Where tokens see those behind them, a beginning is worth nothing for another text.
            request.scope = None;
        }
        if let Some(scope) = request.scope.as_mut().filter(|scope| scope.adapters != request.adapters) {
            // What one adapter has computed is worth nothing for another.
            Arc::make_mut(scope).adapters = request.adapters.clone();
        }
        let task = Task::new(request, self.arrivals, limit);
        self.arrivals += 1;
        self.enqueue(task);
        Ok(())
    }

    /// The most tokens that the request can have, or why it cannot be served.
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

    /// Ends a request: at once, or, if it is in a step that is under way, when that is committed. The end is reported
    /// by the next [`Scheduler::plan`] or that [`Scheduler::commit`]. Returns whether there was such a request.
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

    /// Takes the results of the step that was planned last, after the engine has run it. `chosen` has the tokens of
    /// every entry that samples; those of requests cancelled since may be left out.
    ///
    /// # Errors
    /// The results are not those of the step; nothing has changed, and the step is still under way.
    pub fn commit(&mut self, chosen: &[Chosen], tables: &mut BlockTables) -> Result<Vec<Decision>, Error> {
        let chosen = self.assign(chosen)?;
        self.under_way = false;
        let decoding = self.running.iter().filter(|t| t.is_scheduled() && t.decodes()).count();
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

    /// Ends all requests of the step that was planned last: it failed. The others go on.
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

    /// The results for each task that runs, checked.
    fn assign<'a>(&self, chosen: &'a [Chosen]) -> Result<Vec<Option<&'a Chosen>>, Error> {
        let refuse = |id: RequestId, what| Err(ErrorKind::Commit { request: id.0, what }.into());
        let mut of_task = vec![None; self.running.len()];
        for c in chosen {
            let Some(i) = self.running.iter().position(|t| t.request.id == c.request) else {
                return refuse(c.request, "it does not run");
            };
            let t = &self.running[i];
            if !self.under_way || !t.scheduled().is_some_and(|s| s.samples) {
                return refuse(c.request, "no token was to be chosen");
            }
            if of_task[i].replace(c).is_some() {
                return refuse(c.request, "they stand twice");
            }
            let right = t.part.draft.iter().zip(&c.tokens).take_while(|(a, b)| a == b).count();
            if c.tokens.is_empty() && !c.stop || c.tokens.len() > right + 1 {
                return refuse(c.request, "there must be one token, and one more for each right guess");
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

    /// Enters a step's results in a task. Returns whether its end was chosen; fails if the tables do not know its
    /// sequence.
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
            task.lookup.settle(o.weights_read_tokens, decoding, part.draft.len(), right);
        }
        task.computed += part.tokens;
        task.delivered = task.delivered.max(task.computed.min(task.prompt_tokens));
        let prompt = task.computed.min(task.prompt_tokens).saturating_sub(task.paid);
        task.paid += prompt;
        self.counters.charge(task.request.key, prompt, o.prompt_weight);
        if let Some(c) = chosen {
            // The last token is not computed yet; wrong guesses are forgotten.
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
        // Backlogged is who waits, be it in the queue or for the rest of a prompt.
        let computing = self.running.iter().filter(|t| !t.decodes()).map(|t| t.request.key);
        let backlogged: Vec<KeyId> = self.queue.keys().chain(computing).collect();
        if !backlogged.contains(&key) {
            self.counters.lift(key, backlogged.into_iter());
        }
        self.queue.push(task);
    }

    /// Forgets a task.
    fn end(&mut self, task: &Task, finish: Finish, tables: &mut BlockTables) {
        match (task.request.held, task.sequence) {
            (None, Some(sequence)) => tables.close(sequence),
            // What was reserved and not used goes back; a cut behind the last token changes nothing else.
            (Some(held), _) => {
                drop(tables.tokens(held.sequence).and_then(|n| tables.truncate(held.sequence, n)))
            }
            (None, None) => {}
        }
        let generated = task.generated();
        self.ended.push(Decision::Finished { request: task.request.id, finish, generated });
    }
}

#[cfg(test)]
mod tests;
