//! Allocator that takes the same number of instructions for every allocation. The system's allocator searches freed
//! memory, so its count depends on everything that ran before.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size in bytes, several times the tests' need. Pages are committed when first touched.
const BYTES: usize = 256 << 20;

/// Range of zeros that is handed out from its start and never reclaimed.
pub(crate) struct Arena {
    memory: UnsafeCell<[u8; BYTES]>,
    used: AtomicUsize,
}

// SAFETY: every byte is handed out once.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) const fn new() -> Self {
        Self { memory: UnsafeCell::new([0; BYTES]), used: AtomicUsize::new(0) }
    }
}

// SAFETY: the returned block is in the arena, is aligned as requested, and overlaps no block returned before.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let most = layout.size().saturating_add(layout.align());
        let start = self.used.fetch_add(most.min(BYTES), Ordering::Relaxed);
        if start > BYTES || most > BYTES - start {
            return ptr::null_mut();
        }
        let first = self.memory.get().cast::<u8>().wrapping_add(start);
        first.wrapping_add(first.align_offset(layout.align()))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout; memory that was never handed out is zero.
        unsafe { self.alloc(layout) }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
