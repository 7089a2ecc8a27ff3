//! Detection of AMX (Intel, Software Developer's Manual, volume 1, chapter 18) and the permission that Linux requires
//! for it (`Documentation/arch/x86/xstate.rst`).

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::LazyLock;

/// Returns true if the processor has AMX and the system lets this process use it. Checked once; the permission holds
/// for all threads.
pub(super) fn detected() -> bool {
    static DETECTED: LazyLock<bool> = LazyLock::new(|| {
        /// Bits of the two AMX state components in XCR0.
        const KEPT: u64 = 1 << 17 | 1 << 18;
        // EDX of leaf 7: AMX-TILE and AMX-INT8.
        let features = __cpuid_count(7, 0).edx;
        features >> 24 & 1 == 1 && features >> 25 & 1 == 1 && kept_state() & KEPT == KEPT && permitted()
    });
    *DETECTED
}

/// Returns XCR0, the mask of state components that the system saves; zero if it cannot be read.
fn kept_state() -> u64 {
    // OSXSAVE.
    if __cpuid(1).ecx >> 27 & 1 == 0 {
        return 0;
    }
    let (low, high): (u32, u32);
    // SAFETY: the processor has the instruction.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Requests permission for the tile data state from Linux.
fn permitted() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        // SAFETY: the call takes two integers and no memory.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    false
}
