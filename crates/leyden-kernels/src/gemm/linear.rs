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
use crate::gemm::epilogue::{Epilogue, Write};
use crate::gemm::panels::PanelMatrix;
use crate::gemm::product::Product;
use crate::gemm::token_products::{multiply_rows, multiply_rows_activated};
use crate::ops::{Activation, activate};
use crate::quant::packed_a::PackedA;
use crate::types::PANEL_ROWS;

/// Computes products that share one batch. Consecutive products with panels, or with INT8 rows, are a single parallel
/// job.
///
/// # Panics
/// If a matrix does not fit the batch (activation format or depth), or an output or bias has the wrong length.
pub fn multiply(cpu: &Cpu, input: &PackedA, products: &mut [Product<'_>]) {
    for products in products.chunk_by_mut(|a, b| a.weights.is_panels() == b.weights.is_panels()) {
        match products[0].weights.is_panels() {
            true => multiply_panels(cpu, input, products),
            false => multiply_rows(cpu, input, products),
        }
    }
}

/// Computes one product and applies an activation function to its results, which replace those of `product.out`.
///
/// # Panics
/// As [`multiply`]; if the product is to be added.
pub fn multiply_activated(cpu: &Cpu, input: &PackedA, product: Product<'_>, activation: Activation) {
    assert_eq!(product.write, Write::Set, "activated results are not added");
    if product.weights.is_int8_rows() {
        return multiply_rows_activated(cpu, input, product, activation);
    }
    let Product { weights, bias, out, write } = product;
    multiply(cpu, input, &mut [Product { weights, bias, out: &mut *out, write }]);
    cpu.for_rows(out, weights.rows, |_, row| activate(cpu.tier(), activation, row));
}

/// Computes [`multiply`] for matrices of panels.
fn multiply_panels(cpu: &Cpu, input: &PackedA, products: &mut [Product<'_>]) {
    struct Part<'a> {
        weights: PanelMatrix<'a>,
        out: Epilogue<'a>,
        first_task: usize,
    }
    let panels: usize = products.iter().map(|p| p.weights.as_panels().panels()).sum();
    let macs: usize = products.iter().map(|p| p.weights.rows * p.weights.k).sum::<usize>() * input.m;
    let together = |w| together(w, input.tier(), input.tiles());
    let most = products.iter().map(|p| together(p.weights.as_panels())).max().unwrap_or(1);
    let chunk = chunk_panels(cpu, panels, most, macs);
    let mut tasks = 0;
    let parts: Vec<Part<'_>> = products
        .iter_mut()
        .map(|p| {
            check(p.weights, input);
            assert_eq!(p.out.len(), p.weights.rows * input.m, "output of a product");
            assert!(p.bias.is_none_or(|b| b.len() == p.weights.rows), "bias of a product");
            let first_task = tasks;
            let weights = p.weights.as_panels();
            tasks += weights.panels().div_ceil(chunk);
            let out = Epilogue::new(p.out, weights.rows, p.bias, p.write);
            Part { weights, out, first_task }
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
