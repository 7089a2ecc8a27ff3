//! What is asked of [`multiply`](super::multiply).

use crate::gemm::epilogue::Write;
use crate::gemm::packed_weights::PackedWeights;

/// One matrix product: `out[n][rows]` from the batch's `n` columns.
#[derive(Debug)]
pub struct Product<'a> {
    /// The weights.
    pub weights: &'a PackedWeights,
    /// Added to every column, if any; one value per row.
    pub bias: Option<&'a [f32]>,
    /// One row of `weights.rows()` values per column of the batch.
    pub out: &'a mut [f32],
    /// Set or add.
    pub write: Write,
}
