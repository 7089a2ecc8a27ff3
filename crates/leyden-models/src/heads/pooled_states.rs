//! [`PooledStates`]: pooled hidden states of a text.

use super::kind::{HeadError, HeadKind, HeadOutput};
use super::weights::HeadWeights;
use crate::config::ModelConfig;
use crate::pooling::Pooling;
use leyden_kernels::Cpu;

/// Pooled hidden states of a text, without the model's dense layers: one vector `[hidden]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PooledStates {
    /// Pooling of the hidden states.
    pub pooling: Pooling,
}

impl HeadKind for PooledStates {
    fn pooling(&self) -> Option<Pooling> {
        Some(self.pooling)
    }

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
