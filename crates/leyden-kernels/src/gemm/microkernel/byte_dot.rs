//! [`ByteDot`], the operations of an instruction set for products of INT8 rows (`gemm::microkernel::int8_rows`).

/// Byte products of one instruction set.
pub(crate) trait ByteDot: Copy {
    /// Four unsigned weights of each of 16 rows.
    type Weights: Copy;
    /// Four signed activations, the same for every row.
    type Word: Copy;
    /// Integer sums of 16 rows.
    type Acc: Copy;
    /// Floats of 16 rows.
    type Floats: Copy;
    /// Tokens and panels whose sums are kept in registers together: one panel, or all of a group.
    const TOKENS: usize;
    const PANELS: usize;

    /// Returns sums that begin at `start`.
    fn begin(self, start: i32) -> Self::Acc;
    /// Loads weights.
    ///
    /// # Safety
    /// `p` points at 64 bytes.
    unsafe fn weights(self, p: *const u8) -> Self::Weights;
    /// Loads activations.
    ///
    /// # Safety
    /// `p` points at four bytes.
    unsafe fn word(self, p: *const i8) -> Self::Word;
    /// Adds the products of weights and activations.
    fn dot(self, acc: Self::Acc, weights: Self::Weights, word: Self::Word) -> Self::Acc;
    /// Converts the sums to floats, rounded to nearest even, and adds them times a scale to the totals, with one
    /// rounding.
    fn add_scaled(self, acc: Self::Acc, scale: f32, total: Self::Floats) -> Self::Floats;
    /// Loads floats.
    ///
    /// # Safety
    /// `p` points at 16 floats.
    unsafe fn read(self, p: *const f32) -> Self::Floats;
    /// Computes `a * b + c` with one rounding.
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Computes `a + b`.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Stores floats.
    ///
    /// # Safety
    /// `p` points at room for 16 floats.
    unsafe fn write(self, a: Self::Floats, p: *mut f32);
}
