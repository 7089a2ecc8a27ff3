//! [`Workspace`]: buffers of a forward pass.

use crate::activation_sums::ActivationSums;
use crate::batch::Batch;
use crate::lora::StepAdapters;
use crate::state_rounds::StateRounds;
use leyden_kernels::PackedA;
use leyden_kernels::attention::BLOCK_TOKENS;
use leyden_kernels::gemm::{MoeScratch, Routing, TokenBlock};
use leyden_kernels::memory::Aligned;
use leyden_kernels::ops::{Rotation, StateSpan};
use std::sync::Mutex;

/// Buffers of a task of the fused end of an encoder's layer, reused by later tasks.
#[derive(Debug, Default)]
pub(crate) struct TailBuffers {
    pub(crate) tokens: TokenBlock,
    pub(crate) hidden: Aligned<f32>,
}

/// Metadata of a step, computed once from its batch.
#[derive(Debug, Default)]
pub(crate) struct StepMetadata {
    /// Position of each token in its sequence `[n_tokens]`.
    pub(crate) positions: Vec<usize>,
    /// Block and place in it where each token's keys and values are stored `[n_tokens]`.
    pub(crate) slots: Vec<(u32, u8)>,
    /// Rotary embedding of each token, for each kind of rotation `[kinds][n_tokens]`.
    pub(crate) rotations: Vec<Vec<Rotation>>,
    /// Spans of the batch for layers with a recurrent state per sequence.
    pub(crate) state_rounds: StateRounds,
}

impl StepMetadata {
    /// Sets all but the rotations.
    pub(crate) fn place(&mut self, batch: &Batch<'_>) {
        self.slots.clear();
        self.state_rounds.clear();
        self.positions.clear();
        let mut first = 0;
        for span in batch.spans {
            let (tokens, slot, fresh) = (span.tokens, span.state, span.position == 0);
            self.state_rounds.add(StateSpan { first, tokens, slot, fresh }, span.checkpoints);
            first += tokens;
            for position in span.position..span.position + span.tokens {
                self.positions.push(position);
                // A block holds 64 tokens, so the place fits u8.
                self.slots.push((span.blocks[position / BLOCK_TOKENS], (position % BLOCK_TOKENS) as u8));
            }
        }
    }
}

/// Buffers of attention.
#[derive(Debug, Default)]
pub(crate) struct AttentionBuffers {
    /// `[rows, heads * head_dim]`.
    pub(crate) queries: Aligned<f32>,
    /// `[n_tokens, kv_heads * head_dim]`.
    pub(crate) keys: Aligned<f32>,
    /// `[n_tokens, kv_heads * value_dim]`.
    pub(crate) values: Aligned<f32>,
    /// Gates of the results before the logistic function `[rows, heads * value_dim]`.
    pub(crate) gates: Aligned<f32>,
    /// Results before the output projection `[rows, heads * value_dim]`.
    pub(crate) mixed: Aligned<f32>,
}

/// Buffers of multi-head latent attention.
#[derive(Debug, Default)]
pub(crate) struct LatentBuffers {
    /// Latent vectors and the rotated parts of keys, as projected `[n_tokens, rank + rope_head_dim]`.
    pub(crate) compressed: Aligned<f32>,
    /// Normalised latent vectors `[n_tokens, rank]`; later those of queries.
    pub(crate) latent: Aligned<f32>,
    /// Parts of keys without rotation and values, by head `[n_tokens, heads * (nope_head_dim + value_dim)]`.
    pub(crate) keys_values: Aligned<f32>,
    pub(crate) queries: Aligned<f32>,
    pub(crate) keys: Aligned<f32>,
    pub(crate) values: Aligned<f32>,
    /// Results before the output projection `[rows, heads * value_dim]`.
    pub(crate) mixed: Aligned<f32>,
}

/// Buffers of Mamba 2.
#[derive(Debug, Default)]
pub(crate) struct Mamba2Buffers {
    /// Gates of the norm `[n_tokens, inner]`.
    pub(crate) z: Aligned<f32>,
    /// Inputs of the convolution, later of the scan: x, B and C `[n_tokens, channels]`.
    pub(crate) xbc: Aligned<f32>,
    /// Time steps `[n_tokens, heads]`.
    pub(crate) dt: Aligned<f32>,
    /// Results before the output projection `[n_tokens, inner]`.
    pub(crate) y: Aligned<f32>,
}

/// Buffers of gated delta nets.
#[derive(Debug, Default)]
pub(crate) struct DeltaNetBuffers {
    /// Queries, keys and values `[n_tokens, channels]`.
    pub(crate) qkv: Aligned<f32>,
    /// Gates of the norm `[n_tokens, heads * value_dim]`.
    pub(crate) z: Aligned<f32>,
    /// Learning rates of the delta rule `[n_tokens, heads]`.
    pub(crate) beta: Aligned<f32>,
    /// Logarithms of the state's decay `[n_tokens, heads]`.
    pub(crate) decay: Aligned<f32>,
    /// Results before the output projection `[n_tokens, heads * value_dim]`.
    pub(crate) y: Aligned<f32>,
}

