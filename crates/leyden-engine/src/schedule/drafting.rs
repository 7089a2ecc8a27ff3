//! Drafts in a planned step: those found by lookup, and those that a draft model is asked for.

use super::Scheduler;
use super::draft_plan::{Candidate, DraftCost, DraftPlan, MAX_DRAFT, READ};
use super::lookup::repetition;
use super::request::{Draft, Progress, Request, RequestId, Step, Wish};
use super::step_time::StepLoad;
use super::task::Task;
use crate::engine::Outputs;
use crate::tables::BlockTables;
use std::time::Duration;

/// Minimum probability of right tokens with which any repetition is preferred to a draft model; and with which one of
/// so many tokens is.
const SURE: f64 = 0.75;
const SURE_OF_LONG: (f64, usize) = (0.5, 4);

/// Returns the size of a step, in which every row with logits counts as a sample.
pub(super) fn load(step: &Step) -> StepLoad {
    let mut load = StepLoad::default();
    for s in &step.scheduled {
        let samples = if s.samples { s.drafted + 1 } else { 0 };
        load.samples += samples as f64;
        load.others += (s.tokens - samples) as f64;
        load.positions += s.tokens as f64 * (s.position as f64 + s.tokens as f64 / 2.0);
    }
    load
}

impl Scheduler {
    /// Prepares the scheduler for a draft model. Until its steps are measured, their times are estimated by `cost`.
    #[must_use]
    pub fn with_draft_model(self, cost: DraftCost) -> Scheduler {
        Scheduler { drafts: Some(Box::new(DraftPlan::new(cost))), ..self }
    }

    /// Adds draft tokens from repetitions to requests that allow them, from the rest of the budget and available
    /// blocks.
    pub(super) fn speculate(&mut self, most: usize, tables: &mut BlockTables) {
        self.spare_drafts = 0;
        if self.options.weights_read_tokens <= 0.0 {
            return;
        }
        let mut rest = self.spare(most, 0).min(tables.draft_room());
        for t in &mut self.running {
            if rest == 0 || !drafts_for(t) {
                continue;
            }
            // One token is sampled besides the draft.
            let most = t.lookup.allowance().min(t.limit - t.tokens.len() - 1).min(rest);
            let Some(sequence) = t.sequence.filter(|_| most > 0) else { continue };
            let mut found = tables.continuation(sequence, &t.tokens, most);
            if found.is_empty() {
                let (tokens, length) = repetition(&t.tokens, most);
                let rate = t.lookup.rate();
                let is_sure = rate >= SURE || rate >= SURE_OF_LONG.0 && length >= SURE_OF_LONG.1;
                found = if is_sure || self.drafts.is_none() { tokens.to_vec() } else { Vec::new() };
            }
            if !found.is_empty() && tables.reserve(sequence, t.tokens.len() + found.len()) {
                tables.expect_draft(sequence);
                rest -= found.len();
                t.part.draft = found;
            }
        }
        self.spare_drafts = rest;
    }

    /// Returns the drafts that the draft model is to make for the step that was planned last, and has made no draft
    /// for. `progress` returns its progress in the text of a request.
    pub fn wishes(&mut self, step: &Step, progress: &dyn Fn(&Request, &[u32]) -> Progress) -> Vec<Wish> {
        let (rest, decoding) = (self.spare_drafts, self.decoding());
        let Some(drafts) = self.drafts.as_mut().filter(|_| self.under_way && rest > 0) else {
            return Vec::new();
        };
        let load = load(step);
        let mut candidates = Vec::new();
        for (i, t) in
            self.running.iter().enumerate().filter(|(_, t)| drafts_for(t) && t.part.draft.is_empty())
        {
            let most = MAX_DRAFT.min(t.limit - t.tokens.len() - 1);
            let progress = progress(&t.request, &t.tokens);
            let (rate, left) = (t.acceptance.rate(drafts.expected()), drafts.left(t.generated()));
            let left = left.min((t.limit - t.tokens.len()) as f64);
            if most > 0 {
                candidates.push(Candidate { task: i, rate, most, progress, left });
            }
        }
        candidates.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        candidates.truncate(rest);
        let mut lengths = drafts.lengths(load, decoding, &candidates);
        if let Some(first) = candidates.first().filter(|_| lengths.tokens == 0) {
            lengths = drafts.trial(load, decoding, first);
        }
        candidates.truncate(lengths.requests);
        let each = rest / candidates.len().max(1);
        let wish = |c: &Candidate| {
            let Progress { skipped, behind, is_reading, .. } = c.progress;
            // A text is read to its end once that is begun.
            let is_ready = behind <= READ || is_reading;
            let reading = if is_reading || is_ready && skipped == 0 {
                None
            } else {
                drafts.reading(load, decoding, c, lengths.gain)
            };
            (is_ready || reading.is_some()).then(|| Wish {
                request: self.running[c.task].request.id,
                read: reading.unwrap_or(behind),
                anew: is_ready && reading.is_some(),
                tokens: lengths.tokens.min(c.most).min(each),
                most: c.most.min(each),
                least: lengths.marginal,
            })
        };
        candidates.iter().filter_map(wish).collect()
    }

    /// Returns the known tokens of a running request.
    #[must_use]
    pub fn text(&self, request: RequestId) -> Option<&[u32]> {
        self.running.iter().find(|t| t.request.id == request).map(|t| &t.tokens[..])
    }

    /// Adds the draft model's drafts to the step that was planned last. `steps` are the numbers of rows with logits of
    /// the draft model's steps.
    pub fn attach(
        &mut self,
        step: &mut Step,
        made: Vec<(RequestId, Draft)>,
        steps: &[usize],
        tables: &mut BlockTables,
    ) {
        let (load, decoding) = (load(step), self.decoding());
        let read = made.iter().map(|(_, draft)| draft.read).sum();
        let mut drafted = 0;
        for (request, draft) in made {
            let Some(t) = self.running.iter_mut().find(|t| t.request.id == request && drafts_for(t)) else {
                continue;
            };
            let Some(sequence) = t.sequence else { continue };
            let tokens = draft.tokens;
            (t.part.by_model, t.part.doubt) = (!tokens.is_empty() || draft.doubt.is_some(), draft.doubt);
            if tokens.is_empty() || !tables.reserve(sequence, t.tokens.len() + tokens.len()) {
                continue;
            }
            tables.expect_draft(sequence);
            drafted += tokens.len();
            let entries = step.plan.entries.iter_mut().zip(&mut step.scheduled);
            for (entry, scheduled) in entries.filter(|(_, s)| s.request == request) {
                entry.tokens.extend_from_slice(&tokens);
                // A draft follows a single known token only.
                entry.outputs = Outputs::From(0);
                (scheduled.tokens, scheduled.drafted) = (1 + tokens.len(), tokens.len());
            }
            t.part.draft = tokens;
        }
        if let Some(drafts) = &mut self.drafts {
            drafts.spend(load, decoding, steps, read, drafted);
        }
    }

    /// Records the time of a step of the draft model.
    pub fn observe_draft(&mut self, load: StepLoad, time: Duration) {
        self.drafts.iter_mut().for_each(|drafts| drafts.observe_draft(load, time));
    }

    fn decoding(&self) -> usize {
        self.running.iter().filter(|t| t.is_scheduled() && t.decodes()).count()
    }
}

/// Returns whether tokens may be drafted for a task in the step.
fn drafts_for(task: &Task) -> bool {
    task.request.speculate && task.is_scheduled() && task.decodes()
}
