//! Products of INT8 rows, dense or sparse, with rows of quantised tokens.
//!
//! A task is one group of rows and a range of tokens, whose activations stay in L2 while the groups change; of blocks,
//! which need the activations in another order, all rows and few tokens.

use crate::context::Cpu;
use crate::cpu::isa::Tier;
use crate::gemm::blocking::{check, run_tasks};
use crate::gemm::epilogue::Write;
use crate::gemm::microkernel::int8_rows::{GROUP_ROWS, MAX_TOKENS, Results};
use crate::gemm::packed_weights::{Layout, PackedWeights};
use crate::gemm::product::{Product, RowsPart};
use crate::gemm::{int8_rows, sparse_blocks, sparse_rows};
use crate::memory::disjoint::Disjoint;
use crate::ops::Activation;
use crate::quant::packed_a::PackedA;
use crate::quant::token_rows::{STEP_TOKENS, TokenRows};
use crate::types::{ActFormat, places_of};
use std::ops::Range;

/// Bytes of quantised tokens per task: they are read once per group of rows, and stay in L2 beside it.
const TOKENS_BYTES: usize = 192 << 10;

/// Number of tokens in whole tiles of every instruction set: a multiple of [`MAX_TOKENS`] and of [`STEP_TOKENS`].
const WHOLE_TILES: usize = {
    assert!(48_usize.is_multiple_of(MAX_TOKENS) && 48_usize.is_multiple_of(STEP_TOKENS));
    48
};

/// Number of tokens of a task with sparse blocks: as many as are multiplied together.
const BLOCKS_TOKENS: usize = 64;

/// Multiplies a part of a product.
///
/// # Safety
/// The output has room for each token, and no other thread uses it.
unsafe fn multiply_part(tier: Tier, part: &RowsPart<'_>, to: Results) {
    // SAFETY: as in `multiply_part` (`# Safety`).
    unsafe {
        match part.weights.layout {
            Layout::Int8Rows { .. } => int8_rows::multiply_part(tier, part, to),
            Layout::SparseRows { .. } => sparse_rows::multiply_part(tier, part, to),
            Layout::SparseBlocks { .. } => sparse_blocks::multiply_part(tier, part, to),
            Layout::Panels { .. } => panic!("a matrix of INT8 rows"),
        }
    }
}

fn groups_of(weights: &PackedWeights) -> usize {
    weights.rows.div_ceil(GROUP_ROWS)
}

/// Task of a product: groups of rows and a range of tokens.
struct Task {
    product: usize,
    groups: Range<usize>,
    tokens: Range<usize>,
}

/// Computes [`multiply`](super::multiply) for matrices of INT8 rows, dense or sparse.
pub(super) fn multiply_rows(cpu: &Cpu, input: &PackedA, products: &mut [Product<'_>]) {
    run(cpu, input, products, None);
}

/// Computes a product of a matrix of INT8 rows and applies an activation function to its results.
pub(super) fn multiply_rows_activated(
    cpu: &Cpu,
    input: &PackedA,
    product: Product<'_>,
    activation: Activation,
) {
    run(cpu, input, &mut [product], Some(activation));
}

/// Computes the whole product of a matrix of INT8 rows on the calling thread.
///
/// # Panics
/// If the matrix is of another kind, or lengths do not fit.
pub(super) fn multiply_here(
    tier: Tier,
    input: &TokenRows,
    product: &mut Product<'_>,
    activation: Option<Activation>,
) {
    let (w, m) = (product.weights, input.count());
    assert!(w.is_int8_rows(), "a matrix of INT8 rows");
    assert_eq!(input.depth(), places_of(w.k), "depth of a product");
    assert_eq!(product.out.len(), w.rows * m, "output of a product");
    assert!(product.bias.is_none_or(|b| b.len() == w.rows), "bias of a product");
    let to = Results { first: product.out.as_mut_ptr(), n: w.rows, stride: w.rows };
    let (groups, tokens, add) = (0..groups_of(w), 0..m, product.write == Write::Add);
    let part = RowsPart { weights: w, groups, input, tokens, bias: product.bias, activation, add };
    // SAFETY: `out` holds all results, and is borrowed exclusively.
    unsafe { multiply_part(tier, &part, to) };
}

fn run(cpu: &Cpu, input: &PackedA, products: &mut [Product<'_>], activation: Option<Activation>) {
    assert!(matches!(input.act_format, ActFormat::Q8Token(_)), "activations of INT8 rows");
    let m = input.m;
    let per_block = (TOKENS_BYTES / places_of(input.k) / WHOLE_TILES).max(1) * WHOLE_TILES;
    let mut tasks = Vec::new();
    let mut macs = 0;
    for (product, p) in products.iter().enumerate() {
        check(p.weights, input);
        assert_eq!(p.out.len(), p.weights.rows * m, "output of a product");
        assert!(p.bias.is_none_or(|b| b.len() == p.weights.rows), "bias of a product");
        macs += p.weights.rows * p.weights.k * m;
        let (groups, blocks) =
            (groups_of(p.weights), matches!(p.weights.layout, Layout::SparseBlocks { .. }));
        let (at_once, per_block) = if blocks { (groups.max(1), BLOCKS_TOKENS) } else { (1, per_block) };
        for first in (0..m).step_by(per_block) {
            let tokens = first..m.min(first + per_block);
            tasks.extend((0..groups).step_by(at_once).map(|group| Task {
                product,
                groups: group..groups.min(group + at_once),
                tokens: tokens.clone(),
            }));
        }
    }
    let parts: Vec<_> = products
        .iter_mut()
        .map(|p| {
            let product = Product { weights: p.weights, bias: p.bias, out: &mut [], write: p.write };
            (product, Disjoint::new(p.out))
        })
        .collect();
    let work = |i: usize| {
        let Task { product, groups, tokens } = &tasks[i];
        let (Product { weights, bias, write, .. }, out) = &parts[*product];
        let (rows, first) = (weights.rows, groups.start * GROUP_ROWS);
        let to = Results {
            first: out.at(tokens.start * rows + first),
            n: rows.min(groups.end * GROUP_ROWS) - first,
            stride: rows,
        };
        let part = RowsPart {
            weights,
            groups: groups.clone(),
            input: input.token_rows(),
            tokens: tokens.clone(),
            bias: *bias,
            activation,
            add: *write == Write::Add,
        };
        // SAFETY: no other task writes these results of these tokens, and the lengths checked above cover them.
        unsafe { multiply_part(input.tier(), &part, to) };
    };
    run_tasks(cpu, macs, tasks.len(), work);
}
