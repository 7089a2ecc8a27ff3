//! A transformer's parameters. Where they come from is the [`Reader`]'s business: GGUF metadata (`gguf.rs`) or the
//! `config.json` of a folder from the hub (`hf.rs`).

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

/// Sizes and options of a transformer: a decoder, or an encoder whose tokens see those behind them too.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The architecture's name, as GGUF has it.
    pub architecture: &'static str,
    /// Width of the residual stream.
    pub width: usize,
    /// Longest sequence the model was made for, in tokens.
    pub context: usize,
    /// What embeddings are multiplied by.
    pub embedding_scale: f32,
    /// Position embeddings that are learned, one for each position: the row of their table that is the first position's.
    pub learned_positions: Option<usize>,
    /// Whether embeddings are normalised.
    pub embedding_norm: bool,
    /// The width of embeddings, if it is another one than that of the stream, which they are brought to by a matrix.
    pub embedding_width: Option<usize>,
    /// Normalisation.
    pub norm: NormConfig,
    /// What is computed from the last layer's states.
    pub head: Head,
    /// What logits are multiplied by.
    pub logit_scale: f32,
    /// How vectors are given out and compared.
    pub vectors: VectorForm,
    /// Matrices that a text's vector goes through behind the pooling.
    pub vector_dense: Vec<VectorDense>,
    /// How a text's number for each token of the vocabulary is made, if it is.
    pub sparse: Option<SparseConfig>,
    /// Numbers of the vector that each token of a text has, where these are not its states.
    pub token_vectors: Option<usize>,
    /// How spans of words get scores for labels that are given with a text, if they do.
    pub spans: Option<SpanConfig>,
    /// Logits beyond this are squeezed below it.
    pub logit_soft_cap: Option<f32>,
    /// Numbers that every layer gets of each token besides, from a table of their own (per-layer embeddings), if they do.
    pub per_layer_input: Option<usize>,
    /// The streams side by side that layers predict and correct (alternating updates), if there are several.
    pub altup: Option<AltUpConfig>,
    /// Layers of the file behind those, which predict further tokens and are not computed.
    pub predictors: usize,
    /// The transformer blocks, from the first on; at least one.
    pub layers: Vec<LayerConfig>,
}

impl ModelConfig {
    /// Whether it has logits, and so can generate texts.
    #[must_use]
    pub fn generates(&self) -> bool {
        self.head == Head::Logits
    }

    /// Whether tokens see those behind them, so that a text must be computed in one step.
    #[must_use]
    pub fn needs_whole_texts(&self) -> bool {
        self.layers.iter().any(|layer| layer.mask.sees_behind())
    }

    /// Numbers of a text's vector.
    #[must_use]
    pub fn vector_width(&self) -> usize {
        self.vector_dense.last().map_or(self.width, |dense| dense.outputs)
    }

    /// Numbers of a text's vector as it is given out where no other number is asked for.
    #[must_use]
    pub fn usual_dimensions(&self) -> usize {
        self.vectors.dimensions.map_or(self.vector_width(), |n| n.min(self.vector_width()))
    }

    /// Numbers of what each token of a text has: its vector where there is a head for that, else its state.
    #[must_use]
    pub fn token_width(&self) -> usize {
        self.token_vectors.unwrap_or(self.width)
    }

    /// The longest window that layers attend to, if there are such layers.
    #[must_use]
    pub fn window(&self) -> Option<usize> {
        self.layers.iter().filter_map(|layer| layer.mask.window()).max()
    }

    /// The last layer with keys and values, or a state, of its own: what is behind it needs no token but those whose results are
    /// asked for.
    #[must_use]
    pub(crate) fn last_of_own(&self) -> usize {
        self.layers.iter().rposition(|layer| layer.kv_of.is_none()).unwrap_or_default()
    }

    /// The labels that it gives scores, if it classifies texts.
    #[must_use]
    pub fn classifier(&self) -> Option<&ClassifierConfig> {
        match &self.head {
            Head::Classifier(classifier) => Some(classifier),
            Head::Logits | Head::States => None,
        }
    }

