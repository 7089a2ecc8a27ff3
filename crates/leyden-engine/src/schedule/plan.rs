//! Planning of the next step.

use super::Scheduler;
use super::priority_ageing;
use super::request::{Decision, Finish, PromptRows, RequestId, Step};
use super::slo::Verdict;
use super::task::Task;
use crate::engine::{Outputs, StepEntry, WholeText};
use crate::error::{Error, ErrorKind};
use crate::tables::BlockTables;
use leyden_kernels::attention::BLOCK_TOKENS;
use leyden_models::Pooling;
use std::cmp::Reverse;
use std::time::Duration;

/// Number of running tasks for each of which admission leaves one block free, so that they do not preempt at once.
const TASKS_PER_SPARE_BLOCK: usize = 8;
/// Maximum number of requests in a plan that wait for time for a long prompt while others are admitted.
const MAX_PASSED: usize = 4;

impl Scheduler {
    /// Plans the next step. `now` is the time on the clock of deadlines; `tables` are the engine's.
    ///
    /// # Errors
    /// The previous step has been neither committed nor abandoned.
    pub fn plan(&mut self, now: Duration, tables: &mut BlockTables) -> Result<Step, Error> {
        if self.under_way {
            return Err(ErrorKind::StepUnderWay.into());
        }
        self.steps += 1;
        self.expire(now, tables);
        let mut decisions = std::mem::take(&mut self.ended);
        self.refuse_late(now, tables, &mut decisions);
        let calm = self.decode(tables, &mut decisions);
        let most = self.prompt_tokens(now);
        self.fill(now, calm, most, tables, &mut decisions);
        self.mark_beginnings(tables);
        self.speculate(most, tables);
        if self.queue.len() == 0 {
            self.retry.drained();
        }
        let mut step = Step { decisions, ..Step::default() };
        for task in &self.running {
            let Some(s) = task.scheduled() else { continue };
            let known = &task.tokens[task.computed..task.computed + task.part.tokens];
            let first = |rows: usize| task.part.tokens.saturating_sub(rows);
            let outputs = match (&task.request.rows, s.samples) {
                (PromptRows::Logits { .. }, _) if s.rows > 0 => Outputs::From(first(s.rows)),
                (PromptRows::Head { head, second }, _) if task.is_whole => {
                    let first_only = head.pooling() == Some(Pooling::Cls);
                    Outputs::Whole(WholeText { second: *second, first_only })
                }
                (PromptRows::Head { .. }, _) if s.rows > 0 => Outputs::States(first(s.rows)),
                (_, false) => Outputs::None,
                (_, true) if s.drafted == 0 => Outputs::Last,
                // A draft follows a single known token only.
                (_, true) => Outputs::From(0),
            };
            let tokens = [known, &task.part.draft].concat();
            step.plan.entries.push(StepEntry { sequence: s.sequence, tokens, outputs });
            step.scheduled.push(s);
        }
        self.under_way = !step.scheduled.is_empty();
        Ok(step)
    }

    /// Ends the requests whose deadline has passed.
    fn expire(&mut self, now: Duration, tables: &mut BlockTables) {
        let late = |t: &&Task| t.request.deadline.is_some_and(|d| d <= now);
        let waiting: Vec<RequestId> = self.queue.iter().filter(late).map(|t| t.request.id).collect();
        for task in waiting.into_iter().filter_map(|id| self.queue.remove(id)).collect::<Vec<_>>() {
            self.end(&task, Finish::Deadline, tables);
        }
        let (late, rest): (Vec<Task>, Vec<Task>) =
            std::mem::take(&mut self.running).into_iter().partition(|t| late(&t));
        self.running = rest;
        late.iter().for_each(|t| self.end(t, Finish::Deadline, tables));
    }

    /// Schedules the next token of every decoding task, and preempts tasks if there are too few blocks. Returns true if
    /// none was preempted.
    fn decode(&mut self, tables: &mut BlockTables, decisions: &mut Vec<Decision>) -> bool {
        self.rank(tables);
        let mut calm = true;
        let mut i = 0;
        while i < self.running.len() {
            let t = &self.running[i];
            let room = t.sequence.is_some_and(|s| tables.reserve(s, t.tokens.len()));
            if !room {
                // Preempts the task of the lowest rank, which may be this one.
                calm = false;
                self.preempt(self.running.len() - 1, tables, decisions);
                continue;
            }
            if self.running[i].decodes() {
                self.running[i].part.tokens = 1;
            }
            i += 1;
        }
        calm
    }

    /// Returns the maximum cost of prompts and drafts in this step, in tokens at the beginning of a text.
    fn prompt_tokens(&self, now: Duration) -> usize {
        let decodes = self.running.iter().any(Task::decodes);
        if decodes { self.promised_prompt_tokens(now) } else { self.options.prompt_tokens_alone }
    }

