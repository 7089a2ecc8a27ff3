//! Whether there is AMX, and permission for it: Intel's Software Developer's Manual, volume 1, chapter 18; permission is asked of Linux
//! as its `Documentation/arch/x86/xstate.rst` says.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::LazyLock;

/// Whether the processor has the instructions and the system lets this process use them. Asked once; what the system grants it grants
/// to every thread.
pub(super) fn detected() -> bool {
    static DETECTED: LazyLock<bool> = LazyLock::new(|| {
        /// AMX's two kinds of state in the mask of those that the system keeps.
        const KEPT: u64 = 1 << 17 | 1 << 18;
        // Of leaf 7: matrices, and their products of int8.
        let features = __cpuid_count(7, 0).edx;
        features >> 24 & 1 == 1 && features >> 25 & 1 == 1 && kept_state() & KEPT == KEPT && permitted()
    });
    *DETECTED
}

/// The mask of the kinds of state that the system keeps; zero where it cannot be read.
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

/// Asks Linux for the matrices' state.
fn permitted() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        // SAFETY: the call takes two numbers and no memory.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    false
}
