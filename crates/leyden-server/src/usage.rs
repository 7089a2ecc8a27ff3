//! How many tokens a request took.

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    /// Those of the prompt that were in the cache.
    pub(crate) cached: usize,
    pub(crate) completion: usize,
}
