//! AVX2 tiles: 16 rows as two registers of 8, one to four columns.
//!
//! Low-bit codes stay unsigned and several `vpmaddubsw` are summed in 16 bits; the integer block scale then
//! rides on the widening `vpmaddwd`. `vpsignb` shares the multiply ports, so only Q8_0 uses it. Each budget of
//! 16-bit sums is asserted at compile time.

use crate::activations::Tile;
use crate::matmul::format::{ROWS, TileFn, q4_k, q6_k, scales_bytes};
use std::arch::x86_64::*;

macro_rules! widths {
    ($name:ident, $tile:ident) => {
        pub(crate) static $name: [TileFn; 4] = [$tile::<1>, $tile::<2>, $tile::<3>, $tile::<4>];
    };
}
widths!(F32, f32);
widths!(F16, f16);
widths!(BF16, bf16);
widths!(Q4_0, q4_0);
widths!(Q8_0, q8_0);
widths!(Q4_K, q4_k);
widths!(Q6_K, q6_k);

/// Largest magnitude of an activation code.
const A: i32 = 127;
// Q4: eight products of pairs; Q6: two; Q8 through absolute values: one. All must fit 16 bits.
const _: () = assert!(8 * 2 * 15 * A <= i16::MAX as i32);
const _: () = assert!(2 * 2 * 63 * A <= i16::MAX as i32);
const _: () = assert!(2 * 128 * A <= i16::MAX as i32);

/// Weights this far ahead are fetched while the current ones are used; about the latency of memory at the
/// rate one core reads.
const AHEAD: usize = 2048;

/// Checks that a tile's buffers are as long as the kernel will read. Cheap beside a panel.
#[inline(always)]
pub(super) fn check(panel: usize, want: Option<usize>, t: &Tile<'_>, k: usize, c: usize, out: &[f32]) {
    assert!(want == Some(panel) && t.c == c && out.len() >= c * ROWS);
    assert!(t.codes.len() == k * c || t.values.len() == k * c);
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn load(p: *const u8) -> __m256i {
    // SAFETY: the caller gives 32 readable bytes.
    unsafe { _mm256_loadu_si256(p.cast()) }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn load128(p: *const u8) -> __m128i {
    // SAFETY: the caller gives 16 readable bytes.
    unsafe { _mm_loadu_si128(p.cast()) }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn word(p: *const i8) -> __m256i {
    // SAFETY: the caller gives 4 readable bytes.
    _mm256_set1_epi32(unsafe { p.cast::<i32>().read_unaligned() })
}

/// Sixteen halves at `p` as two vectors.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn halves(p: *const u8) -> [__m256; 2] {
    // SAFETY: the caller gives 32 readable bytes.
    unsafe { [_mm256_cvtph_ps(load128(p)), _mm256_cvtph_ps(load128(p.add(16)))] }
}

/// Eight bfloat16 at `p`. A function, because a closure would be compiled without the features.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn brain_floats(p: *const u8) -> __m256 {
    // SAFETY: the caller gives 16 readable bytes.
    let h = unsafe { load128(p) };
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(h)))
}

/// Adds the products of two k-groups' weight vectors with every column to the 16-bit sums.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn dot_pair<const C: usize>(
    s: &mut [[__m256i; 2]; C],
    low: [__m256i; 2],
    high: [__m256i; 2],
    a_low: *const i8,
    a_high: *const i8,
) {
    for c in 0..C {
        // SAFETY: the caller gives C words at each address.
        let (y, z) = unsafe { (word(a_low.add(c * 4)), word(a_high.add(c * 4))) };
        for h in 0..2 {
            let p = _mm256_add_epi16(_mm256_maddubs_epi16(low[h], y), _mm256_maddubs_epi16(high[h], z));
            s[c][h] = _mm256_add_epi16(s[c][h], p);
        }
    }
}

