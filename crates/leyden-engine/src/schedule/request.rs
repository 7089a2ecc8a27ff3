//! What goes into the scheduler, and what it says about it.

use crate::engine::{StepPlan, WholeText};
use crate::prefix::Scope;
use crate::tables::SequenceId;
use leyden_models::AdapterSet;
use std::sync::Arc;
use std::time::Duration;

/// Who calls a request what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Among whom capacity is shared fairly: an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub u32);

/// What is wanted of a prompt's tokens besides their keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptRows {
    /// Nothing.
    #[default]
    None,
    /// The logits after each token from this one on.
    Logits {
        /// The first, counted from 0.
        from: usize,
    },
    /// The states of the tokens from this one on.
    States {
        /// The first, counted from 0.
        from: usize,
    },
    /// States of a prompt that is computed in one step, as by a model that needs whole texts.
    Whole(WholeText),
}

impl PromptRows {
    /// The first token of which something is wanted.
    pub(crate) fn from(self) -> Option<usize> {
        match self {
            PromptRows::None => None,
            PromptRows::Logits { from } | PromptRows::States { from } => Some(from),
            PromptRows::Whole(_) => Some(0),
        }
    }
}

/// A sequence of the caller's that stays open when the request is over, with all that was computed in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The sequence; open, without a scope, of no other request, and with the request's adapters.
    pub sequence: SequenceId,
    /// How many of its first tokens are the prompt's; what is behind them is forgotten.
    pub same: usize,
}

/// One answer to be generated. Several answers to one prompt are several requests: those that come later wait for the
/// first to compute the prompt and then share its blocks.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its number; not that of another request in the scheduler.
    pub id: RequestId,
    /// Whose it is.
    pub key: KeyId,
    /// Higher goes first, before any fairness; 0 is usual.
    pub priority: i32,
    /// The prompt; at least one token.
    pub prompt: Vec<u32>,
    /// The most tokens to generate, clipped to what the context leaves; with 0 the prompt alone is computed.
    pub max_tokens: usize,
    /// Among whom blocks of the cache are shared; `None` shares with nobody.
    pub scope: Option<Arc<Scope>>,
    /// The adapters that it is computed with; they count as the scope's too.
    pub adapters: AdapterSet,
    /// When it is given up, whatever has been generated; on the clock of `now`.
    pub deadline: Option<Duration>,
    /// Whether the repetitions in the text may be used to guess tokens ahead ([`super::Lookup`]).
    pub speculate: bool,
    /// What is wanted of the prompt's tokens.
    pub rows: PromptRows,
    /// The sequence that it runs in, if it is not to be one of its own. Takes the place of `scope`.
    pub held: Option<Held>,
}

/// Why a request is not taken. What concerns the request itself comes before what concerns the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The prompt is empty.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A token of the prompt is not in the vocabulary.
    #[error("token {id} is outside the vocabulary of {vocabulary}")]
    Token {
        /// The id.
        id: u32,
        /// Ids below this exist.
        vocabulary: usize,
    },
    /// The prompt is longer than the context, or than a step where it must be computed in one.
    #[error("a prompt of {tokens} tokens does not fit the context of {context}")]
    PromptTooLong {
        /// Its tokens.
        tokens: usize,
        /// The longest there may be.
        context: usize,
    },
    /// Prompt and answer would not fit the cache even alone.
    #[error("prompt and answer of {tokens} tokens do not fit the cache of {room}")]
    CacheTooSmall {
        /// Tokens that would have to be stored.
        tokens: usize,
        /// Tokens that can be.
        room: usize,
    },
    /// The number is in use.
    #[error("a request of this number exists")]
    Duplicate,
    /// The deadline has passed.
    #[error("the deadline has passed")]
    Late,
    /// Too many requests of this key wait.
    #[error("too many requests of this key are waiting")]
    KeyQueueFull {
        /// When to try again: at least 1 s, at most 120 s.
        retry_after: Duration,
    },
    /// Too many requests wait.
    #[error("too many requests are waiting")]
    QueueFull {
        /// When to try again: at least 1 s, at most 120 s.
        retry_after: Duration,
    },
}

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Whoever chose its tokens said so.
    Stop,
    /// It has `max_tokens`, or the context is full.
    Length,
    /// The prompt is computed, and nothing was to be generated.
    Computed,
    /// It was cancelled.
    Cancelled,
    /// Its deadline passed.
    Deadline,
    /// The step that it was in failed.
    Failed,
}

/// What was decided about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It left the queue.
    Admitted {
        /// Which.
        request: RequestId,
        /// Leading tokens that are already in the cache.
        cached_tokens: usize,
    },
    /// Its blocks were taken away and it is in the queue again; its tokens are kept and will be computed again.
    Preempted {
        /// Which.
        request: RequestId,
    },
    /// It is over and forgotten.
    Finished {
        /// Which.
        request: RequestId,
        /// Why.
        finish: Finish,
        /// Tokens generated.
        generated: usize,
    },
}

/// One entry of a planned step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Whose it is.
    pub request: RequestId,
    /// Its sequence.
    pub sequence: SequenceId,
    /// Position of its first token.
    pub position: usize,
    /// Tokens.
    pub tokens: usize,
    /// Those of them whose logits, or else states, are wanted for [`PromptRows`]: so many, the last ones of the prompt's.
    pub rows: usize,
    /// How many of them, at the end, are guesses. Their logits are wanted, and those before the first.
    pub drafted: usize,
    /// Whether a token is to be chosen after it: one, and one more for each guess that turns out right.
    pub samples: bool,
}

/// A planned step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// What the engine is to run; nothing to do if it has no entries.
    pub plan: StepPlan,
    /// The entries of the plan, in the same order.
    pub scheduled: Vec<Scheduled>,
    /// What was decided on the way, in order.
    pub decisions: Vec<Decision>,
}

/// Tokens chosen for a request after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The request.
    pub request: RequestId,
    /// One token, and one more for each guess that was right; see [`super::verify`]. None where none could be chosen,
    /// with which the request stops.
    pub tokens: Vec<u32>,
    /// Whether the request ends here.
    pub stop: bool,
}
