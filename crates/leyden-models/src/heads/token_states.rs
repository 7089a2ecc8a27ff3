//! [`TokenStates`]: hidden states of all tokens.

use super::kind::{HeadError, HeadKind, HeadOutput};
use super::weights::HeadWeights;
use crate::config::ModelConfig;
use leyden_kernels::Cpu;

/// Hidden states of all tokens: vectors `[n_tokens, hidden]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenStates;

impl HeadKind for TokenStates {
    fn check(&self, _config: &ModelConfig, _n_tokens: usize) -> Result<(), HeadError> {
        Ok(())
    }

    fn output(
        &self,
        weights: &HeadWeights,
        _cpu: &Cpu,
        _tokens: &[u32],
        states: &[f32],
    ) -> Option<HeadOutput> {
        Some(HeadOutput::Vectors { width: weights.width, values: states.to_vec() })
    }
}
