//! AVX-512 VNNI tiles: 16 rows in one register, one to eight columns, activations as embedded broadcasts.
//!
//! `vpdpbusd` multiplies unsigned weights with signed activations and adds four products without saturation,
//! so weights are offset to unsigned (Q8_0 by 128) and the offset leaves through the sums of activations.

use super::avx2_matmul::{check, scales_mins};
use crate::activations::Tile;
use crate::matmul::format::{ROWS, TileFn, q4_k, q6_k, scales_bytes};
use std::arch::x86_64::*;

macro_rules! widths {
    ($name:ident, $tile:ident) => {
        pub(crate) static $name: [TileFn; 8] =
            [$tile::<1>, $tile::<2>, $tile::<3>, $tile::<4>, $tile::<5>, $tile::<6>, $tile::<7>, $tile::<8>];
    };
}
widths!(F32, f32);
widths!(F16, f16);
widths!(BF16, bf16);
widths!(Q4_0, q4_0);
widths!(Q8_0, q8_0);
widths!(Q4_K, q4_k);
widths!(Q6_K, q6_k);

/// See the AVX2 tiles.
const AHEAD: usize = 2048;

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn load(p: *const u8) -> __m512i {
    // SAFETY: the caller gives 64 readable bytes.
    unsafe { _mm512_loadu_si512(p.cast()) }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn word(p: *const i8) -> __m512i {
    // SAFETY: the caller gives 4 readable bytes.
    _mm512_set1_epi32(unsafe { p.cast::<i32>().read_unaligned() })
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn halves(p: *const u8) -> __m512 {
    // SAFETY: the caller gives 32 readable bytes.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
}

/// Sixteen bfloat16 at `p`.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn brain_floats(p: *const u8) -> __m512 {
    // SAFETY: the caller gives 32 readable bytes.
    let h = unsafe { _mm256_loadu_si256(p.cast()) };
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(h)))
}

/// Bytes of 16 rows from each of two vectors, as 16-bit pairs per row.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn interleave(a: __m128i, b: __m128i) -> __m256i {
    _mm256_set_m128i(_mm_unpackhi_epi8(a, b), _mm_unpacklo_epi8(a, b))
}

