//! [`Usage`]: the token counts of a request.

/// Token counts of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    /// Number of prompt tokens found in the prefix cache.
    pub(crate) cached: usize,
    pub(crate) completion: usize,
    /// Numbers of draft tokens of speculation, and of accepted ones.
    pub(crate) drafts: (usize, usize),
}
