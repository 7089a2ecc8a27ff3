//! Arguments of [`multiply`](super::multiply).

use crate::gemm::epilogue::Write;
use crate::gemm::packed_weights::PackedWeights;
use crate::ops::Activation;
use crate::quant::token_rows::TokenRows;
use std::ops::Range;

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

/// Part of a product of INT8 rows, dense or sparse: groups of [`GROUP_ROWS`](super::microkernel::int8_rows::GROUP_ROWS)
/// rows, and tokens.
#[derive(Clone, Debug)]
pub(super) struct RowsPart<'a> {
    pub(super) weights: &'a PackedWeights,
    pub(super) groups: Range<usize>,
    pub(super) input: &'a TokenRows,
    pub(super) tokens: Range<usize>,
    /// Bias of all rows of the matrix.
    pub(super) bias: Option<&'a [f32]>,
    /// Activation function, applied before results are written.
    pub(super) activation: Option<Activation>,
    /// True if results are added to the output.
    pub(super) add: bool,
}
