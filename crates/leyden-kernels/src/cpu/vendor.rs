//! Who made the processor, where instructions do not tell what is fast.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__cpuid;
#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

/// What `cpuid` says of who made the processor, and of its family. Asked once: a virtual machine is left for the answer.
#[cfg(target_arch = "x86_64")]
static WHO: LazyLock<(Vec<u8>, u32)> = LazyLock::new(|| {
    let vendor = __cpuid(0);
    let signature = __cpuid(1).eax;
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    ([vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened().to_vec(), family)
});

/// Whether Intel made it.
pub(super) fn is_intel() -> bool {
    #[cfg(target_arch = "x86_64")]
    return WHO.0 == b"GenuineIntel";
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether it is AMD's Zen 4: of its family, 25, the one with AVX-512.
pub(super) fn is_zen4() -> bool {
    #[cfg(target_arch = "x86_64")]
    return WHO.0 == b"AuthenticAMD" && WHO.1 == 25 && is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    false
}
