//! [`TaskKind`]: table of the tasks, with the models that are able to do them.

use leyden_models::{HeadConfig, Labelled, ModelConfig};

/// Kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskKind {
    /// Text that continues a prompt.
    Generate,
    /// Log probabilities of a text's tokens.
    Score,
    /// Vector of a text.
    Embed,
    /// Sparse vector of a text.
    EmbedSparse,
    /// Vectors of a text's tokens.
    EmbedTokens,
    /// Scores of the labels of a text.
    Classify,
    /// Relevance of documents for a question.
    Rerank,
    /// Entities by the labels of a text's tokens.
    ExtractTokens,
    /// Entities of labels in the request.
    ExtractLabels,
}

/// Row of a task: the kind, the models that can do it, and the predicate of messages, and the continuation of "the
/// model does not".
type Row = (TaskKind, fn(&ModelConfig) -> bool, &'static str, &'static str);

const TASKS: [Row; 9] = [
    (TaskKind::Generate, ModelConfig::generates, "generates text", "write texts: it is an encoder"),
    (TaskKind::Score, ModelConfig::generates, "scores texts", "score texts: it is an encoder"),
    (TaskKind::Embed, |_| true, "is an embedding model", "make vectors"),
    (
        TaskKind::EmbedSparse,
        has_sparse,
        "computes sparse vectors",
        "make sparse vectors: it has no pooling for them",
    ),
    (TaskKind::EmbedTokens, |_| true, "computes vectors of tokens", "make vectors of tokens"),
    (
        TaskKind::Classify,
        labels_texts,
        "classifies texts",
        "classify: it has no head that gives texts labels",
    ),
    (
        TaskKind::Rerank,
        ranks,
        "reranks documents",
        "rank: it has no head that gives a question and a document a score",
    ),
    (
        TaskKind::ExtractTokens,
        labels_tokens,
        "labels tokens",
        "extract: it has no head that gives tokens labels",
    ),
    (TaskKind::ExtractLabels, takes_labels, "takes labels", "take labels: those of GLiNER do"),
];

fn has_sparse(config: &ModelConfig) -> bool {
    config.sparse.is_some()
}

fn takes_labels(config: &ModelConfig) -> bool {
    config.spans.is_some()
}

fn labels_texts(config: &ModelConfig) -> bool {
    matches!(config.classifier().map(|classifier| classifier.of), Some(Labelled::Text(_)))
}

fn labels_tokens(config: &ModelConfig) -> bool {
    matches!(config.classifier().map(|classifier| classifier.of), Some(Labelled::Tokens))
}

fn ranks(config: &ModelConfig) -> bool {
    config.classifier().is_some_and(leyden_models::ClassifierConfig::ranks)
}

impl TaskKind {
    /// Returns all kinds.
    pub fn all() -> impl Iterator<Item = TaskKind> {
        TASKS.iter().map(|row| row.0)
    }

    fn row(self) -> &'static Row {
        // A test checks that each kind has its row at its place.
        &TASKS[self as usize]
    }

    /// Returns true if a model can do the task. Any model can embed texts; see
    /// [`is_trained_for`](Self::is_trained_for).
    #[must_use]
    pub fn is_possible(self, config: &ModelConfig) -> bool {
        self.row().1(config)
    }

    /// Returns true if a model was made for the task: as [`is_possible`](Self::is_possible), but of the models that
    /// embed only those without any other head.
    #[must_use]
    pub fn is_trained_for(self, config: &ModelConfig) -> bool {
        let is_plain = config.head == HeadConfig::States && config.sparse.is_none() && config.spans.is_none();
        let embeds = matches!(self, TaskKind::Embed | TaskKind::EmbedTokens);
        self.is_possible(config) && (!embeds || is_plain)
    }

    /// Returns the predicate of the messages "no model ..." and "each of several models ...".
    #[must_use]
    pub fn predicate(self) -> &'static str {
        self.row().2
    }

    /// Returns the continuation of the message "the model does not".
    #[must_use]
    pub fn lacking(self) -> &'static str {
        self.row().3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_at_the_places_of_their_kinds() {
        assert!(TaskKind::all().enumerate().all(|(i, kind)| kind as usize == i));
    }
}