/// The 16-bit sums of one block of 32 nibble codes: 256 bytes at `w`, `32 * C` activations at `a`.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn nibble_block<const C: usize>(w: *const u8, a: *const i8) -> [[__m256i; 2]; C] {
    let mask = _mm256_set1_epi8(15);
    let mut s = [[_mm256_setzero_si256(); 2]; C];
    for g in 0..4 {
        // SAFETY: within the caller's 256 bytes, and C words of activations at each k-group.
        unsafe {
            if C <= 2 {
                _mm_prefetch::<_MM_HINT_T0>(w.wrapping_add(g * 64 + AHEAD).cast());
            }
            let v = [load(w.add(g * 64)), load(w.add(g * 64 + 32))];
            let low = [_mm256_and_si256(v[0], mask), _mm256_and_si256(v[1], mask)];
            let high = [
                _mm256_and_si256(_mm256_srli_epi16::<4>(v[0]), mask),
                _mm256_and_si256(_mm256_srli_epi16::<4>(v[1]), mask),
            ];
            dot_pair(&mut s, low, high, a.add(g * C * 4), a.add((g + 4) * C * 4));
        }
    }
    s
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn store<const C: usize>(y: &[[__m256; 2]; C], out: &mut [f32]) {
    let p = out.as_mut_ptr();
    for (c, y) in y.iter().enumerate() {
        // SAFETY: the caller's out holds C * 16 values (checked at the tile's start).
        unsafe {
            _mm256_storeu_ps(p.add(c * ROWS), y[0]);
            _mm256_storeu_ps(p.add(c * ROWS + 8), y[1]);
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4_0<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let first = scales_bytes(k / 32).unwrap_or(0);
    check(panel.len(), first.checked_add(k / 32 * 256), t, k, C, out);
    let ones = _mm256_set1_epi16(1);
    let mut y = [[_mm256_setzero_ps(); 2]; C];
    for b in 0..k / 32 {
        // SAFETY: the lengths checked above cover block b of the panel and of the tile.
        unsafe {
            let s = nibble_block::<C>(panel.as_ptr().add(first + b * 256), t.codes.as_ptr().add(b * 32 * C));
            let d = halves(panel.as_ptr().add(b * 32));
            for c in 0..C {
                let offset = _mm256_set1_epi32(*t.sums.get_unchecked(b * C + c) << 3);
                let da = _mm256_set1_ps(*t.scales.get_unchecked(b * C + c));
                for h in 0..2 {
                    let i = _mm256_sub_epi32(_mm256_madd_epi16(s[c][h], ones), offset);
                    y[c][h] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(i), d[h]), da, y[c][h]);
                }
            }
        }
    }
    // SAFETY: out holds C * 16 values.
    unsafe { store(&y, out) };
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q8_0<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let first = scales_bytes(k / 32).unwrap_or(0);
    check(panel.len(), first.checked_add(k / 32 * 512), t, k, C, out);
    let ones = _mm256_set1_epi16(1);
    let mut y = [[_mm256_setzero_ps(); 2]; C];
    for b in 0..k / 32 {
        // SAFETY: the lengths checked above cover block b of the panel and of the tile.
        unsafe {
            let w = panel.as_ptr().add(first + b * 512);
            let a = t.codes.as_ptr().add(b * 32 * C);
            let mut s = [[_mm256_setzero_si256(); 2]; C];
            for g in 0..8 {
                if C <= 2 {
                    _mm_prefetch::<_MM_HINT_T0>(w.wrapping_add(g * 64 + AHEAD).cast());
                }
                let v = [load(w.add(g * 64)), load(w.add(g * 64 + 32))];
                let magnitude = [_mm256_abs_epi8(v[0]), _mm256_abs_epi8(v[1])];
                for c in 0..C {
                    let x = word(a.add((g * C + c) * 4));
                    for h in 0..2 {
                        let p = _mm256_maddubs_epi16(magnitude[h], _mm256_sign_epi8(x, v[h]));
                        s[c][h] = _mm256_add_epi32(s[c][h], _mm256_madd_epi16(p, ones));
                    }
                }
            }
            let d = halves(panel.as_ptr().add(b * 32));
            for c in 0..C {
                let da = _mm256_set1_ps(*t.scales.get_unchecked(b * C + c));
                for h in 0..2 {
                    let p = _mm256_mul_ps(_mm256_cvtepi32_ps(s[c][h]), d[h]);
                    y[c][h] = _mm256_fmadd_ps(p, da, y[c][h]);
                }
            }
        }
    }
    // SAFETY: out holds C * 16 values.
    unsafe { store(&y, out) };
}

/// Signed bytes of 16 rows as 16-bit pairs of equal halves.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn twice(s: __m128i) -> [__m256i; 2] {
    [_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(s, s)), _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(s, s))]
}

