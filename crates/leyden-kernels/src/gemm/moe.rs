//! MoE: the feed-forward layer of a mixture of experts ([`moe`]) over a batch.
//!
//! Tokens are gathered by expert, each expert with its own tiles, so that its weights are read once for all its tokens,
//! and those of unused experts not at all. All experts are one job: a task of the first product is a few panels of one
//! expert, a task of the second product the same few panels of every expert in turn. The latter owns its rows of the
//! output, so one task adds up a token's experts, in ascending order of their indices, whatever the batch.

use crate::context::Cpu;
use crate::gemm::blocking::{MAX_COLUMNS, TILE, chunk_panels, for_tile_indices, run_tasks};
use crate::gemm::epilogue::{Epilogue, Write};
use crate::gemm::packed_weights::PackedWeights;
use crate::gemm::panels::PanelMatrix;
use crate::gemm::routing::Routing;
use crate::gemm::swiglu::swiglu_on;
use crate::memory::aligned::Aligned;
use crate::memory::disjoint::Disjoint;
use crate::ops::{Activation, add_scaled};
use crate::quant::packed_a::PackedA;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;
use crate::types::PANEL_ROWS;
use std::ops::Range;

/// Matrices of a mixture of experts with gated feed-forward layers: three stacks with one matrix per expert.
#[derive(Clone, Copy, Debug)]
pub struct Experts<'a> {
    /// Activation function of the gate.
    pub activation: Activation,
    /// Gate projections, `[experts, hidden, width]`.
    pub gate: &'a PackedWeights,
    /// Up projections, `[experts, hidden, width]`.
    pub up: &'a PackedWeights,
    /// Down projections, `[experts, width, hidden]`.
    pub down: &'a PackedWeights,
    /// Biases, if experts have any.
    pub biases: Option<ExpertBiases<'a>>,
}

/// Biases of a mixture's matrices, one expert after the other.
#[derive(Clone, Copy, Debug)]
pub struct ExpertBiases<'a> {
    /// Biases of the gate projections, `[experts, hidden]`.
    pub gate: &'a [f32],
    /// Biases of the up projections, `[experts, hidden]`.
    pub up: &'a [f32],
    /// Biases of the down projections, `[experts, width]`.
    pub down: &'a [f32],
}

/// Buffers of [`moe`]. They grow to the largest batch seen.
#[derive(Debug, Default)]
pub struct MoeScratch {
    /// Activations for the gate, and for `up` if its activation format differs.
    inputs: [PackedA; 2],
    hidden: Aligned<f32>,
    hidden_codes: PackedA,
    /// Columns of every tile, and (next field) the tiles of every group.
    tiles: Vec<(usize, usize)>,
    tiles_of: Vec<Range<usize>>,
}

impl MoeScratch {
    /// Returns the inputs of the down projections in the last [`moe`]: one row for each of
    /// [`Routing::pairs_by_expert`].
    #[must_use]
    pub fn hidden(&self) -> &[f32] {
        &self.hidden
    }
}

/// Adds `weight * down(activation(gate x) * (up x))`, biases included, to every token's row of `out` for each of its
/// experts, in ascending order of their indices and with one rounding each. `input` and `out` have one row of `width`
/// values per token.
///
/// # Panics
/// If the stacks do not fit each other or the routing, or `input` or `out` has the wrong length.
pub fn moe(
    cpu: &Cpu,
    experts: &Experts<'_>,
    routing: &Routing,
    input: &[f32],
    work: &mut MoeScratch,
    out: &mut [f32],
) {
    let Experts { activation, gate, up, down, biases } = *experts;
    let (count, hidden, width) = (gate.count(), gate.rows(), gate.k());
    assert_eq!(
        (up.count(), up.rows(), up.k(), down.count(), down.rows(), down.k()),
        (count, hidden, width, count, width, hidden),
        "the stacks of a mixture"
    );
    assert_eq!(routing.experts(), count, "experts of the routing");
    if let Some(ExpertBiases { gate, up, down }) = biases {
        let lengths = (gate.len(), up.len(), down.len());
        assert_eq!(lengths, (count * hidden, count * hidden, count * width), "biases of a mixture");
    }
    assert_eq!((input.len(), out.len()), (routing.tokens() * width, routing.tokens() * width), "tokens");
    let MoeScratch { inputs, hidden: values, hidden_codes, tiles, tiles_of } = work;
    tiles.clear();
    tiles_of.clear();
    // All three products use one division into tiles, so the narrowest of their widths; and all groups use one level.
    let act_formats = [gate, up, down].map(PackedWeights::act_format);
    let level = cpu.tier().level();
    let narrowest =
        act_formats.into_iter().min_by_key(|act_format| level.columns(*act_format)).unwrap_or(act_formats[0]);
    let tier = cpu.tier().for_batch(narrowest, routing.pairs() / routing.groups().len().max(1));
    let level = tier.level();
    for group in routing.groups() {
        let first = tiles.len();
        tiles.extend(PackedA::tiles_of(level, narrowest, group.first, group.end - group.first));
        tiles_of.push(first..tiles.len());
    }
    let row = |pair: usize| &input[routing.pair(pair).0 * width..][..width];
    let [gate_input, up_input] = inputs;
    gate_input.fill_tiles(tier, cpu.pool(), gate.act_format(), width, tiles.iter().copied(), row);
    let up_input = if up.act_format() == gate.act_format() {
        &*gate_input
    } else {
        up_input.fill_tiles(tier, cpu.pool(), up.act_format(), width, tiles.iter().copied(), row);
        &*up_input
    };
    values.resize(routing.pairs() * hidden);
    let both = biases.map(|b| [b.gate, b.up]);
    let panels = [(gate.as_panels(), &*gate_input), (up.as_panels(), up_input)];
    experts_swiglu(cpu, (activation, both), panels, routing, tiles_of, values);
    let row = |pair: usize| &values[pair * hidden..][..hidden];
    hidden_codes.fill_tiles(tier, cpu.pool(), down.act_format(), hidden, tiles.iter().copied(), row);
    experts_down(cpu, (down.as_panels(), hidden_codes, biases.map(|b| b.down)), routing, tiles_of, out);
}