    /// The experts of its layers, where these have some; they have the same.
    #[must_use]
    pub fn experts(&self) -> Option<ExpertsConfig> {
        self.layers.iter().find_map(|layer| layer.experts)
    }

    /// The same with every layer changed; `change` gets its number too.
    #[must_use]
    pub(crate) fn each(mut self, mut change: impl FnMut(usize, &mut LayerConfig)) -> ModelConfig {
        self.layers.iter_mut().enumerate().for_each(|(i, layer)| change(i, layer));
        self
    }
}

/// What is computed from the states of the last layer.
#[derive(Clone, Debug, PartialEq)]
pub enum Head {
    /// Logits of the next token, from the states behind a last norm.
    Logits,
    /// Nothing: the states are the result.
    States,
    /// A score for each of some labels, of a text or of each of its tokens.
    Classifier(ClassifierConfig),
}

/// The head of a model that classifies texts.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierConfig {
    /// The names of the labels, in the order of their scores.
    pub labels: Vec<String>,
    /// What gets labels.
    pub of: Labelled,
    /// The matrix before the one that gives the scores, if there is one.
    pub dense: Option<DenseConfig>,
    /// What the scores are made of.
    pub scores: Scores,
    /// How a model that is asked in words is asked about a pair: with `{query}` and `{document}` in it.
    pub prompt: Option<String>,
}

impl ClassifierConfig {
    /// Whether it gives pairs of texts a score: there is one for a text.
    #[must_use]
    pub fn ranks(&self) -> bool {
        self.of != Labelled::Tokens && (self.labels.len() == 1 || self.scores == Scores::YesNo)
    }
}

/// A matrix behind the pooling of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorDense {
    /// Numbers that come in.
    pub inputs: usize,
    /// Numbers that come out.
    pub outputs: usize,
    /// The function behind it.
    pub activation: Option<DenseActivation>,
}

/// A number for each token of the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseConfig {
    /// Of the logits that a masked language model gives a text's tokens (SPLADE; Formal et al., 2021): the logarithm of one more
    /// than the logit, where that is positive.
    Vocabulary {
        /// Whether the numbers of a text's tokens are summed; otherwise the greatest counts.
        sum: bool,
        /// Whether the logarithm is taken twice.
        log_twice: bool,
    },
    /// Of the text's own tokens, by a matrix of one row, where that gives more than zero (M3-Embedding; Chen et al., 2024). Of a
    /// token that stands several times the greatest counts; special tokens have none.
    Tokens,
}

/// What a classifier labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labelled {
    /// A text, by what its tokens' states are pooled to.
    Text(Pooling),
    /// Every token of a text, by its state.
    Tokens,
}

/// The first matrix of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseConfig {
    /// The function behind it.
    pub activation: DenseActivation,
    /// Whether its results are normalised.
    pub norm: bool,
    /// Whether a file may lack it.
    pub optional: bool,
}

/// The function between the two matrices of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenseActivation {
    /// The hyperbolic tangent.
    Tanh,
    /// Nothing below zero.
    Relu,
    /// GELU, by the error function.
    Gelu,
}

/// How the scores of labels follow from what the classifier computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scores {
    /// One label of several: by the softmax.
    Softmax,
    /// Each label by itself: by the logistic function.
    Sigmoid,
    /// As they are (regression).
    Raw,
    /// One label of two, by the softmax: the first says that a document answers a question.
    YesNo,
}

/// Normalisation of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormConfig {
    /// Which.
    pub kind: NormKind,
    /// Added to the mean square, or to the variance.
    pub eps: f32,
    /// Added to the weights as they are stored.
    pub offset: f32,
}

/// The kinds of normalisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormKind {
    /// By the root mean square.
    #[default]
    Rms,
    /// By mean and variance, with a bias (layer normalisation).
    Layer,
    /// The same without a bias.
    LayerWithoutBias,
}

