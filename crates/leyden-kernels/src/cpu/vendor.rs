//! Vendor of the processor, for speed differences that feature flags do not tell.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__cpuid;
#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

/// Vendor string and family from `cpuid`. Read once, because the instruction exits a virtual machine.
#[cfg(target_arch = "x86_64")]
static VENDOR_AND_FAMILY: LazyLock<(Vec<u8>, u32)> = LazyLock::new(|| {
    let vendor = __cpuid(0);
    let signature = __cpuid(1).eax;
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    ([vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened().to_vec(), family)
});

/// Returns true for Intel's processors.
pub(super) fn is_intel() -> bool {
    #[cfg(target_arch = "x86_64")]
    return VENDOR_AND_FAMILY.0 == b"GenuineIntel";
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Returns true for AMD's Zen 4: family 25 with AVX-512.
pub(super) fn is_zen4() -> bool {
    #[cfg(target_arch = "x86_64")]
    return VENDOR_AND_FAMILY.0 == b"AuthenticAMD"
        && VENDOR_AND_FAMILY.1 == 25
        && is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    false
}
