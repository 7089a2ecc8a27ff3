//! Macros for the rows of the registry: the kernels of one format, level and variant, compiled for the level.
//!
//! `rows!(VARIANT LEVEL MR x PANELS, MIN_TILES, FAMILY FORMAT)` expands to `&[GemmKernels]`, empty on other
//! architectures. Tiles of MR and of MR - 1 tokens are compiled, the sizes into which many tokens are divided.

/// Depth beyond which the float activations of a full tile do not stay in L2 while two panels read them in turn.
#[cfg(target_arch = "x86_64")]
pub(crate) const DEEP: usize = 4096;

/// Returns the unpacking that decodes panels once for all tiles of a batch.
#[cfg(target_arch = "x86_64")]
pub(crate) const fn decoded_panels(
    min_tiles: usize,
    tiles: [crate::gemm::microkernel::kernels::TileFn; 2],
) -> crate::gemm::microkernel::kernels::UnpackKernel {
    crate::gemm::microkernel::kernels::UnpackKernel {
        bytes: crate::gemm::unpack::panel::float_bytes,
        panel: |panel, k, out, _| crate::gemm::format::decoded::decode(panel, k, out),
        min_tiles,
        tiles,
    }
}

/// Compiles functions for AVX-512.
#[cfg(target_arch = "x86_64")]
macro_rules! avx512 {
    ($($function:item)*) => {
        $(#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")] $function)*
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512;

/// Defines a tile of two panels that runs the tile of one panel twice; beyond depth `$depth` it runs the tile of two.
#[cfg(target_arch = "x86_64")]
macro_rules! panel_by_panel {
    ($name:ident, $one:ident, $depth:expr, $two:ident) => {
        $crate::gemm::registry::rows::avx512! {
            fn $name<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                if k > $depth {
                    return $two::<C>(panels, k, t, out);
                }
                let (first, second) = panels.split_at(panels.len() / 2);
                $one::<C>(first, k, t, out);
                $one::<C>(second, k, t, &mut out[C * $crate::types::PANEL_ROWS..]);
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use panel_by_panel;

/// Selects the microkernel of a family on unpacked panels, the unpacking, and the bytes of an unpacked panel.
#[cfg(target_arch = "x86_64")]
macro_rules! unpacked {
    (tile block32 $f:path, $d:ident, $c:ident, $panels:ident, $k:ident, $t:ident, $out:ident) => {
        $crate::gemm::microkernel::block32::block32::<
            _,
            $crate::gemm::unpack::panel::Unpacked<$f>,
            { <$f as QuantFormat>::SIGNED },
            $c,
        >($d, $panels, $k, $t, $out)
    };
    (tile superblocks $f:path, $d:ident, $c:ident, $panels:ident, $k:ident, $t:ident, $out:ident) => {
        $crate::gemm::microkernel::superblock::superblocks::<
            _,
            $crate::gemm::unpack::panel::Unpacked<$f>,
            { <$f as QuantFormat>::SIGNED },
            { <$f as Superblock>::HOW },
            $c,
        >($d, $panels, $k, $t, $out)
    };
    (unpack block32 $f:path, $d:ident, $panel:ident, $k:ident, $out:ident, $norms:ident) => {{
        let _ = $norms;
        $crate::gemm::unpack::panel::block32::<_, $f>($d, $panel, $k, $out)
    }};
    (unpack superblocks $f:path, $d:ident, $panel:ident, $k:ident, $out:ident, $norms:ident) => {
        $crate::gemm::unpack::panel::superblocks::<_, $f, false>($d, $panel, $k, $out, $norms)
    };
    (bytes block32 $f:path) => {
        $crate::gemm::unpack::panel::block32_bytes::<$f>
    };
    (bytes superblocks $f:path) => {
        <$crate::gemm::unpack::panel::Unpacked<$f> as Superblock>::panel_bytes
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use unpacked;

/// Expands to `$rows` on x86-64, and to none elsewhere.
macro_rules! x86_rows {
    ($rows:block) => {{
        #[cfg(target_arch = "x86_64")]
        const ROWS: &[$crate::gemm::microkernel::kernels::GemmKernels] = {
            use $crate::gemm::microkernel::kernels::*;
            $rows
        };
        #[cfg(not(target_arch = "x86_64"))]
        const ROWS: &[$crate::gemm::microkernel::kernels::GemmKernels] = &[];
        ROWS
    }};
}
pub(crate) use x86_rows;

/// Expands a row of the registry to its kernels.
macro_rules! rows {
    // The registers hold the sums of two panels: of half the tokens, beside their totals. With a single multiply port
    // the panels are processed in turn: there loading an activation for each costs nothing, and half the sums need half
    // the instructions around them.
    (unpacked Avx512 $mr:literal x $panels:literal, $min:literal, $family:ident $f:path) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::registry::rows::{avx512, panel_by_panel, unpacked};
            use $crate::simd::x86_64::avx512_int::Avx512Int;
            use $crate::simd::x86_64::avx512_pair::Avx512Pair;
            const HALF: usize = $mr / 2;
            const LESS: usize = $mr - 1;
            avx512! {
                fn one<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    let d = Avx512Int::<false>::in_feature_region();
                    unpacked!(tile $family $f, d, C, panels, k, t, out)
                }
                fn some<const C: usize, const OF: usize>(panels: &[u8], k: usize, t: &Tile<'_>, first: usize, out: &mut [f32]) {
                    let d = Avx512Pair::in_feature_region(panels.len() / 2, OF, first);
                    unpacked!(tile $family $f, d, C, panels, k, t, out)
                }
                fn paired(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    some::<HALF, $mr>(panels, k, t, 0, out);
                    some::<HALF, $mr>(panels, k, t, HALF, out);
                }
                fn paired_less(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    some::<HALF, LESS>(panels, k, t, 0, out);
                    some::<{ LESS - HALF }, LESS>(panels, k, t, HALF, out);
                }
                fn unpack(panel: &[u8], k: usize, out: &mut [u8], norms: &mut [f32]) {
                    let d = Avx512Int::<false>::in_feature_region();
                    unpacked!(unpack $family $f, d, panel, k, out, norms)
                }
            }
            panel_by_panel!(panel_by_panel, one, usize::MAX, one);
            const fn row(port: Port, tiles: [TileFn; 2]) -> GemmKernels {
                let unpack = UnpackKernel { bytes: unpacked!(bytes $family $f), panel: unpack, min_tiles: $min, tiles };
                GemmKernels::unpacked(Variant::Unpacked, AVX512_LEVELS, $mr, $panels, unpack).on(port)
            }
            &[row(Port::Two, [paired, paired_less]), row(Port::Single, [panel_by_panel::<$mr>, panel_by_panel::<LESS>])]
        })
    };
    (unpacked AvxVnni $mr:literal x $panels:literal, $min:literal, $family:ident $f:path) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::registry::rows::unpacked;
            use $crate::simd::x86_64::avxvnni_int::AvxVnniInt;
            #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
            fn tile<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                let d = AvxVnniInt::in_feature_region();
                unpacked!(tile $family $f, d, C, panels, k, t, out)
            }
            #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
            fn unpack(panel: &[u8], k: usize, out: &mut [u8], norms: &mut [f32]) {
                let d = AvxVnniInt::in_feature_region();
                unpacked!(unpack $family $f, d, panel, k, out, norms)
            }
            const UNPACK: UnpackKernel = UnpackKernel {
                bytes: unpacked!(bytes $family $f),
                panel: unpack,
                min_tiles: $min,
                tiles: [tile::<$mr>, tile::<{ $mr - 1 }>],
            };
            &[GemmKernels::unpacked(Variant::Unpacked, &[Level::AvxVnni], $mr, $panels, UNPACK)]
        })
    };
    // Winograd's inner product, for processors with a single multiply port.
    (winograd Avx512 $mr:literal x $panels:literal, $min:literal, superblocks $f:path) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::microkernel::x86_64::avx512_winograd;
            use $crate::gemm::registry::rows::{avx512, panel_by_panel};
            use $crate::gemm::unpack::panel::{self, Unpacked};
            use $crate::simd::x86_64::avx512_int::Avx512Int;
            type Winograd = Unpacked<$f, true>;
            avx512! {
                fn one<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    avx512_winograd::superblocks::<Winograd, C>(panels, k, t, out);
                }
                fn unpack(panel: &[u8], k: usize, out: &mut [u8], norms: &mut [f32]) {
                    let d = Avx512Int::<false>::in_feature_region();
                    panel::superblocks::<_, $f, true>(d, panel, k, out, norms);
                }
            }
            panel_by_panel!(panel_by_panel, one, usize::MAX, one);
            const UNPACK: UnpackKernel = UnpackKernel {
                bytes: <Winograd as Superblock>::panel_bytes,
                panel: unpack,
                min_tiles: $min,
                tiles: [panel_by_panel::<$mr>, panel_by_panel::<{ $mr - 1 }>],
            };
            // The batch holds the corrections of activations from this number of tiles on.
            const _: () = assert!($min >= $crate::quant::min_tiles::MIN_TILES);
            &[GemmKernels::unpacked(Variant::Winograd, AVX512_LEVELS, $mr, $panels, UNPACK).on(Port::Single)]
        })
    };
    // Floats: chains of all tokens of two panels take turns in registers, on packed panels and, from `$min` tiles on,
    // on panels unpacked to f32.
    (floats Avx512 $mr:literal x $panels:literal, $min:literal, $f:path $(, $wide:path)?) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::microkernel::float::floats;
            use $crate::gemm::registry::rows::{DEEP, avx512, panel_by_panel};
            use $crate::simd::x86_64::avx512_int::Avx512Int;
            use $crate::simd::x86_64::avx512_pair::Avx512Pair;
            avx512! {
                fn two<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    let d = Avx512Pair::in_feature_region(panels.len() / 2, C, 0);
                    floats::<_, _, C>(d, $f, panels, k, t, out)
                }
                fn one<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    let d = Avx512Int::<false>::in_feature_region();
                    floats::<_, _, C>(d, $f, panels, k, t, out)
                }
            }
            panel_by_panel!(panel_by_panel, one, DEEP, two);
            const PACKED: [GemmKernels; 2] = [
                GemmKernels::packed(AVX512_LEVELS, $mr, $panels, [two::<$mr>, two::<{ $mr - 1 }>]).on(Port::Two),
                GemmKernels::packed(AVX512_LEVELS, $mr, $panels, [panel_by_panel::<$mr>, panel_by_panel::<{ $mr - 1 }>]).on(Port::Single),
            ];
            $crate::gemm::registry::rows::rows!(@wide PACKED, $mr, $min, $f $(, $wide)?)
        })
    };
    (@wide $packed:ident, $mr:literal, $min:literal, $f:path) => {
        &$packed
    };
    (@wide $packed:ident, $mr:literal, $min:literal, $f:path, $wide:path) => {{
        avx512! {
            fn unpack(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
                let d = Avx512Int::<false>::in_feature_region();
                $crate::gemm::unpack::panel::floats(d, $f, panel, k, out)
            }
            fn two_wide<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                let d = Avx512Pair::in_feature_region(panels.len() / 2, C, 0);
                floats::<_, _, C>(d, $wide, panels, k, t, out)
            }
            fn one_wide<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                let d = Avx512Int::<false>::in_feature_region();
                floats::<_, _, C>(d, $wide, panels, k, t, out)
            }
        }
        panel_by_panel!(panel_by_panel_wide, one_wide, DEEP, two_wide);
        const fn from(tiles: [TileFn; 2]) -> UnpackKernel {
            UnpackKernel { bytes: $crate::gemm::unpack::panel::float_bytes, panel: unpack, min_tiles: $min, tiles }
        }
        &[
            $packed[0].and_unpacked(from([two_wide::<$mr>, two_wide::<{ $mr - 1 }>])),
            $packed[1].and_unpacked(from([panel_by_panel_wide::<$mr>, panel_by_panel_wide::<{ $mr - 1 }>])),
        ]
    }};
    // Panels decoded to f32, then multiplied as floats.
    (decoded Avx512 $mr:literal x $panels:literal, $min:literal) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::microkernel::float::floats;
            use $crate::gemm::registry::rows::{DEEP, avx512, panel_by_panel};
            use $crate::simd::x86_64::avx512_int::Avx512Int;
            use $crate::simd::x86_64::avx512_pair::Avx512Pair;
            avx512! {
                fn two<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    let d = Avx512Pair::in_feature_region(panels.len() / 2, C, 0);
                    floats::<_, _, C>(d, F32Row, panels, k, t, out)
                }
                fn one<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                    let d = Avx512Int::<false>::in_feature_region();
                    floats::<_, _, C>(d, F32Row, panels, k, t, out)
                }
            }
            panel_by_panel!(panel_by_panel, one, DEEP, two);
            const fn row(port: Port, tiles: [TileFn; 2]) -> GemmKernels {
                let unpack = $crate::gemm::registry::rows::decoded_panels($min, tiles);
                GemmKernels::unpacked(Variant::Unpacked, AVX512_LEVELS, $mr, $panels, unpack).on(port)
            }
            &[
                row(Port::Two, [two::<$mr>, two::<{ $mr - 1 }>]),
                row(Port::Single, [panel_by_panel::<$mr>, panel_by_panel::<{ $mr - 1 }>]),
            ]
        })
    };
    (decoded Avx2 $mr:literal x $panels:literal, $min:literal) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::microkernel::float::floats;
            use $crate::simd::x86_64::avx2_int::Avx2Int;
            #[target_feature(enable = "avx2,fma,f16c")]
            fn tile<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
                let d = Avx2Int::in_feature_region();
                floats::<_, _, C>(d, F32Row, panels, k, t, out)
            }
            const UNPACK: UnpackKernel =
                $crate::gemm::registry::rows::decoded_panels($min, [tile::<$mr>, tile::<{ $mr - 1 }>]);
            &[GemmKernels::unpacked(Variant::Unpacked, &[Level::Avx2, Level::AvxVnni], $mr, $panels, UNPACK)]
        })
    };
    // `vpmaddubsw`: unsigned quantised values, two 16-bit sums per lane.
    (maddubs Avx2 $mr:literal x $panels:literal, $min:literal, block32 $f:path) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::microkernel::x86_64::avx2_maddubs::{block32, unpack_block32};
            const UNPACK: UnpackKernel = UnpackKernel {
                bytes: $crate::gemm::unpack::panel::block32_bytes::<$f>,
                panel: unpack_block32::<$f>,
                min_tiles: $min,
                tiles: [block32::<$f, $mr>, block32::<$f, { $mr - 1 }>],
            };
            const _: () = assert!($min >= $crate::quant::min_tiles::MIN_TILES_WITHOUT_REGISTERS);
            &[GemmKernels::unpacked(Variant::Maddubs, &[Level::Avx2], $mr, $panels, UNPACK)]
        })
    };
    (maddubs Avx2 $mr:literal x $panels:literal, $min:literal, superblocks $f:path) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::microkernel::x86_64::avx2_maddubs::{Lanes, superblocks, unpack_superblock};
            const UNPACK: UnpackKernel = UnpackKernel {
                bytes: Lanes::<$f>::bytes,
                panel: unpack_superblock::<$f>,
                min_tiles: $min,
                tiles: [superblocks::<$f, $mr>, superblocks::<$f, { $mr - 1 }>],
            };
            const _: () = assert!($min >= $crate::quant::min_tiles::MIN_TILES_WITHOUT_REGISTERS);
            &[GemmKernels::unpacked(Variant::Maddubs, &[Level::Avx2], $mr, $panels, UNPACK)]
        })
    };
    // `vpmaddwd`: signed quantised values as 16-bit integers.
    (madd Avx2 $mr:literal x $panels:literal, $min:literal, block32 $f:path) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::microkernel::x86_64::avx2_madd::{block32, block32_bytes, unpack_block32};
            const UNPACK: UnpackKernel = UnpackKernel {
                bytes: block32_bytes,
                panel: unpack_block32::<$f>,
                min_tiles: $min,
                tiles: [block32::<$mr>, block32::<{ $mr - 1 }>],
            };
            const _: () = assert!($min >= $crate::quant::min_tiles::MIN_TILES_AVX2);
            &[GemmKernels::unpacked(Variant::Madd, &[Level::Avx2], $mr, $panels, UNPACK)]
        })
    };
    (madd Avx2 $mr:literal x $panels:literal, $min:literal, superblocks $f:path) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::microkernel::x86_64::avx2_madd::{superblock_bytes, superblocks, unpack_superblock};
            const UNPACK: UnpackKernel = UnpackKernel {
                bytes: superblock_bytes,
                panel: unpack_superblock::<$f>,
                min_tiles: $min,
                tiles: [superblocks::<$mr>, superblocks::<{ $mr - 1 }>],
            };
            const _: () = assert!($min >= $crate::quant::min_tiles::MIN_TILES_AVX2);
            &[GemmKernels::unpacked(Variant::Madd, &[Level::Avx2], $mr, $panels, UNPACK)]
        })
    };
    // AMX, for tiles of any number of tokens: panels are unpacked once for several tiles, or part by part for a single
    // tile.
    (amx Amx $mr:literal x $panels:literal, $min:literal, block32 $f:path) => {
        $crate::gemm::registry::rows::rows!(@amx $mr, $panels, $min, amx_block32 block32 packed_block32 AmxBlocks 32 $f)
    };
    (amx Amx $mr:literal x $panels:literal, $min:literal, superblocks $f:path) => {
        $crate::gemm::registry::rows::rows!(
            @amx $mr, $panels, $min, amx_superblock superblocks packed_superblocks AmxPlanes 256 $f
        )
    };
    (@amx $mr:literal, $panels:literal, $min:literal,
     $file:ident $function:ident $packed:ident $panel:ident $block:literal $f:path) => {
        $crate::gemm::registry::rows::x86_rows!({
            use $crate::gemm::microkernel::x86_64::$file;
            use $crate::gemm::registry::rows::avx512;
            use $crate::gemm::unpack::amx_planes;
            use $crate::simd::x86_64::avx512_int::Avx512Int;
            avx512! {
                fn unpack(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
                    let d = Avx512Int::<false>::in_feature_region();
                    amx_planes::$function::<_, $f>(d, panel, k, 0..k / $block, out)
                }
            }
            const UNPACK: UnpackKernel = UnpackKernel {
                bytes: amx_planes::$panel::<$f>::bytes,
                panel: unpack,
                min_tiles: $min,
                tiles: [$file::$function::<$f>; 2],
            };
            const PACKED: [TileFn; 2] = [$file::$packed::<$f>; 2];
            &[GemmKernels::any_tokens(Variant::Amx, &[Level::Amx], $mr, $panels, PACKED, UNPACK)]
        })
    };
}
pub(crate) use rows;
