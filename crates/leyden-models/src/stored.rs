//! [`Stored`]: layout of a checkpoint's matrices where it may differ from GGUF's.

/// How a checkpoint lays out matrices, where it may differ from GGUF's way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// Where queries, keys and values are one matrix.
    pub(crate) qkv: QkvRows,
    /// Whether the matrices of layers are stored with a row for each input rather than for each output.
    pub(crate) transposed: bool,
    /// Whether a feed-forward layer's gate stands behind what it is multiplied with where the two are one matrix.
    pub(crate) gate_last: bool,
}

impl Stored {
    pub(crate) const AS_GGUF: Stored = Stored { qkv: QkvRows::Stacked, transposed: false, gate_last: false };
}

/// The order of rows in a matrix of queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QkvRows {
    /// All queries, all keys, all values.
    Stacked,
    /// The same for the heads of each group, which share keys and values.
    Grouped,
}
