//! [`Workspace`]: buffers of a forward pass.

use crate::activation_sums::ActivationSums;
use crate::batch::Batch;
use crate::lora::StepAdapters;
use crate::state_rounds::StateRounds;
use leyden_kernels::PackedA;
use leyden_kernels::attention::{AttentionSpan, BLOCK_TOKENS};
use leyden_kernels::gemm::{MoeScratch, Routing, TokenBlock};
use leyden_kernels::memory::Aligned;
use leyden_kernels::ops::{Rotation, StateSpan};
use std::collections::HashMap;
use std::sync::Mutex;

/// Buffers of a task of the fused end of an encoder's layer, reused by later tasks.
#[derive(Debug, Default)]
pub(crate) struct TailBuffers {
    pub(crate) tokens: TokenBlock,
    pub(crate) hidden: Aligned<f32>,
}

/// Buffers of a forward pass, reused from step to step. They grow to the largest batch seen.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(crate) stream: Aligned<f32>,
    /// Results of half a block on their way to the stream.
    pub(crate) branch: Aligned<f32>,
    pub(crate) normed: Aligned<f32>,
    /// The input of a feed-forward layer that stands beside attention, where it is another one than attention's.
    pub(crate) beside: Aligned<f32>,
    pub(crate) queries: Aligned<f32>,
    pub(crate) keys: Aligned<f32>,
    pub(crate) values: Aligned<f32>,
    pub(crate) mixed: Aligned<f32>,
    pub(crate) hidden: Aligned<f32>,
    pub(crate) other: Aligned<f32>,
    /// What the mixed values are multiplied by, before the logistic function.
    pub(crate) gates: Aligned<f32>,
    /// What every layer gets of each token besides, all layers' of one token together.
    pub(crate) per_layer: Aligned<f32>,
    /// Several streams, those of a token together, and what a layer predicts of them.
    pub(crate) streams: Aligned<f32>,
    pub(crate) predicted: Aligned<f32>,
    /// What is added to attention's results beside the stream.
    pub(crate) laurel: Aligned<f32>,
    /// Results of the expert that every token goes through.
    pub(crate) shared: Aligned<f32>,
    /// The batch's spans, as layers with a state of each sequence see them.
    pub(crate) state_rounds: StateRounds,
    pub(crate) logits: Aligned<f32>,
    pub(crate) wanted_states: Aligned<f32>,
    pub(crate) slots: Vec<(u32, u8)>,
    /// Of the batch's tokens.
    pub(crate) positions: Vec<usize>,
    /// Of the batch's tokens, for each kind of rotation.
    pub(crate) rotations: Vec<Vec<Rotation>>,
    pub(crate) activations: PackedA,
    pub(crate) gated: PackedA,
    pub(crate) routing: Routing,
    pub(crate) grouped: MoeScratch,
    pub(crate) tails: Mutex<Vec<TailBuffers>>,
    pub(crate) sums: Option<ActivationSums>,
    pub(crate) adapters: StepAdapters,
}

impl Workspace {
    /// Sets the positions and cache slots of the batch's tokens.
    pub(crate) fn place(&mut self, batch: &Batch<'_>) {
        self.slots.clear();
        self.state_rounds.clear();
        let mut first = 0;
        for span in batch.spans {
            let (tokens, slot, fresh) = (span.tokens, span.state, span.position == 0);
            self.state_rounds.add(StateSpan { first, tokens, slot, fresh }, span.checkpoints);
            first += tokens;
        }
        self.positions.clear();
        for span in batch.spans {
            for position in span.position..span.position + span.tokens {
                self.positions.push(position);
                // A block holds 64 tokens, so the place fits u8.
                self.slots.push((span.blocks[position / BLOCK_TOKENS], (position % BLOCK_TOKENS) as u8));
            }
        }
    }

    /// From now on, sums up the squares of what every matrix is multiplied with.
    pub fn record(&mut self, sums: ActivationSums) {
        self.sums = Some(sums);
    }

    /// Ends that; what was summed up.
    pub fn recorded(&mut self) -> ActivationSums {
        self.sums.take().unwrap_or_default()
    }

    /// The rows of the batch that the texts of spans begin in, which are whole in it: a text begins at position 0.
    pub(crate) fn starts_of(&self, spans: &[AttentionSpan<'_>]) -> Vec<usize> {
        let begins = self.positions.iter().zip(&self.slots).enumerate();
        let begins = begins.filter(|(_, (position, _))| **position == 0).map(|(i, (_, slot))| (slot.0, i));
        // Texts have blocks of their own.
        let of_block: HashMap<u32, usize> = begins.collect();
        let of = |span: &AttentionSpan<'_>| span.blocks.first().and_then(|b| of_block.get(b)).copied();
        spans.iter().map(|span| of(span).unwrap_or_default()).collect()
    }

    /// Logits of the last forward pass, one row of the vocabulary per wanted token.
    #[must_use]
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// The states that those logits were computed from: of each wanted token, the last layer's behind the norm.
    #[must_use]
    pub fn states(&self) -> &[f32] {
        if self.logits.is_empty() { &[] } else { &self.normed }
    }

    /// The states that were wanted for themselves: of each such token, the last layer's behind the norm.
    #[must_use]
    pub fn wanted_states(&self) -> &[f32] {
        &self.wanted_states
    }
}
