//! [`Limits`]: bounds on the work of a run, so that a damaged graph ends in an error.

/// Bounds on one run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum size of one tensor, bytes.
    pub tensor_bytes: usize,
    /// Maximum number of nodes computed, those in loops counted each time.
    pub nodes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { tensor_bytes: 8 << 30, nodes: 1 << 34 }
    }
}
