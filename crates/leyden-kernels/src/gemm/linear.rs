//! GEMM and GEMV: packed weights times activations.
//!
//! [`multiply`] runs several products that share a batch as one parallel job, so that Q, K and V cost one barrier. One
//! tile of few tokens takes the GEMV path ([`gemv_tile`]), which reads packed panels one by one; more tokens go through
//! `blocking`. The value of an element does not depend on the task that computes it.

use crate::context::Cpu;
use crate::gemm::blocking::{
    GEMV_MAX_COLUMNS, Panels, TileBuffer, check, chunk_panels, for_tile_indices, gemv_tile, panel_runs,
    run_tasks, together,
};
use crate::gemm::epilogue::Epilogue;
use crate::gemm::int8_rows::multiply_rows;
use crate::gemm::packed_weights::PackedWeights;
use crate::gemm::product::Product;
use crate::quant::packed_a::PackedA;
use crate::types::{ActFormat, PANEL_ROWS};

/// Computes products that share one batch as a single parallel job.
///
/// # Panics
/// If a matrix does not fit the batch (activation format or depth), or an output or bias has the wrong length.
pub fn multiply(cpu: &Cpu, input: &PackedA, products: &mut [Product<'_>]) {
    if let ActFormat::Q8Token(_) = input.act_format {
        return multiply_rows(cpu, input, products);
    }
    struct Part<'a> {
        weights: &'a PackedWeights,
        out: Epilogue<'a>,
        first_task: usize,
    }
    let panels: usize = products.iter().map(|p| p.weights.panels()).sum();
    let macs: usize = products.iter().map(|p| p.weights.rows * p.weights.k).sum::<usize>() * input.m;
    let together = |w| together(w, input.tier(), input.tiles());
    let most = products.iter().map(|p| together(p.weights)).max().unwrap_or(1);
    let chunk = chunk_panels(cpu, panels, most, macs);
    let mut tasks = 0;
    let parts: Vec<Part<'_>> = products
        .iter_mut()
        .map(|p| {
            check(p.weights, input);
            assert_eq!(p.out.len(), p.weights.rows * input.m, "output of a product");
            assert!(p.bias.is_none_or(|b| b.len() == p.weights.rows), "bias of a product");
            let first_task = tasks;
            tasks += p.weights.panels().div_ceil(chunk);
            let out = Epilogue::new(p.out, p.weights.rows, p.bias, p.write);
            Part { weights: p.weights, out, first_task }
        })
        .collect();
    let work = |task: usize| {
        let part = &parts[parts.partition_point(|p| p.first_task <= task) - 1];
        let (w, results) = (part.weights, part.out.of_task());
        let start = (task - part.first_task) * chunk;
        let panels = start..(start + chunk).min(w.panels());
        if let Some(tile) = gemv_tile(input, together(w)) {
            let mut y = [0.0; GEMV_MAX_COLUMNS * PANEL_ROWS];
            let multiply = w.by_tile(input.tier(), &tile);
            for panels in panel_runs(panels, tile.c) {
                for (p, y) in panels.clone().zip(y.chunks_exact_mut(tile.c * PANEL_ROWS)) {
                    multiply(p, y);
                }
                // SAFETY: each (column, panel) pair belongs to one task.
                unsafe { results.write(cpu.tier(), panels, 0..tile.c, &y) };
            }
            return;
        }
        let TileBuffer(y) = &mut TileBuffer::new();
        let others = chunk * (cpu.pool().members() - 1);
        let mut weights = Panels::new(w, input.tier(), panels.clone(), others, input.tiles());
        let visits = (weights.at_once(), together(w));
        for_tile_indices(input, 0..input.tiles(), panels, visits, |panels, t| {
            let (first, end) = input.bounds(t);
            results.fetch(&panels, first..end);
            weights.tile(panels.clone(), input, t, y);
            // SAFETY: as above.
            unsafe { results.write(cpu.tier(), panels, first..end, y) };
        });
    };
    run_tasks(cpu, macs, tasks, work);
}
