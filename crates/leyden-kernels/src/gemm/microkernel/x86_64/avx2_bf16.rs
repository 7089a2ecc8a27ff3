//! BF16 on AVX2 for many tokens: panels in which the weights of two consecutive k of a row share a lane.
//!
//! Each conversion to floats then takes one instruction, where packed panels take four: values too small to count are
//! already zero, and no lanes are moved. Panels are interleaved once for all tiles.

use crate::gemm::format::traits::FloatFormat;
use crate::gemm::microkernel::float::floats;
use crate::gemm::microkernel::kernels::{GemmKernels, Level, UnpackKernel, Variant};
use crate::gemm::unpack::panel::pair_bytes;
use crate::quant::min_tiles::MIN_TILES_AVX2;
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::simd::x86_64::avx2_int::{Avx2Int, with};
use crate::simd::x86_64::common::flush_small_bf16;
use crate::types::PANEL_ROWS;
use std::arch::asm;
use std::arch::x86_64::*;

/// Pairs of weights written by [`interleave`].
#[derive(Clone, Copy)]
struct Interleaved;

impl FloatFormat<Avx2Int> for Interleaved {
    const SIZE: usize = 2;
    const DEPTH: usize = 2;

    // The last weights of an odd depth are paired with zeros.
    const PADDED: bool = true;

    #[inline(always)]
    unsafe fn step<const WHOLE: bool, const C: usize>(
        self,
        d: Avx2Int,
        w: *const u8,
        x: *const f32,
        y: &mut [[__m256; 2]; C],
    ) {
        // SAFETY: the trait method's `# Safety`; there is a second k if the step is whole.
        unsafe {
            if WHOLE {
                d.fma_columns(second(w), x.add(C), y);
            }
            d.fma_columns(first(w), x, y);
        }
    }
}

/// Converts the weights of the first k.
///
/// # Safety
/// The processor has AVX2; `w` points at pairs of weights of 16 rows.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn first(w: *const u8) -> [__m256; 2] {
    let (low, high): (__m256, __m256);
    // In assembly, because the compiler would keep the loaded values for the second k in registers that are already
    // taken.
    // SAFETY: the processor has AVX2 (`# Safety`).
    unsafe {
        asm!(
            "vmovdqu {low}, ymmword ptr [{w}]",
            "vmovdqu {high}, ymmword ptr [{w} + 32]",
            "vpslld {low}, {low}, 16",
            "vpslld {high}, {high}, 16",
            w = in(reg) w,
            low = out(ymm_reg) low,
            high = out(ymm_reg) high,
            options(readonly, nostack, preserves_flags)
        );
    }
    [low, high]
}

/// Converts the weights of the second k.
///
/// # Safety
/// As in [`first`].
#[inline(always)]
unsafe fn second(w: *const u8) -> [__m256; 2] {
    // SAFETY: as in `first` (`# Safety`).
    unsafe {
        let upper = _mm256_set1_epi32(!0xffff);
        [0, 1].map(|half| {
            _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(w.cast::<__m256i>().add(half)), upper))
        })
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn tile<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    floats::<_, _, C>(Avx2Int::in_feature_region(), Interleaved, panel, k, t, out);
}

/// Interleaves a panel for [`Interleaved`].
#[target_feature(enable = "avx2,fma,f16c")]
fn interleave(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
    const OF_K: usize = PANEL_ROWS * 2;
    assert!(panel.len() == k * OF_K && Some(out.len()) == pair_bytes(k));
    let (pairs, _) = out.as_chunks_mut::<{ 2 * OF_K }>();
    for (two, to) in panel.chunks(2 * OF_K).zip(pairs) {
        let (first, second) = two.split_at(OF_K);
        // SAFETY: both are the weights of one k or zeros, and the output has room for two.
        with!({
            let first = flush_small_bf16(first.as_ptr().cast::<__m256i>().read_unaligned());
            let second = match second.len() {
                OF_K => flush_small_bf16(second.as_ptr().cast::<__m256i>().read_unaligned()),
                _ => _mm256_setzero_si256(),
            };
            // Rows 0 to 3 and 8 to 11, and the others.
            let (low, high) = (_mm256_unpacklo_epi16(first, second), _mm256_unpackhi_epi16(first, second));
            let to = to.as_mut_ptr().cast::<__m256i>();
            to.write_unaligned(_mm256_permute2x128_si256::<0x20>(low, high));
            to.add(1).write_unaligned(_mm256_permute2x128_si256::<0x31>(low, high));
        });
    }
}

/// Kernels for the levels that multiply floats by AVX2.
pub(crate) static MANY: GemmKernels = GemmKernels::unpacked(
    Variant::Interleaved,
    &[Level::Avx2, Level::AvxVnni],
    6,
    1,
    UnpackKernel {
        bytes: pair_bytes,
        panel: interleave,
        min_tiles: MIN_TILES_AVX2,
        tiles: [tile::<6>, tile::<5>],
    },
);
