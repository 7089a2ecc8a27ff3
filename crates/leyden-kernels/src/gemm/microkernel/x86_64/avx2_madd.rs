//! Tiles of five and six columns on AVX2 for signed quantised values, on panels unpacked to 16-bit integers, two values
//! of a row per lane.
//!
//! `vpmaddubsw` multiplies unsigned bytes by signed ones. For signed quantised values it needs their magnitudes,
//! `vpsignb` to give the activations the weights' signs, and, because two products fill 16 bits, `vpmaddwd` to widen
//! them: three instructions for 32 products, all on the multiply ports. `vpmaddwd` alone multiplies 16 words and widens
//! them: two instructions. Integer scales are already multiplied into the weights, so 128 products are one sum.

use crate::gemm::format::traits::{A, Block32, QuantFormat, Superblock, SuperblockScales};
use crate::gemm::microkernel::x86_64::avx2_asm::{Chunk, RESULTS, multiply};
use crate::gemm::unpack::stream::prefetch;
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::simd::x86_64::avx2_int::{Avx2Int, V};
use crate::types::PANEL_ROWS;
use std::arch::x86_64::*;

/// Bytes of 16 floats; `BLOCK` is the bytes of 32 quantised values of 16 rows.
const FLOATS: usize = 4 * PANEL_ROWS;
const BLOCK: usize = 2 * 32 * PANEL_ROWS;
/// Bytes of 256 values of a superblock format: `[16]` d, then quantised values.
const OF_256: usize = FLOATS + 8 * BLOCK;

// Bound of a quantised value times a scale, both signed bytes; 128 products of such with activations fit 32 bits.
const WORD: i64 = 128 * 128;
const _: () = assert!(WORD <= i16::MAX as i64 && 128 * WORD * A as i64 <= i32::MAX as i64);

/// Returns the bytes of a panel of a Block32 format of depth `k`: `[k/32][16]` scales, then quantised values; `None` on
/// overflow.
pub(crate) fn block32_bytes(k: usize) -> Option<usize> {
    (k / 32).checked_mul(FLOATS + BLOCK)
}

/// Returns the bytes of a panel of a superblock format of depth `k`; `None` on overflow.
pub(crate) fn superblock_bytes(k: usize) -> Option<usize> {
    (k / 256).checked_mul(OF_256)
}

/// Widens the first and third of each row's four signed quantised values to 16 bits, and the second and fourth.
#[target_feature(enable = "avx2")]
#[inline]
fn widen(quants: V) -> [V; 2] {
    let even = |h: usize| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(quants[h]));
    let odd = |h: usize| _mm256_srai_epi16::<8>(quants[h]);
    [[even(0), even(1)], [odd(0), odd(1)]]
}

/// Writes 32 quantised values of 16 rows, each vector mapped by `factor`.
///
/// # Safety
/// The processor has AVX2; `w` points at the quantised values and `out` at room for [`BLOCK`] bytes.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn block<F: QuantFormat>(d: Avx2Int, w: *const u8, out: *mut u8, factor: impl Fn(V) -> V) {
    for g in 0..4 {
        prefetch::<_, F>(d, w, g, 1);
        // SAFETY: the processor has AVX2 (`# Safety`).
        unsafe {
            let (low, high) = F::pair(d, w, g);
            for (quants, g) in [(low, g), (high, g + 4)] {
                let [even, odd] = widen(quants);
                d.store_codes(factor(even), out.add(2 * g * 64));
                d.store_codes(factor(odd), out.add((2 * g + 1) * 64));
            }
        }
    }
}

