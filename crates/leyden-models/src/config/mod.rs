//! Parameters of a transformer. The [`Reader`] reads them from GGUF metadata (`gguf.rs`) or the `config.json` of a
//! Hugging Face folder (`hf.rs`).

mod checks;
mod gguf;
mod heads;
mod hf;
mod keys;
mod memory;
mod mixture;
mod reader;
mod recurrent;
mod rotations_by_kind;
mod sharing;
mod spans;
mod windows;

use crate::pooling::Pooling;
use crate::vector_form::VectorForm;
use leyden_kernels::attention::Mask;
use leyden_kernels::gemm::{ExpertGroups, GatingFunction};
use leyden_kernels::ops::{Activation, RopePairs};
use std::sync::Arc;

pub(crate) use gguf::check_type;
pub(crate) use heads::{HeadClass, gguf_head, hf_head};
pub(crate) use hf::{HfConfig, KeyNames};
pub(crate) use keys::{check_gguf, check_hf, unknown_gguf, unknown_hf};
pub(crate) use mixture::EXPERTS;
pub(crate) use reader::{FFN, Field, KV_HEADS, NORM_EPS, Reader, field};
pub use recurrent::{DeltaNetConfig, Mamba2Config, RecurrentConfig};
pub use spans::SpanConfig;

/// Sizes and options of a transformer: a decoder, or an encoder with bidirectional attention.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Name of the architecture in GGUF.
    pub architecture: &'static str,
    /// Hidden size: width of the residual stream.
    pub width: usize,
    /// Maximum context length of the model, in tokens.
    pub context: usize,
    /// Factor on token embeddings.
    pub embedding_scale: f32,
    /// Row of the first position in the table of learned position embeddings; `None` without them.
    pub learned_positions: Option<usize>,
    /// True if token embeddings are normalised.
    pub embedding_norm: bool,
    /// Width of token embeddings, if it differs from the hidden size; a matrix then projects them.
    pub embedding_width: Option<usize>,
    /// Normalisation.
    pub norm: NormConfig,
    /// Head on the last layer's states.
    pub head: HeadConfig,
    /// Factor on logits.
    pub logit_scale: f32,
    /// Output size and similarity function of text embeddings.
    pub vectors: VectorForm,
    /// Dense layers on a text's embedding after pooling.
    pub vector_dense: Vec<VectorDense>,
    /// Sparse embedding of a text, if the model has one.
    pub sparse: Option<SparseConfig>,
    /// Dimension of per-token vectors, if they are not the hidden states.
    pub token_vectors: Option<usize>,
    /// Head that scores spans of words for given labels, if the model has one.
    pub spans: Option<SpanConfig>,
    /// Soft cap on logits: `cap * tanh(logit / cap)`.
    pub logit_soft_cap: Option<f32>,
    /// Dimension of per-layer embeddings, which every layer gets for each token from a separate table.
    pub per_layer_input: Option<usize>,
    /// Alternating updates (AltUp) over several residual streams.
    pub altup: Option<AltUpConfig>,
    /// Number of MTP layers (multi-token prediction) after `layers` in the file, which are not computed.
    pub mtp_layers: usize,
    /// Transformer blocks, first to last; at least one.
    pub layers: Vec<LayerConfig>,
}

impl ModelConfig {
    /// Returns whether the model has logits, and so can generate text.
    #[must_use]
    pub fn generates(&self) -> bool {
        self.head == HeadConfig::Logits
    }

    /// Returns whether tokens attend to later tokens, so that a text must be computed in one step.
    #[must_use]
    pub fn needs_whole_texts(&self) -> bool {
        self.layers.iter().any(|layer| layer.mask.is_bidirectional())
    }

    /// Returns the dimension of a text's embedding.
    #[must_use]
    pub fn vector_width(&self) -> usize {
        self.vector_dense.last().map_or(self.width, |dense| dense.outputs)
    }

    /// Returns the dimension of a text's embedding as it is returned by default.
    #[must_use]
    pub fn usual_dimensions(&self) -> usize {
        self.vectors.dimensions.map_or(self.vector_width(), |n| n.min(self.vector_width()))
    }

