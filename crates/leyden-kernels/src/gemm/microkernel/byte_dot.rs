//! [`ByteDot`], what an instruction set offers to products of INT8 rows (`gemm::microkernel::int8_rows`).

use crate::ops::Lanes;

/// Products of bytes of one instruction set.
pub(crate) trait ByteDot: Copy {
    /// Four unsigned weights of each of 16 rows.
    type Weights: Copy;
    /// Four signed activations, for every row.
    type Word: Copy;
    /// A sum for each of 16 rows.
    type Acc: Copy;
    /// Tokens and panels whose sums stay in registers together.
    const TOKENS: usize;
    const PANELS: usize;

    /// Sums that begin at a number.
    fn begin(self, start: i32) -> Self::Acc;
    /// Reads weights.
    ///
    /// # Safety
    /// `p` points at 64 bytes.
    unsafe fn weights(self, p: *const u8) -> Self::Weights;
    /// Reads activations.
    ///
    /// # Safety
    /// `p` points at four of them.
    unsafe fn word(self, p: *const i8) -> Self::Word;
    /// Adds the products.
    fn dot(self, acc: Self::Acc, weights: Self::Weights, word: Self::Word) -> Self::Acc;
    /// Adds the sums as floats, rounded to nearest even, times a scale, with one rounding.
    ///
    /// # Safety
    /// `total` points at sixteen floats on a cache line.
    unsafe fn add_scaled(self, acc: Self::Acc, scale: f32, total: *mut Lanes);
}
