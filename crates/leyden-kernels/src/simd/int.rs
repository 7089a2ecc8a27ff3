//! [`IntSimd`], the vector operations of an instruction set for the GEMM microkernels: vectors of 16 rows, one lane per
//! row.
//!
//! The loops in `gemm::microkernel` and `gemm::microkernel::float` and the unpacking in `gemm::format` are written once
//! against [`IntSimd`]; an instruction set is one implementation of it. Four consecutive quantised values of a row fill
//! one 32-bit lane.
//!
//! If an instruction multiplies several columns at once, an [`IntSimd::Acc`] and all types derived from it hold
//! [`IntSimd::COLUMNS`] columns, and a pointer to a column's number points at that many. A token may also stand for
//! some of the 16 rows only; pointers are still to those of all 16.
//!
//! Every method is `#[inline(always)]` and is only called inside a function compiled for the instruction set.

use crate::cpu::isa::AccInit;
use crate::prefetch::{MEMORY_BOUND_TOKENS, prefetch_following, prefetch_weights};
use std::ops::Range;

/// Unpacking of a format's quantised values, 32 values of 16 rows, to bytes.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) trait ReadQuants {
    /// True if quantised values were unpacked before, with [`AccInit::Shift`] signed ones made unsigned.
    const UNPACKED: bool = false;
    /// True if the quantised values of each k-group are a cache line, and those of `g + 4` are four lines after those
    /// of `g`.
    const LINES: bool = false;
    /// True if all quantised values of a block are loaded before the first is multiplied, where that pays
    /// ([`IntSimd::AGAIN`]).
    const HELD: bool = false;

    /// Unpacks the quantised values of k-group `g` (0 to 3) and of k-group `g + 4`.
    ///
    /// # Safety
    /// `w` points at 32 quantised values of 16 rows.
    unsafe fn pair<D: IntSimd>(d: D, w: *const u8, g: usize) -> (D::Quants, D::Quants);
}

/// Arithmetic that scales sums: 32-bit integers, for any sums. Only an [`IntSimd`] with [`IntSimd::WORDS`] has a
/// choice; all give the same totals.
pub(crate) const INTEGERS: u8 = 0;
/// Arithmetic that scales sums: floats, for totals below 2^24 in magnitude.
pub(crate) const FLOATS: u8 = 1;
/// Arithmetic that scales sums: 16-bit integers, for sums that fit them.
pub(crate) const WORDS: u8 = 2;

/// Float whose bits are the initial value of integer sums with [`IntSimd::BIASED`]. Its last mantissa bit has the value
/// 1, so adding a sum below 2^22 in magnitude to the bits adds it to the float: no conversion is needed.
pub(crate) const BIAS: f32 = 12_582_912.0;
/// Bits of [`BIAS`].
pub(crate) const BIAS_BITS: i32 = BIAS.to_bits().cast_signed();

