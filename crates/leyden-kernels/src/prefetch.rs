//! Prefetch: distances and hints. A hint never faults, whatever the address.

/// The prefetch distance of weights, in bytes: about the latency of memory times the rate at which one core reads. Into L2 (hint T1).
const PREFETCH_DISTANCE: usize = 6 << 10;
/// The same into L1 (hint T0).
const PREFETCH_DISTANCE_L1: usize = 8 << 10;

/// Prefetches the cache line at `p`, on x86 into L2 (hint T1): L1 has too few line fill buffers for the latency of memory, and from L2 lines
/// come soon enough.
#[inline(always)]
pub(crate) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE; a hint, which no address makes fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    prefetch_l1(p);
}

/// [`prefetch`] of every line of `bytes`. By addresses, as a slice of each line would have its end computed.
#[inline(always)]
pub(crate) fn prefetch_lines(bytes: &[u8]) {
    for at in (0..bytes.len()).step_by(64) {
        prefetch(bytes.as_ptr().wrapping_add(at));
    }
}

/// As [`prefetch`], into L1.
#[inline(always)]
pub(crate) fn prefetch_l1(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE; a hint, which no address makes fault.
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

/// Prefetches the cache line of weights at `p`, into L1 if `prefetches_to_l1` ([`Tier`](crate::cpu::isa::Tier) says where that is).
#[inline(always)]
pub(super) fn prefetch_weights(prefetches_to_l1: bool, p: *const u8) {
    if prefetches_to_l1 { prefetch_l1(p) } else { prefetch(p) }
}

/// Tokens up to which a GEMM is bound by memory, as a GEMV is.
pub(crate) const MEMORY_BOUND_TOKENS: usize = 4;

/// Prefetches what follows the line of weights at `p`, where one reads so many streams side by side. With `again` at twice the prefetch
/// distance first, and at half of it last: a processor with too many lines in flight drops hints.
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

/// Prefetches the cache line at `p` in order to write to it.
#[inline(always)]
pub(crate) fn prefetch_for_write(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which no address makes fault, and which processors without it take for one that does nothing.
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
