//! Sparse matrices in safetensors: the layout `leyden-sparse` of `docs/sparse-files.md`, and bitmasks of
//! compressed-tensors. Both are decoded to the dense matrix when they are read; kernels find the zeros by themselves.
//!
//! In place of a tensor `STEM.weight` of `[rows, k]` there are:
//!
//! * `STEM.sparse_layout`, I64 `[6]`: rows, k, rows and columns of a block (1 and 1, 1 and 4, or 4 and 1), number of
//!   nonzero blocks, Rice parameter;
//! * `STEM.sparse_positions`, U8: Rice codes of the gaps between nonzero blocks (`positions`);
//! * `STEM.sparse_values`: all values of these blocks, in F32, F16, BF16 or I8 `[n]`, or U8 `[n / 2]` with two 4-bit
//!   integers in a byte;
//! * `STEM.sparse_scales`, F16 `[rows, groups]`, for integers: a value is an integer times the scale of its group of
//!   `k / groups` columns.

mod bitmask;
mod decode;
mod encode;
mod positions;

pub(crate) use bitmask::of_bitmask;
pub(crate) use decode::{Stored, of_stored};
pub use encode::{SparsePart, SparseTensor, SparseValues};

/// Greatest number of values in a matrix for each stored byte. It bounds memory by the size of the file; a matrix with
/// fewer nonzero values is stored dense.
const MAX_EXPANSION: usize = 4096;
/// Values in a block of Q8_0 and Q4_0, the types that integers are decoded to.
const BLOCK: usize = 32;

#[cfg(test)]
mod tests;
