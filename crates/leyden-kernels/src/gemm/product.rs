//! Arguments of [`multiply`](super::multiply).

use crate::gemm::epilogue::Write;
use crate::gemm::packed_weights::PackedWeights;

/// Matrix product `out[n][rows]` with the batch's `n` columns.
#[derive(Debug)]
pub struct Product<'a> {
    /// Weights.
    pub weights: &'a PackedWeights,
    /// Bias added to every column, one value per row.
    pub bias: Option<&'a [f32]>,
    /// Output: one row of `weights.rows()` values per column of the batch.
    pub out: &'a mut [f32],
    /// Store operation: replace or add.
    pub write: Write,
}
