//! [`Work`]: buffers that keep their memory from one computation to the next.

use leyden_kernels::PackedA;

/// Buffers of a computation, which keep their memory.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) activations: PackedA,
    pub(crate) normed: Vec<f32>,
    pub(crate) queries: Vec<f32>,
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
    pub(crate) mixed: Vec<f32>,
    pub(crate) hidden: Vec<f32>,
}
