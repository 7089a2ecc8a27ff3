//! Tiles of a format on packed panels, compiled for every level and number of tokens; GEMV and small batches use them.

/// Defines the tiles of a weight format on every level, by number of columns minus 1: `$scalar` is the definition on
/// the scalar tier; the SIMD tiers compile `$body`, generic over the instruction set `$d` and the number of columns
/// `$c` in units of [`IntSimd::COLUMNS`](crate::simd::int::IntSimd::COLUMNS). `ints` or `floats` says what is
/// multiplied.
macro_rules! simd_tiles {
    ($kind:ident $scalar:path, |$d:ident, $c:ident, $panel:ident, $k:ident, $t:ident, $out:ident| $body:expr) => {
        |tier: $crate::cpu::isa::Tier| -> &'static [TileFn] {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = $crate::simd::x86_64::avx2_int::Avx2Int::in_feature_region();
                    $body
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn avx512<const $c: usize, const TO_L1: bool>(
                    $panel: &[u8],
                    $k: usize,
                    $t: &Tile<'_>,
                    $out: &mut [f32],
                ) {
                    let $d = $crate::simd::x86_64::avx512_int::Avx512Int::<TO_L1>::in_feature_region();
                    $body
                }
                static AVX2: [TileFn; 6] = [avx2::<1>, avx2::<2>, avx2::<3>, avx2::<4>, avx2::<5>, avx2::<6>];
                const fn avx512_tiles<const TO_L1: bool>() -> [TileFn; 12] {
                    [
                        avx512::<1, TO_L1>,
                        avx512::<2, TO_L1>,
                        avx512::<3, TO_L1>,
                        avx512::<4, TO_L1>,
                        avx512::<5, TO_L1>,
                        avx512::<6, TO_L1>,
                        avx512::<7, TO_L1>,
                        avx512::<8, TO_L1>,
                        avx512::<9, TO_L1>,
                        avx512::<10, TO_L1>,
                        avx512::<11, TO_L1>,
                        avx512::<12, TO_L1>,
                    ]
                }
                static AVX512: [[TileFn; 12]; 2] = [avx512_tiles::<false>(), avx512_tiles::<true>()];
                match tier.level() {
                    $crate::cpu::isa::Level::Avx2 => return &AVX2,
                    $crate::cpu::isa::Level::AvxVnni => {
                        $crate::gemm::registry::tiles::avxvnni_tiles!(
                            $kind,
                            |$d, $c, $panel, $k, $t, $out| $body
                        )
                    }
                    $crate::cpu::isa::Level::Avx512
                    | $crate::cpu::isa::Level::Avx512Bf16
                    | $crate::cpu::isa::Level::Amx => {
                        return &AVX512[usize::from(tier.prefetches_to_l1())];
                    }
                    _ => {}
                }
            }
            #[cfg(target_arch = "aarch64")]
            {
                use $crate::simd::aarch64::neon_int::{NeonInt, Sdot, Widen};
                #[target_feature(enable = "neon")]
                fn neon<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = NeonInt::<Widen, 4>::in_feature_region(0);
                    $body
                }
                #[target_feature(enable = "neon,dotprod")]
                fn dotprod<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = NeonInt::<Sdot, 4>::in_dotprod_region(0);
                    $body
                }
                /// First eight rows, then the other eight: the second time the panel is in L1.
                #[target_feature(enable = "neon,dotprod")]
                fn wide<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    for first in [0, 8] {
                        let $d = NeonInt::<Sdot, 2>::in_dotprod_region(first);
                        $body
                    }
                }
                static NEON: [TileFn; 4] = [neon::<1>, neon::<2>, neon::<3>, neon::<4>];
                static DOTPROD: [TileFn; 8] = [
                    dotprod::<1>,
                    dotprod::<2>,
                    dotprod::<3>,
                    dotprod::<4>,
                    wide::<5>,
                    wide::<6>,
                    wide::<7>,
                    wide::<8>,
                ];
                match tier.level() {
                    $crate::cpu::isa::Level::Neon => return &NEON,
                    $crate::cpu::isa::Level::DotProd => return &DOTPROD,
                    $crate::cpu::isa::Level::I8mm => {
                        $crate::gemm::registry::tiles::i8mm_tiles!($kind, |$d, $c, $panel, $k, $t, $out| {
                            $body
                        })
                    }
                    _ => {}
                }
            }
            let _ = tier;
            &[$scalar as TileFn; 4]
        }
    };
}

pub(crate) use simd_tiles;

/// Defines the tiles of the AVX-VNNI level, inside [`simd_tiles`]. It has none of its own for floats.
#[cfg(target_arch = "x86_64")]
macro_rules! avxvnni_tiles {
    (ints, |$d:ident, $c:ident, $panel:ident, $k:ident, $t:ident, $out:ident| $body:expr) => {{
        #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
        fn avxvnni<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
            let $d = $crate::simd::x86_64::avxvnni_int::AvxVnniInt::in_feature_region();
            $body
        }
        static AVXVNNI: [TileFn; 6] =
            [avxvnni::<1>, avxvnni::<2>, avxvnni::<3>, avxvnni::<4>, avxvnni::<5>, avxvnni::<6>];
        return &AVXVNNI;
    }};
    (floats, $($body:tt)*) => {
        return &AVX2
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) use avxvnni_tiles;

/// Defines the tiles of the I8MM level, inside [`simd_tiles`]: matrix products for an even number of columns, for an
/// odd number the tiles without the extension. It has none of its own for floats.
#[cfg(target_arch = "aarch64")]
macro_rules! i8mm_tiles {
    (ints, |$d:ident, $c:ident, $panel:ident, $k:ident, $t:ident, $out:ident| $body:expr) => {{
        #[target_feature(enable = "neon,dotprod,i8mm")]
        fn i8mm<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
            for first in [0, 8] {
                let $d = $crate::simd::aarch64::i8mm_int::I8mmInt::in_feature_region(first);
                $body
            }
        }
        static I8MM: [TileFn; 8] =
            [dotprod::<1>, i8mm::<1>, dotprod::<3>, i8mm::<2>, wide::<5>, i8mm::<3>, wide::<7>, i8mm::<4>];
        return &I8MM;
    }};
    (floats, $($body:tt)*) => {
        return &DOTPROD
    };
}

#[cfg(target_arch = "aarch64")]
pub(crate) use i8mm_tiles;

/// Defines the SIMD tiles of a format: `NAME` for each instruction set, with the loop of its family.
macro_rules! family_tiles {
    ($scalar:path, block32 $format:ty) => {
        $crate::gemm::registry::tiles::simd_tiles!(ints $scalar, |d, C, panel, k, t, out| {
            $crate::gemm::microkernel::block32::block32::<_, $format, { <$format as QuantFormat>::SIGNED }, C>(
                d, panel, k, t, out,
            )
        })
    };
    ($scalar:path, floats $format:expr) => {
        $crate::gemm::registry::tiles::simd_tiles!(floats $scalar, |d, C, panel, k, t, out| {
            $crate::gemm::microkernel::float::floats::<_, _, C>(d, $format, panel, k, t, out)
        })
    };
    ($scalar:path, superblocks $format:ty) => {
        $crate::gemm::registry::tiles::simd_tiles!(ints $scalar, |d, C, panel, k, t, out| {
            $crate::gemm::microkernel::superblock::superblocks::<
                _,
                $format,
                { <$format as QuantFormat>::SIGNED },
                { <$format as Superblock>::HOW },
                C,
            >(d, panel, k, t, out)
        })
    };
}

pub(crate) use family_tiles;