/// Sizes and options of one transformer block.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; divides `heads`.
    pub kv_heads: usize,
    /// Numbers of a head's query and key.
    pub head_dim: usize,
    /// Numbers of a head's value.
    pub value_dim: usize,
    /// Which tokens see which.
    pub mask: Mask,
    /// What the products of queries and keys are multiplied by.
    pub attention_scale: f32,
    /// Scores of attention beyond this are squeezed below it.
    pub attention_soft_cap: Option<f32>,
    /// What scores of attention get besides, by how far tokens are apart. For masks of whole texts alone.
    pub position_bias: Option<PositionBias>,
    /// What queries are multiplied by besides, if that grows with their position.
    pub temperature: Option<Temperature>,
    /// Rotary position embedding, if there is one.
    pub rope: Option<RopeConfig>,
    /// How queries and keys are normalised before they turn.
    pub qk_norm: QkNorm,
    /// What values are.
    pub values: Values,
    /// The layer before it whose keys and values it attends to, if they are not its own.
    pub kv_of: Option<usize>,
    /// Whether what attention mixes is multiplied by the logistic function of a product of its input, whose rows lie behind
    /// those of each head's query.
    pub output_gate: bool,
    /// Whether every query head has a score that takes its share of the softmax and adds no value (attention sinks).
    pub sinks: bool,
    /// Where the two halves of the block are normalised.
    pub norms: NormPlacement,
    /// What the outputs of the two halves are multiplied by before they are added to the residual stream; with norms that are
    /// not on these outputs.
    pub residual_scale: f32,
    /// Width of the feed-forward layer, of each expert if there are several; 0 where a block has no such half.
    pub ffn: usize,
    /// Whether the feed-forward layer is a gated one.
    pub gated: bool,
    /// The function in the feed-forward layer.
    pub activation: Activation,
    /// By how many standard deviations over their mean the gate's values must be to count, if not all do.
    pub sparsity: Option<f32>,
    /// The experts that the feed-forward layer consists of, if it is a mixture.
    pub experts: Option<ExpertsConfig>,
    /// The width of a feed-forward layer that stands beside the experts, each with norms of its own, if there is one.
    pub dense: Option<usize>,
    /// Whether the file may have a factor on the block's output.
    pub output_scale: bool,
    /// Where keys and values are made of a short vector for each token.
    pub latent: Option<LatentConfig>,
    /// What the layer has instead of attention, if that is a state for each sequence.
    pub recurrent: Option<RecurrentConfig>,
}

impl Default for LayerConfig {
    /// A block of the usual kind, without any sizes.
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

/// What the values of a layer are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// The product with a matrix.
    #[default]
    Own,
    /// The same, head by head divided by the root mean square.
    Normalised,
    /// That of what keys are before they are normalised, where the file has no matrix of values.
    OfKeys,
}

/// Alternating updates (Baykal et al., 2023): several streams, of which layers compute one and predict and correct all. Each
/// layer also has a short matrix product beside attention (learned augmented residual layer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltUpConfig {
    /// How many streams there are.
    pub streams: usize,
    /// Which of them layers compute.
    pub active: usize,
    /// Whether what the layer's own embedding is multiplied with gets a factor for each value.
    pub scaled: bool,
}

/// Multi-head latent attention (DeepSeek-AI, 2024).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatentConfig {
    /// Numbers of the short vector that queries are made of, if they are.
    pub query_rank: Option<usize>,
    /// Numbers of the short vector that keys and values are made of.
    pub rank: usize,
    /// Leading numbers of a head's key that come from that vector and do not turn.
    pub plain: usize,
    /// Its others, which turn and are those of all heads.
    pub turned: usize,
}

