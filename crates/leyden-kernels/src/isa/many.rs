//! The kernels of a format for many columns (`matmul::many`), made of its loops for each level that has such.

/// The depth beyond which activations of floats, twelve columns of them, leave no room in a second cache for each of two panels to read
/// them.
#[cfg(target_arch = "x86_64")]
pub(crate) const DEEP: usize = 4096;

/// The kernels of a format for many columns, on one level (`matmul::many`): `$tile` is compiled for the most columns of
/// a tile and one fewer, `$expand` takes a panel apart ahead into `$bytes` bytes where at least `$fewest` tiles meet it, which
/// are what `$tile` reads, or `$apart` where `$tile` reads panels as they are. AVX-512 has registers for the sums of two panels:
/// of all columns with floats, whose chains take turns, and else of half of them beside their totals. Where one unit multiplies, the two take
/// turns: there an activation costs nothing to read for each, and half the sums need half the instructions around them.
macro_rules! simd_many {
    (@expand) => { None };
    (@expand $expand:block) => { Some($expand) };
    (@apart $bytes:expr, $expand:ident, $tiles:expr) => {
        $crate::matmul::many::Expand {
            bytes: $bytes,
            panel: $expand,
            fewest: $crate::matmul::many::FEWEST,
            tiles: $tiles,
        }
    };
    // A tile of two panels by the tile of one, of depths up to `$depth`, of deeper ones by that of two.
    (@in_turn $name:ident, $one:ident, $depth:expr, $two:ident) => {
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
        fn $name<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
            if k > $depth {
                return $two::<C>(panels, k, t, out);
            }
            let (first, second) = panels.split_at(panels.len() / 2);
            $one::<C>(first, k, t, out);
            $one::<C>(second, k, t, &mut out[C * $crate::matmul::format::ROWS..]);
        }
    };
    (avxvnni, $($kernels:tt)*) => {
        $crate::isa::simd_many!(
            @one "avx2,fma,f16c,avxvnni", avxvnni_dot::AvxVnniDot, AvxVnni, FEWEST, [tile::<6>, tile::<5>],
            $($kernels)*
        )
    };
    (@one $features:literal, $file:ident::$token:ident, $level:ident, $fewest:ident, $tiles:expr,
     |$d:ident, $c:ident, $panels:ident, $k:ident, $t:ident, $out:ident| $tile:expr,
     $bytes:expr, |$de:ident, $pe:ident, $ke:ident, $oe:ident, $ne:ident| $expand:expr) => {
        |tier: $crate::isa::Tier| {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::isa::$file::$token;
                #[target_feature(enable = $features)]
                fn tile<const $c: usize>($panels: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = $token::in_feature_region();
                    $tile
                }
                #[target_feature(enable = $features)]
                fn expand($pe: &[u8], $ke: usize, $oe: &mut [u8], $ne: &mut [f32]) {
                    let $de = $token::in_feature_region();
                    $expand
                }
                static KERNELS: $crate::matmul::many::Many = $crate::matmul::many::Many {
                    expand: Some($crate::matmul::many::Expand {
                        bytes: $bytes,
                        panel: expand,
                        fewest: $crate::matmul::many::$fewest,
                        tiles: $tiles,
                    }),
                    panels: 1,
                    tiles: None,
                    any_columns: false,
                };
                if tier.level() == $crate::isa::Level::$level {
                    return Some(&KERNELS);
                }
            }
            let _ = tier;
            None
        }
    };
    (avx512, |$d:ident, $c:ident, $panels:ident, $k:ident, $t:ident, $out:ident| $tile:expr,
     $bytes:expr, |$de:ident, $pe:ident, $ke:ident, $oe:ident, $ne:ident| $expand:expr) => {
        |tier: $crate::isa::Tier| {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::isa::{avx512_dot::Avx512Dot, avx512_pair::Avx512Pair};
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn one<const $c: usize>($panels: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = Avx512Dot::<false>::in_feature_region();
                    $tile
                }
                $crate::isa::simd_many!(@in_turn in_turn, one, usize::MAX, one);
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn some<const $c: usize, const OF: usize>(
                    $panels: &[u8],
                    $k: usize,
                    $t: &Tile<'_>,
                    first: usize,
                    $out: &mut [f32],
                ) {
                    let $d = Avx512Pair::in_feature_region($panels.len() / 2, OF, first);
                    $tile
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn twelve(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    some::<6, 12>(panels, k, t, 0, out);
                    some::<6, 12>(panels, k, t, 6, out);
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn eleven(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    some::<6, 11>(panels, k, t, 0, out);
                    some::<5, 11>(panels, k, t, 6, out);
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn expand($pe: &[u8], $ke: usize, $oe: &mut [u8], $ne: &mut [f32]) {
                    let $de = Avx512Dot::<false>::in_feature_region();
                    $expand
                }
                const fn kernels(tiles: [$crate::matmul::format::TileFn; 2]) -> $crate::matmul::many::Many {
                    $crate::matmul::many::Many {
                        expand: Some($crate::isa::simd_many!(@apart $bytes, expand, tiles)),
                        panels: 2,
                        tiles: None,
                        any_columns: false,
                    }
                }
                static KERNELS: [$crate::matmul::many::Many; 2] =
                    [kernels([twelve, eleven]), kernels([in_turn::<12>, in_turn::<11>])];
                if tier.level().common() == $crate::isa::Level::Avx512 {
                    return Some(&KERNELS[usize::from(tier.one_multiplier())]);
                }
            }
            let _ = tier;
            None
        }
    };
    // Products of sums of a super format that was taken apart for them, where one unit multiplies.
    (mixed $format:ty) => {
        |tier: $crate::isa::Tier| {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::isa::avx512_dot::Avx512Dot;
                use $crate::matmul::expanded::{self, Apart};
                type Mixed = Apart<$format, true>;
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn one<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    $crate::isa::avx512_mixed::superblocks::<Mixed, C>(panels, k, t, out);
                }
                $crate::isa::simd_many!(@in_turn in_turn, one, usize::MAX, one);
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn expand(panel: &[u8], k: usize, out: &mut [u8], norms: &mut [f32]) {
                    let d = Avx512Dot::<false>::in_feature_region();
                    expanded::superblocks::<_, $format, true>(d, panel, k, out, norms);
                }
                static KERNELS: $crate::matmul::many::Many = $crate::matmul::many::Many {
                    expand: Some($crate::isa::simd_many!(
                        @apart <Mixed as $crate::matmul::family::Super>::panel_bytes,
                        expand,
                        [in_turn::<12>, in_turn::<11>]
                    )),
                    panels: 2,
                    tiles: None,
                    any_columns: false,
                };
                if tier.level().common() == $crate::isa::Level::Avx512 && tier.one_multiplier() {
                    return Some(&KERNELS);
                }
            }
            let _ = tier;
            None
        }
    };
    (avx512, |$d:ident, $c:ident, $panels:ident, $k:ident, $t:ident, $out:ident| $tile:expr
     $(, $bytes:expr, |$de:ident, $pe:ident, $ke:ident, $oe:ident| $expand:expr,
     |$da:ident, $ca:ident, $pa:ident, $ka:ident, $ta:ident, $outa:ident| $apart:expr)?) => {
        |tier: $crate::isa::Tier| {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::isa::{DEEP, avx512_dot::Avx512Dot, avx512_pair::Avx512Pair};
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn two<const $c: usize>($panels: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = Avx512Pair::in_feature_region($panels.len() / 2, $c, 0);
                    $tile
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn one<const $c: usize>($panels: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = Avx512Dot::<false>::in_feature_region();
                    $tile
                }
                $crate::isa::simd_many!(@in_turn in_turn, one, DEEP, two);
                $(
                    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                    fn expand($pe: &[u8], $ke: usize, $oe: &mut [u8], _norms: &mut [f32]) {
                        let $de = Avx512Dot::<false>::in_feature_region();
                        $expand
                    }
                    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                    fn two_apart<const $ca: usize>($pa: &[u8], $ka: usize, $ta: &Tile<'_>, $outa: &mut [f32]) {
                        let $da = Avx512Pair::in_feature_region($pa.len() / 2, $ca, 0);
                        $apart
                    }
                    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                    fn one_apart<const $ca: usize>($pa: &[u8], $ka: usize, $ta: &Tile<'_>, $outa: &mut [f32]) {
                        let $da = Avx512Dot::<false>::in_feature_region();
                        $apart
                    }
                    $crate::isa::simd_many!(@in_turn in_turn_apart, one_apart, DEEP, two_apart);
                )?
                static KERNELS: [$crate::matmul::many::Many; 2] = [
                    $crate::matmul::many::Many {
                        expand: $crate::isa::simd_many!(@expand $({
                            $crate::isa::simd_many!(@apart $bytes, expand, [two_apart::<12>, two_apart::<11>])
                        })?),
                        panels: 2,
                        tiles: Some([two::<12>, two::<11>]),
                        any_columns: false,
                    },
                    $crate::matmul::many::Many {
                        expand: $crate::isa::simd_many!(@expand $({
                            $crate::isa::simd_many!(@apart $bytes, expand, [in_turn_apart::<12>, in_turn_apart::<11>])
                        })?),
                        panels: 2,
                        tiles: Some([in_turn::<12>, in_turn::<11>]),
                        any_columns: false,
                    },
                ];
                if tier.level().common() == $crate::isa::Level::Avx512 {
                    return Some(&KERNELS[usize::from(tier.one_multiplier())]);
                }
            }
            let _ = tier;
            None
        }
    };
}
pub(crate) use simd_many;

