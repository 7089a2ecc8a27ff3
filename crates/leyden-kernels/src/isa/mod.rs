//! Instruction-set tiers: what this machine can run, and the bridge from generic code to it.
//!
//! A [`Tier`] is a proof: holding `Tier` with level `Avx2` means that detection saw AVX2, FMA and F16C on this
//! machine, so calling a function compiled for those features is sound. Elementwise code is written once
//! over arrays of 16 lanes and instantiated per tier by `dispatch!`; the compiler vectorises the arrays.
//! Rust never reassociates floating-point arithmetic and `f32::mul_add` is always fused, so one source gives
//! the same bits on every tier.

use std::fmt;

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2_dot;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512_dot;
pub(crate) mod dot;
pub(crate) mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86_bytes;

/// The instruction-set tiers, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust without explicit SIMD; the reference every other tier must equal bit for bit.
    Scalar,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
}

impl Level {
    /// All levels, slowest first.
    pub const ALL: [Level; 3] = [Level::Scalar, Level::Avx2, Level::Avx512];

    /// The name used on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    /// The level called `name`, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|l| l.name() == name)
    }

    /// Columns in the widest matrix tile: as many as registers hold sums for.
    pub(crate) const fn columns(self) -> usize {
        match self {
            Level::Scalar | Level::Avx2 => 4,
            Level::Avx512 => 8,
        }
    }

    /// The processor features the level needs.
    #[must_use]
    pub fn features(self) -> &'static str {
        match self {
            Level::Scalar => "none",
            Level::Avx2 => "avx2, fma, f16c",
            Level::Avx512 => "avx512f, avx512bw, avx512dq, avx512vl, avx512vnni",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tier this machine was seen to support. Only detection makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tier(Level);

impl Tier {
    /// The tier that runs everywhere.
    pub const SCALAR: Tier = Tier(Level::Scalar);

    /// The tier for `level`, or `None` where this machine lacks it.
    #[must_use]
    pub fn new(level: Level) -> Option<Tier> {
        supported(level).then_some(Tier(level))
    }

    /// The best tier of this machine.
    #[must_use]
    pub fn best() -> Tier {
        Level::ALL.into_iter().rev().find_map(Tier::new).unwrap_or(Tier::SCALAR)
    }

    /// Every tier of this machine, slowest first.
    #[must_use]
    pub fn available() -> Vec<Tier> {
        Level::ALL.into_iter().filter_map(Tier::new).collect()
    }

    /// The level this tier proves.
    #[must_use]
    pub fn level(self) -> Level {
        self.0
    }
}

#[cfg(target_arch = "x86_64")]
fn supported(level: Level) -> bool {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("fma") && has!("f16c");
    match level {
        Level::Scalar => true,
        Level::Avx2 => avx2,
        Level::Avx512 => {
            avx2 && has!("avx512f")
                && has!("avx512bw")
                && has!("avx512dq")
                && has!("avx512vl")
                && has!("avx512vnni")
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn supported(level: Level) -> bool {
    level == Level::Scalar
}

/// The few lane operations whose fast form needs an intrinsic. Everything else is plain array code.
pub(crate) trait Isa: Copy {
    /// Sixteen half-precision bit patterns to f32.
    fn f16_to_f32(self, h: &[u16; 16]) -> [f32; 16];
    /// Sixteen f32 to half precision, rounding to nearest even.
    fn f32_to_f16(self, x: &[f32; 16]) -> [u16; 16];
}

/// Makes `pub(crate) fn $name(tier, args…)` that runs the generic `$body::<I: Isa>(isa, args…)` compiled for
/// the tier. `$body` and all it calls must be `#[inline(always)]`, else the callee keeps baseline features.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident => $body:ident ( $($arg:ident : $ty:ty),* $(,)? ) $(-> $ret:ty)?) => {
        $(#[$meta])*
        $vis fn $name(tier: $crate::isa::Tier, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    $body($crate::isa::avx2::Avx2::in_feature_region(), $($arg),*)
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    $body($crate::isa::avx2::Avx2::in_feature_region(), $($arg),*)
                }
                match tier.level() {
                    // SAFETY: a Tier of this level exists only where detection saw these features.
                    $crate::isa::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::isa::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::isa::Level::Scalar => {}
                }
            }
            let _ = tier;
            $body($crate::isa::scalar::Scalar, $($arg),*)
        }
    };
}
pub(crate) use dispatch;

/// The tiles of a weight format on every level: `$scalar` is the definition on the scalar tier; the SIMD tiers
/// compile `$body`, generic over the instruction set `$d` and the number of columns `$c`.
macro_rules! simd_tiles {
    ($scalar:path, |$d:ident, $c:ident, $panel:ident, $k:ident, $t:ident, $out:ident| $body:expr) => {
        |level| {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = $crate::isa::avx2_dot::Avx2Dot::in_feature_region();
                    $body
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn avx512<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = $crate::isa::avx512_dot::Avx512Dot::in_feature_region();
                    $body
                }
                static AVX2: [TileFn; 4] = [avx2::<1>, avx2::<2>, avx2::<3>, avx2::<4>];
                static AVX512: [TileFn; 8] = [
                    avx512::<1>,
                    avx512::<2>,
                    avx512::<3>,
                    avx512::<4>,
                    avx512::<5>,
                    avx512::<6>,
                    avx512::<7>,
                    avx512::<8>,
                ];
                match level {
                    $crate::isa::Level::Avx2 => return &AVX2,
                    $crate::isa::Level::Avx512 => return &AVX512,
                    $crate::isa::Level::Scalar => {}
                }
            }
            let _ = level;
            &[$scalar as TileFn; 4]
        }
    };
}
pub(crate) use simd_tiles;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_scalar_is_always_there() {
        for l in Level::ALL {
            assert_eq!(Level::from_name(l.name()), Some(l));
        }
        assert_eq!(Tier::available()[0], Tier::SCALAR);
        assert!(Tier::best() >= Tier::SCALAR);
    }

    #[test]
    fn f16_conversions_agree_on_every_tier() {
        #[inline(always)]
        fn up<I: Isa>(isa: I, h: &[u16; 16], out: &mut [f32; 16]) {
            *out = isa.f16_to_f32(h);
        }
        #[inline(always)]
        fn down<I: Isa>(isa: I, x: &[f32; 16], out: &mut [u16; 16]) {
            *out = isa.f32_to_f16(x);
        }
        dispatch!(fn up_on => up(h: &[u16; 16], out: &mut [f32; 16]));
        dispatch!(fn down_on => down(x: &[f32; 16], out: &mut [u16; 16]));
        for tier in Tier::available() {
            for base in (0..=u16::MAX).step_by(16) {
                let h: [u16; 16] = std::array::from_fn(|i| base + i as u16);
                let (mut want, mut got) = ([0.0; 16], [0.0; 16]);
                up_on(Tier::SCALAR, &h, &mut want);
                up_on(tier, &h, &mut got);
                let (mut wh, mut gh) = ([0; 16], [0; 16]);
                // A value between this half and the next exercises rounding.
                let mid: [f32; 16] = std::array::from_fn(|i| want[i] * 1.000_3);
                down_on(Tier::SCALAR, &mid, &mut wh);
                down_on(tier, &mid, &mut gh);
                for i in 0..16 {
                    assert!(want[i].to_bits() == got[i].to_bits() || want[i].is_nan() && got[i].is_nan());
                    assert!(wh[i] == gh[i] || mid[i].is_nan(), "{} {:x} {:x}", mid[i], wh[i], gh[i]);
                }
            }
        }
    }
}