/// The 6-bit scales and minima of the eight blocks, 16 rows each, from the twelve packed bytes.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) unsafe fn scales_mins(p: *const u8) -> ([__m128i; 8], [__m128i; 8]) {
    let mut q = [_mm_setzero_si128(); 12];
    for (i, q) in q.iter_mut().enumerate() {
        // SAFETY: the caller gives 12 * 16 readable bytes.
        *q = unsafe { load128(p.add(i * ROWS)) };
    }
    let six = _mm_set1_epi8(63);
    let four = _mm_set1_epi8(15);
    let top = _mm_set1_epi8(0x30);
    let (mut scale, mut min) = ([_mm_setzero_si128(); 8], [_mm_setzero_si128(); 8]);
    for b in 0..4 {
        scale[b] = _mm_and_si128(q[b], six);
        min[b] = _mm_and_si128(q[b + 4], six);
        let (low, high) = (q[b + 8], _mm_srli_epi16::<4>(q[b + 8]));
        let carry = |q: __m128i| _mm_and_si128(_mm_srli_epi16::<2>(q), top);
        scale[b + 4] = _mm_or_si128(_mm_and_si128(low, four), carry(q[b]));
        min[b + 4] = _mm_or_si128(_mm_and_si128(high, four), carry(q[b + 4]));
    }
    (scale, min)
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4_k<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    check(panel.len(), (k / 256).checked_mul(q4_k::BYTES), t, k, C, out);
    let mut y = [[_mm256_setzero_ps(); 2]; C];
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb of the panel and of the tile.
        unsafe {
            let p = panel.as_ptr().add(sb * q4_k::BYTES);
            let a = t.codes.as_ptr().add(sb * 256 * C);
            let (d, dmin) = (halves(p), halves(p.add(q4_k::DMIN)));
            let (scale, min) = scales_mins(p.add(q4_k::SCALES));
            for half in 0..2 {
                let mut total = [[_mm256_setzero_si256(); 2]; C];
                let mut minima = [[_mm256_setzero_si256(); 2]; C];
                for b in half * 4..half * 4 + 4 {
                    let s = nibble_block::<C>(p.add(q4_k::CODES + b * 256), a.add(b * 32 * C));
                    let k = [
                        _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(scale[b], scale[b])),
                        _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(scale[b], scale[b])),
                    ];
                    for c in 0..C {
                        for h in 0..2 {
                            total[c][h] = _mm256_add_epi32(total[c][h], _mm256_madd_epi16(s[c][h], k[h]));
                        }
                    }
                }
                for i in half * 2..half * 2 + 2 {
                    let m = [
                        _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(min[2 * i], min[2 * i + 1])),
                        _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(min[2 * i], min[2 * i + 1])),
                    ];
                    for c in 0..C {
                        let sums = _mm256_set1_epi32(*t.pairs.get_unchecked((sb * 4 + i) * C + c));
                        for h in 0..2 {
                            minima[c][h] = _mm256_add_epi32(minima[c][h], _mm256_madd_epi16(m[h], sums));
                        }
                    }
                }
                for c in 0..C {
                    let da = _mm256_set1_ps(*t.scales.get_unchecked((sb * 2 + half) * C + c));
                    for h in 0..2 {
                        let u = _mm256_mul_ps(_mm256_cvtepi32_ps(total[c][h]), d[h]);
                        let u = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(minima[c][h]), dmin[h], u);
                        y[c][h] = _mm256_fmadd_ps(u, da, y[c][h]);
                    }
                }
            }
        }
    }
    // SAFETY: out holds C * 16 values.
    unsafe { store(&y, out) };
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q6_k<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let first = scales_bytes(k / 256).unwrap_or(0);
    check(panel.len(), first.checked_add(k / 256 * q6_k::BYTES), t, k, C, out);
    let (low4, top) = (_mm256_set1_epi8(15), _mm256_set1_epi8(0x30));
    let mut y = [[_mm256_setzero_ps(); 2]; C];
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb of the panel and of the tile.
        unsafe {
            let p = panel.as_ptr().add(first + sb * q6_k::BYTES);
            let a = t.codes.as_ptr().add(sb * 256 * C);
            let d = halves(panel.as_ptr().add(sb * 32));
            for half in 0..2 {
                let mut total = [[_mm256_setzero_si256(); 2]; C];
                for b in half * 4..half * 4 + 4 {
                    let (s0, s1) = (load128(p.add(2 * b * ROWS)), load128(p.add((2 * b + 1) * ROWS)));
                    // The offset of 32 leaves through the sums of activations, two blocks at a time.
                    let pair = [
                        _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(s0, s1)),
                        _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(s0, s1)),
                    ];
                    for c in 0..C {
                        let sums = _mm256_set1_epi32(*t.sums.get_unchecked((sb * 8 + b) * C + c));
                        for h in 0..2 {
                            let o = _mm256_slli_epi32::<5>(_mm256_madd_epi16(pair[h], sums));
                            total[c][h] = _mm256_sub_epi32(total[c][h], o);
                        }
                    }
                    let group = p.add(q6_k::CODES + b * q6_k::GROUP);
                    let scales = [twice(s0), twice(s1)];
                    for hv in 0..2 {
                        let bits = [load(group.add((4 + hv) * 64)), load(group.add((4 + hv) * 64 + 32))];
                        if C <= 2 {
                            _mm_prefetch::<_MM_HINT_T0>(group.wrapping_add((4 + hv) * 64 + AHEAD).cast());
                        }
                        // Two k-groups of each 16-block: their products fit 16 bits together.
                        let mut s = [[[_mm256_setzero_si256(); 2]; C]; 2];
                        for odd in 0..2 {
                            let g = 2 * hv + odd;
                            if C <= 2 {
                                _mm_prefetch::<_MM_HINT_T0>(group.wrapping_add(g * 64 + AHEAD).cast());
                            }
                            let v = [load(group.add(g * 64)), load(group.add(g * 64 + 32))];
                            for h in 0..2 {
                                let (b0, b1) = if odd == 0 {
                                    (_mm256_slli_epi16::<4>(bits[h]), _mm256_slli_epi16::<2>(bits[h]))
                                } else {
                                    (bits[h], _mm256_srli_epi16::<2>(bits[h]))
                                };
                                let low =
                                    _mm256_or_si256(_mm256_and_si256(v[h], low4), _mm256_and_si256(b0, top));
                                let shifted = _mm256_srli_epi16::<4>(v[h]);
                                let high = _mm256_or_si256(
                                    _mm256_and_si256(shifted, low4),
                                    _mm256_and_si256(b1, top),
                                );
                                for c in 0..C {
                                    let x = word(a.add(((b * 8 + g) * C + c) * 4));
                                    let z = word(a.add(((b * 8 + g + 4) * C + c) * 4));
                                    s[0][c][h] = _mm256_add_epi16(s[0][c][h], _mm256_maddubs_epi16(low, x));
                                    s[1][c][h] = _mm256_add_epi16(s[1][c][h], _mm256_maddubs_epi16(high, z));
                                }
                            }
                        }
                        for part in 0..2 {
                            for c in 0..C {
                                for h in 0..2 {
                                    let m = _mm256_madd_epi16(s[part][c][h], scales[part][h]);
                                    total[c][h] = _mm256_add_epi32(total[c][h], m);
                                }
                            }
                        }
                    }
                }
                for c in 0..C {
                    let da = _mm256_set1_ps(*t.scales.get_unchecked((sb * 2 + half) * C + c));
                    for h in 0..2 {
                        let u = _mm256_mul_ps(_mm256_cvtepi32_ps(total[c][h]), d[h]);
                        y[c][h] = _mm256_fmadd_ps(u, da, y[c][h]);
                    }
                }
            }
        }
    }
    // SAFETY: out holds C * 16 values.
    unsafe { store(&y, out) };
}

