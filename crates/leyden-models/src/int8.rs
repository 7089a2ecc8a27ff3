//! Matrices stored in floats that become 8-bit integers when a model is loaded.

use leyden_tensor::{DType, TensorView, quant};

/// What became of matrices that were to become integers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Int8Report {
    /// How many became integers.
    pub matrices: usize,
    /// Those that lose too much and stayed as they are, with how much their worst row would lose.
    pub kept: Vec<(String, f64)>,
}

/// How far the worst row of a matrix may be from what it was, relative to its length. Rows without outliers lose about 0.5 %.
const MAX_LOSS: f64 = 0.02;

/// A matrix in 8-bit integers with a scale for 32 values, if it is one and loses little.
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
