//! AMX tile registers (TMM): up to 16 tokens by 16 rows of weights, 64 or 32 values deep. Code shared by `amx_block32`
//! and `amx_superblock`.
//!
//! Tile registers are loaded and stored whole; all other operations on sums are AVX-512 on the stored values. Therefore
//! the tile registers compute whole sums of 128 values of superblock formats, from weights times their integer scales
//! in two planes of bytes (`gemm::unpack::amx_planes`). Sums are the same integers, and floats in the same order, so
//! the bits are the same as on every level.
//!
//! Instructions: Intel, Software Developer's Manual, volume 1, chapter 18.

use crate::cpu::isa::Level;
use crate::gemm::unpack::amx_planes::Planes;
use crate::quant::packed_a::Tile;
use crate::simd::int::{BIAS, BIAS_BITS};
use crate::simd::x86_64::avx512_int::Avx512Int;
use crate::types::PANEL_ROWS;
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Number of columns of one matrix product, which are therefore adjacent in memory.
pub(super) const COLUMNS: usize = Level::PART_COLUMNS;

/// Tile configuration (`ldtilecfg`): rows of each tile register, and bytes per row.
#[repr(C, align(64))]
pub(super) struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Tile registers of weights, of activations and of products.
const WEIGHTS: [usize; 4] = [0, 1, 2, 3];
const ACTIVATIONS: [usize; 2] = [4, 5];
const PRODUCTS: [usize; 2] = [6, 7];

impl Shapes {
    /// Returns the configuration for products of `columns` tokens, `depth` values deep.
    pub(super) const fn new(columns: usize, depth: usize) -> Shapes {
        assert!(columns <= COLUMNS && depth <= 64 && depth.is_multiple_of(4));
        let mut shapes =
            Shapes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        let mut i = 0;
        while i < 4 {
            (shapes.row_bytes[WEIGHTS[i]], shapes.rows[WEIGHTS[i]]) = (64, (depth / 4) as u8);
            i += 1;
        }
        let mut i = 0;
        while i < 2 {
            (shapes.row_bytes[ACTIVATIONS[i]], shapes.rows[ACTIVATIONS[i]]) = (depth as u16, columns as u8);
            (shapes.row_bytes[PRODUCTS[i]], shapes.rows[PRODUCTS[i]]) = (64, columns as u8);
            i += 1;
        }
        shapes
    }
}

/// Use of the tile registers, which are released when this is dropped.
pub(super) struct Matrices(());

impl Matrices {
    #[inline(always)]
    pub(super) fn new() -> Matrices {
        Matrices(())
    }

    /// Loads a tile configuration.
    ///
    /// # Safety
    /// The level was detected.
    #[inline(always)]
    pub(super) unsafe fn shape(&self, shapes: &Shapes) {
        // SAFETY: the processor has the instruction; it reads 64 bytes, which are a valid configuration.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) std::ptr::from_ref(shapes), options(readonly, nostack, preserves_flags))
        };
    }
}

impl Drop for Matrices {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: accesses no memory. Without it the system would save 8 KiB of tile state for this thread.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}

/// Loads tile register `$n` from rows at `$p`, `$stride` bytes apart.
macro_rules! read {
    ($n:literal, $p:expr, $stride:expr) => {
        asm!(
            concat!("tileloadd tmm", $n, ", [{p} + {stride}]"),
            p = in(reg) $p,
            stride = in(reg) $stride,
            options(readonly, nostack, preserves_flags),
        )
    };
}
pub(super) use read;
/// Stores tile register `$n` to rows of 64 bytes at `$p`.
macro_rules! write {
    ($n:literal, $p:expr) => {
        asm!(
            concat!("tilestored [{p} + {stride}], tmm", $n),
            p = in(reg) $p,
            stride = in(reg) 64_usize,
            options(nostack, preserves_flags),
        )
    };
}
pub(super) use write;
macro_rules! zero {
    ($n:literal) => {
        asm!(concat!("tilezero tmm", $n), options(nomem, nostack, preserves_flags))
    };
}
pub(super) use zero;
/// Adds the products of signed activations and signed or unsigned weights to tile register `$n`.
macro_rules! add {
    (signed, $n:literal, $a:literal, $w:literal) => {
        asm!(concat!("tdpbssd tmm", $n, ", tmm", $a, ", tmm", $w), options(nomem, nostack, preserves_flags))
    };
    (unsigned, $n:literal, $a:literal, $w:literal) => {
        asm!(concat!("tdpbsud tmm", $n, ", tmm", $a, ", tmm", $w), options(nomem, nostack, preserves_flags))
    };
}
pub(super) use add;

