//! Functions of the tiers of a kernel that is written over [`ByteDot`](super::byte_dot::ByteDot).

/// Defines a function that returns the kernel of a tier: `$kernel`, generic over `ByteDot`, compiled for the instructions
/// of each level.
macro_rules! byte_dot_kernel {
    ($(#[$doc:meta])* $vis:vis fn $name:ident() -> $kernel_fn:ident = $kernel:ident($part:ty)) => {
        $(#[$doc])*
        $vis fn $name(tier: $crate::cpu::isa::Tier) -> $kernel_fn {
            use $crate::cpu::isa::Level;
            #[cfg(target_arch = "aarch64")]
            use $crate::gemm::microkernel::aarch64_dot::NeonDot;
            use $crate::gemm::microkernel::int8_rows::{Plain, Results};
            #[cfg(target_arch = "x86_64")]
            use $crate::gemm::microkernel::x86_64::int8_dot::{Avx2Dot, Avx512Dot, AvxVnniDot};
            #[cfg(target_arch = "aarch64")]
            use $crate::simd::aarch64::neon_int::{Sdot, Widen};

            /// # Safety
            /// As in the type of the kernel.
            unsafe fn plain(part: &$part, to: Results) {
                // SAFETY: as in the type of the kernel (`# Safety`).
                unsafe { $kernel(Plain, part, to) };
            }

            /// # Safety
            /// As in the type of the kernel.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2(part: &$part, to: Results) {
                // SAFETY: as in the type of the kernel (`# Safety`).
                unsafe { $kernel(Avx2Dot::in_feature_region(), part, to) };
            }

            /// # Safety
            /// As in the type of the kernel.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
            unsafe fn avxvnni(part: &$part, to: Results) {
                // SAFETY: as in the type of the kernel (`# Safety`).
                unsafe { $kernel(AvxVnniDot::in_feature_region(), part, to) };
            }

            /// # Safety
            /// As in the type of the kernel.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
            unsafe fn avx512(part: &$part, to: Results) {
                // SAFETY: as in the type of the kernel (`# Safety`).
                unsafe { $kernel(Avx512Dot::in_feature_region(), part, to) };
            }

            /// # Safety
            /// As in the type of the kernel.
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon")]
            unsafe fn neon(part: &$part, to: Results) {
                // SAFETY: as in the type of the kernel (`# Safety`).
                unsafe { $kernel(NeonDot(Widen), part, to) };
            }

            /// # Safety
            /// As in the type of the kernel.
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon,dotprod")]
            unsafe fn dotprod(part: &$part, to: Results) {
                // SAFETY: as in the type of the kernel (`# Safety`).
                unsafe { $kernel(NeonDot(Sdot), part, to) };
            }

            match tier.level() {
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => avx2,
                #[cfg(target_arch = "x86_64")]
                Level::AvxVnni => avxvnni,
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 | Level::Avx512Bf16 | Level::Amx => avx512,
                #[cfg(target_arch = "aarch64")]
                Level::Neon => neon,
                #[cfg(target_arch = "aarch64")]
                Level::DotProd | Level::I8mm => dotprod,
                _ => plain,
            }
        }
    };
}

pub(super) use byte_dot_kernel;
