//! [`Error`]: errors of tasks, with the part of the request that each is about.

use crate::calibration::CalibrationError;
use crate::kind::TaskKind;

/// Part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Place {
    /// Request as a whole.
    #[error("")]
    Request,
    /// Text, by its index; of a pair, the second text.
    #[error("text {0}: ")]
    Text(usize),
    /// First text of a pair, by the pair's index.
    #[error("")]
    Query(usize),
    /// Labels.
    #[error("labels: ")]
    Labels,
}

/// Kind of an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Text without tokens.
    #[error("the prompt is empty and the model has no token to begin with")]
    Empty,
    /// Text with more tokens than the model takes.
    #[error("{}{tokens} tokens, but the model takes {max_tokens}", if *.counted { "" } else { "at least " })]
    TooLong {
        /// Number of tokens.
        tokens: usize,
        /// True if all tokens were counted; false if there may be more.
        counted: bool,
        /// Maximum number of tokens.
        max_tokens: usize,
    },
    /// First text of a pair that leaves no room for the second.
    #[error(
        "the question has {tokens} tokens, which leave no room for documents: the model takes {max_tokens}"
    )]
    QueryTooLong {
        /// Number of tokens, special tokens included.
        tokens: usize,
        /// Maximum number of tokens.
        max_tokens: usize,
    },
    /// Labels that leave no room for a text.
    #[error("{tokens} tokens, which leave no room for a text: the model takes {max_tokens}")]
    LabelsTooLong {
        /// Number of tokens, special tokens included.
        tokens: usize,
        /// Maximum number of tokens.
        max_tokens: usize,
    },
    /// Invalid list of labels.
    #[error("{0}")]
    Labels(String),
    /// Extraction without labels, from a model that has none of its own.
    #[error("the model has no labels of its own: name those that are wanted")]
    NeedsLabels,
    /// Missing or misplaced token before labels.
    #[error("{0}")]
    LabelMark(String),
    /// Score outside 0 to 1 as a threshold.
    #[error("threshold: {0} is not between 0 and 1")]
    Threshold(f32),
    /// More entities than a result may have.
    #[error("there are more than {max} entities")]
    TooManyEntities {
        /// Maximum number of entities.
        max: usize,
    },
    /// Number of dimensions outside the range of the model.
    #[error("dimensions: {dimensions} is not between 1 and {width}, which the vectors have")]
    Dimensions {
        /// Number in the request.
        dimensions: usize,
        /// Number of dimensions of the model's vectors.
        width: usize,
    },
    /// Name of a prompt that the model does not have.
    #[error("prompt-name: the model has no prompt `{name}`; it has {known}")]
    UnknownPrompt {
        /// Name in the request.
        name: String,
        /// Names of the model's prompts.
        known: String,
    },
    /// Model of messages without a chat template.
    #[error("the model makes vectors of messages (modality_config.message), and has no chat template")]
    NoTemplate,
    /// Model without the head for a task.
    #[error("the model does not {}", .0.lacking())]
    Unable(TaskKind),
    /// Output of another head than the one that the task named.
    #[error("the output of another head than the task's")]
    Output,
    /// Calibration that is for another model or other settings, or scores that it cannot decide on.
    #[error("{0}")]
    Calibration(#[source] CalibrationError),
    /// Invalid list of sequence breakers.
    #[error("sequence breakers: {0}")]
    SequenceBreakers(String),
    /// Sampling parameter out of range.
    #[error("{0}")]
    Sampler(#[source] Box<leyden_engine::Error>),
    /// Error of the tokenizer or the chat template.
    #[error("{0}")]
    Text(#[source] leyden_text::Error),
}

impl ErrorKind {
    /// Returns the error about a part of the request.
    #[must_use]
    pub fn at(self, place: Place) -> Error {
        Error { kind: self, place }
    }
}

/// Error of a task.
#[derive(Debug, thiserror::Error)]
#[error("{place}{kind}")]
pub struct Error {
    /// Kind.
    #[source]
    pub kind: ErrorKind,
    /// Part of the request.
    pub place: Place,
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        kind.at(Place::Request)
    }
}