/// Buffers for stored products: of the current step and of the previous one.
#[repr(align(4096))]
pub(super) struct Products([[MaybeUninit<i32>; 4 * COLUMNS * PANEL_ROWS]; 2]);

impl Products {
    #[inline(always)]
    pub(super) fn new() -> Products {
        Products([[MaybeUninit::uninit(); _]; 2])
    }

    /// Returns the addresses of the two buffers.
    #[inline(always)]
    pub(super) fn places(&mut self) -> [*mut i32; 2] {
        self.0.each_mut().map(|of| of.as_mut_ptr().cast())
    }
}

/// Adds [`BIAS`] to integers below 2^22 in magnitude and returns the exact floats. By integer additions: during matrix
/// products only one port is free for float products and conversions, but two are for additions.
///
/// # Safety
/// AVX-512 is there.
#[inline(always)]
pub(super) unsafe fn biased(a: __m512i) -> __m512 {
    // SAFETY: AVX-512 is there (`# Safety`).
    unsafe { _mm512_castsi512_ps(_mm512_add_epi32(a, _mm512_set1_epi32(BIAS_BITS))) }
}

/// Subtracts [`BIAS`] from floats.
///
/// # Safety
/// AVX-512 is there.
#[inline(always)]
pub(super) unsafe fn unbiased(a: __m512) -> __m512 {
    // SAFETY: AVX-512 is there (`# Safety`).
    unsafe { _mm512_sub_ps(a, _mm512_set1_ps(BIAS)) }
}

/// Number of values of a packed panel that are unpacked at a time: they stay in L1 beside activations.
pub(super) const PART: usize = 512;

/// Addresses of a group's data for 128 or 64 values: activations, scales, sums of activations, and results.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) quants: *const i8,
    pub(super) scales: *const f32,
    pub(super) words: *const i32,
    pub(super) out: *mut f32,
}

impl Place {
    /// Returns the addresses advanced by these numbers of elements.
    #[inline(always)]
    pub(super) fn after(self, quants: usize, scales: usize, words: usize, out: usize) -> Place {
        Place {
            quants: self.quants.wrapping_add(quants),
            scales: self.scales.wrapping_add(scales),
            words: self.words.wrapping_add(words),
            out: self.out.wrapping_add(out),
        }
    }
}

/// Checks a tile, and sets its results to zero.
#[inline(always)]
pub(super) fn begin<'a>(k: usize, t: &Tile<'_>, out: &'a mut [f32]) -> &'a mut [f32] {
    assert!(t.quants.len() == t.c * k);
    let out = &mut out[..t.c * PANEL_ROWS];
    out.fill(0.0);
    out
}

/// Mask of the odd bytes.
const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;

impl Planes for Avx512Int {
    #[inline(always)]
    fn planes(self, quants: __m512i, scales: __m512i, zero: i16) -> [__m512i; 2] {
        // SAFETY: the token proves the features.
        unsafe {
            let low = _mm512_set1_epi16(0xff);
            // First and third, and second and fourth, of each row's four values: the scale of the other of each pair is
            // zero.
            let (even, odd) = (_mm512_and_si512(scales, low), _mm512_slli_epi16::<8>(scales));
            let zero = _mm512_mullo_epi16(scales, _mm512_set1_epi16(zero));
            let even = _mm512_sub_epi16(_mm512_maddubs_epi16(quants, even), zero);
            let odd = _mm512_sub_epi16(_mm512_maddubs_epi16(quants, odd), zero);
            [
                _mm512_mask_blend_epi8(ODD, even, _mm512_slli_epi16::<8>(odd)),
                _mm512_mask_blend_epi8(ODD, _mm512_srli_epi16::<8>(even), odd),
            ]
        }
    }
    #[inline(always)]
    unsafe fn store_pairs(self, a: __m512i, p: *mut u8) {
        // SAFETY: the token proves the features; the room is writable (`# Safety`).
        unsafe { _mm512_storeu_si512(p.cast(), a) };
    }
}

/// Computes the matrix counterpart of [`Simd::int8_products`](crate::simd::Simd::int8_products).
///
/// # Safety
/// The level was detected.
pub(crate) unsafe fn products(rounds: u64) -> u64 {
    let matrices = Matrices::new();
    // SAFETY: the level was detected (`# Safety`).
    unsafe { matrices.shape(const { &Shapes::new(COLUMNS, 64) }) };
    for _ in 0..rounds {
        // SAFETY: the shapes fit each other; the contents of the registers do not matter.
        unsafe {
            add!(signed, 0, 4, 2);
            add!(signed, 1, 5, 2);
            add!(signed, 6, 4, 3);
            add!(signed, 7, 5, 3);
        }
    }
    rounds * 4 * (COLUMNS * PANEL_ROWS * 64) as u64
}