/// Unpacks a panel of a Block32 format.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn unpack_block32<F: Block32>(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
    const { assert!(F::SIGNED && !F::MINIMUM) };
    let d = Avx2Int::in_feature_region();
    let (first, stride) = F::scale_bytes(k);
    assert!(panel.len() == first + k / 32 * F::BYTES && block32_bytes(k) == Some(out.len()));
    for b in 0..k / 32 {
        // SAFETY: the lengths checked above cover block b.
        unsafe {
            let (scale, _) = F::scale(d, panel.as_ptr().add(b * stride));
            d.store(scale, out.as_mut_ptr().add(b * FLOATS).cast());
            let to = out.as_mut_ptr().add(k / 32 * FLOATS + b * BLOCK);
            block::<F>(d, panel.as_ptr().add(first + b * F::BYTES), to, |quants| quants);
        }
    }
}

/// Unpacks a panel of a superblock format.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn unpack_superblock<F: Superblock>(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
    const { assert!(F::SIGNED && F::PARTS == 1 && !F::MINIMUM) };
    let d = Avx2Int::in_feature_region();
    assert!(F::panel_bytes(k) == Some(panel.len()) && superblock_bytes(k) == Some(out.len()));
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb.
        unsafe {
            let f: SuperblockScales<Avx2Int> = F::factors(d, panel.as_ptr(), k, sb);
            let to = out.as_mut_ptr().add(sb * OF_256);
            d.store(f.d, to.cast());
            for b in 0..8 {
                let scale = F::scale(d, &f, b);
                let scales = d.pairs(scale, scale, F::SIGNED_SCALES);
                block::<F>(d, f.quants.add(b * F::BYTES), to.add(FLOATS + b * BLOCK), |quants| {
                    [0, 1].map(|h| _mm256_mullo_epi16(quants[h], scales[h]))
                });
            }
        }
    }
}

/// Returns the chunk of 16-bit weights, activations, factors, column scales and results.
fn chunk(w: *const u8, a: *const i16, p: *const u8, by: *const f32, out: &mut [f32]) -> Chunk {
    let out = out.as_mut_ptr().cast();
    let (words, before) = (std::ptr::null(), std::ptr::null());
    Chunk { w, a: a.cast(), words, offset: 0, scales: p, before, p, minima: p, by, out }
}

/// Multiplies a panel of a Block32 format, unpacked by [`unpack_block32`], with `C` columns of a tile;
/// `microkernel::block32` defines the result.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn block32<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let n = k / 32;
    assert!(block32_bytes(k) == Some(panel.len()));
    assert!(t.c == C && out.len() >= C * PANEL_ROWS && t.words.len() == k * C && t.scales.len() == n * C);
    let out = &mut out[..C * PANEL_ROWS];
    out.fill(0.0);
    for b in 0..n {
        // SAFETY: the lengths checked above cover block b of the panel and of the tile, and 16 results of each column.
        unsafe {
            let (p, by) = (panel.as_ptr().add(b * FLOATS), t.scales.as_ptr().add(b * C));
            let w = panel.as_ptr().add(n * FLOATS + b * BLOCK);
            let of = chunk(w, t.words.as_ptr().add(b * 32 * C), p, by, out);
            multiply::<true, C, 16, false, false, false, RESULTS>(of);
        }
    }
}

/// Multiplies a panel of a superblock format, unpacked by [`unpack_superblock`], with `C` columns of a tile;
/// `microkernel::superblock` defines the result.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn superblocks<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let n = k / 128;
    assert!(superblock_bytes(k) == Some(panel.len()));
    assert!(t.c == C && out.len() >= C * PANEL_ROWS && t.words.len() == k * C && t.scales.len() == n * C);
    let out = &mut out[..C * PANEL_ROWS];
    out.fill(0.0);
    for i in 0..n {
        // SAFETY: the lengths checked above cover half i of the panel and of the tile, and 16 results of each column.
        unsafe {
            let (p, by) = (panel.as_ptr().add(i / 2 * OF_256), t.scales.as_ptr().add(i * C));
            let w = p.add(FLOATS + i % 2 * 4 * BLOCK);
            let of = chunk(w, t.words.as_ptr().add(i * 128 * C), p, by, out);
            multiply::<true, C, 64, false, false, false, RESULTS>(of);
        }
    }
}
