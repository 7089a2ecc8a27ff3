//! Pruning of one matrix by one of three methods.

use super::factor::Upper;
use super::gram::Gram;
use super::select;
use super::sparsegpt;
use super::structure::{BLOCK, Structure};
use crate::error::Error;
use leyden_kernels::Cpu;

/// Method of choosing the weights that become zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// The smallest weights of a matrix.
    Magnitude,
    /// In each row, the smallest products of a weight and the norm of its input (Sun et al., 2023).
    Wanda,
    /// The weights whose removal costs least, with compensation by the others (Frantar and Alistarh, 2023).
    SparseGpt,
}

impl Method {
    /// Methods by name.
    pub const NAMES: [(&'static str, Method); 3] =
        [("magnitude", Method::Magnitude), ("wanda", Method::Wanda), ("sparsegpt", Method::SparseGpt)];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Method::NAMES.iter().find(|row| row.1 == self).map_or("", |row| row.0)
    }

    /// Returns true if the method needs calibration text.
    #[must_use]
    pub fn needs_inputs(self) -> bool {
        self != Method::Magnitude
    }
}

/// Share of the mean of the diagonal that is added to it: the dampening of SparseGPT's paper.
const DAMPING: f64 = 0.01;
/// Largest dampening that is tried if the inputs are too few for a smaller one.
const MAX_DAMPING: f64 = 1.0;

/// Inputs of a matrix, and what follows from them.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) gram: Gram,
    /// Factor of the inverse, once it was needed.
    pub(crate) upper: Option<Upper>,
}

impl Inputs {
    /// Returns the factor of the inverse of the Gram matrix.
    fn upper(&mut self, cpu: &Cpu) -> Result<&Upper, Error> {
        let k = self.gram.k();
        let mut damping = DAMPING;
        while self.upper.is_none() && damping <= MAX_DAMPING {
            self.upper = Upper::of_inverse(self.gram.reversed(damping), k, cpu);
            damping *= 10.0;
        }
        self.upper.as_ref().ok_or_else(|| {
            Error::Calibration("the products of inputs have no inverse; give more or other text".to_owned())
        })
    }
}

/// Result of pruning a matrix.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// Root of the squared error of the outputs relative to the outputs, if inputs are known.
    pub(crate) output_error: Option<f64>,
    /// Root of the squared error of the weights relative to the weights.
    pub(crate) weight_error: f64,
}

/// Prunes a matrix `[rows, k]` in place.
///
/// # Errors
/// Memory is short, or the inputs do not suffice.
///
/// # Panics
/// If the method needs inputs and there are none, or the structure does not fit.
pub(crate) fn prune(
    cpu: &Cpu,
    weights: &mut [f32],
    k: usize,
    (method, structure, sparsity): (Method, Structure, f64),
    mut inputs: Option<&mut Inputs>,
) -> Result<Outcome, Error> {
    assert!(structure.unfit(weights.len() / k, k).is_none(), "a structure that fits");
    let before = weights.to_vec();
    match (method, &mut inputs) {
        (Method::Magnitude, _) => {
            let scores: Vec<f32> = weights.iter().map(|w| w * w).collect();
            let mut mask = vec![false; weights.len()];
            select::by_matrix(&scores, k, structure, sparsity, &mut mask);
            remove(weights, &mask);
        }
        (Method::Wanda, Some(inputs)) => {
            let squares: Vec<f32> = inputs.gram.squares().map(|square| square as f32).collect();
            // Rows of a task share blocks of four outputs.
            cpu.for_blocks(weights, k, BLOCK, |_, rows| {
                let scores: Vec<f32> = rows
                    .chunks_exact(k)
                    .flat_map(|row| row.iter().zip(&squares).map(|(w, square)| w * w * square))
                    .collect();
                let mut mask = vec![false; rows.len()];
                select::by_rows(&scores, k, structure, sparsity, &mut mask);
                remove(rows, &mask);
            });
        }
        (Method::SparseGpt, Some(inputs)) => {
            sparsegpt::prune(cpu, weights, inputs.upper(cpu)?, structure, sparsity);
        }
        (_, None) => panic!("{} without inputs", method.name()),
    }
    let mut change = before.clone();
    change.iter_mut().zip(&*weights).for_each(|(before, after)| *before -= after);
    let squares = |x: &[f32]| x.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
    let relative = |error: f64, all: f64| if all > 0.0 { (error / all).sqrt() } else { 0.0 };
    let output_error = match &inputs {
        Some(inputs) => {
            let (error, all) = (inputs.gram.energy(cpu, &change)?, inputs.gram.energy(cpu, &before)?);
            Some(relative(error, all))
        }
        None => None,
    };
    Ok(Outcome { output_error, weight_error: relative(squares(&change), squares(&before)) })
}

/// Sets the chosen weights to zero.
fn remove(weights: &mut [f32], mask: &[bool]) {
    weights.iter_mut().zip(mask).filter(|(_, zero)| **zero).for_each(|(w, _)| *w = 0.0);
}

#[cfg(test)]
mod tests;