/// Buffers of short convolutions.
#[derive(Debug, Default)]
pub(crate) struct ShortConvBuffers {
    /// Input gates, output gates and inputs `[n_tokens, 3 * width]`.
    pub(crate) bcx: Aligned<f32>,
    /// Results before the output projection `[n_tokens, width]`.
    pub(crate) y: Aligned<f32>,
}

/// Buffers of feed-forward layers.
#[derive(Debug, Default)]
pub(crate) struct MlpBuffers {
    /// Input of a feed-forward layer parallel to attention with a norm of its own `[rows, width]`.
    pub(crate) parallel_input: Aligned<f32>,
    /// Input of the down projection `[rows, ffn]`.
    pub(crate) hidden: Aligned<f32>,
    /// Results of the up projection where the gate is applied apart `[rows, ffn]`.
    pub(crate) up: Aligned<f32>,
    /// Input of the down projection, quantised and packed.
    pub(crate) packed: PackedA,
    /// Buffers of tasks of an encoder's fused layer end.
    pub(crate) tails: Mutex<Vec<TailBuffers>>,
}

/// Buffers of mixtures of experts.
#[derive(Debug, Default)]
pub(crate) struct MoeBuffers {
    /// Input of router and experts parallel to a dense layer `[rows, width]`.
    pub(crate) input: Aligned<f32>,
    /// Scores of the router `[rows, experts]`.
    pub(crate) scores: Aligned<f32>,
    pub(crate) routing: Routing,
    pub(crate) grouped: MoeScratch,
    /// Results of the shared expert, or of the dense layer parallel to experts `[rows, width]`.
    pub(crate) shared: Aligned<f32>,
    /// Results of experts parallel to a dense layer `[rows, width]`.
    pub(crate) experts: Aligned<f32>,
}

/// Buffers of per-layer embeddings.
#[derive(Debug, Default)]
pub(crate) struct PerLayerBuffers {
    /// Inputs of all layers `[n_tokens, layers * dim]`.
    pub(crate) inputs: Aligned<f32>,
    /// Rows of the embedding table `[n_tokens, layers * dim]`.
    pub(crate) table: Aligned<f32>,
    /// Gated input of one layer `[rows, dim]`.
    pub(crate) gate: Aligned<f32>,
}

/// Buffers of alternating updates.
#[derive(Debug, Default)]
pub(crate) struct AltUpBuffers {
    /// `[rows, streams * width]`.
    pub(crate) streams: Aligned<f32>,
    /// Predictions of a layer `[rows, streams * width]`.
    pub(crate) predicted: Aligned<f32>,
    /// Scores of the router `[rows, streams]`.
    pub(crate) modes: Aligned<f32>,
    /// Low-rank input of the augmented residual layer `[rows, rank]`.
    pub(crate) low: Aligned<f32>,
    /// Results of the augmented residual layer `[rows, width]`.
    pub(crate) laurel: Aligned<f32>,
}

/// Buffers of a forward pass, reused from step to step. They grow to the largest batch seen.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(crate) step: StepMetadata,
    /// Residual stream `[rows, width]`.
    pub(crate) stream: Aligned<f32>,
    /// Results of a sublayer before they are added to the stream `[rows, width]`.
    pub(crate) branch: Aligned<f32>,
    /// Input of a sublayer: the stream, normalised `[rows, width]`.
    pub(crate) normed: Aligned<f32>,
    pub(crate) attention: AttentionBuffers,
    pub(crate) latent: LatentBuffers,
    pub(crate) mamba2: Mamba2Buffers,
    pub(crate) delta_net: DeltaNetBuffers,
    pub(crate) short_conv: ShortConvBuffers,
    pub(crate) mlp: MlpBuffers,
    pub(crate) moe: MoeBuffers,
    pub(crate) per_layer: PerLayerBuffers,
    pub(crate) altup: AltUpBuffers,
    /// `[outputs, vocabulary]`.
    pub(crate) logits: Aligned<f32>,
    /// Hidden states asked for `[states, width]`.
    pub(crate) wanted_states: Aligned<f32>,
    /// Input of a matrix product, quantised and packed.
    pub(crate) activations: PackedA,
    pub(crate) sums: Option<ActivationSums>,
    pub(crate) adapters: StepAdapters,
}

impl Workspace {
    /// Adds up the squares of the inputs of every matrix from now on.
    pub fn record(&mut self, sums: ActivationSums) {
        self.sums = Some(sums);
    }

    /// Ends the sums begun by [`record`](Self::record) and returns them.
    pub fn recorded(&mut self) -> ActivationSums {
        self.sums.take().unwrap_or_default()
    }

    /// Returns the logits of the last forward pass `[outputs, vocabulary]`.
    #[must_use]
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Returns the hidden states of these logits, after the last norm `[outputs, width]`.
    #[must_use]
    pub fn states(&self) -> &[f32] {
        if self.logits.is_empty() { &[] } else { &self.normed }
    }

    /// Returns the hidden states asked for by [`Batch::states`], after the last norm `[states, width]`.
    #[must_use]
    pub fn wanted_states(&self) -> &[f32] {
        &self.wanted_states
    }
}
