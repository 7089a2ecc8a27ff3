//! Errors of requests to the engine.

/// Error of a step, a sampling parameter or the choice of a token.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    kind: ErrorKind,
}

/// Kind of an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Error of the model.
    #[error("{0}")]
    Model(#[source] leyden_models::Error),
    /// Error of memory or threads.
    #[error("{0}")]
    Resources(#[source] leyden_kernels::Error),
    /// A sequence id that is not open.
    #[error("the sequence is not open")]
    UnknownSequence,
    /// A sequence that occurs twice in one plan.
    #[error("a sequence occurs twice in one step")]
    DuplicateSequence,
    /// An entry without tokens, or a plan without entries.
    #[error("a step without tokens")]
    Empty,
    /// A token id outside the model's vocabulary.
    #[error("token {id} is outside the vocabulary of {vocabulary}")]
    Token {
        /// Token id.
        id: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// A plan with more tokens than a step takes.
    #[error("{tokens} tokens in one step; at most {limit} are possible")]
    StepTooLarge {
        /// Number of tokens in the plan.
        tokens: usize,
        /// Maximum number of tokens.
        limit: usize,
    },
    /// A sequence that would be longer than the context.
    #[error("{tokens} tokens do not fit the context of {context}")]
    ContextFull {
        /// Number of tokens that the sequence would have.
        tokens: usize,
        /// Context length in tokens.
        context: usize,
    },
    /// A request for logits to an encoder, which has hidden states only.
    #[error("the model is an encoder: it has hidden states and no logits")]
    NoLogits,
    /// A part of a text, to a model with bidirectional attention, which takes whole texts only.
    #[error("the model attends to later tokens: a text must be computed in one step")]
    TextInParts,
    /// A sequence with an adapter of another model.
    #[error("an adapter was read for another model")]
    ForeignAdapter,
    /// A KV cache without enough free blocks.
    #[error("the key-value cache is full")]
    CacheFull,
    /// A truncation inside a full block that other sequences may share.
    #[error("cannot truncate to {tokens} tokens: the block there may be shared")]
    SharedBlock {
        /// Number of tokens that were to remain.
        tokens: usize,
    },
    /// A truncation to a position from which layers with a sliding window or a recurrent state cannot continue: their
    /// cache there is gone.
    #[error("cannot truncate to {tokens} tokens: the sliding window or recurrent state there is gone")]
    BehindWindow {
        /// Number of tokens that were to remain.
        tokens: usize,
    },
    /// A step for a recurrent model's sequence whose state a failed step has left inconsistent.
    #[error("the sequence's recurrent state was lost in a failed step: truncate or close the sequence")]
    StateLost,
    /// A plan made before the previous step was committed or abandoned.
    #[error("the previous step was neither committed nor abandoned")]
    StepUnderWay,
    /// A commit whose results do not match the plan.
    #[error("results of request {request}: {what}")]
    Commit {
        /// Number of the request.
        request: u64,
        /// Description of the mismatch.
        what: &'static str,
    },
    /// A draft model that does not fit the model.
    #[error("it cannot draft for this model: {what}")]
    Draft {
        /// Reason.
        what: String,
    },
    /// A sampling parameter outside its range.
    #[error("{name}: {what}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// Description of the allowed range.
        what: String,
    },
    /// Logits that are NaN or infinite.
    #[error("the model produced values that are not numbers; its weights are damaged or overflow")]
    NotFinite,
    /// A constraint that allows only tokens of probability zero.
    #[error("no token is both allowed by the constraint and possible for the model")]
    NothingAllowed,
}

impl Error {
    /// Returns the kind of the error.
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
