//! [`Tensor`]: a tensor of a model's file.

use crate::error::Error;
use leyden_tensor::{DType, TensorView};

/// Tensor of a source.
pub(crate) struct Tensor<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: &'a [u8],
}

impl Tensor<'_> {
    /// Returns the values as floats.
    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f32>, Error> {
        let view = TensorView::new(name, self.dtype, &self.shape, self.bytes)?;
        let mut out = vec![0.0; view.rows() * view.cols()];
        for (row, to) in out.chunks_exact_mut(view.cols().max(1)).enumerate() {
            leyden_tensor::quant::decode_row(self.dtype, view.row(row), to);
        }
        Ok(out)
    }
}
