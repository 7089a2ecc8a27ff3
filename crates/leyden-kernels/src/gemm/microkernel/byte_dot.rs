//! [`ByteDot`], what an instruction set offers to products of INT8 rows (`gemm::microkernel::int8_rows`).

/// Products of bytes of one instruction set.
pub(crate) trait ByteDot: Copy {
    /// Four unsigned weights of each of 16 rows.
    type Weights: Copy;
    /// Four signed activations, for every row.
    type Word: Copy;
    /// A sum for each of 16 rows.
    type Acc: Copy;
    /// A float for each of 16 rows.
    type Floats: Copy;
    /// Tokens and panels whose sums stay in registers together: one panel, or all of a group.
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
    /// Adds the sums as floats, rounded to nearest even, times a scale, with one rounding, to totals.
    fn add_scaled(self, acc: Self::Acc, scale: f32, total: Self::Floats) -> Self::Floats;
    /// Reads floats.
    ///
    /// # Safety
    /// `p` points at sixteen of them.
    unsafe fn read(self, p: *const f32) -> Self::Floats;
    /// `a * b + c` with one rounding.
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// `a + b`.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Writes floats.
    ///
    /// # Safety
    /// `p` points at room for sixteen of them.
    unsafe fn write(self, a: Self::Floats, p: *mut f32);
}
