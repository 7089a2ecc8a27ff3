//! What an instruction set offers to the matrix kernels: vectors of 16 rows, one lane per row.
//!
//! The loops in `matmul::family` and `matmul::floats` and the unpacking in `matmul::format` are written once against [`Dot`]; an
//! instruction set is one implementation of it. Four consecutive codes of a row fill one 32-bit lane.
//!
//! Where an instruction multiplies several columns at once, a [`Dot::Part`] and all that is made of it holds
//! [`Dot::COLUMNS`] of them, and a pointer to a column's number points at that many. A token may also stand for
//! some of the 16 rows only; pointers are still to those of all 16.
//!
//! Every method is `#[inline(always)]` and is only called inside a function compiled for the instruction set.

use super::Starts;
use super::ahead::{FEW, prefetch_following, prefetch_weights};
use std::ops::Range;

/// How a format's codes of 32 values of 16 rows become bytes.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) trait Unpack {
    /// Whether codes were taken apart ahead, with [`Starts::Shift`] signed ones made unsigned.
    const APART: bool = false;
    /// Whether the codes of each k-group are a line of their own, those of `g + 4` four lines behind.
    const LINES: bool = false;
    /// Whether a block's codes are all loaded before the first is multiplied where that pays ([`Dot::AGAIN`]).
    const HELD: bool = false;

    /// Codes of k-group `g` (0 to 3) and of k-group `g + 4`.
    ///
    /// # Safety
    /// `w` points at the weights of 32 values.
    unsafe fn pair<D: Dot>(d: D, w: *const u8, g: usize) -> (D::Codes, D::Codes);
}

/// How a [`Dot`] with [`Dot::WORDS`] multiplies sums by their scales; the others have one way. All make the same totals.
///
/// In integers of 32 bits, whatever the sums.
pub(crate) const INTEGERS: u8 = 0;
/// In floats: totals stay below 2^24 in magnitude.
pub(crate) const FLOATS: u8 = 1;
/// In integers of 16 bits, which the sums of products fit.
pub(crate) const WORDS: u8 = 2;

/// The number whose bits, as an integer, sums of [`Dot::BIASED`] sets begin at. Its last bit is worth one, so a sum of
/// magnitude below 2^22 that is added to the bits is added to the number: no conversion to floats is needed.
pub(crate) const BIAS: f32 = 12_582_912.0;
/// Its bits.
pub(crate) const BIAS_BITS: i32 = BIAS.to_bits().cast_signed();

