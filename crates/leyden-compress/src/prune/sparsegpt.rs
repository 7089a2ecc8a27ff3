//! SparseGPT (Frantar and Alistarh, 2023): weights are removed input by input, and the error of each is made up for by
//! the weights of later inputs, as the inverse of the inputs' Gram matrix tells.

use super::factor::Upper;
use super::select;
use super::structure::{BLOCK, Structure};
use leyden_kernels::Cpu;

/// Inputs whose zeros are chosen together, the paper's block size.
const INPUTS: usize = 128;
/// Rows that a task prunes.
const TASK_ROWS: usize = 8;

/// Prunes a matrix `[rows, k]` in place. The results do not depend on the number of threads.
pub(crate) fn prune(cpu: &Cpu, weights: &mut [f32], upper: &Upper, structure: Structure, sparsity: f64) {
    let k = upper.k;
    let rows = weights.len() / k.max(1);
    let mut zeros_before = 0;
    for first in (0..k).step_by(INPUTS) {
        let end = (first + INPUTS).min(k);
        let width = end - first;
        let mut mask = vec![false; rows * width];
        if !matches!(structure, Structure::Groups { .. }) {
            let [high, wide] = structure.block();
            // Counted from the beginning, so that rounding does not add up.
            let zeros = select::count(sparsity, rows * end / (high * wide)) - zeros_before;
            zeros_before += zeros;
            let scores = scores(weights, upper, first..end, structure);
            select::blocks(&scores, width, [high, wide], |_| zeros, &mut mask);
        }
        let mask = &mask;
        cpu.for_blocks(weights, k, TASK_ROWS, |row, weights| {
            for (i, weights) in weights.chunks_exact_mut(k).enumerate() {
                let mut own = [false; INPUTS];
                own[..width].copy_from_slice(&mask[(row + i) * width..][..width]);
                prune_row(weights, upper, first..end, structure, &mut own);
            }
        });
    }
}

/// Computes the squared error of the outputs that removing a weight alone costs, for some inputs of all rows. For
/// blocks of neighbouring inputs it is the error of removing one after the other.
fn scores(weights: &[f32], upper: &Upper, inputs: std::ops::Range<usize>, structure: Structure) -> Vec<f32> {
    let mut scores = Vec::with_capacity(weights.len() / upper.k * inputs.len());
    let diagonal: Vec<f32> = inputs.clone().map(|j| upper.row(j)[j]).collect();
    for row in weights.chunks_exact(upper.k) {
        let row = &row[inputs.clone()];
        if structure != Structure::Inputs {
            scores.extend(row.iter().zip(&diagonal).map(|(w, d)| (w / d) * (w / d)));
            continue;
        }
        for (block, values) in row.chunks_exact(BLOCK).enumerate() {
            let mut values: [f32; BLOCK] = std::array::from_fn(|i| values[i]);
            for i in 0..BLOCK {
                let j = inputs.start + block * BLOCK + i;
                let error = values[i] / diagonal[block * BLOCK + i];
                let factors = &upper.row(j)[j - i..];
                values.iter_mut().zip(factors).skip(i + 1).for_each(|(value, u)| *value -= error * u);
                scores.push(error * error);
            }
        }
    }
    scores
}

/// Removes the weights of a row that `mask` names among some inputs, and changes those after them. Of N:M, the mask of a
/// group is chosen when its turn comes.
fn prune_row(
    row: &mut [f32],
    upper: &Upper,
    inputs: std::ops::Range<usize>,
    structure: Structure,
    mask: &mut [bool; INPUTS],
) {
    let mut errors = [0.0_f32; INPUTS];
    for j in inputs.clone() {
        let i = j - inputs.start;
        if let Structure::Groups { keep, group } = structure
            && i.is_multiple_of(group)
        {
            let scores: Vec<f32> = (j..j + group)
                .map(|j| {
                    let error = row[j] / upper.row(j)[j];
                    error * error
                })
                .collect();
            select::lowest(&scores, group - keep, &mut mask[i..i + group]);
        }
        if mask[i] {
            let factors = upper.row(j);
            let error = row[j] / factors[j];
            row[j] = 0.0;
            subtract(&mut row[j + 1..inputs.end], error, &factors[j + 1..inputs.end]);
            errors[i] = error;
        }
    }
    for (i, error) in errors.iter().enumerate().filter(|(_, error)| **error != 0.0) {
        let factors = upper.row(inputs.start + i);
        subtract(&mut row[inputs.end..], *error, &factors[inputs.end..]);
    }
}

/// Subtracts `error` times `factors`.
fn subtract(row: &mut [f32], error: f32, factors: &[f32]) {
    row.iter_mut().zip(factors).for_each(|(w, factor)| *w -= error * factor);
}
