//! The kernel of `gemm::microkernel::bf16_rows` on AMX.

use crate::gemm::microkernel::x86_64::amx::{COLUMNS, Matrices, Shapes, read, zero};
use crate::ops::Lanes;
use crate::types::{PANEL_ROWS, SMALLEST_BF16};
use std::arch::asm;
use std::arch::x86_64::*;

/// Rows that are multiplied together: two matrices of them.
pub(crate) const ROWS: usize = 2 * COLUMNS;
/// Values of one step.
pub(crate) const STEP: usize = 32;

/// Matrices with their shape.
pub(crate) struct Guard(Matrices);

/// Whole matrices, of a level that has them.
#[inline(always)]
pub(crate) fn begin() -> Guard {
    let matrices = Matrices::new();
    // SAFETY: products are made on that level alone (`Bf16Product::multiply`).
    unsafe { matrices.shape(const { &Shapes::new(COLUMNS, 64) }) };
    Guard(matrices)
}

/// Sixteen values as words whose upper halves are the nearest bfloat16, as `rounded_to_bf16` defines it.
///
/// # Safety
/// AVX-512 is there.
#[inline(always)]
unsafe fn rounded(x: __m512) -> __m512i {
    // SAFETY: as here (`# Safety`).
    unsafe {
        let bits = _mm512_castps_si512(x);
        let even = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let nearest = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), even);
        // A NaN stays one by its quiet bit.
        let magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(i32::MAX));
        let nan = _mm512_cmpgt_epu32_mask(magnitude, _mm512_set1_epi32(0x7f80_0000));
        let nearest = _mm512_mask_or_epi32(nearest, nan, bits, _mm512_set1_epi32(0x40_0000));
        let counts = _mm512_and_si512(nearest, _mm512_set1_epi32(0x7fff_0000));
        let counts = _mm512_cmpge_epu32_mask(counts, _mm512_set1_epi32(i32::from(SMALLEST_BF16) << 16));
        _mm512_maskz_mov_epi32(counts, nearest)
    }
}

/// Sixteen values times a factor, rounded.
#[inline(always)]
pub(crate) fn round(x: &Lanes, by: f32, to: &mut [u16; PANEL_ROWS]) {
    // SAFETY: AVX-512 is there, as it is where AMX is; sixteen floats, and room for their halves.
    unsafe {
        let x = rounded(_mm512_mul_ps(_mm512_loadu_ps(x.as_ptr()), _mm512_set1_ps(by)));
        let halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(x));
        _mm256_storeu_si256(to.as_mut_ptr().cast(), halves);
    }
}

/// Sixteen values that are bfloat16.
#[inline(always)]
pub(crate) fn keep(x: &Lanes, to: &mut [u16; PANEL_ROWS]) {
    // SAFETY: as above.
    unsafe {
        let bits = _mm512_srli_epi32::<16>(_mm512_loadu_si512(x.as_ptr().cast()));
        _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(bits));
    }
}

/// Two rows of sixteen values, rounded, one beside the other.
#[inline(always)]
pub(crate) fn pair([low, high]: [&Lanes; 2], to: &mut [u16]) {
    assert!(to.len() == 2 * PANEL_ROWS);
    // SAFETY: as above.
    unsafe {
        let low = _mm512_srli_epi32::<16>(rounded(_mm512_loadu_ps(low.as_ptr())));
        let high = _mm512_and_si512(rounded(_mm512_loadu_ps(high.as_ptr())), _mm512_set1_epi32(-0x1_0000));
        _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_or_si512(low, high));
    }
}

/// Sixteen rows of pairs, in whole steps, as columns.
#[inline(always)]
pub(crate) fn turn(rows: &[u16], depth: usize, panel: &mut [u16]) {
    assert!(depth.is_multiple_of(STEP) && rows.len() == depth * PANEL_ROWS && panel.len() == rows.len());
    for step in 0..depth / STEP {
        // SAFETY: AVX-512 is there, as it is where AMX is; the lengths were checked.
        unsafe {
            let from = rows.as_ptr().add(step * STEP);
            let rows: [__m512i; 16] = std::array::from_fn(|n| _mm512_loadu_si512(from.add(n * depth).cast()));
            let to = panel.as_mut_ptr().add(step * STEP * PANEL_ROWS);
            for (i, column) in transposed(rows).into_iter().enumerate() {
                _mm512_storeu_si512(to.add(i * 2 * PANEL_ROWS).cast(), column);
            }
        }
    }
}