/// Vector operations of one instruction set.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) trait IntSimd: Copy {
    /// Four quantised values of each of 16 rows.
    type Quants: Copy;
    /// Sums of products before scaling.
    type Acc: Copy;
    /// Integers of 16 rows.
    type Ints: Copy;
    /// Integer scales of 16 rows, for [`IntSimd::add_scaled`].
    type Scale: Copy;
    /// Pairs of 16-bit integers of 16 rows.
    type Pairs: Copy;
    /// Bytes of 16 rows.
    type Bytes: Copy;
    /// Floats of 16 rows.
    type Floats: Copy;

    /// True if weights are prefetched into L1 ([`crate::cpu::isa::Tier`]).
    const TO_L1: bool = false;
    /// True if weights of a memory-bound product (up to [`MEMORY_BOUND_TOKENS`]) are prefetched at several distances.
    const AGAIN: bool = false;
    /// Number of columns in one [`IntSimd::Acc`].
    const COLUMNS: usize;
    /// Number of panels that are multiplied together. Vectors then hold 16 rows of each, and a pointer is to those of
    /// the first.
    const PANELS: usize = 1;
    /// Maximum number of tokens for which the chains of a float product are computed side by side: there are no
    /// registers for more sums.
    const SIDE_BY_SIDE: usize;
    /// Number of columns beyond which the sums of two parts and the totals do not all fit the registers.
    const PARTS_TOGETHER: usize = usize::MAX;
    /// True if an [`IntSimd::Acc`] of unsigned quantised values is 16 bits wide, and so can only add a few products.
    const NARROW: bool;
    /// Offset that makes signed quantised values unsigned; its contribution is subtracted with the sums of activations.
    const SIGNED_ZERO: i32;
    /// Initial value of the accumulators (`Tile::acc_init`) for shifted quantised values: those that were unpacked
    /// before, and some others (`gemm::unpack::stream::zero_point_in_acc_init`).
    const ACC_INIT: AccInit = AccInit::None;
    /// True if sums of 32 products, initialised by [`IntSimd::start`] or the batch's `acc_init`, begin at
    /// [`BIAS_BITS`]. Not possible for narrow sums; for their totals AVX2 has too few registers.
    const BIASED: bool = false;
    /// True if [`IntSimd::brain_float_pair`] has instructions of its own; otherwise two vectors at once only take
    /// registers.
    const BRAIN_PAIRS: bool = false;
    /// True if sums that fit 16 bits are scaled by one instruction, so that checking for them pays.
    const WORDS: bool = false;
    /// True if two blocks' sums that fit 16 bits share a lane, so that one instruction scales and adds both. Making
    /// room in a lane costs nothing if only the multiply port is a bottleneck. Requires [`IntSimd::WORDS`]. Used for
    /// panels unpacked before: for packed panels, the sums and the unpacking do not fit the registers together (see
    /// also `gemm::unpack::stream::multiply_port_bound`).
    const PACKS_TWO_SUMS: bool = false;
    /// True if panels are unpacked for Winograd inner products ([`winograd`](crate::gemm::unpack::winograd)).
    const WINOGRAD_INNER_PRODUCT: bool = false;

    /// Returns the number of columns of the tile; all `C` times [`IntSimd::COLUMNS`] are multiplied unless the token
    /// says otherwise.
    #[inline(always)]
    fn of<const C: usize>(self) -> usize {
        C * Self::COLUMNS
    }
    /// Returns the index of the first column that is multiplied.
    #[inline(always)]
    fn first(self) -> usize {
        0
    }

    /// Loads 64 bytes of quantised values.
    unsafe fn load(self, p: *const u8) -> Self::Quants;
    /// Prefetches the line of weights at `p`.
    #[inline(always)]
    fn prefetch(self, p: *const u8) {
        prefetch_weights(Self::TO_L1, p);
    }
    /// Prefetches weights after the line at `p`, of every panel, for a tile of `columns` tokens.
    #[inline(always)]
    fn prefetch_following(self, p: *const u8, columns: usize) {
        prefetch_following(Self::TO_L1, Self::AGAIN && columns <= MEMORY_BOUND_TOKENS, p, 1);
    }
    /// Returns the same quantised values, and keeps the compiler from computing them later.
    #[inline(always)]
    fn hold(self, quants: Self::Quants) -> Self::Quants {
        quants
    }
    /// Runs [`ReadQuants::pair`], then [`IntSimd::hold`].
    ///
    /// # Safety
    /// As in [`ReadQuants::pair`].
    #[inline(always)]
    unsafe fn held_pair<U: ReadQuants>(self, w: *const u8, g: usize) -> (Self::Quants, Self::Quants) {
        // SAFETY: as in `ReadQuants::pair` (`# Safety`).
        let (low, high) = unsafe { U::pair(self, w, g) };
        (self.hold(low), self.hold(high))
    }
    /// Computes the bitwise and of every byte with `mask`.
    fn and(self, a: Self::Quants, mask: u8) -> Self::Quants;
    /// Computes the bitwise or.
    fn or(self, a: Self::Quants, b: Self::Quants) -> Self::Quants;
    /// Shifts 16-bit lanes right. The caller masks bits that cross between bytes.
    fn shr<const N: u32>(self, a: Self::Quants) -> Self::Quants;
    /// Shifts 16-bit lanes left. The caller masks bits that cross between bytes.
    fn shl<const N: u32>(self, a: Self::Quants) -> Self::Quants;
    /// Replaces every quantised value (0 to 15) by its table entry.
    fn look_up(self, a: Self::Quants, table: &[u8; 16]) -> Self::Quants;

    /// Stores 64 bytes of quantised values.
    unsafe fn store_codes(self, a: Self::Quants, p: *mut u8);
    /// Stores 16 bytes.
    ///
    /// # Safety
    /// `p` points at room for them.
    #[inline(always)]
    unsafe fn store_bytes(self, a: Self::Bytes, p: *mut u8) {
        const { assert!(size_of::<Self::Bytes>() == 16, "a vector of bytes and nothing else") };
        // SAFETY: `p` points at room for them (`# Safety`); the vector is 16 bytes.
        unsafe { p.cast::<Self::Bytes>().write_unaligned(a) };
    }
    /// Adds the products of unsigned and signed quantised values; with [`IntSimd::WINOGRAD_INNER_PRODUCT`] only.
    fn winograd_products(self, part: Self::Acc, _x: Self::Quants, _y: Self::Quants) -> Self::Acc {
        part
    }
    /// Stores negated sums; with [`IntSimd::WINOGRAD_INNER_PRODUCT`] only.
    ///
    /// # Safety
    /// `p` points at room for one integer per row.
    unsafe fn store_less(self, _part: Self::Acc, _p: *mut u8) {}
    /// Adds `b` to every quantised value, wrapping; with [`AccInit::Shift`] only.
    fn shift(self, a: Self::Quants, _b: u8) -> Self::Quants {
        a
    }
    /// Adds the squares of each row's signed quantised values, none of them -128; with [`IntSimd::WORDS`] only.
    fn add_squares(self, total: Self::Ints, _codes: Self::Quants) -> Self::Ints {
        total
    }
    /// Returns sums that begin at the column's initial value at `start`, of a format with zero point `zero`; with
    /// [`IntSimd::ACC_INIT`] only.
    unsafe fn begin(self, _start: *const i32, _zero: i32) -> Self::Acc {
        self.none()
    }
    /// Returns the initial sums of 32 products: minus `zero` times the activations' sum at `sum`, on instruction sets
    /// that subtract it first.
    unsafe fn start(self, sum: *const i32, zero: i32) -> Self::Acc;
    /// Returns zero sums.
    fn none(self) -> Self::Acc;
    /// Adds the products of k-groups g and g + 4, for every g of `groups`, with `C` times [`IntSimd::COLUMNS`] columns;
    /// those of g + 4 are added to the last part. Unsigned quantised values are at most 63.
    ///
    /// # Safety
    /// `w` and `a` point at weights and activations of 32 values.
    unsafe fn products<U: ReadQuants, const SIGNED: bool, const C: usize, const P: usize>(
        self,
        s: &mut [[Self::Acc; C]; P],
        groups: Range<usize>,
        w: *const u8,
        a: *const i8,
    );

    /// Adds the products of k-groups 0 to 3 to `from`, or with `HIGH` those of 4 to 7: for tiles whose sums of both
    /// would not fit the registers. Quantised values are unpacked once for each.
    ///
    /// # Safety
    /// As in [`IntSimd::products`].
    #[inline(always)]
    unsafe fn products_of_part<U: ReadQuants, const SIGNED: bool, const C: usize, const HIGH: bool>(
        self,
        from: [Self::Acc; C],
        w: *const u8,
        a: *const i8,
    ) -> [Self::Acc; C] {
        let mut s = [from; 2];
        // SAFETY: as in `IntSimd::products` (`# Safety`).
        unsafe { self.products::<U, SIGNED, C, 2>(&mut s, 0..4, w, a) };
        s[usize::from(HIGH)]
    }

    /// Returns zeros.
    fn ints(self) -> Self::Ints;
    /// Reinterprets biased totals as floats; with [`IntSimd::BIASED`] only, whose [`IntSimd::COLUMNS`] is 1.
    fn biased_floats(self, a: Self::Ints) -> Self::Floats {
        self.floats::<INTEGERS>(a)
    }
    /// Adds sums to the total, unscaled.
    fn add<const SIGNED: bool>(self, total: Self::Ints, part: Self::Acc) -> Self::Ints;
    /// Subtracts `zero` times the activations' sum at `sum`, if [`IntSimd::start`] did not.
    unsafe fn finish(self, total: Self::Ints, sum: *const i32, zero: i32) -> Self::Ints;
    /// Converts one signed or unsigned byte per row to scales.
    fn scale<const HOW: u8>(self, bytes: Self::Bytes, signed: bool) -> Self::Scale;
    /// Adds sums times their scale to the total.
    fn add_scaled<const SIGNED: bool, const HOW: u8>(
        self,
        total: Self::Ints,
        part: Self::Acc,
        scale: Self::Scale,
    ) -> Self::Ints;
    /// Moves sums that fit 16 bits to the upper halves of their lanes. The sums of a second block begin in the lower
    /// halves, at [`LOW_HALF_BIAS`](crate::cpu::isa::LOW_HALF_BIAS) or at the columns' initial values that include it,
    /// and do not change the upper ones until [`IntSimd::add_shared`]. With [`IntSimd::PACKS_TWO_SUMS`] only.
    ///
    /// # Safety
    /// `start` points at the columns' initial values, if given.
    unsafe fn make_room(self, part: Self::Acc, _start: Option<*const i32>) -> Self::Acc {
        part
    }
    /// Adds the two 16-bit sums of each lane times their scales; the second block's scale is the low half of each pair.
    /// With [`IntSimd::PACKS_TWO_SUMS`] only.
    fn add_shared(self, total: Self::Ints, _part: Self::Acc, _scales: Self::Pairs) -> Self::Ints {
        total
    }
    /// Widens two bytes per row to a pair of 16-bit integers.
    fn pairs(self, low: Self::Bytes, high: Self::Bytes, signed: bool) -> Self::Pairs;
    /// Adds each row's pair times the pair at `word`.
    unsafe fn add_pairs(self, total: Self::Ints, pairs: Self::Pairs, word: *const i32) -> Self::Ints;
    /// Computes `a - k * b`.
    fn sub_times(self, a: Self::Ints, b: Self::Ints, k: i32) -> Self::Ints;
    /// Converts the totals of [`IntSimd::add_scaled`] to floats, rounded to nearest even.
    fn floats<const HOW: u8>(self, a: Self::Ints) -> Self::Floats;

    /// Loads 16 bytes.
    unsafe fn bytes(self, p: *const u8) -> Self::Bytes;
    /// Computes the bitwise and of every byte with `mask`.
    fn byte_and(self, a: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Computes the bitwise or.
    fn byte_or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Shifts bytes right; the caller masks bits from neighbouring bytes.
    fn byte_shr<const N: i32>(self, a: Self::Bytes) -> Self::Bytes;
    /// Shifts bytes left; the caller masks bits from neighbouring bytes.
    fn byte_shl<const N: i32>(self, a: Self::Bytes) -> Self::Bytes;
    /// Subtracts `b` from every byte, wrapping.
    fn byte_sub(self, a: Self::Bytes, b: u8) -> Self::Bytes;
    /// Computes `2^(e - 128)` of each byte e, exactly, subnormal numbers included.
    fn half_powers(self, a: Self::Bytes) -> Self::Floats;

    /// Returns zeros.
    fn zeros(self) -> Self::Floats;
    /// Loads 16 halves as floats.
    unsafe fn halves(self, p: *const u8) -> Self::Floats;
    /// Loads 16 bfloat16 as floats; with `COUNTED`, values too small to count become zero (`gemm::format::bf16`).
    unsafe fn brain_floats<const COUNTED: bool>(self, p: *const u8) -> Self::Floats;
    /// Loads 16 bfloat16 of each of two k as floats; values too small to count become zero.
    #[inline(always)]
    unsafe fn brain_float_pair(self, p: *const u8) -> [Self::Floats; 2] {
        // SAFETY: the trait method's `# Safety`.
        unsafe { [self.brain_floats::<true>(p), self.brain_floats::<true>(p.add(32))] }
    }
    /// Loads 16 floats.
    unsafe fn load_floats(self, p: *const u8) -> Self::Floats;
    /// Broadcasts one float to every row.
    unsafe fn splat(self, p: *const f32) -> Self::Floats;
    /// Broadcasts one integer to every row, as float.
    unsafe fn splat_int(self, p: *const i32) -> Self::Floats;
    /// Computes `a * b`.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Computes `a + b`.
    fn sum(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Computes `a * b + c`, rounded once.
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Adds `w * x` to each column, with the floats at `x`, rounded once.
    #[inline(always)]
    unsafe fn fma_columns<const C: usize>(self, w: Self::Floats, x: *const f32, y: &mut [Self::Floats; C]) {
        for c in 0..C {
            // SAFETY: the caller's activations hold COLUMNS floats for each of the C columns.
            y[c] = self.fma(w, unsafe { self.splat(x.add(c * Self::COLUMNS)) }, y[c]);
        }
    }
    /// Computes `c - a * b`, rounded once.
    fn fnma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Stores 16 floats.
    unsafe fn store(self, a: Self::Floats, p: *mut f32);
}

/// [`IntSimd`] whose floats are 16 lanes of one column: for attention.
pub(crate) trait F32Simd: IntSimd {
    /// Returns, per lane, `b` if it is greater, else `a`.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Computes the sum of all lanes: lane i and i + 8, then + 4, + 2, + 1.
    fn join_sum(self, a: Self::Floats) -> f32;
    /// Computes the maximum of all lanes in the same order; a later lane replaces an earlier one if it is greater.
    fn join_max(self, a: Self::Floats) -> f32;
    /// Computes [`F32Simd::join_sum`] of each of 16 vectors.
    #[inline(always)]
    fn join_sums(self, a: &[Self::Floats; 16]) -> [f32; 16] {
        std::array::from_fn(|i| self.join_sum(a[i]))
    }
    /// Computes [`F32Simd::join_max`] of each of 16 vectors.
    #[inline(always)]
    fn join_maxima(self, a: &[Self::Floats; 16]) -> [f32; 16] {
        std::array::from_fn(|i| self.join_max(a[i]))
    }
    /// Converts signed bytes to floats.
    fn signed_bytes(self, a: Self::Bytes) -> Self::Floats;
    /// Adds the low bits of `n` to the exponents of `a`: the bits of `a` plus those of `n`, shifted left by 23.
    fn add_exponent(self, a: Self::Floats, n: Self::Floats) -> Self::Floats;
    /// Widens 32 signed bytes to pairs of 16-bit integers.
    ///
    /// # Safety
    /// `p` points at 32 bytes.
    unsafe fn code_pairs(self, p: *const u8) -> Self::Pairs;
    /// Stores floats as 16-bit integers, rounded to nearest even; none is out of range by 1 or more.
    ///
    /// # Safety
    /// `p` points at room for 16 integers.
    unsafe fn store_words(self, a: Self::Floats, p: *mut i16);
}
