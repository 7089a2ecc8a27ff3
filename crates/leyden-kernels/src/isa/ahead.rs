//! What memory is asked for before it is read or written: hints, for which no address is wrong.

/// Weights this far ahead are asked for while the current ones are used: about the latency of memory at the rate one core
/// reads. Into the second cache (a core of Zen 4 was kept waiting by 2 KiB and by 16) and into the first (one of Zen 5, which
/// reads 40 GB/s, by 6 KiB and by 12).
const AHEAD: usize = 6 << 10;
const AHEAD_NEAR: usize = 8 << 10;

/// Asks for the cache line at `p`, on x86 into the second cache: only so many lines can be on their way into the first at a
/// time, on some processors too few for the latency of memory, and from the second they come soon enough. A core of Zen 4 read
/// keys and values in half the time; to one of Zen 5 it makes no difference.
#[inline(always)]
pub(crate) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE; a hint, which no address makes fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    prefetch_near(p);
}

/// [`prefetch`] of every line of `bytes`. By addresses, as a slice of each line would have its end computed.
#[inline(always)]
pub(crate) fn prefetch_lines(bytes: &[u8]) {
    for at in (0..bytes.len()).step_by(64) {
        prefetch(bytes.as_ptr().wrapping_add(at));
    }
}

/// As [`prefetch`], into the first cache.
#[inline(always)]
pub(crate) fn prefetch_near(p: *const u8) {
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

/// Asks for the cache line of weights at `p`, into the first cache if `near` ([`Tier`](super::Tier) says where that is).
#[inline(always)]
pub(super) fn prefetch_weights(near: bool, p: *const u8) {
    if near { prefetch_near(p) } else { prefetch(p) }
}

/// Columns up to which a core waits for weights rather than for its multipliers.
pub(crate) const FEW: usize = 4;

/// Asks for what follows the line of weights at `p` where one reads so many streams of them side by side, and with `again` first twice as
/// far ahead and last half way: a processor that has too many lines on their way drops what it is asked for.
#[inline(always)]
pub(super) fn prefetch_following(near: bool, again: bool, p: *const u8, streams: usize) {
    let ahead = if near { AHEAD_NEAR } else { AHEAD } / streams;
    if again {
        prefetch_weights(near, p.wrapping_add(2 * ahead));
    }
    prefetch_weights(near, p.wrapping_add(ahead));
    if again {
        prefetch_weights(near, p.wrapping_add(ahead / 2));
    }
}

/// Asks for the cache line at `p` in order to write to it.
#[inline(always)]
pub(crate) fn fetch_for_writing(p: *const u8) {
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
