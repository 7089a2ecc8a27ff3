//! [`SparseForm`]: sizes of a matrix of sparse rows.

/// Form of sparse rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SparseForm {
    /// Number of places in a window.
    pub(super) window: usize,
    /// Number of consecutive rows with the same places: 1 or 4.
    pub(super) tall: usize,
    /// Number of groups.
    pub(super) groups: usize,
}
