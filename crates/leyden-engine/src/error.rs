//! Errors of requests to the engine.

use std::fmt;

/// Why a step or a choice of token was refused or failed.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model failed.
    Model(leyden_models::Error),
    /// Memory or threads.
    Resources(leyden_kernels::Error),
    /// No sequence of this number is open.
    UnknownSequence,
    /// A sequence stands twice in one plan.
    DuplicateSequence,
    /// An entry without tokens, or a plan without entries.
    Empty,
    /// A token id outside the model's vocabulary.
    Token {
        /// The id.
        id: u32,
        /// Ids below this exist.
        vocabulary: usize,
    },
    /// More tokens in one step than the engine takes.
    StepTooLarge {
        /// Tokens in the plan.
        tokens: usize,
        /// The most there may be.
        limit: usize,
    },
    /// A sequence would be longer than the context.
    ContextFull {
        /// Tokens it would have.
        tokens: usize,
        /// The context.
        context: usize,
    },
    /// No free cache blocks.
    CacheFull,
    /// A sequence was to be cut inside a block that others may share.
    SharedBlock {
        /// Tokens that were to remain.
        tokens: usize,
    },
    /// A step was planned before the one under way was committed or abandoned.
    StepUnderWay,
    /// What was committed is not what was planned.
    Commit {
        /// The request's number.
        request: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A sampling parameter outside its range.
    Parameter {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The model produced logits that are not numbers.
    NotFinite,
    /// No token is both allowed and possible.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Model(e) => write!(f, "{e}"),
            ErrorKind::Resources(e) => write!(f, "{e}"),
            ErrorKind::UnknownSequence => f.write_str("no such sequence"),
            ErrorKind::DuplicateSequence => f.write_str("a sequence stands twice in one step"),
            ErrorKind::Empty => f.write_str("a step without tokens"),
            ErrorKind::Token { id, vocabulary } => {
                write!(f, "token {id} is outside the vocabulary of {vocabulary}")
            }
            ErrorKind::StepTooLarge { tokens, limit } => {
                write!(f, "{tokens} tokens in one step; at most {limit} are possible")
            }
            ErrorKind::ContextFull { tokens, context } => {
                write!(f, "{tokens} tokens do not fit the context of {context}")
            }
            ErrorKind::CacheFull => f.write_str("the key-value cache is full"),
            ErrorKind::SharedBlock { tokens } => {
                write!(f, "a cut at {tokens} tokens is inside a block that others may share")
            }
            ErrorKind::StepUnderWay => f.write_str("the step before is still under way"),
            ErrorKind::Commit { request, what } => write!(f, "results of request {request}: {what}"),
            ErrorKind::Parameter { name, what } => write!(f, "{name}: {what}"),
            ErrorKind::NothingAllowed => {
                f.write_str("no token is both allowed by the constraint and possible for the model")
            }
            ErrorKind::NotFinite => f.write_str(
                "the model produced values that are not numbers; its weights are damaged or overflow",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Model(e) => Some(e),
            ErrorKind::Resources(e) => Some(e),
            _ => None,
        }
    }
}
