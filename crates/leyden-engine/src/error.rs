//! Errors of requests to the engine.

/// Why a step or a choice of token was refused or failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model failed.
    #[error("{0}")]
    Model(#[source] leyden_models::Error),
    /// Memory or threads.
    #[error("{0}")]
    Resources(#[source] leyden_kernels::Error),
    /// No sequence of this number is open.
    #[error("no such sequence")]
    UnknownSequence,
    /// A sequence stands twice in one plan.
    #[error("a sequence stands twice in one step")]
    DuplicateSequence,
    /// An entry without tokens, or a plan without entries.
    #[error("a step without tokens")]
    Empty,
    /// A token id outside the model's vocabulary.
    #[error("token {id} is outside the vocabulary of {vocabulary}")]
    Token {
        /// The id.
        id: u32,
        /// Ids below this exist.
        vocabulary: usize,
    },
    /// More tokens in one step than the engine takes.
    #[error("{tokens} tokens in one step; at most {limit} are possible")]
    StepTooLarge {
        /// Tokens in the plan.
        tokens: usize,
        /// The most there may be.
        limit: usize,
    },
    /// A sequence would be longer than the context.
    #[error("{tokens} tokens do not fit the context of {context}")]
    ContextFull {
        /// Tokens it would have.
        tokens: usize,
        /// The context.
        context: usize,
    },
    /// Logits of a model that has none, but only states.
    #[error("the model is an encoder: it has states and no logits")]
    NoLogits,
    /// A part of a text of a model whose tokens see those behind them too.
    #[error("the model's tokens see those behind them: a text must be computed in one step")]
    TextInParts,
    /// A sequence with an adapter that was read for another model.
    #[error("an adapter was read for another model")]
    ForeignAdapter,
    /// No free cache blocks.
    #[error("the key-value cache is full")]
    CacheFull,
    /// A sequence was to be cut inside a block that others may share.
    #[error("a cut at {tokens} tokens is inside a block that others may share")]
    SharedBlock {
        /// Tokens that were to remain.
        tokens: usize,
    },
    /// A sequence was to be cut where a layer with a window or a state has given up what is needed to go on.
    #[error("cannot truncate to {tokens} tokens: what layers with a window or a state need to go on is gone")]
    BehindWindow {
        /// Tokens that were to remain.
        tokens: usize,
    },
    /// A sequence of a recurrent model goes on behind a step that failed in the middle.
    #[error("a failed step has left the sequence's recurrent state between two tokens: truncate or close it")]
    StateLost,
    /// A step was planned before the one under way was committed or abandoned.
    #[error("the step before is still under way")]
    StepUnderWay,
    /// What was committed is not what was planned.
    #[error("results of request {request}: {what}")]
    Commit {
        /// The request's number.
        request: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A sampling parameter outside its range.
    #[error("{name}: {what}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The model produced logits that are not numbers.
    #[error("the model produced values that are not numbers; its weights are damaged or overflow")]
    NotFinite,
    /// No token is both allowed and possible.
    #[error("no token is both allowed by the constraint and possible for the model")]
    NothingAllowed,
}

impl Error {
    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error { kind }
    }
}

impl From<leyden_models::Error> for Error {
    fn from(e: leyden_models::Error) -> Error {
        ErrorKind::Model(e).into()
    }
}

impl From<leyden_kernels::Error> for Error {
    fn from(e: leyden_kernels::Error) -> Error {
        ErrorKind::Resources(e).into()
    }
}
