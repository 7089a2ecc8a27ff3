//! GEMM: packed weights times activations.

mod blocking;
mod choice;
mod dense;
mod epilogue;
pub(crate) mod format;
mod int8_rows;
mod layout_choice;
mod linear;
pub(crate) mod microkernel;
mod moe;
mod pack_file;
mod packed_weights;
mod panels;
mod product;
pub(crate) mod registry;
mod routing;
mod sparse_blocks;
mod sparse_form;
mod sparse_rows;
mod swiglu;
mod token_block;
mod token_products;
pub(crate) mod unpack;

#[cfg(test)]
mod tests;

pub use choice::{KernelChoice, kernel_choice};
pub use dense::{COLUMNS, DEPTH, DenseEpilogue, DenseMatrix, DensePanels, DenseRows, Panels, dense_multiply};
pub use epilogue::Write;
pub use layout_choice::{LayoutChoice, LayoutRule};
pub use linear::{multiply, multiply_activated};
pub use moe::{ExpertBiases, Experts, MoeScratch, moe};
pub use pack_file::{CHECKED_BYTES, LAYOUT, PackedFile};
pub use packed_weights::PackedWeights;
pub use product::Product;
pub use registry::{act_format_of, packed_ratio};
pub use routing::{ExpertGroups, Gating, GatingFunction, Routing};
pub use swiglu::{Gated, swiglu, swiglu_packed};
pub use token_block::TokenBlock;
