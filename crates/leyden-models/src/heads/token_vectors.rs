//! [`TokenVectors`]: vectors of tokens for late interaction.

use super::kind::{HeadError, HeadKind, HeadOutput};
use super::weights::HeadWeights;
use crate::config::ModelConfig;
use leyden_kernels::Cpu;

/// Vectors of tokens for late interaction: of length 1 for all tokens but the first, or the hidden states of all tokens
/// of a model without a head for them; `[n_vectors, token_width]`, see [`ModelConfig::token_width`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenVectors;

impl HeadKind for TokenVectors {
    fn check(&self, _config: &ModelConfig, _n_tokens: usize) -> Result<(), HeadError> {
        Ok(())
    }

    fn output(
        &self,
        weights: &HeadWeights,
        cpu: &Cpu,
        _tokens: &[u32],
        states: &[f32],
    ) -> Option<HeadOutput> {
        Some(match &weights.token_vectors {
            Some(head) => HeadOutput::Vectors { width: head.width(), values: head.vectors(cpu, states) },
            None => HeadOutput::Vectors { width: weights.width, values: states.to_vec() },
        })
    }
}
