//! Threads: the pool, the placement of its members, and when they yield.

mod affinity;
pub mod placement;
pub(crate) mod pool;
mod yielding;

pub use affinity::bind_thread;
