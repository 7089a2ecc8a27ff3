//! Tiles of five and six columns on AVX2 for signed codes, of panels that were taken apart as integers of 16 bits, two of a row in a
//! lane.
//!
//! `vpmaddubsw` multiplies bytes without sign by bytes with one. Of signed ones it takes magnitudes, and `vpsignb` to give the
//! activations the weights' signs, and as two products fill 16 bits, `vpmaddwd` to widen them: three instructions for 32
//! products, all of which share the multiply ports. `vpmaddwd` alone multiplies 16 words and widens them: two. Integer scales are factors of
//! the codes already, and 128 products so one sum.

use super::avx2_chunk::{Chunk, RESULTS, multiply};
use super::avx2_dot::{Avx2Dot, V};
use super::dot::Dot;
use crate::activations::Tile;
use crate::matmul::family::{A, Codes, Factors, Simple, Super};
use crate::matmul::format::ROWS;
use crate::matmul::stream::prefetch;
use std::arch::x86_64::*;

/// Bytes of 16 floats, and of 32 codes of 16 rows.
const FLOATS: usize = 4 * ROWS;
const BLOCK: usize = 2 * 32 * ROWS;
/// Bytes of 256 values of a super format: `[16]` d, and codes.
const OF_256: usize = FLOATS + 8 * BLOCK;

// Codes times scales, both of them signed bytes, and the sum of 128 products of theirs.
const WORD: i64 = 128 * 128;
const _: () = assert!(WORD <= i16::MAX as i64 && 128 * WORD * A as i64 <= i32::MAX as i64);

/// Bytes of a panel of a simple format of depth `k`, `[k/32][16]` scales and then codes; `None` on overflow.
pub(crate) fn simple_bytes(k: usize) -> Option<usize> {
    (k / 32).checked_mul(FLOATS + BLOCK)
}

/// Bytes of a panel of a super format of depth `k`; `None` on overflow.
pub(crate) fn super_bytes(k: usize) -> Option<usize> {
    (k / 256).checked_mul(OF_256)
}

/// The first and third of each row's four signed codes as two of 16 bits, and the second and fourth.
#[target_feature(enable = "avx2")]
#[inline]
fn widen(codes: V) -> [V; 2] {
    let even = |h: usize| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(codes[h]));
    let odd = |h: usize| _mm256_srai_epi16::<8>(codes[h]);
    [[even(0), even(1)], [odd(0), odd(1)]]
}

/// Writes the codes of 32 values of 16 rows, as what `factor` makes of them.
///
/// # Safety
/// The processor has AVX2; `w` points at the codes and `out` at room for [`BLOCK`] bytes.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn block<F: Codes>(d: Avx2Dot, w: *const u8, out: *mut u8, factor: impl Fn(V) -> V) {
    for g in 0..4 {
        prefetch::<_, F>(d, w, g, 1);
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) = F::pair(d, w, g);
            for (codes, g) in [(low, g), (high, g + 4)] {
                let [even, odd] = widen(codes);
                d.store_codes(factor(even), out.add(2 * g * 64));
                d.store_codes(factor(odd), out.add((2 * g + 1) * 64));
            }
        }
    }
}

/// Takes a panel of a simple format apart.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn expand_simple<F: Simple>(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
    const { assert!(F::SIGNED && !F::MINIMUM) };
    let d = Avx2Dot::in_feature_region();
    let (first, stride) = F::scale_bytes(k);
    assert!(panel.len() == first + k / 32 * F::BYTES && simple_bytes(k) == Some(out.len()));
    for b in 0..k / 32 {
        // SAFETY: the lengths checked above cover block b.
        unsafe {
            let (scale, _) = F::scale(d, panel.as_ptr().add(b * stride));
            d.store(scale, out.as_mut_ptr().add(b * FLOATS).cast());
            let to = out.as_mut_ptr().add(k / 32 * FLOATS + b * BLOCK);
            block::<F>(d, panel.as_ptr().add(first + b * F::BYTES), to, |codes| codes);
        }
    }
}

/// Takes a panel of a super format apart.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn expand_super<F: Super>(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
    const { assert!(F::SIGNED && F::PARTS == 1 && !F::MINIMUM) };
    let d = Avx2Dot::in_feature_region();
    assert!(F::panel_bytes(k) == Some(panel.len()) && super_bytes(k) == Some(out.len()));
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb.
        unsafe {
            let f: Factors<Avx2Dot> = F::factors(d, panel.as_ptr(), k, sb);
            let to = out.as_mut_ptr().add(sb * OF_256);
            d.store(f.d, to.cast());
            for b in 0..8 {
                let scale = F::scale(d, &f, b);
                let scales = d.pairs(scale, scale, F::SIGNED_SCALES);
                block::<F>(d, f.codes.add(b * F::BYTES), to.add(FLOATS + b * BLOCK), |codes| {
                    [0, 1].map(|h| _mm256_mullo_epi16(codes[h], scales[h]))
                });
            }
        }
    }
}

/// What there is of a chunk of words: codes, activations, factors, the columns' scales and results.
fn chunk(w: *const u8, a: *const i16, p: *const u8, by: *const f32, out: &mut [f32]) -> Chunk {
    let out = out.as_mut_ptr().cast();
    let (words, before) = (std::ptr::null(), std::ptr::null());
    Chunk { w, a: a.cast(), words, offset: 0, scales: p, before, p, minima: p, by, out }
}

/// A panel of a simple format, taken apart by [`expand_simple`], times `C` columns of a tile: what `family::simple` computes.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn simple<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let n = k / 32;
    assert!(simple_bytes(k) == Some(panel.len()));
    assert!(t.c == C && out.len() >= C * ROWS && t.words.len() == k * C && t.scales.len() == n * C);
    let out = &mut out[..C * ROWS];
    out.fill(0.0);
    for b in 0..n {
        // SAFETY: the lengths checked above cover block b of the panel and of the tile, and sixteen results of each column.
        unsafe {
            let (p, by) = (panel.as_ptr().add(b * FLOATS), t.scales.as_ptr().add(b * C));
            let w = panel.as_ptr().add(n * FLOATS + b * BLOCK);
            let of = chunk(w, t.words.as_ptr().add(b * 32 * C), p, by, out);
            multiply::<true, C, 16, false, false, false, RESULTS>(of);
        }
    }
}

/// A panel of a super format, taken apart by [`expand_super`], times `C` columns of a tile: what `family::superblocks` computes.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn superblocks<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let n = k / 128;
    assert!(super_bytes(k) == Some(panel.len()));
    assert!(t.c == C && out.len() >= C * ROWS && t.words.len() == k * C && t.scales.len() == n * C);
    let out = &mut out[..C * ROWS];
    out.fill(0.0);
    for i in 0..n {
        // SAFETY: the lengths checked above cover half i of the panel and of the tile, and sixteen results of each column.
        unsafe {
            let (p, by) = (panel.as_ptr().add(i / 2 * OF_256), t.scales.as_ptr().add(i * C));
            let w = p.add(FLOATS + i % 2 * 4 * BLOCK);
            let of = chunk(w, t.words.as_ptr().add(i * 128 * C), p, by, out);
            multiply::<true, C, 64, false, false, false, RESULTS>(of);
        }
    }
}
