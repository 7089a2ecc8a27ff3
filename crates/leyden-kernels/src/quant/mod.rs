//! Activations as the kernels read them.

pub(crate) mod min_tiles;
pub(crate) mod overflow_bounds;
pub(crate) mod packed_a;
pub(crate) mod quantize;