    /// Returns the dimension of per-token vectors: those of the token head if there is one, or the hidden states.
    #[must_use]
    pub fn token_width(&self) -> usize {
        self.token_vectors.unwrap_or(self.width)
    }

    /// Returns the longest sliding window of any layer; `None` without one.
    #[must_use]
    pub fn window(&self) -> Option<usize> {
        self.layers.iter().filter_map(|layer| layer.mask.window()).max()
    }

    /// Returns the index of the last layer with its own KV cache or recurrent state. Layers after it need to compute
    /// only the tokens whose results are requested.
    #[must_use]
    pub(crate) fn last_of_own(&self) -> usize {
        self.layers.iter().rposition(|layer| layer.kv_of.is_none()).unwrap_or_default()
    }

    /// Returns the classification head, if the model has one.
    #[must_use]
    pub fn classifier(&self) -> Option<&ClassifierConfig> {
        match &self.head {
            HeadConfig::Classifier(classifier) => Some(classifier),
            HeadConfig::Logits | HeadConfig::States => None,
        }
    }

    /// Returns the experts of the layers, if any; all mixture layers have the same.
    #[must_use]
    pub fn experts(&self) -> Option<ExpertsConfig> {
        self.layers.iter().find_map(|layer| layer.experts)
    }

    /// Returns the configuration with `change` applied to every layer and its index.
    #[must_use]
    pub(crate) fn each(mut self, mut change: impl FnMut(usize, &mut LayerConfig)) -> ModelConfig {
        self.layers.iter_mut().enumerate().for_each(|(i, layer)| change(i, layer));
        self
    }
}

/// Head on the states of the last layer.
#[derive(Clone, Debug, PartialEq)]
pub enum HeadConfig {
    /// Logits of the next token, from the normalised states.
    Logits,
    /// None: the states are the result.
    States,
    /// Scores of labels, for a text or for each of its tokens.
    Classifier(ClassifierConfig),
}

/// Classification head.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierConfig {
    /// Names of the labels, in the order of their scores.
    pub labels: Vec<String>,
    /// Object that is labelled: a text or its tokens.
    pub of: Labelled,
    /// Dense layer before the classifier, if any.
    pub dense: Option<DenseConfig>,
    /// Function from the classifier's outputs to scores.
    pub scores: Scores,
    /// Prompt with `{query}` and `{document}`, for rerankers that answer a question about the pair.
    pub prompt: Option<String>,
}

impl ClassifierConfig {
    /// Returns whether the head is a reranker's: one score for a pair of texts.
    #[must_use]
    pub fn ranks(&self) -> bool {
        self.of != Labelled::Tokens && (self.labels.len() == 1 || self.scores == Scores::YesNo)
    }
}

/// Dense layer on an embedding after pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorDense {
    /// Input dimension.
    pub inputs: usize,
    /// Output dimension.
    pub outputs: usize,
    /// Activation on the output, if any.
    pub activation: Option<DenseActivation>,
}

/// Sparse embedding: a weight for each entry of the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseConfig {
    /// Weights from the logits that a masked language model computes for the text's tokens (SPLADE; Formal et al.,
    /// 2021): `ln(1 + max(logit, 0))`.
    Vocabulary {
        /// True to sum over the text's tokens; false to take the maximum.
        sum: bool,
        /// True to apply the logarithm twice.
        log_twice: bool,
    },
    /// Weights of the text's own tokens: positive products of their states with a matrix of one row (M3-Embedding;
    /// Chen et al., 2024). A token that occurs several times gets the maximum; special tokens get none.
    Tokens,
}

/// Object that a classifier labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labelled {
    /// A text, by its pooled states.
    Text(Pooling),
    /// Every token of a text, by its state.
    Tokens,
}

/// Dense layer before the classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseConfig {
    /// Activation on the output.
    pub activation: DenseActivation,
    /// True if the output is normalised.
    pub norm: bool,
    /// True if a file may lack it.
    pub optional: bool,
}

/// Activation of a dense layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenseActivation {
    /// Hyperbolic tangent.
    Tanh,
    /// Rectifier: `max(x, 0)`.
    Relu,
    /// GELU with the error function.
    Gelu,
}