    /// Distributes the rest of the budget, at most a cost of `most`, among prompts, and admits requests while some is
    /// left.
    fn fill(
        &mut self,
        now: Duration,
        calm: bool,
        most: usize,
        tables: &mut BlockTables,
        decisions: &mut Vec<Decision>,
    ) {
        let eldest = self.eldest();
        let mut admits = calm;
        // The oldest task of the highest priority gets at least one token.
        if let Some(t) = self.running.iter_mut().find(|t| Some(t.request.id) == eldest && !t.is_scheduled()) {
            t.part.tokens = if self.options.whole_prompts { t.missing() } else { 1 };
        }
        let mut served = Vec::new();
        let mut waiting_on = Vec::new();
        while self.spare(most, 0) > 0 && self.beside_completed(most).is_none_or(|rest| rest >= 1.0) {
            let rank = |t: &Task| {
                (Reverse(t.request.priority), self.counters.get(t.request.key), priority_ageing::rank(t))
            };
            let open = |t: &&Task| !t.decodes() && !served.contains(&t.request.id);
            let runs = self.running.iter().filter(open).min_by_key(|t| rank(t));
            let ready = |t: &Task| {
                !(waiting_on.contains(&t.request.id) || tables.shares_beginnings() && self.follows(t))
            };
            let waits = if admits { self.queue.next(&self.counters, ready) } else { None };
            let (id, waiting) = match (runs, waits) {
                (None, None) => break,
                (Some(r), Some(w)) if rank(w) < rank(r) => (w.request.id, true),
                (None, Some(w)) => (w.request.id, true),
                (Some(r), _) => (r.request.id, false),
            };
            match if waiting { self.judge(id, &waiting_on, now, tables) } else { Verdict::Admit } {
                Verdict::Admit => {}
                Verdict::Wait if waiting_on.len() < MAX_PASSED => {
                    waiting_on.push(id);
                    continue;
                }
                Verdict::Wait | Verdict::Full => {
                    admits = false;
                    continue;
                }
            }
            if waiting && !self.admit(id, now, tables, decisions) {
                // No other request is admitted before this one: blocks that become free are for it.
                admits = false;
                continue;
            }
            self.give(id, most, &served);
            served.push(id);
        }
    }

    /// Schedules tokens of a prompt from the rest of the budget, and charges them to the slack of the requests that
    /// it passes: earlier ones that have not been `served` in this step. Callers check that at least one token
    /// is left; a whole prompt without another in the step is computed whatever it costs.
    fn give(&mut self, id: RequestId, most: usize, served: &[RequestId]) {
        let Some(i) = self.running.iter().position(|t| t.request.id == id) else { return };
        let t = &self.running[i];
        let (position, missing) = (t.computed + t.part.tokens, t.missing() - t.part.tokens);
        let (key, priority, order) = (t.request.key, t.request.priority, t.order);
        let taken: usize = self.running.iter().map(Task::logit_rows).sum();
        let within = t.within_logit_rows(self.options.logit_rows.saturating_sub(taken));
        let mut tokens =
            missing.min(self.spare(most, position).max(1)).min(within - t.part.tokens.min(within));
        if tokens < missing
            && let Some(rest) = self.beside_completed(most)
        {
            tokens = tokens.min(self.affordable(rest, position).max(1));
        }
        let passed = |other: &Task| {
            let r = &other.request;
            (r.key, r.priority) == (key, priority)
                && other.order < order
                && !other.decodes()
                && !served.contains(&r.id)
        };
        // A task without slack left would have gone first if it could, and must not delay others.
        let others = self.running.iter().chain(self.queue.iter()).filter(|other| passed(other));
        let slack = others.map(priority_ageing::slack).filter(|tokens| *tokens > 0).min();
        let mut tokens = tokens.min(slack.unwrap_or(usize::MAX));
        if self.options.whole_prompts && tokens < missing {
            if self.running.iter().any(Task::is_scheduled) {
                return;
            }
            tokens = missing;
        }
        let others = self.running.iter_mut().chain(self.queue.iter_mut());
        others.filter(|other| passed(other)).for_each(|other| other.passed_by += tokens);
        self.running[i].part.tokens += tokens;
    }

    /// Returns the cost left for prompts that are not completed in this step, if another prompt is completed, as its
    /// first token is due; `None` if none is completed.
    fn beside_completed(&self, most: usize) -> Option<f64> {
        let (completed, others): (Vec<&Task>, Vec<&Task>) =
            self.running.iter().filter(|t| !t.decodes()).partition(|t| t.part.tokens == t.missing());
        let taken: f64 = others.into_iter().map(|t| self.cost(t)).sum();
        let beside = most.min(self.options.prompt_tokens_beside_decode) as f64;
        (!completed.is_empty()).then_some(beside - taken)
    }

    /// Returns the cost of a task's known tokens in this step, in tokens at the beginning of a text.
    fn cost(&self, task: &Task) -> f64 {
        let (n, position) = (task.part.tokens as f64, task.computed as f64);
        n + self.options.position_cost * n * (position + n / 2.0)
    }

