//! SwiGLU, GeGLU: the gated products of feed-forward layers, `activation(gate x) * (up x)`, without storing either
//! factor.
//!
//! [`swiglu`] writes floats. For a prompt these are many megabytes, which would be written to memory and read again to
//! be quantised for the next product. [`swiglu_packed`] quantises them right after computing them: a task computes
//! [`UNIT`] panels at a time, whose results of all columns stay in L2 until they form whole groups.

use crate::context::Cpu;
use crate::cpu::isa::Level;
use crate::gemm::blocking::{
    GEMV_MAX_COLUMNS, Panels, TileBuffer, check, chunk_panels, for_tile_indices, gemv_tile, panel_runs,
    run_tasks, together,
};
use crate::gemm::epilogue::{Epilogue, Write};
use crate::gemm::packed_weights::PackedWeights;
use crate::gemm::panels::PanelMatrix;
use crate::memory::aligned::Aligned;
use crate::ops::{Activation, Function, with_function};
use crate::quant::packed_a::PackedA;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;
use crate::types::{ActFormat, PANEL_ROWS};
use std::cell::Cell;
use std::ops::Range;

/// Number of panels whose results are quantised together: whole groups of every activation format.
const UNIT: usize = 8;

/// Minimum number of units per team member, for an even load.
const UNITS_PER_MEMBER: usize = 4;

thread_local! {
    /// Staging buffer of the last task of this thread.
    static STAGE: Cell<Aligned<f32>> = Cell::default();
}

/// First half of a gated feed-forward layer.
#[derive(Clone, Copy, Debug)]
pub struct Gated<'a> {
    /// Activation function of the gate.
    pub activation: Activation,
    /// Gate projection, `[hidden, width]`.
    pub gate: &'a PackedWeights,
    /// Up projection, of the same shape and activation format.
    pub up: &'a PackedWeights,
}

/// Computes `out = activation(gate x) * (up x)`, one row of `gate.rows()` values per column.
///
/// # Panics
/// If the matrices differ in shape or activation format, do not fit the batch, or `out` has the wrong length.
pub fn swiglu(cpu: &Cpu, input: &PackedA, gated: &Gated<'_>, out: &mut [f32]) {
    let Gated { activation, gate, up } = *gated;
    check_both(gate, up, input);
    let [gate, up] = [gate, up].map(PackedWeights::as_panels);
    assert_eq!(out.len(), gate.rows * input.m, "output of a gated product");
    let rows = gate.rows;
    let macs = 2 * rows * gate.k * input.m;
    let together = together_of(&[gate, up], input);
    let chunk = chunk_panels(cpu, 2 * gate.panels(), together, macs);
    let panels = gate.panels();
    let tasks = panels.div_ceil(chunk);
    let out = Epilogue::new(out, rows, None, Write::Set);
    let work = |task: usize| {
        let panels = task * chunk..((task + 1) * chunk).min(panels);
        let out = out.of_task();
        if let Some(tile) = gemv_tile(input, together) {
            let (mut g, mut u) = ([0.0; GEMV_MAX_COLUMNS * PANEL_ROWS], [0.0; GEMV_MAX_COLUMNS * PANEL_ROWS]);
            let [gate, up] = [gate, up].map(|w| w.by_tile(input.tier(), &tile));
            for panels in panel_runs(panels, tile.c) {
                // First all panels of one matrix, then those of the other: memory delivers one stream of weights faster
                // than two alternating ones.
                for (p, g) in panels.clone().zip(g.chunks_exact_mut(tile.c * PANEL_ROWS)) {
                    gate(p, g);
                }
                for (p, u) in panels.clone().zip(u.chunks_exact_mut(tile.c * PANEL_ROWS)) {
                    up(p, u);
                }
                swiglu_on(cpu.tier(), activation, &mut g, &u, panels.len() * tile.c);
                // SAFETY: each (column, panel) belongs to one task.
                unsafe { out.write(cpu.tier(), panels, 0..tile.c, &g) };
            }
            return;
        }
        let (TileBuffer(g), TileBuffer(u)) = (&mut TileBuffer::new(), &mut TileBuffer::new());
        let others = chunk * (cpu.pool().members() - 1);
        let [mut gate, mut up] =
            [gate, up].map(|w| Panels::new(w, input.tier(), panels.clone(), others, input.tiles()));
        let visits = visits(&[&gate, &up], together);
        for_tile_indices(input, 0..input.tiles(), panels, visits, |panels, t| {
            let (first, end) = input.bounds(t);
            out.fetch(&panels, first..end);
            gate.tile(panels.clone(), input, t, g);
            up.tile(panels.clone(), input, t, u);
            swiglu_on(cpu.tier(), activation, g, u, panels.len() * (end - first));
            // SAFETY: as above.
            unsafe { out.write(cpu.tier(), panels, first..end, g) };
        });
    };
    run_tasks(cpu, macs, tasks, work);
}

#[inline(always)]
fn swiglu_rows<I: Simd>(_isa: I, activation: Activation, g: &mut [f32], u: &[f32], c: usize) {
    with_function!(activation, F => {
        for (g, u) in g.as_chunks_mut::<16>().0.iter_mut().zip(u.as_chunks::<16>().0).take(c) {
            *g = F::gated(g, u);
        }
    });
}

dispatch! {
    pub(super) fn swiglu_on => swiglu_rows(activation: Activation, g: &mut [f32], u: &[f32], c: usize)
}

fn check_both(gate: &PackedWeights, up: &PackedWeights, input: &PackedA) {
    check(gate, input);
    check(up, input);
    assert_eq!(gate.rows, up.rows, "gate and up have the same rows");
}

