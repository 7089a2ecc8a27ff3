//! Tens of thousands of damaged files, in bounded time and memory. The tests share a lock, because the memory that
//! they measure is that of the whole process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gguf_mutations;
mod onnx_mutations;
mod safetensors_mutations;

use peak_alloc::PeakAlloc;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// No other test runs while it is held.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
