//! Dispatch from a tier to code compiled for it.

/// Defines `pub(crate) fn $name(tier, args…)`, which runs the generic `$body::<I: Simd>(isa, args…)` compiled for the
/// tier. `$body` and all functions that it calls must be `#[inline(always)]`, else they keep baseline features.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident => $body:ident ( $($arg:ident : $ty:ty),* $(,)? ) $(-> $ret:ty)?) => {
        $(#[$meta])*
        $vis fn $name(tier: $crate::cpu::isa::Tier, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    $body($crate::simd::x86_64::avx2::Avx2::in_feature_region(), $($arg),*)
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    $body($crate::simd::x86_64::avx512::Avx512::in_feature_region(), $($arg),*)
                }
                match tier.level().common() {
                    // SAFETY: a Tier of this level exists only where detection saw these features.
                    $crate::cpu::isa::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::cpu::isa::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    _ => {}
                }
            }
            #[cfg(target_arch = "aarch64")]
            {
                #[target_feature(enable = "neon")]
                fn neon($($arg: $ty),*) $(-> $ret)? {
                    $body($crate::simd::aarch64::neon::Neon::in_feature_region(), $($arg),*)
                }
                if tier.level() >= $crate::cpu::isa::Level::Neon {
                    // SAFETY: as above; every level from here on has NEON.
                    return unsafe { neon($($arg),*) };
                }
            }
            let _ = tier;
            $body($crate::simd::scalar::Scalar, $($arg),*)
        }
    };
}

pub(crate) use dispatch;