/// The float tile: `read(p)` gives the 16 weights of one k at `p`, which takes `SIZE` bytes each.
macro_rules! float_tile {
    ($name:ident, $size:literal, |$p:ident| $read:expr) => {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn $name<const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
            check(panel.len(), k.checked_mul(ROWS * $size), t, k, C, out);
            let mut y = [[_mm256_setzero_ps(); 2]; C];
            for i in 0..k {
                // SAFETY: the lengths checked above cover step i of the panel and of the tile.
                unsafe {
                    let $p = panel.as_ptr().add(i * ROWS * $size);
                    if C <= 2 {
                        _mm_prefetch::<_MM_HINT_T0>($p.wrapping_add(AHEAD).cast());
                    }
                    let w: [__m256; 2] = $read;
                    for c in 0..C {
                        let x = _mm256_set1_ps(*t.values.get_unchecked(i * C + c));
                        y[c][0] = _mm256_fmadd_ps(w[0], x, y[c][0]);
                        y[c][1] = _mm256_fmadd_ps(w[1], x, y[c][1]);
                    }
                }
            }
            // SAFETY: out holds C * 16 values.
            unsafe { store(&y, out) };
        }
    };
}

float_tile!(f32, 4, |p| [_mm256_loadu_ps(p.cast()), _mm256_loadu_ps(p.add(32).cast())]);
float_tile!(f16, 2, |p| halves(p));
float_tile!(bf16, 2, |p| [brain_floats(p), brain_floats(p.add(16))]);
