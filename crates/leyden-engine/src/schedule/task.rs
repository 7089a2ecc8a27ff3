//! [`Task`]: a request in the scheduler, waiting or running.

use super::acceptance::Acceptance;
use super::lookup::Lookup;
use super::request::{PromptRows, Request, Scheduled};
use super::slo_state::Served;
use crate::tables::SequenceId;
use leyden_kernels::attention::BLOCK_TOKENS;
use std::sync::Arc;

/// Part of a task in the step under way.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Number of known tokens; 0 if the task is not in the step.
    pub(crate) tokens: usize,
    /// Draft tokens after them.
    pub(crate) draft: Vec<u32>,
    /// True if the draft model was asked for the draft, and the probability of the token that it did not draft.
    pub(crate) by_model: bool,
    pub(crate) doubt: Option<f64>,
}

/// Request, its tokens, and how many are computed.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) request: Request,
    /// True if the prompt is computed in one step.
    pub(crate) is_whole: bool,
    /// Number of arrivals before it.
    pub(crate) order: u64,
    /// Tokens of the prompt, then the generated ones.
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt_tokens: usize,
    /// Maximum number of tokens.
    pub(crate) limit: usize,
    /// Number of leading tokens that the key was charged for, or that were cached.
    pub(crate) paid: usize,
    /// Sequence of a running task.
    pub(crate) sequence: Option<SequenceId>,
    /// Number of tokens whose keys and values are stored.
    pub(crate) computed: usize,
    pub(crate) part: Part,
    /// Number of leading prompt tokens whose requested results have been returned.
    pub(crate) delivered: usize,
    /// Number of tokens of later requests of its key that were computed before it.
    pub(crate) passed_by: usize,
    /// Number of the step in which it was admitted.
    pub(crate) admitted_in: u64,
    /// Number of the step in which it was last preempted.
    pub(crate) preempted_in: u64,
    /// True if it was cancelled during a step that it is in.
    pub(crate) cancelled: bool,
    pub(crate) lookup: Lookup,
    /// Acceptance of the draft model's tokens.
    pub(crate) acceptance: Acceptance,
    pub(crate) served: Served,
}

impl Task {
    pub(crate) fn new(request: Request, order: u64, limit: usize) -> Task {
        let mut request = request;
        let tokens = std::mem::take(&mut request.prompt);
        Task {
            is_whole: false,
            order,
            prompt_tokens: tokens.len(),
            tokens,
            limit,
            paid: 0,
            sequence: None,
            computed: 0,
            part: Part::default(),
            delivered: 0,
            passed_by: 0,
            admitted_in: 0,
            preempted_in: 0,
            cancelled: false,
            lookup: Lookup::default(),
            acceptance: Acceptance::default(),
            served: Served::default(),
            request,
        }
    }

    /// Returns the number of generated tokens.
    pub(crate) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt_tokens
    }

    /// Returns the number of known tokens that are still to be computed; the last one always is.
    pub(crate) fn missing(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Returns whether only the token sampled last is to be computed.
    pub(crate) fn decodes(&self) -> bool {
        self.missing() == 1 && self.generated() > 0
    }

    /// Returns whether the task is in the step.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.part.tokens > 0
    }

    /// Returns the tokens whose prefix may come from the cache: those before any token with requested results still
    /// due.
    pub(crate) fn cacheable(&self) -> &[u32] {
        let from = self.first_row().map(|from| from.max(self.delivered));
        let end = from.filter(|from| *from < self.prompt_tokens).map_or(self.tokens.len(), |from| from + 1);
        &self.tokens[..end]
    }

    /// Returns the index of the first prompt token whose logits or hidden state is needed.
    fn first_row(&self) -> Option<usize> {
        if self.is_whole { Some(0) } else { self.request.rows.from(self.prompt_tokens) }
    }

    /// Returns the number of rows requested for the next `tokens` known tokens.
    fn rows(&self, tokens: usize) -> usize {
        let Some(from) = self.first_row() else { return 0 };
        let end = (self.computed + tokens).min(self.prompt_tokens);
        end.saturating_sub(from.max(self.delivered).max(self.computed))
    }

    /// Returns the number of known tokens that may run if at most `rows` of them may be tokens with requested logits.
    pub(crate) fn within_logit_rows(&self, rows: usize) -> usize {
        let PromptRows::Logits { from } = self.request.rows else { return usize::MAX };
        let from = from.max(self.delivered);
        if from >= self.prompt_tokens {
            usize::MAX
        } else {
            from.saturating_sub(self.computed).saturating_add(rows)
        }
    }

    /// Returns the number of rows of logits for its prompt in the step.
    pub(crate) fn logit_rows(&self) -> usize {
        match self.request.rows {
            PromptRows::Logits { .. } => self.rows(self.part.tokens),
            _ => 0,
        }
    }

    /// Returns the number of leading tokens, in whole blocks, that this waiting task and `other` have in common.
    pub(crate) fn shares(&self, other: &Task) -> usize {
        let same_scope = match (&self.request.scope, &other.request.scope) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        };
        if !same_scope {
            return 0;
        }
        let (a, b) = (self.tokens.chunks_exact(BLOCK_TOKENS), other.tokens.chunks_exact(BLOCK_TOKENS));
        let same = a.zip(b).take_while(|(a, b)| a == b).count();
        same.min((self.cacheable().len() - 1) / BLOCK_TOKENS) * BLOCK_TOKENS
    }

    /// Returns the task's entry in the step, if any.
    pub(crate) fn scheduled(&self) -> Option<Scheduled> {
        let sequence = self.sequence.filter(|_| self.is_scheduled())?;
        let drafted = self.part.draft.len();
        Some(Scheduled {
            request: self.request.id,
            sequence,
            position: self.computed,
            tokens: self.part.tokens + drafted,
            rows: self.rows(self.part.tokens),
            drafted,
            samples: self.part.tokens == self.missing() && self.limit > self.prompt_tokens,
        })
    }
}
