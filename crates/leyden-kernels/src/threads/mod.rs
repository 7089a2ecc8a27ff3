//! Threads: the pool, the placement of its members, and when they yield.

mod affinity;
pub mod placement;
pub(crate) mod pool;
mod sync;
mod yielding;

#[cfg(test)]
mod pool_model;
#[cfg(test)]
mod pool_tests;

pub use affinity::bind_thread;
