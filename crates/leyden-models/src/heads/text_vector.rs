//! [`TextVector`]: dense embedding of a text.

use super::kind::{HeadError, HeadKind, HeadOutput};
use super::weights::HeadWeights;
use crate::config::ModelConfig;
use crate::pooling::Pooling;
use leyden_kernels::Cpu;

/// Dense embedding of a text, not normalised: pooled hidden states after the model's dense layers, one vector
/// [`[vector_width]`](ModelConfig::vector_width).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextVector {
    /// Pooling of the hidden states.
    pub pooling: Pooling,
}

impl HeadKind for TextVector {
    fn pooling(&self) -> Option<Pooling> {
        Some(self.pooling)
    }

    fn check(&self, _config: &ModelConfig, _n_tokens: usize) -> Result<(), HeadError> {
        Ok(())
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
        let values = weights.vector_dense.project(cpu, states.to_vec());
        let width = weights.vector_dense.width().unwrap_or(weights.width);
        Some(HeadOutput::Vectors { width, values })
    }
}
