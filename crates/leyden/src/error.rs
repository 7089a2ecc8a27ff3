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
    /// One of several texts is longer than the model takes.
    #[error("text {number} has {tokens} tokens, but the model takes {context}")]
    TextTooLong {
        /// Which, from 0.
        number: usize,
        /// Its tokens.
        tokens: usize,
        /// Tokens that fit.
        context: usize,
    },
    /// The model is an encoder, which makes vectors of texts and generates none.
    #[error("{file}: the model is an encoder: it makes vectors of texts and generates none")]
    NotGenerative {
        /// The file.
        file: String,
    },
    /// The model has no labels to give.
    #[error("{file}: the model does not classify: it has no head that gives labels scores")]
    NoClassifier {
        /// The file.
        file: String,
    },
    /// The model makes vectors of conversations, and has no chat template to write them with.
    #[error(
        "{file}: the model makes vectors of messages (modality_config.message), and has no chat template"
    )]
    NoMessages {
        /// The file.
        file: String,
    },
    /// The model gives no pair of texts a score.
    #[error("{file}: the model does not rank: it has no head that gives a question and a document a score")]
    NoReranker {
        /// The file.
        file: String,
    },
    /// The model has no labels to give to tokens.
    #[error("{file}: the model does not extract: it has no head that gives tokens labels")]
    NoTagger {
        /// The file.
        file: String,
    },
    /// The model takes no labels: it has its own, or none.
    #[error("{file}: labels: the model takes none; models of GLiNER do")]
    TakesNoLabels {
        /// The file.
        file: String,
    },
    /// The model finds entities of labels that are given with a text.
    #[error("{file}: the model has no labels of its own: name those that are wanted")]
    NeedsLabels {
        /// The file.
        file: String,
    },
    /// Labels that leave no room for a text.
    #[error("the labels have {tokens} tokens, which leave no room for a text: the model takes {context}")]
    LabelsTooLong {
        /// Their tokens, with those around them.
        tokens: usize,
        /// Tokens that the model takes.
        context: usize,
    },
    /// The tokenizer lacks what stands before labels, or has it at another place.
    #[error("{file}: {what}")]
    LabelMark {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// The model has no numbers to give to tokens of the vocabulary.
    #[error("{file}: the model makes no sparse vectors: it has no pooling that gives each token a number")]
    NotSparse {
        /// The file.
        file: String,
    },
    /// A question that leaves no room for documents.
    #[error("the question has {tokens} tokens, which leave no room for documents: the model takes {context}")]
    QueryTooLong {
        /// Its tokens, with those around it.
        tokens: usize,
        /// Tokens that the model takes.
        context: usize,
    },
    /// An option outside its range.
    #[error("{name}: {what}")]
    Option {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The model computed logits that are not numbers.
    #[error("{file}: results: values that are not numbers; the weights are damaged or too large")]
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
