//! [`SparseDot`], the operations of an instruction set for products of sparse rows (`gemm::microkernel::sparse_rows`).

use crate::gemm::microkernel::byte_dot::ByteDot;

/// Integer sums of 16 lanes.
pub(crate) type Sums<D> = <<D as SparseDot>::Dense as ByteDot>::Acc;

/// Floats of 16 lanes.
pub(crate) type Floats<D> = <<D as SparseDot>::Dense as ByteDot>::Floats;

/// Products of chosen bytes of one instruction set.
pub(crate) trait SparseDot: Copy {
    /// Operations that products of dense rows use too.
    type Dense: ByteDot;
    /// Places of four activations for each of 16 lanes.
    type Places: Copy;
    /// Four activations for each of 16 lanes.
    type Chosen: Copy;
    /// Number of tokens whose sums are kept in registers together, for lanes of one row and of four.
    const TOKENS: [usize; 2];
    /// True if activations are unsigned bytes.
    const UNSIGNED: bool;

    /// Returns the operations of dense rows.
    fn dense(self) -> Self::Dense;
    /// Loads a sum for each lane.
    ///
    /// # Safety
    /// `p` points at 16 integers.
    unsafe fn sums(self, p: *const u8) -> Sums<Self>;
    /// Loads places.
    ///
    /// # Safety
    /// `p` points at 64 bytes.
    unsafe fn places(self, p: *const u8) -> Self::Places;
    /// Copies the activations at places of a window.
    ///
    /// # Safety
    /// `window` points at as many bytes as the places were made for.
    unsafe fn choose(self, places: Self::Places, window: *const u8) -> Self::Chosen;
    /// Adds the products of activations with four signed weights of each lane.
    ///
    /// # Safety
    /// `weights` points at 64 bytes.
    unsafe fn add_products(self, sums: Sums<Self>, chosen: Self::Chosen, weights: *const u8) -> Sums<Self>;
    /// Puts the first lanes of four vectors before the second ones, and so on.
    #[inline(always)]
    fn interleave(self, vectors: [Floats<Self>; 4]) -> [Floats<Self>; 4] {
        let (f, mut lanes, mut all) = (self.dense(), [[0.0; 16]; 4], [[0.0; 16]; 4]);
        // SAFETY: vectors and arrays are of 16 floats.
        unsafe {
            for (to, vector) in lanes.iter_mut().zip(vectors) {
                f.write(vector, to.as_mut_ptr());
            }
            for (i, to) in all.as_flattened_mut().iter_mut().enumerate() {
                *to = lanes[i % 4][i / 4];
            }
            [
                f.read(all[0].as_ptr()),
                f.read(all[1].as_ptr()),
                f.read(all[2].as_ptr()),
                f.read(all[3].as_ptr()),
            ]
        }
    }
}
