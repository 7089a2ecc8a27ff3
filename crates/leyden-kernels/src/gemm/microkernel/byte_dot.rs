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
    /// A float for each of 16 rows, in registers; nothing where there are too few of them and totals stay in memory.
    type Total: Copy;
    /// Tokens and panels whose sums stay in registers together.
    const TOKENS: usize;
    const PANELS: usize;

    /// Sums that begin at a number.
    fn begin(self, start: i32) -> Self::Acc;
    /// Totals of zero, where they are in registers.
    fn zero(self) -> Self::Total;
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
    /// Adds the sums as floats, rounded to nearest even, times a scale, with one rounding, to totals in registers or in memory.
    ///
    /// # Safety
    /// `memory` points at sixteen floats on a cache line.
    unsafe fn add_scaled(
        self,
        acc: Self::Acc,
        scale: f32,
        total: Self::Total,
        memory: *mut Lanes,
    ) -> Self::Total;
    /// Writes totals that are in registers.
    ///
    /// # Safety
    /// As of [`add_scaled`](Self::add_scaled).
    unsafe fn store(self, total: Self::Total, memory: *mut Lanes);
}
