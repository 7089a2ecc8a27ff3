//! Errors of the library.

use leyden_tasks::ErrorKind;
use std::sync::Arc;

/// Error of opening or running a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Error of a model file.
    #[error("{0}")]
    File(#[from] leyden_tensor::Error),
    /// Error of loading or running a model.
    #[error("{0}")]
    Model(#[from] leyden_models::Error),
    /// Error of the tokenizer or chat template.
    #[error("{0}")]
    Text(#[from] leyden_text::Error),
    /// Error of the engine.
    #[error("{0}")]
    Engine(#[from] leyden_engine::Error),
    /// Error of a schema or grammar, or of an answer that cannot follow it.
    #[error("{0}")]
    Constraint(#[from] leyden_constrain::Error),
    /// Shortage of memory or threads.
    #[error("{0}")]
    Resources(#[from] leyden_kernels::Error),
    /// Prompt without tokens, for a model without a token to begin with.
    #[error("the prompt is empty and the model has no token to begin with")]
    EmptyPrompt,
    /// Prompt longer than the context.
    #[error("the prompt has {tokens} tokens, which do not fit the context of {context}")]
    PromptTooLong {
        /// Number of tokens of the prompt.
        tokens: usize,
        /// Context length in tokens.
        context: usize,
    },
    /// Refusal of a request by the scheduler.
    #[error("{0}")]
    Refused(#[from] leyden_engine::schedule::Refusal),
    /// Generation with an encoder.
    #[error("{file}: the model is an encoder: it makes vectors of texts and generates none")]
    NotGenerative {
        /// Path of the model.
        file: String,
    },
    /// Request that a task refuses: a text that is too long, labels that are missing, a head that the model lacks.
    #[error("{file}: {error}")]
    Task {
        /// Path of the model or of its tokenizer.
        file: String,
        /// Error of the task.
        error: leyden_tasks::Error,
    },
    /// Calibration that is for another model or other settings, or that does not support a promise.
    #[error("{file}: {error}")]
    Calibration {
        /// Path of the model, or of one of its files.
        file: String,
        /// Error of the calibration.
        error: leyden_tasks::calibration::CalibrationError,
    },
    /// Option with an invalid value.
    #[error("{name}: {what}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// Description of the fault.
        what: String,
    },
    /// Thread that the operating system refuses to start.
    #[error("the engine's thread cannot be started: {what}")]
    Thread {
        /// Message of the operating system.
        what: String,
    },
    /// Request to a service that was dropped, or whose thread has ended.
    #[error("the service is closed: its model was dropped, or its thread has failed")]
    Closed,
    /// Error that ended several requests.
    #[error("{0}")]
    Shared(Arc<Error>),
    /// Logits, scores or vectors that are not finite numbers.
    #[error("{file}: results: values that are not numbers; the weights are damaged or too large")]
    NotFinite {
        /// Path of the model.
        file: String,
    },
    /// Vocabulary with more tokens than the embedding has rows.
    #[error("{file}: {at}: {tokens} tokens, but {tensor} has {rows} rows")]
    Vocabulary {
        /// Path of the file with the vocabulary.
        file: String,
        /// Key of the vocabulary in the file.
        at: &'static str,
        /// Number of tokens of the tokenizer.
        tokens: usize,
        /// Name of the embedding tensor.
        tensor: String,
        /// Number of rows of the embedding.
        rows: usize,
    },
}

impl Error {
    /// Returns the error of a task on the model of a file.
    pub(crate) fn of_task(error: leyden_tasks::Error, file: &str) -> Error {
        match error.kind {
            ErrorKind::Empty => Error::EmptyPrompt,
            ErrorKind::Text(error) => Error::Text(error),
            ErrorKind::Sampler(error) => Error::Engine(*error),
            ErrorKind::SequenceBreakers(what) => Error::Option { name: "dry_sequence_breaker", what },
            _ => Error::Task { file: file.to_owned(), error },
        }
    }
}
