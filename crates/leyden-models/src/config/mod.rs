//! The decoder's parameters. Where they come from is the [`Reader`]'s business: GGUF metadata (`gguf.rs`) or the
//! `config.json` of a folder from the hub (`hf.rs`).

mod gguf;
mod hf;
mod keys;
mod reader;

use leyden_kernels::attention::Mask;
use leyden_kernels::ops::{Activation, RopePairs};

pub(crate) use hf::HfConfig;
pub(crate) use keys::{check_gguf, check_hf};
pub use keys::{unknown_keys, unknown_keys_of_json};
pub(crate) use reader::{EXPERTS, Field, Reader, field};

/// Sizes and options of a decoder-only transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// The architecture's name, as GGUF has it.
    pub architecture: &'static str,
    /// Width of the residual stream.
    pub width: usize,
    /// Longest sequence the model was made for, in tokens.
    pub context: usize,
    /// What embeddings are multiplied by.
    pub embedding_scale: f32,
    /// Normalisation.
    pub norm: NormConfig,
    /// Logits beyond this are squeezed below it.
    pub logit_soft_cap: Option<f32>,
    /// The transformer blocks, from the first on; at least one.
    pub layers: Vec<LayerConfig>,
}

impl DecoderConfig {
    /// The same with every layer changed; `change` gets its number too.
    #[must_use]
    pub(crate) fn each(mut self, mut change: impl FnMut(usize, &mut LayerConfig)) -> DecoderConfig {
        self.layers.iter_mut().enumerate().for_each(|(i, layer)| change(i, layer));
        self
    }
}

/// Root-mean-square normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormConfig {
    /// Added to the mean square.
    pub eps: f32,
    /// Added to the weights as they are stored.
    pub offset: f32,
}

/// Sizes and options of one transformer block.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; divides `heads`.
    pub kv_heads: usize,
    /// Values per head.
    pub head_dim: usize,
    /// Which tokens see which.
    pub mask: Mask,
    /// What the products of queries and keys are multiplied by.
    pub attention_scale: f32,
    /// Scores of attention beyond this are squeezed below it.
    pub attention_soft_cap: Option<f32>,
    /// Position embedding.
    pub rope: RopeConfig,
    /// Whether every head of queries and keys is normalised before it turns.
    pub head_norm: bool,
    /// Where the two halves of the block are normalised.
    pub norms: NormPlacement,
    /// Width of the feed-forward layer, of each expert if there are several.
    pub ffn: usize,
    /// The function in the feed-forward layer.
    pub activation: Activation,
    /// The experts that the feed-forward layer consists of, if it is a mixture.
    pub experts: Option<ExpertsConfig>,
}

/// Where the halves of a block, attention and feed-forward layer, are normalised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormPlacement {
    /// Their input.
    #[default]
    Pre,
    /// Their input, and their output before it is added to the residual stream.
    Sandwich,
}

/// A mixture of experts (Shazeer et al., 2017): every token goes through some of many feed-forward layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertsConfig {
    /// How many there are.
    pub count: usize,
    /// How many each token goes through; at most `count`.
    pub used: usize,
    /// Whether the weights of a token's experts are shares in the softmax of their scores, and sum to one, rather than in
    /// that of all scores.
    pub normalise: bool,
}

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// Which values form a pair.
    pub pairs: RopePairs,
    /// Leading values of a head that turn; even.
    pub dims: usize,
    /// Base of the geometric series of frequencies.
    pub base: f32,
    /// How longer contexts than the original are reached.
    pub scaling: RopeScaling,
    /// Factor on cosine and sine, beside the scaling's own; 1 unless a file says otherwise.
    pub magnitude: f32,
}

/// Scaling of rotary frequencies.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// All frequencies divided by a factor.
    Linear {
        /// The factor.
        factor: f32,
    },
    /// Llama 3.1's (Grattafiori et al., 2024, as published with the weights): low frequencies divided, high ones
    /// kept, a ramp between. In GGUF it comes as divisors in the tensor `rope_freqs.weight` instead.
    Llama3 {
        /// The factor.
        factor: f32,
        /// Waves longer than the original context divided by this are divided by the factor.
        low: f32,
        /// Waves shorter than the original context divided by this are kept; more than `low`.
        high: f32,
        /// The context length before scaling, in tokens.
        original_context: usize,
    },
    /// YaRN (Peng et al., 2023): low frequencies divided, high ones kept, a ramp between, and a temperature.
    Yarn {
        /// The factor.
        factor: f32,
        /// The context length before scaling, in tokens.
        original_context: usize,
        /// Where the ramp begins and ends.
        ramp: YarnRamp,
        /// Factor on cosine and sine; its square is that on the scores.
        attention: f64,
    },
}

/// The pairs between which YaRN passes from kept to divided frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YarnRamp {
    /// Pairs that turn more often than this over the original context are kept (the paper's beta).
    pub fast: f32,
    /// Those that turn less often than this are divided (the paper's alpha).
    pub slow: f32,
    /// Whether the ramp begins and ends at whole pairs.
    pub whole: bool,
    /// How much of what is kept is kept in truth; the rest is divided too. 1 in the paper.
    pub extrapolated: f32,
}

impl Default for YarnRamp {
    /// The paper's values for Llama.
    fn default() -> YarnRamp {
        YarnRamp { fast: 32.0, slow: 1.0, whole: true, extrapolated: 1.0 }
    }
}

/// YaRN's factor on cosine and sine for a scaling factor, where the model names no other (equation 22 of the
/// paper); `weight` is 1 there.
fn yarn_attention(factor: f32, weight: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 1.0 + 0.1 * weight * leyden_kernels::ops::ln(f64::from(factor)) }
}
