//! Quantisation of matrices stored as floats to 8-bit integers when a model is loaded, and the layouts of INT8 rows.

use crate::activation_sums::ActivationSums;
use leyden_kernels::gemm::{LayoutChoice, LayoutRule, PackedWeights};
use leyden_kernels::{Cpu, OutlierChannels};
use leyden_tensor::{DType, TensorView, quant};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

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

/// Number of values that a task quantises, about.
const TASK: usize = 1 << 16;

/// Quantises a matrix to Q8_0. Returns `None` if the tensor is no matrix that Q8_0 can store, has values that are not
/// finite, or would lose too much.
pub(crate) fn in_int8(cpu: &Cpu, view: &TensorView<'_>, report: &mut Int8Report) -> Option<Vec<u8>> {
    let cols = view.cols();
    let row_bytes = DType::Q8_0.row_bytes(cols).filter(|bytes| *bytes > 0 && view.shape().len() >= 2)?;
    let mut bytes = vec![0; row_bytes * view.rows()];
    // Relative error of the worst row; NaN if a value is not finite.
    let worst = Mutex::new(0.0_f64);
    cpu.for_blocks(&mut bytes, row_bytes, (TASK / cols).max(1), |first, out| {
        let rows = first..first + out.len() / row_bytes;
        let error = quantise_rows(view, rows, out).unwrap_or(f64::NAN);
        let mut worst = worst.lock().unwrap_or_else(PoisonError::into_inner);
        *worst = if error.is_nan() || worst.is_nan() { f64::NAN } else { worst.max(error) };
    });
    let worst = worst.into_inner().unwrap_or_else(PoisonError::into_inner);
    if worst.is_nan() {
        return None;
    }
    if worst > MAX_LOSS {
        report.kept.push((view.name().to_owned(), worst));
        return None;
    }
    report.matrices += 1;
    Some(bytes)
}

/// Quantises rows to Q8_0. Returns the relative error of the worst row, or `None` if a value is not finite.
fn quantise_rows(view: &TensorView<'_>, rows: Range<usize>, bytes: &mut [u8]) -> Option<f64> {
    let cols = view.cols();
    let (mut x, mut back) = (vec![0.0; cols], vec![0.0; cols]);
    let mut worst = 0.0_f64;
    let row_bytes = bytes.len() / rows.len();
    for (i, out) in rows.zip(bytes.chunks_exact_mut(row_bytes)) {
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
    Some(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_kernels::Tier;

    /// Returns a matrix `[rows, 512]` as F32, with values up to `most` and another one.
    fn matrix(rows: usize, most: f32, other: f32) -> Vec<u8> {
        let value =
            |i: usize| if i == 777 { other } else { ((i * 7919 % 1013) as f32 / 1012.0 - 0.5) * 2.0 * most };
        (0..rows * 512).flat_map(|i| value(i).to_le_bytes()).collect()
    }

    #[test]
    fn bytes_and_report_do_not_depend_on_threads() {
        const ROWS: usize = 300;
        // Scales of blocks are in half precision, so tiny values become zeros.
        for (most, other, matrices, kept) in
            [(0.5, 0.1, 1, 0), (1e-9, 0.0, 0, 1), (0.5, f32::NAN, 0, 0), (0.5, f32::INFINITY, 0, 0)]
        {
            let bytes = matrix(ROWS, most, other);
            let view = TensorView::new("w", DType::F32, &[ROWS, 512], &bytes).unwrap();
            let of = |threads| {
                let mut report = Int8Report::default();
                let cpu = Cpu::new(Tier::best(), threads).unwrap();
                (in_int8(&cpu, &view, &mut report), report)
            };
            let (bytes, report) = of(1);
            assert_eq!(
                (bytes.is_some(), report.matrices, report.kept.len()),
                (matrices == 1, matrices, kept)
            );
            assert_eq!(of(3), (bytes, report), "{most} {other}");
        }
    }
}