/// Returns the number of panels to multiply with a tile together: the larger of both matrices, as the other can do it
/// one by one.
fn together_of(both: &[PanelMatrix<'_>; 2], input: &PackedA) -> usize {
    both.map(|w| together(w, input.tier(), input.tiles())).into_iter().max().unwrap_or(1)
}

/// Returns how panels are visited when those of two matrices share the cache.
fn visits(both: &[&Panels<'_>; 2], together: usize) -> (Option<usize>, usize) {
    let at_once = both.iter().filter_map(|w| w.at_once()).min();
    (at_once.map(|n| n.div_ceil(2).next_multiple_of(together)), together)
}

/// Computes [`swiglu`] into `out`, in the activation format of the next weights. `room` holds float results if they are
/// not quantised right away: for few tokens, and for matrices with too few rows for the team.
///
/// # Panics
/// If the matrices differ in shape or activation format, do not fit the batch, or their number of rows is not whole
/// groups.
pub fn swiglu_packed(
    cpu: &Cpu,
    input: &PackedA,
    gated: &Gated<'_>,
    act_format: ActFormat,
    out: &mut PackedA,
    room: &mut Aligned<f32>,
) {
    let Gated { activation, gate, up } = *gated;
    const { assert!(UNIT * PANEL_ROWS == 128, "whole groups") };
    check_both(gate, up, input);
    let [gate, up] = [gate, up].map(PackedWeights::as_panels);
    let (rows, panels, tier) = (gate.rows, gate.panels(), cpu.tier());
    if input.tiles() < 2 || panels < UNIT * UNITS_PER_MEMBER * cpu.pool().members() {
        room.resize(rows * input.m);
        swiglu(cpu, input, gated, room);
        out.fill(tier, cpu.pool(), act_format, room, rows);
        return;
    }
    let macs = 2 * rows * gate.k * input.m;
    let together = together_of(&[gate, up], input);
    let chunk = chunk_panels(cpu, 2 * panels, together, macs).next_multiple_of(UNIT);
    let of_out = tier.for_batch(act_format, input.m);
    let tiles = PackedA::tiles_of(of_out.level(), act_format, 0, input.m);
    let filling = out.begin(of_out, act_format, rows, tiles);
    cpu.pool().run(panels.div_ceil(chunk), |task| {
        let panels = task * chunk..((task + 1) * chunk).min(panels);
        let mut stage = STAGE.take();
        stage.resize(input.m * UNIT * PANEL_ROWS);
        let (TileBuffer(g), TileBuffer(u)) = (&mut TileBuffer::new(), &mut TileBuffer::new());
        let others = chunk * (cpu.pool().members() - 1);
        let [mut gate, mut up] =
            [gate, up].map(|w| Panels::new(w, input.tier(), panels.clone(), others, input.tiles()));
        let visits = visits(&[&gate, &up], together);
        for start in panels.clone().step_by(UNIT) {
            let unit = start..panels.end.min(start + UNIT);
            let values = unit.start * PANEL_ROWS..rows.min(unit.end * PANEL_ROWS);
            let width = values.len();
            for_tile_indices(input, 0..input.tiles(), unit, visits, |panels, t| {
                let (first, end) = input.bounds(t);
                gate.tile(panels.clone(), input, t, g);
                up.tile(panels.clone(), input, t, u);
                let place = (panels.start - start) * PANEL_ROWS..width.min((panels.end - start) * PANEL_ROWS);
                let staged = &mut stage[first * width..end * width];
                swiglu_columns_on(tier, activation, (g, u), staged, (width, end - first), place);
            });
            for (t, &(first, end)) in filling.parts().iter().enumerate() {
                filling.fetch(t + 1, values.clone());
                // SAFETY: each task has its own panels, and therefore its own values.
                let mut part = unsafe { filling.part(t, values.clone()) };
                let mut columns = [&[][..]; Level::PART_COLUMNS];
                for (x, staged) in
                    columns.iter_mut().zip(stage[first * width..end * width].chunks_exact(width))
                {
                    *x = staged;
                }
                part.fill(&columns[..end - first]);
            }
        }
        STAGE.set(stage);
    });
}

/// Computes `activation(g) * u` of some panels and columns, both `[panel][column][16]`, into the range `place` of rows
/// of `width` values, one row per column.
#[inline(always)]
fn swiglu_columns<I: Simd>(
    _isa: I,
    activation: Activation,
    (g, u): (&[f32], &[f32]),
    out: &mut [f32],
    (width, columns): (usize, usize),
    place: Range<usize>,
) {
    let (g, u) = (g.as_chunks::<PANEL_ROWS>().0, u.as_chunks::<PANEL_ROWS>().0);
    with_function!(activation, F => {
        for (column, row) in out.chunks_exact_mut(width).enumerate().take(columns) {
            let (whole, rest) = row[place.clone()].as_chunks_mut::<PANEL_ROWS>();
            for (p, out) in whole.iter_mut().enumerate() {
                *out = F::gated(&g[p * columns + column], &u[p * columns + column]);
            }
            if !rest.is_empty() {
                let i = whole.len() * columns + column;
                rest.copy_from_slice(&F::gated(&g[i], &u[i])[..rest.len()]);
            }
        }
    });
}

dispatch! {
    fn swiglu_columns_on => swiglu_columns(
        activation: Activation,
        products: (&[f32], &[f32]),
        out: &mut [f32],
        columns: (usize, usize),
        place: Range<usize>,
    )
}
