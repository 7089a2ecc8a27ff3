//! Prefetch: distances and hints. A hint never faults, whatever the address.

/// Prefetch distance of weights into L2 (hint T1), in bytes: about the memory latency times the read rate of one core.
const PREFETCH_DISTANCE: usize = 6 << 10;
/// Prefetch distance of weights into L1 (hint T0), in bytes.
const PREFETCH_DISTANCE_L1: usize = 8 << 10;

/// Prefetches the cache line at `p`, on x86 into L2 (hint T1): L1 has too few line fill buffers for the latency of
/// memory, and loads from L2 are fast enough.
#[inline(always)]
pub(crate) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE; a hint never faults, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    prefetch_l1(p);
}

/// Prefetches every line of `bytes`. Loops over addresses, because a slice per line would compute its end.
#[inline(always)]
pub(crate) fn prefetch_lines(bytes: &[u8]) {
    for at in (0..bytes.len()).step_by(64) {
        prefetch(bytes.as_ptr().wrapping_add(at));
    }
}

/// Prefetches the cache line at `p` into L1.
#[inline(always)]
pub(crate) fn prefetch_l1(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE; a hint never faults, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

/// Prefetches the cache line of weights at `p`, into L1 if `prefetches_to_l1` (see [`Tier`](crate::cpu::isa::Tier)),
/// else into L2.
#[inline(always)]
pub(super) fn prefetch_weights(prefetches_to_l1: bool, p: *const u8) {
    if prefetches_to_l1 { prefetch_l1(p) } else { prefetch(p) }
}

/// Number of tokens up to which a GEMM is bound by memory, like a GEMV.
pub(crate) const MEMORY_BOUND_TOKENS: usize = 4;

/// Prefetches weights at the prefetch distance from the line at `p`, with `streams` memory streams read side by side.
/// With `again`, first at twice that distance, and once more at half of it: a processor with too many outstanding lines
/// drops hints.
#[inline(always)]
pub(super) fn prefetch_following(prefetches_to_l1: bool, again: bool, p: *const u8, streams: usize) {
    let ahead = if prefetches_to_l1 { PREFETCH_DISTANCE_L1 } else { PREFETCH_DISTANCE } / streams;
    if again {
        prefetch_weights(prefetches_to_l1, p.wrapping_add(2 * ahead));
    }
    prefetch_weights(prefetches_to_l1, p.wrapping_add(ahead));
    if again {
        prefetch_weights(prefetches_to_l1, p.wrapping_add(ahead / 2));
    }
}

/// Prefetches the cache line at `p` for writing.
#[inline(always)]
pub(crate) fn prefetch_for_write(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint never faults, whatever the address; processors without it treat it as a no-op.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{0}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}