/// Sixteen rows of sixteen words as columns.
///
/// # Safety
/// AVX-512 is there.
#[inline(always)]
unsafe fn transposed(rows: [__m512i; 16]) -> [__m512i; 16] {
    // SAFETY: as here (`# Safety`).
    unsafe {
        let mut twos = rows;
        for i in 0..8 {
            twos[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
            twos[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
        }
        // Word w of quarter q of these four rows, in vector `4 i + w`.
        let mut fours = twos;
        for i in 0..4 {
            for w in 0..2 {
                fours[4 * i + 2 * w] = _mm512_unpacklo_epi64(twos[4 * i + w], twos[4 * i + 2 + w]);
                fours[4 * i + 2 * w + 1] = _mm512_unpackhi_epi64(twos[4 * i + w], twos[4 * i + 2 + w]);
            }
        }
        let mut all = fours;
        for w in 0..4 {
            let [a, b, c, d] = [fours[w], fours[4 + w], fours[8 + w], fours[12 + w]];
            let (ab, cd) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d));
            all[w] = _mm512_shuffle_i32x4::<0x88>(ab, cd);
            all[8 + w] = _mm512_shuffle_i32x4::<0xdd>(ab, cd);
            let (ab, cd) = (_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(c, d));
            all[4 + w] = _mm512_shuffle_i32x4::<0x88>(ab, cd);
            all[12 + w] = _mm512_shuffle_i32x4::<0xdd>(ab, cd);
        }
        all
    }
}

/// Writes matrix `$n` to rows `$stride` bytes apart.
macro_rules! write {
    ($n:literal, $p:expr, $stride:expr) => {
        asm!(
            concat!("tilestored [{p} + {stride}], tmm", $n),
            p = in(reg) $p,
            stride = in(reg) $stride,
            options(nostack, preserves_flags),
        )
    };
}

macro_rules! add {
    ($n:literal, $a:literal, $w:literal) => {
        asm!(concat!("tdpbf16ps tmm", $n, ", tmm", $a, ", tmm", $w), options(nomem, nostack, preserves_flags))
    };
}

/// As [`Bf16Product::multiply`](crate::gemm::microkernel::bf16_rows::Bf16Product::multiply).
///
/// # Safety
/// As there.
#[inline(always)]
pub(crate) unsafe fn multiply(
    (a, a_stride): (*const u16, usize),
    (panels, panel): (*const u16, usize),
    count: usize,
    depth: usize,
    (out, out_stride): (*mut f32, usize),
) {
    let (a_bytes, out_bytes) = (2 * a_stride, 4 * out_stride);
    // SAFETY: rows, panels and results are there (`# Safety`), and matrices have the guard's shape.
    unsafe {
        for p in (0..count).step_by(2) {
            let w = panels.add(p * panel);
            zero!(0);
            zero!(1);
            zero!(6);
            zero!(7);
            for step in 0..depth / STEP {
                let (a, w) = (a.add(step * STEP), w.add(step * STEP * PANEL_ROWS));
                read!(4, a, a_bytes);
                read!(2, w, 64_usize);
                add!(0, 4, 2);
                read!(3, w.add(panel), 64_usize);
                add!(1, 4, 3);
                read!(5, a.add(COLUMNS * a_stride), a_bytes);
                add!(6, 5, 2);
                add!(7, 5, 3);
            }
            let out = out.add(p * PANEL_ROWS);
            write!(0, out, out_bytes);
            write!(1, out.add(PANEL_ROWS), out_bytes);
            write!(6, out.add(COLUMNS * out_stride), out_bytes);
            write!(7, out.add(COLUMNS * out_stride + PANEL_ROWS), out_bytes);
        }
    }
}