/// Sums of one block of 32 nibble codes, from `start`.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn nibble_block<const C: usize>(w: *const u8, a: *const i8, start: [__m512i; C]) -> [__m512i; C] {
    let mask = _mm512_set1_epi8(15);
    let mut s = start;
    for g in 0..4 {
        // SAFETY: the caller gives 256 bytes of codes and 32 * C activations.
        unsafe {
            if C <= 2 {
                _mm_prefetch::<_MM_HINT_T0>(w.wrapping_add(g * 64 + AHEAD).cast());
            }
            let v = load(w.add(g * 64));
            let low = _mm512_and_si512(v, mask);
            let high = _mm512_and_si512(_mm512_srli_epi16::<4>(v), mask);
            for c in 0..C {
                s[c] = _mm512_dpbusd_epi32(s[c], low, word(a.add((g * C + c) * 4)));
            }
            for c in 0..C {
                s[c] = _mm512_dpbusd_epi32(s[c], high, word(a.add(((g + 4) * C + c) * 4)));
            }
        }
    }
    s
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn store<const C: usize>(y: &[__m512; C], out: &mut [f32]) {
    for (c, y) in y.iter().enumerate() {
        // SAFETY: the caller's out holds C * 16 values (checked at the tile's start).
        unsafe { _mm512_storeu_ps(out.as_mut_ptr().add(c * ROWS), *y) };
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn q4_0<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let first = scales_bytes(k / 32).unwrap_or(0);
    check(panel.len(), first.checked_add(k / 32 * 256), t, k, C, out);
    let mut y = [_mm512_setzero_ps(); C];
    for b in 0..k / 32 {
        // SAFETY: the lengths checked above cover block b of the panel and of the tile.
        unsafe {
            let mut start = [_mm512_setzero_si512(); C];
            for c in 0..C {
                start[c] = _mm512_set1_epi32(t.sums.get_unchecked(b * C + c).wrapping_mul(-8));
            }
            let w = panel.as_ptr().add(first + b * 256);
            let s = nibble_block::<C>(w, t.codes.as_ptr().add(b * 32 * C), start);
            let d = halves(panel.as_ptr().add(b * 32));
            for c in 0..C {
                let da = _mm512_set1_ps(*t.scales.get_unchecked(b * C + c));
                y[c] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(s[c]), d), da, y[c]);
            }
        }
    }
    // SAFETY: out holds C * 16 values.
    unsafe { store(&y, out) };
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn q8_0<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let first = scales_bytes(k / 32).unwrap_or(0);
    check(panel.len(), first.checked_add(k / 32 * 512), t, k, C, out);
    let flip = _mm512_set1_epi8(i8::MIN);
    let mut y = [_mm512_setzero_ps(); C];
    for b in 0..k / 32 {
        // SAFETY: the lengths checked above cover block b of the panel and of the tile.
        unsafe {
            let w = panel.as_ptr().add(first + b * 512);
            let a = t.codes.as_ptr().add(b * 32 * C);
            let mut s = [_mm512_setzero_si512(); C];
            for c in 0..C {
                s[c] = _mm512_set1_epi32(t.sums.get_unchecked(b * C + c).wrapping_mul(-128));
            }
            for g in 0..8 {
                if C <= 2 {
                    _mm_prefetch::<_MM_HINT_T0>(w.wrapping_add(g * 64 + AHEAD).cast());
                }
                let v = _mm512_xor_si512(load(w.add(g * 64)), flip);
                for c in 0..C {
                    s[c] = _mm512_dpbusd_epi32(s[c], v, word(a.add((g * C + c) * 4)));
                }
            }
            let d = halves(panel.as_ptr().add(b * 32));
            for c in 0..C {
                let da = _mm512_set1_ps(*t.scales.get_unchecked(b * C + c));
                y[c] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(s[c]), d), da, y[c]);
            }
        }
    }
    // SAFETY: out holds C * 16 values.
    unsafe { store(&y, out) };
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn q4_k<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    check(panel.len(), (k / 256).checked_mul(q4_k::BYTES), t, k, C, out);
    let mut y = [_mm512_setzero_ps(); C];
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb of the panel and of the tile.
        unsafe {
            let p = panel.as_ptr().add(sb * q4_k::BYTES);
            let a = t.codes.as_ptr().add(sb * 256 * C);
            let (d, dmin) = (halves(p), halves(p.add(q4_k::DMIN)));
            let (scale, min) = scales_mins(p.add(q4_k::SCALES));
            for half in 0..2 {
                // Exact in f32: the bound is asserted beside the format.
                let mut total = [_mm512_setzero_ps(); C];
                for b in half * 4..half * 4 + 4 {
                    let zero = [_mm512_setzero_si512(); C];
                    let s = nibble_block::<C>(p.add(q4_k::CODES + b * 256), a.add(b * 32 * C), zero);
                    let k = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(scale[b]));
                    for c in 0..C {
                        total[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[c]), k, total[c]);
                    }
                }
                let m0 = _mm512_cvtepu8_epi16(interleave(min[half * 4], min[half * 4 + 1]));
                let m1 = _mm512_cvtepu8_epi16(interleave(min[half * 4 + 2], min[half * 4 + 3]));
                for c in 0..C {
                    let sums =
                        |i: usize| _mm512_set1_epi32(*t.pairs.get_unchecked((sb * 4 + half * 2 + i) * C + c));
                    let m = _mm512_dpwssd_epi32(_mm512_setzero_si512(), m0, sums(0));
                    let m = _mm512_dpwssd_epi32(m, m1, sums(1));
                    let da = _mm512_set1_ps(*t.scales.get_unchecked((sb * 2 + half) * C + c));
                    let u = _mm512_mul_ps(total[c], d);
                    let u = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(m), dmin, u);
                    y[c] = _mm512_fmadd_ps(u, da, y[c]);
                }
            }
        }
    }
    // SAFETY: out holds C * 16 values.
    unsafe { store(&y, out) };
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn q6_k<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let first = scales_bytes(k / 256).unwrap_or(0);
    check(panel.len(), first.checked_add(k / 256 * q6_k::BYTES), t, k, C, out);
    let (low4, top) = (_mm512_set1_epi8(15), _mm512_set1_epi8(0x30));
    let mut y = [_mm512_setzero_ps(); C];
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb of the panel and of the tile.
        unsafe {
            let p = panel.as_ptr().add(first + sb * q6_k::BYTES);
            let a = t.codes.as_ptr().add(sb * 256 * C);
            let d = halves(panel.as_ptr().add(sb * 32));
            for half in 0..2 {
                let mut total = [_mm512_setzero_si512(); C];
                let mut offset = [_mm512_setzero_si512(); C];
                for b in half * 4..half * 4 + 4 {
                    let s0 = _mm_loadu_si128(p.add(2 * b * ROWS).cast());
                    let s1 = _mm_loadu_si128(p.add((2 * b + 1) * ROWS).cast());
                    let pair = _mm512_cvtepi8_epi16(interleave(s0, s1));
                    let scales = [_mm512_cvtepi8_epi32(s0), _mm512_cvtepi8_epi32(s1)];
                    let group = p.add(q6_k::CODES + b * q6_k::GROUP);
                    let mut s = [[_mm512_setzero_si512(); C]; 2];
                    for hv in 0..2 {
                        let bits = load(group.add((4 + hv) * 64));
                        if C <= 2 {
                            _mm_prefetch::<_MM_HINT_T0>(group.wrapping_add((4 + hv) * 64 + AHEAD).cast());
                        }
                        for odd in 0..2 {
                            let g = 2 * hv + odd;
                            if C <= 2 {
                                _mm_prefetch::<_MM_HINT_T0>(group.wrapping_add(g * 64 + AHEAD).cast());
                            }
                            let v = load(group.add(g * 64));
                            let (b0, b1) = if odd == 0 {
                                (_mm512_slli_epi16::<4>(bits), _mm512_slli_epi16::<2>(bits))
                            } else {
                                (bits, _mm512_srli_epi16::<2>(bits))
                            };
                            let low = _mm512_or_si512(_mm512_and_si512(v, low4), _mm512_and_si512(b0, top));
                            let v = _mm512_srli_epi16::<4>(v);
                            let high = _mm512_or_si512(_mm512_and_si512(v, low4), _mm512_and_si512(b1, top));
                            for c in 0..C {
                                let x = word(a.add(((b * 8 + g) * C + c) * 4));
                                s[0][c] = _mm512_dpbusd_epi32(s[0][c], low, x);
                            }
                            for c in 0..C {
                                let x = word(a.add(((b * 8 + g + 4) * C + c) * 4));
                                s[1][c] = _mm512_dpbusd_epi32(s[1][c], high, x);
                            }
                        }
                    }
                    for c in 0..C {
                        let sums = _mm512_set1_epi32(*t.sums.get_unchecked((sb * 8 + b) * C + c));
                        offset[c] = _mm512_dpwssd_epi32(offset[c], pair, sums);
                        for part in 0..2 {
                            total[c] =
                                _mm512_add_epi32(total[c], _mm512_mullo_epi32(s[part][c], scales[part]));
                        }
                    }
                }
                for c in 0..C {
                    let da = _mm512_set1_ps(*t.scales.get_unchecked((sb * 2 + half) * C + c));
                    let s = _mm512_sub_epi32(total[c], _mm512_slli_epi32::<5>(offset[c]));
                    y[c] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(s), d), da, y[c]);
                }
            }
        }
    }
    // SAFETY: out holds C * 16 values.
    unsafe { store(&y, out) };
}

/// The float tile: the expression gives the 16 weights of one k at the pointer.
macro_rules! float_tile {
    ($name:ident, $size:literal, |$p:ident| $read:expr) => {
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
        fn $name<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
            check(panel.len(), k.checked_mul(ROWS * $size), t, k, C, out);
            let mut y = [_mm512_setzero_ps(); C];
            for i in 0..k {
                // SAFETY: the lengths checked above cover step i of the panel and of the tile.
                unsafe {
                    let $p = panel.as_ptr().add(i * ROWS * $size);
                    if C <= 2 {
                        _mm_prefetch::<_MM_HINT_T0>($p.wrapping_add(AHEAD).cast());
                    }
                    let w: __m512 = $read;
                    for c in 0..C {
                        let x = _mm512_set1_ps(*t.values.get_unchecked(i * C + c));
                        y[c] = _mm512_fmadd_ps(w, x, y[c]);
                    }
                }
            }
            // SAFETY: out holds C * 16 values.
            unsafe { store(&y, out) };
        }
    };
}

float_tile!(f32, 4, |p| _mm512_loadu_ps(p.cast()));
float_tile!(f16, 2, |p| halves(p));
float_tile!(bf16, 2, |p| brain_floats(p));
