//! Quantised activations as kernels read them, and quantisation of weights on an instruction set.

pub(crate) mod encode_weights;
pub(crate) mod min_tiles;
pub(crate) mod overflow_bounds;
pub(crate) mod packed_a;
pub(crate) mod quantize;
pub(crate) mod token_rows;
