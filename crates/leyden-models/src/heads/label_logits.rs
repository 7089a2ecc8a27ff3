//! [`LabelLogits`]: logits of a classifier's labels.

use super::kind::{HeadError, HeadKind, HeadOutput};
use super::weights::HeadWeights;
use crate::config::{Labelled, ModelConfig};
use crate::pooling::Pooling;
use leyden_kernels::Cpu;

/// Logits of a classifier's labels, for a text `[1, labels]` or for each of its tokens `[n_tokens, labels]`.
/// [`ClassifierConfig::scores`](crate::ClassifierConfig::scores) turns them into scores,
/// [`relevance`](crate::ClassifierConfig::relevance) into those of a reranker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelLogits {
    /// The model's [`ClassifierConfig::of`](crate::ClassifierConfig::of).
    pub of: Labelled,
}

impl HeadKind for LabelLogits {
    fn pooling(&self) -> Option<Pooling> {
        match self.of {
            Labelled::Text(pooling) => Some(pooling),
            Labelled::Tokens => None,
        }
    }

    fn check(&self, config: &ModelConfig, _n_tokens: usize) -> Result<(), HeadError> {
        let has = config.classifier().is_some_and(|classifier| classifier.of == self.of);
        has.then_some(()).ok_or(HeadError::Missing(match self.of {
            Labelled::Text(_) => "labels of texts with this pooling",
            Labelled::Tokens => "labels of tokens",
        }))
    }

    fn is_row_wise(&self) -> bool {
        true
    }

    fn output(
        &self,
        weights: &HeadWeights,
        cpu: &Cpu,
        _tokens: &[u32],
        states: &[f32],
    ) -> Option<HeadOutput> {
        let Some(classifier) = &weights.classifier else { panic!("labels of a model without a classifier") };
        Some(HeadOutput::Logits { labels: classifier.labels(), values: classifier.logits(cpu, states) })
    }
}
