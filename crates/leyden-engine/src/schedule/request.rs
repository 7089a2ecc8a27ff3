//! Input and output of the scheduler.

use crate::engine::StepPlan;
use crate::prefix::Scope;
use crate::tables::SequenceId;
use leyden_models::AdapterSet;
use leyden_models::heads::{Head, HeadError};
use std::sync::Arc;
use std::time::Duration;

/// Number of a request, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Key among which capacity is shared fairly: an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub u32);

/// Requested results for a prompt's tokens, besides their keys and values.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PromptRows {
    /// Nothing.
    #[default]
    None,
    /// Logits after each token from this one on.
    Logits {
        /// Index of the first token.
        from: usize,
    },
    /// Output of a head for the prompt; no tokens are generated after it.
    Head {
        /// Requested output.
        head: Head,
        /// Index of the first token of a pair's second text, for models with token types.
        second: Option<usize>,
    },
}

impl PromptRows {
    /// Returns the request for the output of a head for one text.
    pub fn head(head: impl Into<Head>) -> PromptRows {
        PromptRows::Head { head: head.into(), second: None }
    }

    /// Returns the index of the first token whose logits or hidden state is needed, in a prompt of `n_tokens` tokens.
    pub(crate) fn from(&self, n_tokens: usize) -> Option<usize> {
        match self {
            PromptRows::None => None,
            PromptRows::Logits { from } => Some(*from),
            PromptRows::Head { head, .. } if head.needs_all() => Some(0),
            PromptRows::Head { .. } => Some(n_tokens - 1),
        }
    }
}

/// Sequence of the caller that stays open, with all computed tokens, when the request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Open sequence without a scope, used by no other request, with the request's adapters.
    pub sequence: SequenceId,
    /// Number of its first tokens that equal the prompt's; the tokens after them are dropped.
    pub same: usize,
}

/// Request for one answer. Several answers to one prompt are several requests: the later ones wait until the first has
/// computed the prompt and then share its blocks.
#[derive(Clone, Debug)]
pub struct Request {
    /// Number that no other request in the scheduler has.
    pub id: RequestId,
    /// Key that the request is charged to.
    pub key: KeyId,
    /// Priority: higher goes first, before any fairness; 0 is usual.
    pub priority: i32,
    /// Tokens of the prompt; at least one.
    pub prompt: Vec<u32>,
    /// Maximum of tokens to generate, clipped to the rest of the context; with 0 only the prompt is computed.
    pub max_tokens: usize,
    /// Scope in which cache blocks are shared; `None` shares none.
    pub scope: Option<Arc<Scope>>,
    /// Adapters of the request; they replace the scope's.
    pub adapters: AdapterSet,
    /// Time at which the request is ended, whatever has been generated; on the clock of `now`.
    pub deadline: Option<Duration>,
    /// True if tokens may be drafted: from repetitions in the text ([`super::Lookup`]) and by a draft model.
    pub speculate: bool,
    /// Requested results for the prompt's tokens.
    pub rows: PromptRows,
    /// Sequence to run the request in, instead of a new one. Replaces `scope`.
    pub held: Option<Held>,
}

/// Arrival of a request, for admission under a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Time of its arrival, on the clock of `now`.
    pub at: Duration,
    /// True if it may be refused because the promise cannot be kept; else it waits until it can run.
    pub refusable: bool,
    /// Number of tokens of further prompts whose results its user waits for.
    pub more_tokens: usize,
}

/// Reason for refusing a request under a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SloRefusal {
    /// The first token would come too late now.
    #[error("the first token is expected after {expected:?}")]
    Busy {
        /// Expected time from the arrival to the first token.
        expected: Duration,
        /// Suggested time until the next try: at least 1 s, at most 60 s.
        retry_after: Duration,
    },
    /// The prompt is so long that the first token would come too late on an idle engine.
    #[error("the first token is expected after {expected:?} even on an idle engine")]
    TooLong {
        /// Expected time to the first token on an idle engine.
        expected: Duration,
    },
}

