//! [`Stored`]: matrix layout of a checkpoint, where it may differ from GGUF's.

/// Matrix layout of a checkpoint, where it may differ from GGUF's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// Row order of a fused QKV matrix.
    pub(crate) qkv: QkvRows,
    /// True if the matrices of layers are transposed: `[inputs, outputs]` instead of `[outputs, inputs]`.
    pub(crate) transposed: bool,
    /// True if the gate rows follow the up rows in a fused gate-and-up matrix.
    pub(crate) gate_last: bool,
}

impl Stored {
    pub(crate) const AS_GGUF: Stored = Stored { qkv: QkvRows::Stacked, transposed: false, gate_last: false };
}

/// Row order of a fused QKV matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QkvRows {
    /// All rows of Q, then all of K, then all of V.
    Stacked,
    /// Rows of Q, K and V for each group of heads that share a KV head.
    Grouped,
}