/// Function from the classifier's outputs to scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scores {
    /// Softmax over the labels: exactly one applies.
    Softmax,
    /// Sigmoid of each label: any number of them apply.
    Sigmoid,
    /// Identity (regression).
    Raw,
    /// Softmax over two labels: the first means that the document answers the query.
    YesNo,
}

/// Normalisation of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormConfig {
    /// Kind of normalisation.
    pub kind: NormKind,
    /// Term added to the mean square, or to the variance.
    pub eps: f32,
    /// Term added to the stored weights.
    pub offset: f32,
}

/// Kinds of normalisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormKind {
    /// RMSNorm.
    #[default]
    Rms,
    /// LayerNorm with a bias.
    Layer,
    /// LayerNorm without a bias.
    LayerWithoutBias,
}

/// Sizes and options of one transformer block.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// Number of query heads.
    pub heads: usize,
    /// Number of KV heads; divides `heads`.
    pub kv_heads: usize,
    /// Head dimension of queries and keys.
    pub head_dim: usize,
    /// Head dimension of values.
    pub value_dim: usize,
    /// Attention mask.
    pub mask: Mask,
    /// Factor on the attention scores.
    pub attention_scale: f32,
    /// Soft cap on attention scores: `cap * tanh(score / cap)`.
    pub attention_soft_cap: Option<f32>,
    /// Position bias on attention scores, for masks of whole texts only.
    pub position_bias: Option<PositionBias>,
    /// Additional factor on queries that grows with their position.
    pub temperature: Option<Temperature>,
    /// Rotary position embedding (RoPE), if any.
    pub rope: Option<RopeConfig>,
    /// Normalisation of queries and keys before RoPE.
    pub qk_norm: QkNorm,
    /// Source of the values.
    pub values: Values,
    /// Earlier layer whose keys and values the layer uses instead of its own.
    pub kv_of: Option<usize>,
    /// True if the attention output is multiplied by a sigmoid gate. The gate is a projection of the layer's input,
    /// whose rows follow those of each head's query.
    pub output_gate: bool,
    /// True if every query head has a learned logit in the softmax that adds no value (attention sink).
    pub sinks: bool,
    /// Placement of the norms of the block's two halves.
    pub norms: NormPlacement,
    /// Factor on the outputs of the two halves before they are added to the residual stream. Not supported with norms
    /// on these outputs.
    pub residual_scale: f32,
    /// Width of the feed-forward layer, or of each expert; 0 for a block without one.
    pub ffn: usize,
    /// True if the feed-forward layer is gated.
    pub gated: bool,
    /// Activation of the feed-forward layer.
    pub activation: Activation,
    /// Activation sparsity: the gate's values are zero below their mean plus this many standard deviations.
    pub sparsity: Option<f32>,
    /// Mixture of experts in place of the feed-forward layer.
    pub experts: Option<ExpertsConfig>,
    /// Width of a dense feed-forward layer in parallel to the experts, each with its own norms.
    pub dense: Option<usize>,
    /// True if the file may have a factor on the block's output.
    pub output_scale: bool,
    /// Multi-head latent attention (MLA).
    pub latent: Option<LatentConfig>,
    /// Recurrent layer with a state per sequence, in place of attention.
    pub recurrent: Option<RecurrentConfig>,
}

impl Default for LayerConfig {
    /// Returns the usual kind of block, with all sizes 0.
    fn default() -> LayerConfig {
        LayerConfig {
            heads: 0,
            kv_heads: 0,
            head_dim: 0,
            value_dim: 0,
            mask: Mask::Causal,
            attention_scale: 1.0,
            attention_soft_cap: None,
            position_bias: None,
            temperature: None,
            rope: None,
            qk_norm: QkNorm::None,
            values: Values::Own,
            kv_of: None,
            output_gate: false,
            sinks: false,
            norms: NormPlacement::Pre,
            residual_scale: 1.0,
            ffn: 0,
            gated: true,
            activation: Activation::Silu,
            sparsity: None,
            experts: None,
            dense: None,
            output_scale: false,
            latent: None,
            recurrent: None,
        }
    }
}

/// Source of the values of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Product with the value matrix.
    #[default]
    Own,
    /// Product with the value matrix, RMS-normalised per head without weights.
    Normalised,
    /// As [`Normalised`](Self::Normalised), but if the file has no value matrix, from the keys before their norm.
    Keys,
}

