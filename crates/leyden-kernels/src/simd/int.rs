//! [`IntSimd`], what an instruction set offers to the GEMM microkernels: vectors of 16 rows, one lane per row.
//!
//! The loops in `gemm::microkernel` and `gemm::microkernel::float` and the unpacking in `gemm::format` are written once against [`IntSimd`]; an
//! instruction set is one implementation of it. Four consecutive quantised values of a row fill one 32-bit lane.
//!
//! Where an instruction multiplies several columns at once, a [`IntSimd::Acc`] and all that is made of it holds
//! [`IntSimd::COLUMNS`] of them, and a pointer to a column's number points at that many. A token may also stand for
//! some of the 16 rows only; pointers are still to those of all 16.
//!
//! Every method is `#[inline(always)]` and is only called inside a function compiled for the instruction set.

use crate::cpu::isa::AccInit;
use crate::prefetch::{MEMORY_BOUND_TOKENS, prefetch_following, prefetch_weights};
use std::ops::Range;

/// How a format's quantised values of 32 values of 16 rows become bytes.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) trait ReadQuants {
    /// Whether quantised values were unpacked ahead, with [`AccInit::Shift`] signed ones made unsigned.
    const UNPACKED: bool = false;
    /// Whether the quantised values of each k-group are a line of their own, those of `g + 4` four lines behind.
    const LINES: bool = false;
    /// Whether a block's quantised values are all loaded before the first is multiplied where that pays ([`IntSimd::AGAIN`]).
    const HELD: bool = false;

    /// Quantised values of k-group `g` (0 to 3) and of k-group `g + 4`.
    ///
    /// # Safety
    /// `w` points at the weights of 32 values.
    unsafe fn pair<D: IntSimd>(d: D, w: *const u8, g: usize) -> (D::Quants, D::Quants);
}

/// How a [`IntSimd`] with [`IntSimd::WORDS`] multiplies sums by their scales; the others have one way. All make the same totals.
///
/// In integers of 32 bits, whatever the sums.
pub(crate) const INTEGERS: u8 = 0;
/// In floats: totals stay below 2^24 in magnitude.
pub(crate) const FLOATS: u8 = 1;
/// In integers of 16 bits, which the sums of products fit.
pub(crate) const WORDS: u8 = 2;

/// The number whose bits, as an integer, sums of [`IntSimd::BIASED`] sets begin at. Its last bit is worth one, so a sum of
/// magnitude below 2^22 that is added to the bits is added to the number: no conversion to floats is needed.
pub(crate) const BIAS: f32 = 12_582_912.0;
/// Its bits.
pub(crate) const BIAS_BITS: i32 = BIAS.to_bits().cast_signed();