/// Where the halves of a block, attention and feed-forward layer, are normalised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormPlacement {
    /// Their input.
    #[default]
    Pre,
    /// Their input, and their output before it is added to the residual stream.
    Sandwich,
    /// The residual stream after their output was added to it.
    Post,
    /// The input of the feed-forward layer alone.
    PreFfn,
    /// Their output alone, before it is added to the residual stream.
    Output,
    /// Their input, which is for both what comes into the block: they stand side by side. The feed-forward layer may have a norm
    /// of its own.
    Parallel,
}

/// What scores of attention get besides, by how far tokens are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionBias {
    /// Less in proportion to the distance, by a slope of each head (ALiBi; Press et al., 2022), in both directions.
    Alibi,
    /// A learned number of each head for each of some ranges of distances (Raffel et al., 2020), the same in all layers.
    Buckets {
        /// Ranges, half of them for each direction.
        count: usize,
        /// Distances from here on are one range.
        longest: usize,
    },
    /// Products of queries with embeddings of distances, and of keys (disentangled attention; He et al., 2021).
    Disentangled {
        /// Embeddings for each direction.
        span: usize,
        /// Whether they are of ranges of distances that grow, up to so many tokens; or of single ones.
        longest: Option<usize>,
        /// Whether queries are multiplied with embeddings.
        content_to_position: bool,
        /// Whether keys are.
        position_to_content: bool,
        /// Whether embeddings go through the layer's own matrices of queries and keys, and not through others.
        shared: bool,
        /// Whether embeddings are normalised before.
        norm: bool,
    },
}

/// How queries and keys are normalised, by the root mean square.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QkNorm {
    /// Not at all.
    #[default]
    None,
    /// Every head by itself, all with the same weights.
    Head,
    /// The same where the file has these weights.
    HeadIfThere,
    /// All heads of a token together.
    Whole,
}

/// A factor on queries that grows with their position (Llama 4, Ministral 3): `1 + scale * ln(1 + floor(position / length))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// Positions up to this one have a factor of 1.
    pub length: usize,
    /// How much the logarithm counts.
    pub scale: f32,
}

/// A mixture of experts (Shazeer et al., 2017): every token goes through some of many feed-forward layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertsConfig {
    /// How many there are.
    pub count: usize,
    /// How many each token goes through; at most `count`.
    pub used: usize,
    /// The function of the router's scores.
    pub gating: GatingFunction,
    /// Whether the weights of a token's experts sum to one.
    pub normalise: bool,
    /// Whether experts may have a bias that counts where they are chosen, and not in their weights.
    pub correction: bool,
    /// The groups from the best of which experts are chosen.
    pub groups: Option<ExpertGroups>,
    /// What the weights are multiplied by.
    pub scale: f32,
    /// The expert that every token goes through.
    pub shared: Option<SharedExpert>,
    /// Whether router and experts have biases.
    pub biases: bool,
}

impl ExpertsConfig {
    /// So many experts with weights by softmax.
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

/// An expert that every token goes through, beside those that are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedExpert {
    /// Its width.
    pub ffn: usize,
    /// Whether its results are multiplied by the logistic function of a score of the token.
    pub gated: bool,
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
    /// None, even where a file has divisors of the frequencies: they are those of other layers.
    Undivided,
    /// A leading share of the pairs turns, with the frequencies that they have among all.
    Proportional {
        /// How many pairs turn.
        pairs: usize,
        /// What their frequencies are divided by.
        factor: f32,
    },
    /// LongRoPE (Ding et al., 2024): a divisor for each pair, of two lists: one for sequences up to the original context, one
    /// for longer ones. Which of them counts is a matter of how long sequences may become, so that keys in the cache stay
    /// right.
    LongRope {
        /// The context length before scaling, in tokens.
        original_context: usize,
        /// The divisors up to that and beyond it; empty in GGUF, which has them in tensors.
        divisors: Arc<[Vec<f32>; 2]>,
        /// Factor on cosine and sine.
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
pub(crate) fn yarn_attention(factor: f32, weight: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 1.0 + 0.1 * weight * leyden_kernels::ops::ln(f64::from(factor)) }
}