    /// Returns the number of tokens from a position on that have the given cost.
    fn affordable(&self, cost: f64, position: usize) -> usize {
        let deep = self.options.position_cost;
        let each = 1.0 + deep * position as f64;
        // `cost = each × n + deep × n² / 2`; the conversion saturates and drops the fraction.
        let n =
            if deep > 0.0 { ((each * each + 2.0 * deep * cost.max(0.0)).sqrt() - each) / deep } else { cost };
        n as usize
    }

    /// Returns the number of tokens from a position on that are left for prompts and drafts, which cost at most `most`;
    /// at least 1 in a step without tokens, so that no estimate of the costs keeps requests from running.
    pub(super) fn spare(&self, most: usize, position: usize) -> usize {
        let decodes = |t: &&Task| t.is_scheduled() && t.decodes() && t.admitted_in != self.steps;
        let all: usize = self.running.iter().map(|t| t.part.tokens + t.part.draft.len()).sum();
        let others = self.running.iter().filter(|t| !decodes(t));
        let drafts: usize = self.running.iter().map(|t| t.part.draft.len()).sum();
        let cost: f64 = others.map(|t| self.cost(t)).sum::<f64>() + drafts as f64;
        let affordable = self.affordable(most as f64 - cost, position).max(usize::from(all == 0));
        affordable.min(self.options.step_tokens.saturating_sub(all))
    }

    /// Adds checkpoints of recurrent states to prompts being computed, at the positions where waiting requests differ
    /// from them.
    fn mark_beginnings(&self, tables: &mut BlockTables) {
        if tables.can_go_back() {
            return;
        }
        for t in self.running.iter().filter(|t| !t.decodes()) {
            let Some(sequence) = t.sequence else { continue };
            let mut parts: Vec<usize> = self.queue.iter().map(|waiting| waiting.shares(t)).collect();
            parts.sort_unstable();
            parts.dedup();
            parts.retain(|tokens| *tokens > t.computed);
            parts.into_iter().for_each(|tokens| tables.add_checkpoint(sequence, tokens));
        }
    }

    /// Returns whether another task of the same key is computing the request's prefix, and has shared blocks of it
    /// still to compute.
    fn follows(&self, task: &Task) -> bool {
        self.running.iter().any(|t| {
            let (a, b) = (&t.request, &task.request);
            a.key == b.key && a.priority >= b.priority && !t.decodes() && task.shares(t) > t.computed
        })
    }

    /// Admits a request from the queue, if there is room for its tokens, or ends it if its held sequence cannot be used.
    /// Returns false if there is no room.
    fn admit(
        &mut self,
        id: RequestId,
        now: Duration,
        tables: &mut BlockTables,
        decisions: &mut Vec<Decision>,
    ) -> bool {
        // A task that was preempted in this step is not admitted in it again.
        let Some(task) = self.queue.get(id).filter(|t| t.preempted_in != self.steps) else { return false };
        let (key, priority) = (task.request.key, task.request.priority);
        let fits = match task.request.held {
            Some(held) => {
                task.tokens.len().div_ceil(BLOCK_TOKENS).saturating_sub(tables.blocks_of(held.sequence))
            }
            None => tables.fit(task.request.scope.as_ref(), task.cacheable(), task.tokens.len()).blocks,
        };
        let blocks = fits + self.running.len().div_ceil(TASKS_PER_SPARE_BLOCK);
        let full = self.running.len() >= self.options.running;
        if (full || blocks > tables.available_blocks())
            && !self.reclaim(priority, key, blocks, tables, decisions)
        {
            return false;
        }
        let Some(mut task) = self.queue.remove(id) else { return false };
        let is_first = task.admitted_in == 0;
        let (sequence, cached) = match (task.request.held, &task.request.scope) {
            (Some(held), _) => {
                let same = held.same.min(task.cacheable().len() - 1);
                let cached = tables.keepable(held.sequence, same);
                if tables.truncate(held.sequence, cached).is_err() {
                    // The caller has closed the sequence, or shares its blocks.
                    self.end(&task, Finish::Failed, tables);
                    return true;
                }
                tables.plan_checkpoints(held.sequence, task.tokens.len(), same);
                (held.sequence, cached)
            }
            (None, Some(scope)) => tables.open_shared(scope.clone(), task.cacheable()),
            (None, None) => (tables.open_adapted(task.request.adapters.clone()), 0),
        };
        if !tables.reserve(sequence, task.tokens.len()) {
            // Should not occur, as closing others frees blocks; the request then stays in the queue.
            if task.request.held.is_none() {
                tables.close(sequence);
            }
            self.queue.push(task);
            return false;
        }
        task.sequence = Some(sequence);
        task.computed = cached;
        task.paid = task.paid.max(cached.min(task.prompt_tokens));
        task.admitted_in = self.steps;
        if let Some(slo) = self.slo.as_mut().filter(|_| is_first) {
            let waited = self.steps > task.served.submitted_in + 1;
            slo.admit(key, task.missing(), waited);
        }
        self.running.push(task);
        self.counters.admitted(key);
        self.retry.departed(now);
        decisions.push(Decision::Admitted { request: id, cached_tokens: cached });
        true
    }
}
