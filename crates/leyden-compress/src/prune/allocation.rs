//! Sparsity by layer: layers with more outliers keep more weights.
//!
//! OWL (Yin et al., 2023): the outlier ratio of a layer is the share of its products of a weight's magnitude and the
//! norm of its input that exceed five times their mean. Sparsities are spread over `2 * SPREAD` around the target, the
//! layer with the highest ratio at the lowest; their mean is the target.

use super::plan::PrunePlan;
use crate::error::Error;
use leyden_kernels::{Tier, decode_row};
use leyden_tensor::WeightSource;
use std::ops::ControlFlow;

/// Multiple of the mean that makes an outlier, the paper's M.
const OUTLIER: f64 = 5.0;
/// Greatest distance of a layer's sparsity from the target, the paper's lambda.
const SPREAD: f64 = 0.08;
/// Greatest sparsity of a layer.
const MAX_SPARSITY: f64 = 0.99;

impl PrunePlan {
    /// Sets the sparsity of each layer by its share of outliers. `squares` returns the sums of squares of a matrix's
    /// inputs; matrices without them do not count.
    ///
    /// # Errors
    /// A tensor cannot be read, or `progress` asked to stop.
    pub fn allocate(
        &mut self,
        source: &dyn WeightSource,
        squares: &dyn Fn(&str) -> Option<Vec<f64>>,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let layers = self.layers();
        let mut ratios = vec![0.0; layers];
        let mut sizes = vec![0.0; layers];
        for layer in 0..layers {
            let mut products: Vec<f32> = Vec::new();
            for matrix in self.matrices.iter().filter(|m| m.layer == layer && m.kept.is_none()) {
                sizes[layer] += (matrix.rows * matrix.k) as f64;
                let Some(squares) = squares(&matrix.name).filter(|squares| squares.len() == matrix.k) else {
                    continue;
                };
                let norms: Vec<f32> = squares.iter().map(|square| square.sqrt() as f32).collect();
                let view = source.require(&matrix.name)?;
                let mut row = vec![0.0; matrix.k];
                for i in 0..matrix.rows {
                    decode_row(Tier::best(), view.dtype(), view.row(i), &mut row);
                    products.extend(row.iter().zip(&norms).map(|(w, norm)| w.abs() * norm));
                }
                source.advise_dontneed(&matrix.name, 0..view.bytes().len());
            }
            ratios[layer] = outliers(&products);
            if progress(layer + 1, layers).is_break() {
                return Err(Error::Stopped);
            }
        }
        let target = self.matrices.first().map_or(0.0, |matrix| matrix.sparsity);
        let of_layers = spread(&ratios, &sizes, target);
        for matrix in &mut self.matrices {
            matrix.sparsity = of_layers[matrix.layer];
        }
        Ok(())
    }
}

/// Returns the share of values that exceed a multiple of their mean.
fn outliers(products: &[f32]) -> f64 {
    let n = products.len().max(1) as f64;
    let limit = OUTLIER * products.iter().map(|p| f64::from(*p)).sum::<f64>() / n;
    products.iter().filter(|p| f64::from(**p) > limit).count() as f64 / n
}

/// Returns sparsities whose mean, weighted by the sizes of the layers, is the target.
fn spread(ratios: &[f64], sizes: &[f64], target: f64) -> Vec<f64> {
    let (least, most) = ratios.iter().fold((f64::MAX, f64::MIN), |(l, m), r| (l.min(*r), m.max(*r)));
    let scale = if most > least { 2.0 * SPREAD / (most - least) } else { 0.0 };
    let all = sizes.iter().sum::<f64>();
    let mean =
        if all > 0.0 { ratios.iter().zip(sizes).map(|(r, size)| r * size).sum::<f64>() / all } else { least };
    ratios.iter().map(|ratio| (target - scale * (ratio - mean)).clamp(0.0, MAX_SPARSITY)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_with_outliers_keep_more() {
        let mut products = vec![1.0_f32; 97];
        products.extend([100.0, 100.0, 2.0]);
        assert!((outliers(&products) - 0.02).abs() < 1e-9);
        assert_eq!(outliers(&[]), 0.0);
        let all = spread(&[0.02, 0.0, 0.01], &[1.0, 1.0, 1.0], 0.5);
        let wanted = [0.42, 0.58, 0.5];
        assert!(all.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{all:?}");
        // Of layers of unequal size the mean counts each weight once.
        let all = spread(&[0.02, 0.0], &[3.0, 1.0], 0.5);
        assert!((0.75 * all[0] + 0.25 * all[1] - 0.5).abs() < 1e-9 && all[1] - all[0] > 0.15);
        assert_eq!(spread(&[0.1, 0.1], &[1.0, 1.0], 0.5), [0.5, 0.5]);
    }
}
