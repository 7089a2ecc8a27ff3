//! A request on its way through the scheduler.

use super::lookup::Lookup;
use super::request::{PromptRows, Request, Scheduled};
use crate::tables::SequenceId;
use leyden_kernels::attention::BLOCK_TOKENS;
use std::sync::Arc;

/// What runs of a task in the step under way.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Known tokens; 0 if the task is not in the step.
    pub(crate) tokens: usize,
    /// Guesses behind them.
    pub(crate) draft: Vec<u32>,
}

/// A request, its tokens, and how far they are computed.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) request: Request,
    /// Counts arrivals.
    pub(crate) order: u64,
    /// The prompt, then what was generated.
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt_tokens: usize,
    /// The most tokens there will be.
    pub(crate) limit: usize,
    /// Leading tokens that the key has paid for, or need not.
    pub(crate) paid: usize,
    /// The sequence, while it runs.
    pub(crate) sequence: Option<SequenceId>,
    /// Tokens whose keys and values are stored.
    pub(crate) computed: usize,
    pub(crate) part: Part,
    /// Tokens of the prompt, from its beginning, whose rows were wanted and have been given.
    pub(crate) delivered: usize,
    /// Tokens of others of its key that came later and were computed before it.
    pub(crate) yielded: usize,
    /// The step in which it was admitted.
    pub(crate) admitted_in: u64,
    /// The step in which it was preempted last.
    pub(crate) preempted_in: u64,
    /// Cancelled while in a step that is under way.
    pub(crate) cancelled: bool,
    pub(crate) lookup: Lookup,
}

impl Task {
    pub(crate) fn new(request: Request, order: u64, limit: usize) -> Task {
        let mut request = request;
        let tokens = std::mem::take(&mut request.prompt);
        Task {
            order,
            prompt_tokens: tokens.len(),
            tokens,
            limit,
            paid: 0,
            sequence: None,
            computed: 0,
            part: Part::default(),
            delivered: 0,
            yielded: 0,
            admitted_in: 0,
            preempted_in: 0,
            cancelled: false,
            lookup: Lookup::default(),
            request,
        }
    }

    /// Tokens generated so far.
    pub(crate) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt_tokens
    }

    /// Known tokens that are still to be computed; the last one always is.
    pub(crate) fn missing(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Whether only the token chosen last is to be computed.
    pub(crate) fn decodes(&self) -> bool {
        self.missing() == 1 && self.generated() > 0
    }

    /// Whether it is in the step.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.part.tokens > 0
    }

    /// The tokens whose beginning may come from the cache: not those of which rows are still wanted.
    pub(crate) fn cacheable(&self) -> &[u32] {
        let from = self.request.rows.from().map(|from| from.max(self.delivered));
        let end = from.filter(|from| *from < self.prompt_tokens).map_or(self.tokens.len(), |from| from + 1);
        &self.tokens[..end]
    }

    /// Of known tokens from `computed` on, how many are wanted rows.
    fn rows(&self, tokens: usize) -> usize {
        let Some(from) = self.request.rows.from() else { return 0 };
        let end = (self.computed + tokens).min(self.prompt_tokens);
        end.saturating_sub(from.max(self.delivered).max(self.computed))
    }

    /// How many known tokens may run if at most so many of them may be those whose logits are wanted.
    pub(crate) fn within_logit_rows(&self, rows: usize) -> usize {
        let PromptRows::Logits { from } = self.request.rows else { return usize::MAX };
        let from = from.max(self.delivered);
        if from >= self.prompt_tokens {
            usize::MAX
        } else {
            from.saturating_sub(self.computed).saturating_add(rows)
        }
    }

    /// Rows of logits for its prompt in the step.
    pub(crate) fn logit_rows(&self) -> usize {
        match self.request.rows {
            PromptRows::Logits { .. } => self.rows(self.part.tokens),
            _ => 0,
        }
    }

    /// Leading tokens in whole blocks that this one, which waits, and `other` have in common.
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

    /// What of it runs in the step, if anything.
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
