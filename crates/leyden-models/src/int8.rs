//! Quantisation of matrices stored as floats to 8-bit integers when a model is loaded.

use leyden_tensor::{DType, TensorView, quant};

/// Report about the quantisation of matrices to 8-bit integers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Int8Report {
    /// Number of matrices that were quantised.
    pub matrices: usize,
    /// Names of the matrices that would lose too much and were not quantised, with the relative error of their worst
    /// row.
    pub kept: Vec<(String, f64)>,
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
