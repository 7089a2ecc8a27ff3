//! Activations as the kernels read them, and weights quantised on an instruction set.

pub(crate) mod encode_weights;
pub(crate) mod min_tiles;
pub(crate) mod overflow_bounds;
pub(crate) mod packed_a;
pub(crate) mod quantize;
pub(crate) mod token_rows;