/// Alternating updates (AltUp; Baykal et al., 2023): layers compute one of several residual streams, and predict and
/// correct all of them. Each layer also has a low-rank product beside attention (learned augmented residual layer,
/// LAuReL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltUpConfig {
    /// Number of streams.
    pub streams: usize,
    /// Index of the stream that layers compute.
    pub active: usize,
    /// True if the input of the per-layer-embedding gate is scaled elementwise.
    pub scaled: bool,
}

/// Multi-head latent attention (MLA; DeepSeek-AI, 2024).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatentConfig {
    /// Rank of the compressed queries (`q_lora_rank`); `None` if queries are not compressed.
    pub query_rank: Option<usize>,
    /// Rank of the compressed keys and values (`kv_lora_rank`).
    pub rank: usize,
    /// Leading dimensions of a head's key without RoPE, from the compressed vector (`qk_nope_head_dim`).
    pub qk_nope: usize,
    /// Trailing dimensions of the key with RoPE, shared by all heads (`qk_rope_head_dim`).
    pub qk_rope: usize,
}

/// Placement of the norms of a block's halves, attention and feed-forward layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormPlacement {
    /// Norms on their inputs.
    #[default]
    Pre,
    /// Norms on their inputs, and on their outputs before these are added to the residual stream.
    Sandwich,
    /// Norms on the residual stream after their output was added to it.
    Post,
    /// Norm on the input of the feed-forward layer only.
    PreFfn,
    /// Norms on their outputs only, before these are added to the residual stream.
    Output,
    /// Norm on the input of the block, which both halves take in parallel. The feed-forward layer may have its own
    /// norm.
    Parallel,
}

/// Position bias on attention scores, by the distance of the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionBias {
    /// Negative bias proportional to the distance, with a slope per head, in both directions (ALiBi; Press et al.,
    /// 2022).
    Alibi,
    /// Learned bias per head and bucket of distances, the same in all layers (Raffel et al., 2020).
    Buckets {
        /// Number of buckets, half of them for each direction.
        count: usize,
        /// Distance from which on all share one bucket.
        longest: usize,
    },
    /// Products of queries and keys with embeddings of distances (disentangled attention; He et al., 2021).
    Disentangled {
        /// Number of embeddings per direction.
        span: usize,
        /// Maximum distance if embeddings are of logarithmic buckets; `None` if they are of single distances.
        longest: Option<usize>,
        /// True if queries are multiplied with embeddings.
        content_to_position: bool,
        /// True if keys are multiplied with embeddings.
        position_to_content: bool,
        /// True if embeddings are projected by the layer's own Q and K matrices; false if by separate ones.
        shared: bool,
        /// True if embeddings are normalised first.
        norm: bool,
    },
}

/// RMS normalisation of queries and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QkNorm {
    /// No normalisation.
    #[default]
    None,
    /// Each head by itself, all with the same weights.
    Head,
    /// Each head by itself, if the file has the weights.
    HeadIfThere,
    /// All heads of a token together.
    Whole,
}

/// Factor on queries that grows with their position (Llama 4, Ministral 3): `1 + scale * ln(1 + floor(position /
/// length))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// Position below which the factor is 1.
    pub length: usize,
    /// Factor on the logarithm.
    pub scale: f32,
}

/// Mixture of experts (Shazeer et al., 2017): every token is routed to some of many feed-forward layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertsConfig {
    /// Number of experts.
    pub count: usize,
    /// Number of experts per token; at most `count`.
    pub used: usize,
    /// Gating function of the router's scores.
    pub gating: GatingFunction,
    /// True if the weights of a token's experts are normalised to sum to one.
    pub normalise: bool,
    /// True if experts may have a bias that affects their choice but not their weights.
    pub correction: bool,
    /// Groups of experts; experts are chosen from the best groups only.
    pub groups: Option<ExpertGroups>,
    /// Factor on the weights.
    pub scale: f32,
    /// Shared expert, if any.
    pub shared: Option<SharedExpert>,
    /// True if router and experts have biases.
    pub biases: bool,
}

