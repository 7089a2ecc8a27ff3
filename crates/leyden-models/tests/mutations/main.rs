//! Damaged configurations, in bounded time and memory: a test program of its own, because the memory that it measures
//! is that of the whole process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hf_mutations;

use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