/// Operations of one instruction set.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) trait IntSimd: Copy {
    /// 16 rows of 4 quantised values.
    type Quants: Copy;
    /// Sums of products that still want their scale.
    type Acc: Copy;
    /// 16 integers.
    type Ints: Copy;
    /// 16 integer scales, made for [`IntSimd::add_scaled`].
    type Scale: Copy;
    /// 16 pairs of 16-bit integers.
    type Pairs: Copy;
    /// 16 bytes, one per row.
    type Bytes: Copy;
    /// 16 floats.
    type Floats: Copy;

    /// Whether weights are prefetched into L1 ([`crate::cpu::isa::Tier`]).
    const TO_L1: bool = false;
    /// Whether weights of a memory-bound product (up to [`MEMORY_BOUND_TOKENS`]) are prefetched
    /// at several distances.
    const AGAIN: bool = false;
    /// Columns in one [`IntSimd::Acc`].
    const COLUMNS: usize;
    /// Panels that are multiplied together. Vectors then hold 16 rows of each, and a pointer is to those of the first.
    const PANELS: usize = 1;
    /// Up to how many tokens the chains of a float product are computed side by side: more sums have no registers.
    const SIDE_BY_SIDE: usize;
    /// Columns beyond which the sums of two parts and the totals would not all stay in registers.
    const PARTS_TOGETHER: usize = usize::MAX;
    /// Whether a [`IntSimd::Acc`] of unsigned quantised values is 16 bits wide, and so takes only so many products.
    const NARROW: bool;
    /// What is added to signed quantised values to make them unsigned; its share leaves through the sums of activations.
    const SIGNED_ZERO: i32;
    /// The accumulator's initial value of sums of shifted quantised values, as the batch says (`Tile::acc_init`): of those that were unpacked ahead, and
    /// some others (`gemm::unpack::stream::zero_point_in_acc_init`).
    const ACC_INIT: AccInit = AccInit::None;
    /// Whether the sums of 32 products that [`IntSimd::start`] or the batch's `acc_init` begin do so at [`BIAS_BITS`]. Narrow sums
    /// cannot, and that their totals did took AVX2 more registers than it has.
    const BIASED: bool = false;
    /// Whether [`IntSimd::brain_float_pair`] has instructions of its own; else two vectors at once only take registers.
    const BRAIN_PAIRS: bool = false;
    /// Whether scaling sums that fit 16 bits is one instruction, so that it pays to know where they do.
    const WORDS: bool = false;
    /// Whether the sums of two blocks that fit 16 bits share a lane, so that one instruction scales and adds both: what makes
    /// room in a lane costs nothing where multiplications are all that is scarce. With [`IntSimd::WORDS`] only. Of panels that were taken
    /// apart ahead: others' sums and quantised values do not fit the registers together (`gemm::unpack::stream::multiply_port_bound` says what else follows from it).
    const PACKS_TWO_SUMS: bool = false;
    /// Whether panels are unpacked for Winograd inner products ([`winograd`](crate::gemm::unpack::winograd)).
    const WINOGRAD_INNER_PRODUCT: bool = false;

    /// Columns of the tile, of which `C` times [`IntSimd::COLUMNS`] are multiplied, all unless the token says otherwise.
    #[inline(always)]
    fn of<const C: usize>(self) -> usize {
        C * Self::COLUMNS
    }
    /// The first of those that are multiplied.
    #[inline(always)]
    fn first(self) -> usize {
        0
    }

    /// 64 bytes of quantised values.
    unsafe fn load(self, p: *const u8) -> Self::Quants;
    /// Prefetches the line of weights at `p`.
    #[inline(always)]
    fn prefetch(self, p: *const u8) {
        prefetch_weights(Self::TO_L1, p);
    }
    /// Prefetches what follows the line of weights at `p`, of every panel, which so many tokens meet.
    #[inline(always)]
    fn prefetch_following(self, p: *const u8, columns: usize) {
        prefetch_following(Self::TO_L1, Self::AGAIN && columns <= MEMORY_BOUND_TOKENS, p, 1);
    }
    /// The same quantised values, which the compiler does not compute later than here.
    #[inline(always)]
    fn hold(self, quants: Self::Quants) -> Self::Quants {
        quants
    }
    /// [`ReadQuants::pair`], held.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn held_pair<U: ReadQuants>(self, w: *const u8, g: usize) -> (Self::Quants, Self::Quants) {
        // SAFETY: as there (`# Safety`).
        let (low, high) = unsafe { U::pair(self, w, g) };
        (self.hold(low), self.hold(high))
    }
    /// Bits of every code under `mask`.
    fn and(self, a: Self::Quants, mask: u8) -> Self::Quants;
    /// Bits of either.
    fn or(self, a: Self::Quants, b: Self::Quants) -> Self::Quants;
    /// Every pair of quantised values, as a 16-bit number, shifted down. The caller masks what crosses.
    fn shr<const N: u32>(self, a: Self::Quants) -> Self::Quants;
    /// As [`IntSimd::shr`], up.
    fn shl<const N: u32>(self, a: Self::Quants) -> Self::Quants;
    /// Every code (0 to 15) replaced by its entry.
    fn look_up(self, a: Self::Quants, table: &[u8; 16]) -> Self::Quants;

    /// Writes 64 bytes of quantised values.
    unsafe fn store_codes(self, a: Self::Quants, p: *mut u8);
    /// Writes 16 bytes.
    ///
    /// # Safety
    /// `p` points at room for them.
    #[inline(always)]
    unsafe fn store_bytes(self, a: Self::Bytes, p: *mut u8) {
        const { assert!(size_of::<Self::Bytes>() == 16, "a vector of bytes and nothing else") };
        // SAFETY: `p` points at room for them (`# Safety`); the vector is 16 bytes.
        unsafe { p.cast::<Self::Bytes>().write_unaligned(a) };
    }
    /// Adds the products of unsigned quantised values and signed ones; with [`IntSimd::WINOGRAD_INNER_PRODUCT`] only.
    fn winograd_products(self, part: Self::Acc, _x: Self::Quants, _y: Self::Quants) -> Self::Acc {
        part
    }
    /// Writes a part negated; with [`IntSimd::WINOGRAD_INNER_PRODUCT`] only.
    ///
    /// # Safety
    /// `p` points at room for a number of each row.
    unsafe fn store_less(self, _part: Self::Acc, _p: *mut u8) {}
    /// Every code plus `b`, wrapping; with [`AccInit::Shift`] only.
    fn shift(self, a: Self::Quants, _b: u8) -> Self::Quants {
        a
    }
    /// Adds to each row the squares of its signed quantised values, none of them -128; with [`IntSimd::WORDS`] only.
    fn add_squares(self, total: Self::Ints, _codes: Self::Quants) -> Self::Ints {
        total
    }
    /// No products yet, and the column's number at `start`, of a format in which `zero` is the code of 0; with
    /// [`IntSimd::ACC_INIT`] only.
    unsafe fn begin(self, _start: *const i32, _zero: i32) -> Self::Acc {
        self.none()
    }
    /// No products of 32 values yet, less `zero` times the activations' sum at `sum` where the set subtracts it first.
    unsafe fn start(self, sum: *const i32, zero: i32) -> Self::Acc;
    /// No products yet.
    fn none(self) -> Self::Acc;
    /// Adds the products of k-groups g and g + 4, for every g of `groups`, with `C` times [`IntSimd::COLUMNS`] columns,
    /// those of the latter to the last of the parts. Unsigned quantised values are at most 63.
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

    /// Adds to `from` the products of k-groups 0 to 3, or with `HIGH` those of 4 to 7, alone: for tiles whose sums of
    /// both would not stay in registers. Quantised values are unpacked once for each.
    ///
    /// # Safety
    /// As for [`IntSimd::products`].
    #[inline(always)]
    unsafe fn products_of_part<U: ReadQuants, const SIGNED: bool, const C: usize, const HIGH: bool>(
        self,
        from: [Self::Acc; C],
        w: *const u8,
        a: *const i8,
    ) -> [Self::Acc; C] {
        let mut s = [from; 2];
        // SAFETY: as for `IntSimd::products` (`# Safety`).
        unsafe { self.products::<U, SIGNED, C, 2>(&mut s, 0..4, w, a) };
        s[usize::from(HIGH)]
    }

    /// Zeros.
    fn ints(self) -> Self::Ints;
    /// The floats that biased totals are the bits of; with [`IntSimd::BIASED`] only, whose [`IntSimd::COLUMNS`] is 1.
    fn biased_floats(self, a: Self::Ints) -> Self::Floats {
        self.floats::<INTEGERS>(a)
    }
    /// Adds a part as it is.
    fn add<const SIGNED: bool>(self, total: Self::Ints, part: Self::Acc) -> Self::Ints;
    /// Subtracts `zero` times the activations' sum at `sum` where [`IntSimd::start`] did not.
    unsafe fn finish(self, total: Self::Ints, sum: *const i32, zero: i32) -> Self::Ints;
    /// Scales from one signed or unsigned byte per row.
    fn scale<const HOW: u8>(self, bytes: Self::Bytes, signed: bool) -> Self::Scale;
    /// Adds a part times its scale.
    fn add_scaled<const SIGNED: bool, const HOW: u8>(
        self,
        total: Self::Ints,
        part: Self::Acc,
        scale: Self::Scale,
    ) -> Self::Ints;
    /// Moves sums that fit 16 bits to the upper halves of their lanes, where those of a second block, which begin at
    /// [`LOW_HALF_BIAS`](crate::cpu::isa::LOW_HALF_BIAS) or the columns' numbers that hold it, will not change them until [`IntSimd::add_shared`]; with
    /// [`IntSimd::PACKS_TWO_SUMS`] only.
    ///
    /// # Safety
    /// `start` points at the columns' numbers, if at any.
    unsafe fn make_room(self, part: Self::Acc, _start: Option<*const i32>) -> Self::Acc {
        part
    }
    /// Adds the two sums of each lane, both of 16 bits, times their scales: those of the second block are the lower of each pair;
    /// with [`IntSimd::PACKS_TWO_SUMS`] only.
    fn add_shared(self, total: Self::Ints, _part: Self::Acc, _scales: Self::Pairs) -> Self::Ints {
        total
    }
    /// 16-bit pairs of two bytes per row.
    fn pairs(self, low: Self::Bytes, high: Self::Bytes, signed: bool) -> Self::Pairs;
    /// Adds each row's pair times the pair at `word`.
    unsafe fn add_pairs(self, total: Self::Ints, pairs: Self::Pairs, word: *const i32) -> Self::Ints;
    /// `a - k * b`.
    fn sub_times(self, a: Self::Ints, b: Self::Ints, k: i32) -> Self::Ints;
    /// The totals of [`IntSimd::add_scaled`] as floats, rounded to nearest even.
    fn floats<const HOW: u8>(self, a: Self::Ints) -> Self::Floats;

    /// 16 bytes.
    unsafe fn bytes(self, p: *const u8) -> Self::Bytes;
    /// Bits of every byte under `mask`.
    fn byte_and(self, a: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Bits of either.
    fn byte_or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Bytes shifted down; what crosses from the neighbour is the caller's to mask.
    fn byte_shr<const N: i32>(self, a: Self::Bytes) -> Self::Bytes;
    /// Bytes shifted up; what crosses from the neighbour is the caller's to mask.
    fn byte_shl<const N: i32>(self, a: Self::Bytes) -> Self::Bytes;
    /// Bytes less `b`, wrapping.
    fn byte_sub(self, a: Self::Bytes, b: u8) -> Self::Bytes;
    /// `2^(e - 128)` of each byte e, exactly, subnormal numbers included.
    fn half_powers(self, a: Self::Bytes) -> Self::Floats;

    /// Zeros.
    fn zeros(self) -> Self::Floats;
    /// 16 halves.
    unsafe fn halves(self, p: *const u8) -> Self::Floats;
    /// 16 bfloat16; with `COUNTED` those that are too small to count as zero (`gemm::format::bf16`).
    unsafe fn brain_floats<const COUNTED: bool>(self, p: *const u8) -> Self::Floats;
    /// 16 bfloat16 of each of two k, those that are too small to count as zero.
    #[inline(always)]
    unsafe fn brain_float_pair(self, p: *const u8) -> [Self::Floats; 2] {
        // SAFETY: the trait method's `# Safety`.
        unsafe { [self.brain_floats::<true>(p), self.brain_floats::<true>(p.add(32))] }
    }
    /// 16 floats.
    unsafe fn load_floats(self, p: *const u8) -> Self::Floats;
    /// One float for every row.
    unsafe fn splat(self, p: *const f32) -> Self::Floats;
    /// One integer for every row, as float.
    unsafe fn splat_int(self, p: *const i32) -> Self::Floats;
    /// `a * b`.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a + b`.
    fn sum(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Adds `w * x` to each column, with the floats at `x`, rounded once.
    #[inline(always)]
    unsafe fn fma_columns<const C: usize>(self, w: Self::Floats, x: *const f32, y: &mut [Self::Floats; C]) {
        for c in 0..C {
            // SAFETY: the caller's activations hold COLUMNS floats for each.
            y[c] = self.fma(w, unsafe { self.splat(x.add(c * Self::COLUMNS)) }, y[c]);
        }
    }
    /// `c - a * b`, rounded once.
    fn fnma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Writes 16 floats.
    unsafe fn store(self, a: Self::Floats, p: *mut f32);
}

/// A [`IntSimd`] whose floats are all 16 lanes, of one column: what attention computes with.
pub(crate) trait F32Simd: IntSimd {
    /// `b` where it is greater, else `a`.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The sum of all lanes: lane i and i + 8, then + 4, + 2, + 1.
    fn join_sum(self, a: Self::Floats) -> f32;
    /// The maximum of all lanes in the same order, where a later lane wins by being greater.
    fn join_max(self, a: Self::Floats) -> f32;
    /// [`F32Simd::join_sum`] of each of sixteen.
    #[inline(always)]
    fn join_sums(self, a: &[Self::Floats; 16]) -> [f32; 16] {
        std::array::from_fn(|i| self.join_sum(a[i]))
    }
    /// [`F32Simd::join_max`] of each of sixteen.
    #[inline(always)]
    fn join_maxima(self, a: &[Self::Floats; 16]) -> [f32; 16] {
        std::array::from_fn(|i| self.join_max(a[i]))
    }
    /// Signed bytes as floats.
    fn signed_bytes(self, a: Self::Bytes) -> Self::Floats;
    /// Adds the low bits of `n` to the exponents of `a`: the bits of `a` plus those of `n`, shifted up by 23.
    fn add_exponent(self, a: Self::Floats, n: Self::Floats) -> Self::Floats;
    /// Pairs from 32 signed bytes, two by two.
    ///
    /// # Safety
    /// `p` points at them.
    unsafe fn code_pairs(self, p: *const u8) -> Self::Pairs;
    /// Writes 16 integers of 16 bits: floats rounded to nearest even, none of them beyond such an integer by one or more.
    ///
    /// # Safety
    /// `p` points at room for them.
    unsafe fn store_words(self, a: Self::Floats, p: *mut i16);
}
