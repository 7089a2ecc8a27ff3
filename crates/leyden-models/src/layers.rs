//! The weights of a decoder, layer by layer.

use crate::config::ExpertsConfig;
use crate::frequencies::Frequencies;
use leyden_kernels::matmul::PackedMatrix;

/// A matrix and its bias.
#[derive(Debug)]
pub(crate) struct Linear {
    pub(crate) weights: PackedMatrix,
    pub(crate) bias: Option<Vec<f32>>,
}

/// Self-attention.
#[derive(Debug)]
pub(crate) struct Attention {
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    /// Weights of the normalisation of each query head and key head.
    pub(crate) head_norm: Option<[Vec<f32>; 2]>,
    pub(crate) output: Linear,
}

/// The second half of a block.
#[derive(Debug)]
pub(crate) enum FeedForward {
    Gated(GatedFeedForward),
    Mixture(Mixture),
}

/// A mixture of experts, each of which is a SwiGLU feed-forward.
#[derive(Debug)]
pub(crate) struct Mixture {
    pub(crate) config: ExpertsConfig,
    /// Gives every expert a score.
    pub(crate) router: PackedMatrix,
    /// Stacks of one matrix for each expert.
    pub(crate) gate: PackedMatrix,
    pub(crate) up: PackedMatrix,
    pub(crate) down: PackedMatrix,
}

/// SwiGLU feed-forward (Shazeer, 2020).
#[derive(Debug)]
pub(crate) struct GatedFeedForward {
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
}

/// One transformer block.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) attention: Attention,
    pub(crate) ffn_norm: Vec<f32>,
    pub(crate) ffn: FeedForward,
}

impl Layer {
    /// Its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedMatrix> {
        let a = &self.attention;
        let mut all = [&a.query, &a.key, &a.value, &a.output].map(|l| &l.weights).to_vec();
        match &self.ffn {
            FeedForward::Gated(f) => all.extend([&f.gate, &f.up, &f.down].map(|l| &l.weights)),
            FeedForward::Mixture(m) => all.extend([&m.router, &m.gate, &m.up, &m.down]),
        }
        all
    }
}

/// Everything in a decoder that comes from tensors.
pub(crate) struct Parts {
    pub(crate) vocabulary: usize,
    pub(crate) frequencies: Frequencies,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Vec<f32>,
    pub(crate) head: PackedMatrix,
}

impl Parts {
    /// Every matrix, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedMatrix> {
        self.layers.iter().flat_map(Layer::matrices).chain([&self.head]).collect()
    }
}
