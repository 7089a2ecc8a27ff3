//! Memory: huge pages, cache-line alignment, disjoint writes, scratch.

pub(crate) mod aligned;
pub(crate) mod disjoint;
pub(crate) mod huge;
pub(crate) mod scratch;

pub use aligned::Aligned;
pub use huge::{HugeBuf, Pages};