impl ExpertsConfig {
    /// Creates a mixture with softmax gating.
    pub(crate) fn softmax(count: usize, used: usize, normalise: bool) -> ExpertsConfig {
        ExpertsConfig {
            count,
            used,
            gating: GatingFunction::Softmax,
            normalise,
            correction: false,
            groups: None,
            scale: 1.0,
            shared: None,
            biases: false,
        }
    }
}

/// Expert that processes every token, in addition to the routed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedExpert {
    /// Width of the expert.
    pub ffn: usize,
    /// True if the output is multiplied by a sigmoid gate, one value per token.
    pub gated: bool,
}

/// Rotary position embedding (RoPE).
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// Pairing of a head's values.
    pub pairs: RopePairs,
    /// Number of leading dimensions of a head that are rotated; even.
    pub dims: usize,
    /// Base of the geometric series of frequencies.
    pub base: f32,
    /// Scaling to contexts longer than the original.
    pub scaling: RopeScaling,
    /// Factor on cosine and sine, in addition to the scaling's own; 1 unless a file gives another.
    pub magnitude: f32,
}

/// RoPE scaling.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// No scaling.
    None,
    /// All frequencies divided by a factor.
    Linear {
        /// Factor.
        factor: f32,
    },
    /// Llama 3.1's scaling (Grattafiori et al., 2024, as published with the weights): low frequencies are divided,
    /// high ones kept, with a ramp between. In GGUF, it is given by divisors in the tensor `rope_freqs.weight`
    /// instead.
    Llama3 {
        /// Divisor of low frequencies.
        factor: f32,
        /// Wavelengths longer than the original context divided by `low` are scaled by the factor.
        low: f32,
        /// Wavelengths shorter than the original context divided by `high` are kept; more than `low`.
        high: f32,
        /// Context length before scaling, in tokens.
        original_context: usize,
    },
    /// YaRN (Peng et al., 2023): low frequencies are divided, high ones kept, with a ramp between, and attention
    /// scores scaled.
    Yarn {
        /// Divisor of low frequencies.
        factor: f32,
        /// Context length before scaling, in tokens.
        original_context: usize,
        /// Limits of the ramp.
        ramp: YarnRamp,
        /// Factor on cosine and sine; attention scores are multiplied by its square.
        attention: f64,
    },
    /// No scaling, even if the file has divisors of the frequencies: they apply to other layers.
    Undivided,
    /// Partial rotation of the leading pairs, with the frequencies that they have among all pairs.
    Proportional {
        /// Number of rotated pairs.
        pairs: usize,
        /// Divisor of their frequencies.
        factor: f32,
    },
    /// LongRoPE (Ding et al., 2024): a divisor for each pair, from one list for sequences up to the original context,
    /// or from another for longer ones. The list is chosen by the maximum sequence length, not by the current one, so
    /// that cached keys stay valid.
    LongRope {
        /// Context length before scaling, in tokens.
        original_context: usize,
        /// Divisors up to the original context, and beyond it; empty for GGUF, which has them in tensors.
        divisors: Arc<[Vec<f32>; 2]>,
        /// Factor on cosine and sine.
        attention: f64,
    },
}

/// Range of pairs over which YaRN passes from kept to divided frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YarnRamp {
    /// Rotations over the original context above which pairs are kept (beta in the paper).
    pub fast: f32,
    /// Rotations over the original context below which pairs are divided (alpha in the paper).
    pub slow: f32,
    /// True if the limits of the ramp are rounded to whole pairs.
    pub whole: bool,
    /// Fraction of the kept frequencies that is kept (`ext_factor`), the rest being divided; 1 in the paper.
    pub extrapolated: f32,
}

impl Default for YarnRamp {
    /// Returns the paper's values for Llama.
    fn default() -> YarnRamp {
        YarnRamp { fast: 32.0, slow: 1.0, whole: true, extrapolated: 1.0 }
    }
}

/// Computes YaRN's default factor on cosine and sine for a scaling factor (equation 22 of the paper); `weight` is 1
/// there.
pub(crate) fn yarn_attention(factor: f32, weight: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 1.0 + 0.1 * weight * leyden_kernels::ops::ln(f64::from(factor)) }
}
