//! Synchronisation primitives of the pool: those of the standard library. The pool's model compiles the same source with
//! primitives whose schedule a test controls.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::{Arc, Mutex};
pub(super) use std::thread::{self, JoinHandle, Thread, available_parallelism};
pub(super) use std::thread_local;

/// Numbers of rounds of waiting loops.
pub(super) struct Spins {
    /// Rounds after which an idle member parks.
    pub(super) idle: u32,
    /// Rounds after which an idle member parks if the team has more members than processors.
    pub(super) crowded: u32,
    /// Rounds after which the caller yields its processor to members that are inside the job.
    pub(super) caller: u32,
}

/// About 20 microseconds until an idle member parks.
pub(super) const SPINS: Spins = Spins { idle: 2_000, crowded: 50, caller: 20_000 };