/// Computes `out[pair] = activation(gate x) * (up x)`.
fn experts_swiglu(
    cpu: &Cpu,
    (activation, biases): (Activation, Option<[&[f32]; 2]>),
    [(gate, gate_input), (up, up_input)]: [(PanelMatrix<'_>, &PackedA); 2],
    routing: &Routing,
    tiles_of: &[Range<usize>],
    out: &mut [f32],
) {
    let (rows, panels, groups) = (gate.rows, gate.panels(), routing.groups());
    let macs = 2 * rows * gate.k * routing.pairs();
    let chunk = chunk_panels(cpu, 2 * panels * groups.len(), 1, macs);
    let chunks = panels.div_ceil(chunk);
    let out = Epilogue::new(out, rows, None, Write::Set);
    let task = |task: usize| {
        let (group, start) = (task / chunks, task % chunks * chunk);
        let base = groups[group].expert * panels;
        let first_row = groups[group].expert * rows;
        let out = out.of_task();
        let mut g = [0.0; TILE];
        let mut u = [0.0; TILE];
        for_tile_indices(
            gate_input,
            tiles_of[group].clone(),
            start..(start + chunk).min(panels),
            (None, 1),
            |one, t| {
                let p = one.start;
                let (first, end) = gate_input.bounds(t);
                gate.tile(gate_input.tier(), base + p, &gate_input.tile(t), &mut g);
                up.tile(up_input.tier(), base + p, &up_input.tile(t), &mut u);
                if let Some(biases) = biases {
                    let n = PANEL_ROWS.min(rows - p * PANEL_ROWS);
                    for (bias, y) in biases.into_iter().zip([&mut g, &mut u]) {
                        let bias = &bias[first_row + p * PANEL_ROWS..][..n];
                        add_bias(cpu.tier(), bias, &mut y[..(end - first) * PANEL_ROWS]);
                    }
                }
                swiglu_on(cpu.tier(), activation, &mut g, &u, end - first);
                // SAFETY: each (pair, panel) belongs to one task.
                unsafe { out.write(cpu.tier(), one, first..end, &g) };
            },
        );
    };
    let tasks = chunks * groups.len();
    run_tasks(cpu, macs, tasks, task);
}

/// Computes `out[token] += weight * down h`, expert after expert.
fn experts_down(
    cpu: &Cpu,
    (down, input, bias): (PanelMatrix<'_>, &PackedA, Option<&[f32]>),
    routing: &Routing,
    tiles_of: &[Range<usize>],
    out: &mut [f32],
) {
    let (rows, panels) = (down.rows, down.panels());
    let macs = rows * down.k * routing.pairs();
    let chunk = chunk_panels(cpu, panels, 1, macs);
    let out = Disjoint::new(out);
    let task = |task: usize| {
        let chunk = task * chunk..((task + 1) * chunk).min(panels);
        let mut y = [0.0; MAX_COLUMNS * PANEL_ROWS];
        for (group, of_group) in routing.groups().iter().zip(tiles_of) {
            for_tile_indices(input, of_group.clone(), chunk.clone(), (None, 1), |one, t| {
                let p = one.start;
                let (first, end) = input.bounds(t);
                down.tile(input.tier(), group.expert * panels + p, &input.tile(t), &mut y);
                let n = PANEL_ROWS.min(rows - p * PANEL_ROWS);
                if let Some(bias) = bias {
                    let bias = &bias[group.expert * rows + p * PANEL_ROWS..][..n];
                    add_bias(cpu.tier(), bias, &mut y[..(end - first) * PANEL_ROWS]);
                }
                for (c, y) in y.chunks_exact(PANEL_ROWS).take(end - first).enumerate() {
                    let (token, weight) = routing.pair(first + c);
                    // SAFETY: a panel of the output belongs to one task, which visits one pair at a time.
                    let out = unsafe { out.range(token * rows + p * PANEL_ROWS, n) };
                    add_scaled(cpu.tier(), weight, &y[..n], out);
                }
            });
        }
    };
    let tasks = panels.div_ceil(chunk);
    run_tasks(cpu, macs, tasks, task);
}

/// Adds a bias per row to every column of a panel; `bias` may be shorter than the panel.
#[inline(always)]
fn add_bias_impl<I: Simd>(_isa: I, bias: &[f32], y: &mut [f32]) {
    let mut line = [0.0; PANEL_ROWS];
    line[..bias.len()].copy_from_slice(bias);
    for y in y.as_chunks_mut::<PANEL_ROWS>().0 {
        for i in 0..PANEL_ROWS {
            y[i] += line[i];
        }
    }
}

dispatch! {
    fn add_bias => add_bias_impl(bias: &[f32], y: &mut [f32])
}

#[cfg(test)]
mod tests;
