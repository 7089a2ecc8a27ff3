//! [`SparseVector`]: sparse embedding of a text.

use super::kind::{HeadError, HeadKind, HeadOutput};
use super::weights::HeadWeights;
use crate::config::ModelConfig;
use leyden_kernels::Cpu;

/// Sparse embedding of a text: weights of tokens of the vocabulary (SPLADE), or of the text's own tokens
/// (M3-Embedding).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparseVector {
    /// Ids of the text's special tokens, which get no weight in M3-Embedding; in any order.
    pub special: Vec<u32>,
}

impl HeadKind for SparseVector {
    fn check(&self, config: &ModelConfig, _n_tokens: usize) -> Result<(), HeadError> {
        config.sparse.map(|_| ()).ok_or(HeadError::Missing("sparse vectors"))
    }

    fn output(&self, weights: &HeadWeights, cpu: &Cpu, tokens: &[u32], states: &[f32]) -> Option<HeadOutput> {
        let mut found = match (&weights.sparse, &weights.token_weights) {
            (Some(head), _) => head.weights(cpu, states),
            (None, Some(head)) => {
                let counted = |id: &u32| Some(*id).filter(|id| !self.special.contains(id));
                head.weights(cpu, &tokens.iter().map(counted).collect::<Vec<_>>(), states)
            }
            (None, None) => panic!("sparse vectors of a model without a head for them"),
        };
        if let Some(max) = weights.max_sparse.filter(|max| *max < found.len()) {
            // Of tokens with equal weights the smaller ids are kept.
            found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            found.truncate(max);
            found.sort_by_key(|weight| weight.0);
        }
        Some(HeadOutput::Sparse(found))
    }
}
