//! [`PrunePlan`]: the matrices that are pruned, and the share of zeros of each.

use super::gram::Gram;
use super::matrix::Method;
use super::structure::Structure;
use crate::error::Error;
use crate::plan::{is_matrix, layer};
use leyden_tensor::WeightSource;

/// Options of pruning.
#[derive(Clone, Copy, Debug)]
pub struct PruneOptions {
    /// Method of choosing weights.
    pub method: Method,
    /// Positions that zeros may have.
    pub structure: Structure,
    /// Share of zeros, from 0 to 1.
    pub sparsity: f64,
}

/// A matrix of a layer.
#[derive(Clone, Debug)]
pub struct Prunable {
    /// Name of the tensor.
    pub name: String,
    /// Index of its layer.
    pub layer: usize,
    /// Number of outputs; of a stack of experts, of all of them.
    pub rows: usize,
    /// Number of inputs.
    pub k: usize,
    /// Share of zeros that it gets.
    pub sparsity: f64,
    /// Reason why it stays as it is, if it does.
    pub kept: Option<String>,
}

/// The matrices of all layers, in the order of the file.
#[derive(Clone, Debug)]
pub struct PrunePlan {
    /// The matrices.
    pub matrices: Vec<Prunable>,
}

impl PrunePlan {
    /// Lists the matrices of the layers of a GGUF file.
    ///
    /// # Errors
    /// A matrix is quantised, the sparsity is out of range, the file has no layers, or the method cannot prune the
    /// experts that it has.
    pub fn new(source: &dyn WeightSource, options: &PruneOptions) -> Result<PrunePlan, Error> {
        let file = source.path().display().to_string();
        let wrong = |what: String| Error::Model { file: file.clone(), what };
        if !(0.0..1.0).contains(&options.sparsity) {
            return Err(wrong(format!("sparsity {}: want a share from 0 to below 1", options.sparsity)));
        }
        let mut matrices = Vec::new();
        for info in source.tensor_info() {
            let Some(layer) = layer(&info.name).filter(|_| is_matrix(&info.name, &info.shape)) else {
                continue;
            };
            let view = source.require(&info.name)?;
            if view.dtype().block_len() > 1 {
                let (tensor, dtype) = (info.name.clone(), view.dtype().name());
                return Err(Error::Quantised { file, tensor, dtype });
            }
            if info.shape.len() > 2 && options.method.needs_inputs() {
                let name = &info.name;
                return Err(wrong(format!("{name}: experts of a mixture are pruned by magnitude alone")));
            }
            let (rows, k) = (view.rows(), view.cols());
            let kept = options.structure.unfit(rows, k).map(str::to_owned);
            matrices.push(Prunable {
                name: info.name.clone(),
                layer,
                rows,
                k,
                sparsity: options.structure.sparsity().unwrap_or(options.sparsity),
                kept,
            });
        }
        if matrices.is_empty() {
            return Err(wrong("no matrices of layers".to_owned()));
        }
        Ok(PrunePlan { matrices })
    }

    /// Returns the number of layers.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.matrices.iter().map(|matrix| matrix.layer + 1).max().unwrap_or(0)
    }

    /// Divides the layers into groups whose inputs are collected together: at most `most` layers, and no more than
    /// `memory` bytes of sums, if a single layer does not take more.
    #[must_use]
    pub fn groups(&self, most: usize, memory: usize) -> Vec<std::ops::Range<usize>> {
        let bytes = |layer: usize| {
            let of_layer = self.matrices.iter().filter(|matrix| matrix.layer == layer);
            // Neighbours of one depth usually share their input, so this is an upper bound.
            of_layer.map(|matrix| Gram::bytes(matrix.k)).fold(0_usize, usize::saturating_add)
        };
        let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
        let mut used = 0_usize;
        for layer in 0..self.layers() {
            let more = bytes(layer);
            match groups.last_mut() {
                Some(group) if group.len() < most.max(1) && used.saturating_add(more) <= memory => {
                    group.end = layer + 1;
                    used += more;
                }
                _ => {
                    groups.push(layer..layer + 1);
                    used = more;
                }
            }
        }
        groups
    }
}