/// Reason for refusing a request. Reasons in the request itself are reported before temporary ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A prompt without tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A token of the prompt that is not in the vocabulary.
    #[error("token {id} is outside the vocabulary of {vocabulary}")]
    Token {
        /// Token id.
        id: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// A prompt longer than the context, or than a step if it must be computed in one.
    #[error("a prompt of {tokens} tokens does not fit the context of {context}")]
    PromptTooLong {
        /// Number of tokens of the prompt.
        tokens: usize,
        /// Maximum number of tokens.
        context: usize,
    },
    /// A prompt with an answer that would not fit an empty cache.
    #[error("prompt and answer of {tokens} tokens do not fit the cache of {room}")]
    CacheTooSmall {
        /// Number of tokens that would have to be stored.
        tokens: usize,
        /// Number of tokens that can be stored.
        room: usize,
    },
    /// A head that the model lacks, or whose data does not fit the prompt.
    #[error("{0}")]
    Head(HeadError),
    /// A request for the output of a head that also asks for generated tokens.
    #[error("a request for the output of a head generates no tokens")]
    HeadWithAnswer,
    /// A number that another request has.
    #[error("a request with this number exists")]
    Duplicate,
    /// A deadline that has passed.
    #[error("the deadline has passed")]
    Late,
    /// The promise cannot be kept for it.
    #[error(transparent)]
    Slo(SloRefusal),
    /// Too many waiting requests of this key.
    #[error("too many requests of this key are waiting")]
    KeyQueueFull {
        /// Suggested time until the next try: at least 1 s, at most 120 s.
        retry_after: Duration,
    },
    /// Too many waiting requests.
    #[error("too many requests are waiting")]
    QueueFull {
        /// Suggested time until the next try: at least 1 s, at most 120 s.
        retry_after: Duration,
    },
}

/// Reason for the end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The answer's sampler ended it: [`Chosen::stop`] was set.
    Stop,
    /// The answer has `max_tokens`, or the context is full.
    Length,
    /// The prompt is computed, and nothing was to be generated.
    Computed,
    /// The request was cancelled.
    Cancelled,
    /// The deadline passed.
    Deadline,
    /// A step with this request failed.
    Failed,
}

/// Decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request left the queue and runs.
    Admitted {
        /// Number of the request.
        request: RequestId,
        /// Number of leading tokens that are already in the cache.
        cached_tokens: usize,
    },
    /// The request left the queue and is dropped, because the promise cannot be kept for it.
    Refused {
        /// Number of the request.
        request: RequestId,
        /// Reason of the refusal.
        why: SloRefusal,
    },
    /// The request's blocks were taken away and it is in the queue again; its tokens are kept and will be recomputed.
    Preempted {
        /// Number of the request.
        request: RequestId,
    },
    /// The request has ended, and the scheduler has dropped it.
    Finished {
        /// Number of the request.
        request: RequestId,
        /// Reason for the end.
        finish: Finish,
        /// Number of generated tokens.
        generated: usize,
    },
}

/// Entry of a planned step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Number of the request.
    pub request: RequestId,
    /// Sequence of the request.
    pub sequence: SequenceId,
    /// Position of the first token.
    pub position: usize,
    /// Number of tokens, with the draft.
    pub tokens: usize,
    /// Number of prompt tokens, the last ones in the entry, whose logits or hidden states are needed for
    /// [`PromptRows`].
    pub rows: usize,
    /// Number of draft tokens at the end. Their logits are requested, and those of the token before.
    pub drafted: usize,
    /// True if a token is to be sampled after it, and one more for each accepted draft token.
    pub samples: bool,
}

/// Planned step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Plan for the engine; without entries there is nothing to compute.
    pub plan: StepPlan,
    /// Entries of the plan, in the same order.
    pub scheduled: Vec<Scheduled>,
    /// Decisions made since the last plan or commit, in order.
    pub decisions: Vec<Decision>,
}

/// Draft that the draft model is to make for a request of a planned step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// Number of the request.
    pub request: RequestId,
    /// Number of the last tokens of its text to be read, if the draft model has to read it first.
    pub read: usize,
    /// True if it forgets what it has read before.
    pub anew: bool,
    /// Number of draft tokens.
    pub tokens: usize,
    /// Maximum number of draft tokens while the draft model is sure of them.
    pub most: usize,
    /// Probability of a draft token, with all before it, below which the draft ends.
    pub least: f64,
}

/// Tokens that the draft model has read and drafted for a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// Number of tokens of the text that were read.
    pub read: usize,
    /// Draft tokens.
    pub tokens: Vec<u32>,
    /// Probability of the token after them, of which the draft model was too unsure.
    pub doubt: Option<f64>,
}

/// Progress of the draft model in a request's text, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Tokens that it has read.
    pub read: usize,
    /// Tokens that it has skipped.
    pub skipped: usize,
    /// Tokens still to be read; the last one always is.
    pub behind: usize,
    /// True while it reads a text that does not fit one step.
    pub is_reading: bool,
}

/// Tokens sampled for a request after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Number of the request.
    pub request: RequestId,
    /// One token, and one more for each accepted draft token; see [`super::verify`]. Empty if no token could be chosen,
    /// in which case `stop` must be set.
    pub tokens: Vec<u32>,
    /// True if the request ends here.
    pub stop: bool,
}
