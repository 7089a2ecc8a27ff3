//! The library's error.

/// Why a model could not be opened or did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not readable as a model file.
    #[error("{0}")]
    File(#[from] leyden_tensor::Error),
    /// The model cannot be loaded or run.
    #[error("{0}")]
    Model(#[from] leyden_models::Error),
    /// The tokenizer or the chat template.
    #[error("{0}")]
    Text(#[from] leyden_text::Error),
    /// The engine refused the request or failed.
    #[error("{0}")]
    Engine(#[from] leyden_engine::Error),
    /// A schema or grammar was refused, or an answer cannot follow it.
    #[error("{0}")]
    Constraint(#[from] leyden_constrain::Error),
    /// Memory or threads.
    #[error("{0}")]
    Resources(#[from] leyden_kernels::Error),
    /// The prompt has no tokens and the model no token to begin with.
    #[error("the prompt is empty and the model has no token to begin with")]
    EmptyPrompt,
    /// The prompt is longer than the context.
    #[error("the prompt has {tokens} tokens, which do not fit the context of {context}")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that fit.
        context: usize,
    },
    /// The engine does not take the request.
    #[error("{0}")]
    Refused(#[from] leyden_engine::schedule::Refusal),
    /// An option outside its range.
    #[error("{name}: {what}")]
    Option {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The model computed logits that are not numbers.
    #[error("{file}: logits: values that are not numbers; the weights are damaged or too large")]
    NotFinite {
        /// The file.
        file: String,
    },
    /// Tokenizer and weights do not belong together.
    #[error("{file}: {at}: {tokens} tokens, but {tensor} has {rows} rows")]
    Vocabulary {
        /// The file that has the vocabulary.
        file: String,
        /// Where in it the vocabulary stands.
        at: &'static str,
        /// Tokens of the tokenizer.
        tokens: usize,
        /// The embedding.
        tensor: String,
        /// Its rows.
        rows: usize,
    },
}
