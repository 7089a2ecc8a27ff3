//! Quantisation of matrices stored as floats to 8-bit integers when a model is loaded, and the layouts of INT8 rows.

use crate::activation_sums::ActivationSums;
use leyden_kernels::gemm::{LayoutChoice, LayoutRule, PackedWeights};
use leyden_kernels::{Cpu, OutlierChannels};
use leyden_tensor::{DType, TensorView, quant};

/// Report about the quantisation of matrices to 8-bit integers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Int8Report {
    /// Number of matrices that were quantised.
    pub matrices: usize,
    /// Names of the matrices that would lose too much and were not quantised, with the relative error of their worst
    /// row.
    pub kept: Vec<(String, f64)>,
    /// Layouts of the matrices of INT8 rows, with the times measured when they were chosen.
    pub layouts: Vec<LayoutChoice>,
}

/// Last step of loading INT8 rows: the outlier channels of their inputs are set, and their layouts chosen.
pub(crate) struct Int8Finish<'a> {
    pub(crate) cpu: &'a Cpu,
    pub(crate) rule: LayoutRule,
    /// Sums of squares of the inputs.
    pub(crate) sums: &'a ActivationSums,
    /// Layouts of the matrices so far.
    pub(crate) layouts: Vec<LayoutChoice>,
}

impl Int8Finish<'_> {
    /// Finishes a matrix if it is one of INT8 rows that was not finished before.
    ///
    /// # Errors
    /// Memory is short.
    pub(crate) fn matrix(
        &mut self,
        weights: &mut PackedWeights,
        outliers: OutlierChannels,
    ) -> Result<(), leyden_kernels::Error> {
        if weights.lacks_outliers() {
            weights.set_outliers(outliers);
            self.layouts.push(weights.choose_layout(self.cpu, self.rule)?);
        } else if weights.is_int8_rows() {
            self.layouts.push(weights.layout_choice());
        }
        Ok(())
    }
}

/// Largest relative error (in the L2 norm) of a row of a quantised matrix. Rows without outliers have about 0.5 %.
const MAX_LOSS: f64 = 0.02;

/// Quantises a matrix to Q8_0. Returns `None` if the tensor is no matrix that Q8_0 can store, has values that are not
/// finite, or would lose too much.
pub(crate) fn in_int8(view: &TensorView<'_>, report: &mut Int8Report) -> Option<Vec<u8>> {
    let cols = view.cols();
    let row_bytes = DType::Q8_0.row_bytes(cols).filter(|_| view.shape().len() >= 2)?;
    let mut bytes = vec![0; row_bytes * view.rows()];
    let (mut x, mut back) = (vec![0.0; cols], vec![0.0; cols]);
    let mut worst = 0.0_f64;
    for (i, out) in bytes.chunks_exact_mut(row_bytes).enumerate() {
        quant::decode_row(view.dtype(), view.row(i), &mut x);
        if !x.iter().all(|x| x.is_finite()) {
            return None;
        }
        quant::encode_row(DType::Q8_0, &x, out);
        quant::decode_row(DType::Q8_0, out, &mut back);
        let squares = |of: &dyn Fn(usize) -> f64| (0..cols).map(|k| of(k) * of(k)).sum::<f64>();
        let (errors, all) =
            (squares(&|k| f64::from(x[k]) - f64::from(back[k])), squares(&|k| f64::from(x[k])));
        if all > 0.0 {
            worst = worst.max((errors / all).sqrt());
        }
    }
    if worst > MAX_LOSS {
        report.kept.push((view.name().to_owned(), worst));
        return None;
    }
    report.matrices += 1;
    Some(bytes)
}