/// The kernels of a format for many columns on AVX2: `$expand` takes a panel apart ahead into `$bytes` bytes where at least
/// `$fewest` tiles meet it, which is what `$tiles` read.
macro_rules! lanes_many {
    ($fewest:ident, $bytes:expr, $expand:expr, $tiles:expr) => {
        |tier: $crate::isa::Tier| {
            #[cfg(target_arch = "x86_64")]
            {
                static KERNELS: $crate::matmul::many::Many = $crate::matmul::many::Many {
                    expand: Some($crate::matmul::many::Expand {
                        bytes: $bytes,
                        panel: $expand,
                        fewest: $crate::matmul::many::$fewest,
                        tiles: $tiles,
                    }),
                    panels: 1,
                    tiles: None,
                    any_columns: false,
                };
                if tier.level() == $crate::isa::Level::Avx2 {
                    return Some(&KERNELS);
                }
            }
            let _ = tier;
            None
        }
    };
}
pub(crate) use lanes_many;

/// The kernels of a format on a level that multiplies matrices, for any number of columns: `$function` of its file reads what
/// `$expand` writes, `matmul::matrices::$panel`, and `$packed` panels as they are.
macro_rules! matrix_many {
    ($function:ident $packed:ident $panel:ident $format:ty, |$d:ident, $p:ident, $k:ident, $out:ident| $expand:expr) => {
        |tier: $crate::isa::Tier| {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::isa::{amx, avx512_dot::Avx512Dot};
                use $crate::matmul::{many, matrices};
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn expand($p: &[u8], $k: usize, $out: &mut [u8], _norms: &mut [f32]) {
                    let $d = Avx512Dot::<false>::in_feature_region();
                    $expand
                }
                static KERNELS: many::Many = many::Many {
                    expand: Some(many::Expand {
                        bytes: matrices::$panel::<$format>::bytes,
                        panel: expand,
                        fewest: 1,
                        tiles: [amx::$function::<$format>; 2],
                    }),
                    panels: 1,
                    tiles: Some([amx::$packed::<$format>; 2]),
                    any_columns: true,
                };
                if tier.level() == $crate::isa::Level::Amx {
                    return Some(&KERNELS);
                }
            }
            let _ = tier;
            None
        }
    };
}
pub(crate) use matrix_many;
