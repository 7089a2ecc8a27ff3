//! Errors of the library.

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
    /// Text, one of several, longer than the context.
    #[error("text {number} has {tokens} tokens, but the model takes {context}")]
    TextTooLong {
        /// Index of the text, from 0.
        number: usize,
        /// Number of its tokens.
        tokens: usize,
        /// Context length in tokens.
        context: usize,
    },
    /// Generation with an encoder.
    #[error("{file}: the model is an encoder: it makes vectors of texts and generates none")]
    NotGenerative {
        /// Path of the model.
        file: String,
    },
    /// Classification of texts with a model that has no head for it.
    #[error("{file}: the model does not classify: it has no head that gives labels scores")]
    NoClassifier {
        /// Path of the model.
        file: String,
    },
    /// Vectors of messages with a model that has no chat template.
    #[error(
        "{file}: the model makes vectors of messages (modality_config.message), and has no chat template"
    )]
    NoMessages {
        /// Path of the model.
        file: String,
    },
    /// Reranking with a model that has no head for it.
    #[error("{file}: the model does not rank: it has no head that gives a question and a document a score")]
    NoReranker {
        /// Path of the model.
        file: String,
    },
    /// Extraction of entities with a model that has no head for it.
    #[error("{file}: the model does not extract: it has no head that gives tokens labels")]
    NoTagger {
        /// Path of the model.
        file: String,
    },
    /// Labels for a model that does not take any (only GLiNER does).
    #[error("{file}: labels: the model takes none; models of GLiNER do")]
    TakesNoLabels {
        /// Path of the model.
        file: String,
    },
    /// Extraction without labels, for a model that needs labels with each text (GLiNER).
    #[error("{file}: the model has no labels of its own: name those that are wanted")]
    NeedsLabels {
        /// Path of the model.
        file: String,
    },
    /// Labels that fill the context and leave no room for a text.
    #[error("the labels have {tokens} tokens, which leave no room for a text: the model takes {context}")]
    LabelsTooLong {
        /// Number of tokens of the labels, special tokens included.
        tokens: usize,
        /// Context length in tokens.
        context: usize,
    },
    /// Missing or misplaced token that marks labels in the tokenizer (GLiNER).
    #[error("{file}: {what}")]
    LabelMark {
        /// Path of the model or tokenizer file.
        file: String,
        /// Description of the fault.
        what: String,
    },
    /// Sparse vectors with a model that has no head for them.
    #[error("{file}: the model makes no sparse vectors: it has no pooling that gives each token a number")]
    NotSparse {
        /// Path of the model.
        file: String,
    },
    /// Question that fills the context and leaves no room for documents.
    #[error("the question has {tokens} tokens, which leave no room for documents: the model takes {context}")]
    QueryTooLong {
        /// Number of tokens of the question, special tokens included.
        tokens: usize,
        /// Context length in tokens.
        context: usize,
    },
    /// Option with an invalid value.
    #[error("{name}: {what}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// Description of the fault.
        what: String,
    },
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