/// Operations of one instruction set.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) trait Dot: Copy {
    /// 16 rows of 4 codes.
    type Codes: Copy;
    /// Sums of products that still want their scale.
    type Part: Copy;
    /// 16 integers.
    type Ints: Copy;
    /// 16 integer scales, made for [`Dot::add_scaled`].
    type Scale: Copy;
    /// 16 pairs of 16-bit integers.
    type Pairs: Copy;
    /// 16 bytes, one per row.
    type Bytes: Copy;
    /// 16 floats.
    type Floats: Copy;

    /// Whether weights are fetched ahead into the first cache ([`super::Tier`]).
    const NEAR: bool = false;
    /// Whether those that [`FEW`](super::FEW) columns meet are asked for again, further ahead and on the way: a core of Zen 4 otherwise
    /// waited for a seventh to a fifth of its time, and with AVX2, which takes more instructions, it does not. Eight columns of Q8_0
    /// lost a thirtieth by it.
    const AGAIN: bool = false;
    /// Columns in one [`Dot::Part`].
    const COLUMNS: usize;
    /// Panels that are multiplied together. Vectors then hold 16 rows of each, and a pointer is to those of the first.
    const PANELS: usize = 1;
    /// Up to how many columns the chains of a float product are computed side by side: more sums have no registers.
    const SIDE_BY_SIDE: usize;
    /// Columns beyond which the sums of two parts and the totals would not all stay in registers.
    const PARTS_TOGETHER: usize = usize::MAX;
    /// Whether a [`Dot::Part`] of unsigned codes is 16 bits wide, and so takes only so many products.
    const NARROW: bool;
    /// What is added to signed codes to make them unsigned; its share leaves through the sums of activations.
    const SIGNED_ZERO: i32;
    /// What sums of shifted codes begin at, as the batch says (`activations::Tile::starts`): of those that were taken apart ahead, and
    /// some others (`family::centred`).
    const STARTS: Starts = Starts::None;
    /// Whether the sums of 32 products that [`Dot::start`] or the batch's `starts` begin do so at [`BIAS_BITS`]. Narrow sums
    /// cannot, and that their totals did took AVX2 more registers than it has.
    const BIASED: bool = false;
    /// Whether [`Dot::brain_float_pair`] has instructions of its own; else two vectors at once only take registers.
    const BRAIN_PAIRS: bool = false;
    /// Whether scaling sums that fit 16 bits is one instruction, so that it pays to know where they do.
    const WORDS: bool = false;
    /// Whether the sums of two blocks that fit 16 bits share a lane, so that one instruction scales and adds both: what makes
    /// room in a lane costs nothing where multiplications are all that is scarce. With [`Dot::WORDS`] only. Of panels that were taken
    /// apart ahead: others' sums and codes do not fit the registers together (`family::scarce` says what else follows from it).
    const SHARED: bool = false;
    /// Whether panels are taken apart for products of sums ([`mixed`](crate::matmul::mixed)).
    const MIXES: bool = false;

    /// Columns of the tile, of which `C` times [`Dot::COLUMNS`] are multiplied, all unless the token says otherwise.
    #[inline(always)]
    fn of<const C: usize>(self) -> usize {
        C * Self::COLUMNS
    }
    /// The first of those that are multiplied.
    #[inline(always)]
    fn first(self) -> usize {
        0
    }

    /// 64 bytes of codes.
    unsafe fn load(self, p: *const u8) -> Self::Codes;
    /// Asks for the line of weights at `p`.
    #[inline(always)]
    fn prefetch(self, p: *const u8) {
        prefetch_weights(Self::NEAR, p);
    }
    /// Asks for what follows the line of weights at `p`, of every panel, which so many columns meet.
    #[inline(always)]
    fn prefetch_following(self, p: *const u8, columns: usize) {
        prefetch_following(Self::NEAR, Self::AGAIN && columns <= FEW, p, 1);
    }
    /// The same codes, which the compiler does not compute later than here.
    #[inline(always)]
    fn hold(self, codes: Self::Codes) -> Self::Codes {
        codes
    }
    /// [`Unpack::pair`], held.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn held_pair<U: Unpack>(self, w: *const u8, g: usize) -> (Self::Codes, Self::Codes) {
        // SAFETY: the caller's promise.
        let (low, high) = unsafe { U::pair(self, w, g) };
        (self.hold(low), self.hold(high))
    }
    /// Bits of every code under `mask`.
    fn and(self, a: Self::Codes, mask: u8) -> Self::Codes;
    /// Bits of either.
    fn or(self, a: Self::Codes, b: Self::Codes) -> Self::Codes;
    /// Every pair of codes, as a 16-bit number, shifted down. The caller masks what crosses.
    fn shr<const N: u32>(self, a: Self::Codes) -> Self::Codes;
    /// As [`Dot::shr`], up.
    fn shl<const N: u32>(self, a: Self::Codes) -> Self::Codes;
    /// Every code (0 to 15) replaced by its entry.
    fn look_up(self, a: Self::Codes, table: &[u8; 16]) -> Self::Codes;

    /// Writes 64 bytes of codes.
    unsafe fn store_codes(self, a: Self::Codes, p: *mut u8);
    /// Writes 16 bytes.
    ///
    /// # Safety
    /// `p` points at room for them.
    #[inline(always)]
    unsafe fn store_bytes(self, a: Self::Bytes, p: *mut u8) {
        const { assert!(size_of::<Self::Bytes>() == 16, "a vector of bytes and nothing else") };
        // SAFETY: the caller's promise; the vector is 16 bytes.
        unsafe { p.cast::<Self::Bytes>().write_unaligned(a) };
    }
    /// Adds the products of unsigned codes and signed ones; with [`Dot::MIXES`] only.
    fn mix(self, part: Self::Part, _x: Self::Codes, _y: Self::Codes) -> Self::Part {
        part
    }
    /// Writes a part negated; with [`Dot::MIXES`] only.
    ///
    /// # Safety
    /// `p` points at room for a number of each row.
    unsafe fn store_less(self, _part: Self::Part, _p: *mut u8) {}
    /// Every code plus `b`, wrapping; with [`Starts::Shift`] only.
    fn shift(self, a: Self::Codes, _b: u8) -> Self::Codes {
        a
    }
    /// Adds to each row the squares of its signed codes, none of them -128; with [`Dot::WORDS`] only.
    fn add_squares(self, total: Self::Ints, _codes: Self::Codes) -> Self::Ints {
        total
    }
    /// No products yet, and the column's number at `start`, of a format in which `zero` is the code of 0; with
    /// [`Dot::STARTS`] only.
    unsafe fn begin(self, _start: *const i32, _zero: i32) -> Self::Part {
        self.none()
    }
    /// No products of 32 values yet, less `zero` times the activations' sum at `sum` where the set subtracts it first.
    unsafe fn start(self, sum: *const i32, zero: i32) -> Self::Part;
    /// No products yet.
    fn none(self) -> Self::Part;
    /// Adds the products of k-groups g and g + 4, for every g of `groups`, with `C` times [`Dot::COLUMNS`] columns,
    /// those of the latter to the last of the parts. Unsigned codes are at most 63.
    ///
    /// # Safety
    /// `w` and `a` point at weights and activations of 32 values.
    unsafe fn products<U: Unpack, const SIGNED: bool, const C: usize, const P: usize>(
        self,
        s: &mut [[Self::Part; C]; P],
        groups: Range<usize>,
        w: *const u8,
        a: *const i8,
    );

    /// Adds to `from` the products of k-groups 0 to 3, or with `HIGH` those of 4 to 7, alone: for tiles whose sums of
    /// both would not stay in registers. Codes are taken apart once for each.
    ///
    /// # Safety
    /// As for [`Dot::products`].
    #[inline(always)]
    unsafe fn products_of_part<U: Unpack, const SIGNED: bool, const C: usize, const HIGH: bool>(
        self,
        from: [Self::Part; C],
        w: *const u8,
        a: *const i8,
    ) -> [Self::Part; C] {
        let mut s = [from; 2];
        // SAFETY: the caller's promise.
        unsafe { self.products::<U, SIGNED, C, 2>(&mut s, 0..4, w, a) };
        s[usize::from(HIGH)]
    }

    /// Zeros.
    fn ints(self) -> Self::Ints;
    /// The floats that biased totals are the bits of; with [`Dot::BIASED`] only, whose [`Dot::COLUMNS`] is 1.
    fn biased_floats(self, a: Self::Ints) -> Self::Floats {
        self.floats::<INTEGERS>(a)
    }
    /// Adds a part as it is.
    fn add<const SIGNED: bool>(self, total: Self::Ints, part: Self::Part) -> Self::Ints;
    /// Subtracts `zero` times the activations' sum at `sum` where [`Dot::start`] did not.
    unsafe fn finish(self, total: Self::Ints, sum: *const i32, zero: i32) -> Self::Ints;
    /// Scales from one signed or unsigned byte per row.
    fn scale<const HOW: u8>(self, bytes: Self::Bytes, signed: bool) -> Self::Scale;
    /// Adds a part times its scale.
    fn add_scaled<const SIGNED: bool, const HOW: u8>(
        self,
        total: Self::Ints,
        part: Self::Part,
        scale: Self::Scale,
    ) -> Self::Ints;
    /// Moves sums that fit 16 bits to the upper halves of their lanes, where those of a second block, which begin at
    /// [`MIDDLE`](super::MIDDLE) or the columns' numbers that hold it, will not change them until [`Dot::add_shared`]; with
    /// [`Dot::SHARED`] only.
    ///
    /// # Safety
    /// `start` points at the columns' numbers, if at any.
    unsafe fn make_room(self, part: Self::Part, _start: Option<*const i32>) -> Self::Part {
        part
    }
    /// Adds the two sums of each lane, both of 16 bits, times their scales: those of the second block are the lower of each pair;
    /// with [`Dot::SHARED`] only.
    fn add_shared(self, total: Self::Ints, _part: Self::Part, _scales: Self::Pairs) -> Self::Ints {
        total
    }
    /// 16-bit pairs of two bytes per row.
    fn pairs(self, low: Self::Bytes, high: Self::Bytes, signed: bool) -> Self::Pairs;
    /// Adds each row's pair times the pair at `word`.
    unsafe fn add_pairs(self, total: Self::Ints, pairs: Self::Pairs, word: *const i32) -> Self::Ints;
    /// `a - k * b`.
    fn sub_times(self, a: Self::Ints, b: Self::Ints, k: i32) -> Self::Ints;
    /// The totals of [`Dot::add_scaled`] as floats, rounded to nearest even.
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
    /// 16 bfloat16; with `COUNTED` those that are too small to count as zero (`matmul::format::bf16`).
    unsafe fn brain_floats<const COUNTED: bool>(self, p: *const u8) -> Self::Floats;
    /// 16 bfloat16 of each of two k, those that are too small to count as zero.
    #[inline(always)]
    unsafe fn brain_float_pair(self, p: *const u8) -> [Self::Floats; 2] {
        // SAFETY: the caller's promise.
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

/// A [`Dot`] whose floats are all 16 lanes, of one column: what attention computes with.
pub(crate) trait Whole: Dot {
    /// `b` where it is greater, else `a`.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The sum of all lanes: lane i and i + 8, then + 4, + 2, + 1.
    fn join_sum(self, a: Self::Floats) -> f32;
    /// The maximum of all lanes in the same order, where a later lane wins by being greater.
    fn join_max(self, a: Self::Floats) -> f32;
    /// [`Whole::join_sum`] of each of sixteen.
    #[inline(always)]
    fn join_sums(self, a: &[Self::Floats; 16]) -> [f32; 16] {
        std::array::from_fn(|i| self.join_sum(a[i]))
    }
    /// [`Whole::join_max`] of each of sixteen.
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
