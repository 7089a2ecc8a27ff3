//! Fused part of an encoder's layer after attention, for post-norm layers: each task computes all of it for a few
//! tokens, so that only the stream is written to memory and threads synchronise once.

use super::linear::Linear;
use super::mlp::PlainMlp;
use super::norm::Norm;
use crate::workspace::{TailBuffers, Workspace};
use leyden_kernels::Cpu;
use leyden_kernels::gemm::Write;
use std::sync::PoisonError;

/// Bytes of a task's hidden values of the feed-forward layer, at most. Few L2 caches hold as many, but with fewer
/// tokens at a time the weights would be read more often, which costs more.
const HIDDEN_BYTES: usize = 1536 << 10;

/// Output projection of attention, its norm, the feed-forward layer, and its norm; all matrices are INT8 rows.
#[derive(Clone, Copy)]
pub(crate) struct Tail<'a> {
    pub(super) output: &'a Linear,
    pub(super) attention_norm: &'a Norm,
    pub(super) mlp: &'a PlainMlp,
    pub(super) mlp_norm: &'a Norm,
}

impl Tail<'_> {
    /// Computes the results for `work.attention.mixed`, and replaces the stream by them.
    pub(crate) fn forward(self, cpu: &Cpu, work: &mut Workspace) {
        let Tail { output, attention_norm, mlp, mlp_norm } = self;
        let (width, depth, ffn) = (output.weights.rows(), output.weights.k(), mlp.up.weights.rows());
        let (rows, tier) = (work.stream.len() / width, cpu.tier());
        // The number of blocks is a multiple of the number of threads.
        let most = (HIDDEN_BYTES / size_of::<f32>() / ffn).max(1);
        let members = cpu.pool().members();
        let block = rows.div_ceil(rows.div_ceil(most * members).max(1) * members).max(1);
        let (mixed, buffers) = (&work.attention.mixed, &work.mlp.tails);
        cpu.for_blocks(&mut work.stream, width, block, |first, stream| {
            let kept = buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut own = kept.unwrap_or_default();
            let TailBuffers { tokens, hidden } = &mut own;
            let n = stream.len() / width;
            tokens.fill(tier, &mixed[first * depth..][..n * depth], &output.weights);
            tokens.multiply(tier, output.product(stream, Write::Add), None);
            attention_norm.heads(tier, stream);
            tokens.fill(tier, stream, &mlp.up.weights);
            hidden.resize(n * ffn);
            tokens.multiply(tier, mlp.up.product(hidden, Write::Set), Some(mlp.activation));
            tokens.fill(tier, hidden, &mlp.down.weights);
            tokens.multiply(tier, mlp.down.product(stream, Write::Add), None);
            mlp_norm.heads(tier, stream);
            buffers.lock().unwrap_or_else(PoisonError::into_inner).push(own);
        });
    }
}
