//! Quantisation of activations, a slice of a tile at a time: first the greatest magnitude of every group, then all
//! scales, 16 at once, then the quantised values.

use crate::cpu::isa::{AccInit, LOW_HALF_BIAS, Level, Tier};
use crate::prefetch::prefetch;
use crate::quant::overflow_bounds::{Largest, OverflowBounds};
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;
use crate::simd::int::BIAS_BITS;
use crate::types::{ActFormat, Q128_MAX, flush_small_bf16};

const PART_COLUMNS: usize = Level::PART_COLUMNS;

/// Magnitude below which a group counts as zero: the inverse of its scale would overflow far earlier than any real
/// activation is that small.
const TINY: f32 = 1e-30;
/// Quantised value of the greatest magnitude.
pub(crate) const GREATEST: f32 = 127.0;
/// Returns the value, before rounding, to which a group's greatest magnitude is scaled: 127, or a little less than
/// 120.5 for groups of 128 values. Quantised activations of up to 120 of either sign, added to quantised weights from 0
/// to 15, have 256 possible sums, a byte (`gemm::unpack::winograd`). The half above 120 is removed by rounding.
const fn greatest<const G: usize>() -> f32 {
    if G == 128 { Q128_MAX as f32 + 0.49 } else { GREATEST }
}

/// Constant (1.5 * 2^23) whose addition leaves the value, rounded to nearest even, in the low mantissa bits.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// Returns the scale that maps the greatest magnitude `max` to `greatest`, and its inverse.
#[inline(always)]
pub(crate) fn scale_of(max: f32, greatest: f32) -> (f32, f32) {
    if max < TINY {
        (0.0, 0.0)
    } else if max.is_finite() {
        (max / greatest, greatest / max)
    } else {
        (f32::NAN, 0.0)
    }
}

/// Quantises one group; returns its scale.
#[inline(always)]
pub(crate) fn quantise_group<I: Simd, const G: usize>(isa: I, x: &[f32; G], quants: &mut [i8; G]) -> f32 {
    let greatest = const { greatest::<G>() };
    let (scale, inverse) = scale_of(f32::from_bits(isa.greatest_magnitude(x)), greatest);
    *quants = if scale.is_nan() { [0; G] } else { codes_of(x, inverse) };
    scale
}

/// Quantises a multiple of 16 values that share a scale; returns the scale.
#[inline(always)]
pub(crate) fn quantise_values<I: Simd>(isa: I, x: &[f32], quants: &mut [i8]) -> f32 {
    let (scale, inverse) = scale_of(f32::from_bits(isa.greatest_magnitude(x)), GREATEST);
    codes_of_all(x, inverse, quants);
    scale
}

/// Quantises a multiple of 16 values by the inverse of their scale.
#[inline(always)]
pub(crate) fn codes_of_all(x: &[f32], inverse: f32, quants: &mut [i8]) {
    let ((x, x_rest), (to, to_rest)) = (x.as_chunks::<64>(), quants.as_chunks_mut::<64>());
    for (x, to) in x.iter().zip(to) {
        *to = codes_of(x, inverse);
    }
    for (x, to) in x_rest.as_chunks::<16>().0.iter().zip(to_rest.as_chunks_mut::<16>().0) {
        *to = codes_of(x, inverse);
    }
}

/// Quantises a group by the inverse of its scale.
#[inline(always)]
pub(crate) fn codes_of<const G: usize>(x: &[f32; G], inverse: f32) -> [i8; G] {
    let mut quants = [0; G];
    for i in 0..G {
        quants[i] = (x[i] * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i8;
    }
    quants
}

/// Shift of quantised weights, which `acc_init` corrects.
pub(crate) const ZERO_POINT_SHIFT: i32 = 128;

/// Slice of some values of all columns of a tile, for writing.
pub(crate) struct PackedASlice<'a> {
    pub(crate) tier: Tier,
    pub(crate) act_format: ActFormat,
    /// Number of columns.
    pub(crate) c: usize,
    pub(crate) quants: &'a mut [i8],
    pub(crate) scales: &'a mut [f32],
    pub(crate) sums: &'a mut [i32],
    pub(crate) pairs: &'a mut [i32],
    /// Empty if unused.
    pub(crate) acc_init: &'a mut [i32],
    /// Empty if unused.
    pub(crate) overflow_bounds: &'a mut [OverflowBounds],
    /// Empty if unused.
    pub(crate) words: &'a mut [i16],
    /// Empty if unused.
    pub(crate) lanes: &'a mut [i8],
    /// Empty if unused.
    pub(crate) winograd: &'a mut [i32],
    pub(crate) values: &'a mut [f32],
}

/// Number of values of a column that are written before the next column: columns are interleaved, and this much of all
/// columns stays in L1. A whole number of groups and pairs.
pub(crate) const PART: usize = 512;

impl PackedASlice<'_> {
    /// Fills the slice with the values of every column, at most [`PART`] of each.
    ///
    /// # Panics
    /// If `columns` has another number of columns or of values.
    pub(crate) fn fill(&mut self, columns: &[&[f32]]) {
        fill_on(self.tier, columns, self);
        self.widen();
    }

    /// Computes the 16-bit integers of the quantised values, if they are used.
    fn widen(&mut self) {
        let c = self.c;
        for (quants, words) in self.quants.chunks_exact(4 * c).zip(self.words.chunks_exact_mut(4 * c)) {
            let (even, odd) = words.split_at_mut(2 * c);
            for ((two, even), odd) in quants.as_chunks::<2>().0.iter().zip(even).zip(odd) {
                [*even, *odd] = two.map(i16::from);
            }
        }
    }
}

/// Returns the bits of the nearest bfloat16 as an f32, ties to even; of zero if it is too small to count.
#[inline(always)]
pub(crate) fn rounded_to_bf16(x: f32) -> u32 {
    let bits = x.to_bits();
    // Without a branch, so that it vectorises. A NaN stays NaN by its quiet bit.
    let nearest = bits.wrapping_add(0x7fff).wrapping_add(bits >> 16 & 1);
    let bits = if x.is_nan() { bits | 0x40_0000 } else { nearest };
    u32::from(flush_small_bf16((bits >> 16) as u16)) << 16
}

/// Packs two 16-bit integers into a word, low half first.
#[inline(always)]
fn pair(low: i32, high: i32) -> i32 {
    (low & 0xffff) | (high << 16)
}

#[inline(always)]
fn fill<I: Simd>(isa: I, columns: &[&[f32]], out: &mut PackedASlice<'_>) {
    let (c, level) = (out.c, out.tier.level());
    assert!(columns.len() == c && columns.iter().all(|x| x.len() <= PART), "columns of a part");
    match out.act_format {
        ActFormat::F32 => {
            for (column, x) in each(columns) {
                for (k, &v) in x.iter().enumerate() {
                    out.values[k * c + column] = v;
                }
            }
        }
        ActFormat::BF16 => {
            for (column, x) in each(columns) {
                fill_bf16(x, column, c, level.bf16_pairs(), out.values);
            }
        }
        ActFormat::Q8Block32 => {
            fill_block32(isa, columns, level.run(c), out.quants, out.scales, out.sums);
            if level.acc_init() == AccInit::Lanes {
                sum_lanes(isa, out.quants, c, out.acc_init);
            } else {
                acc_init_block32(out.sums, out.acc_init);
            }
        }
        ActFormat::Q8Block128 => fill_block128(isa, columns, out),
        ActFormat::Q8Token(_) => unreachable!("rows of tokens are in no tiles"),
    }
}

/// Returns every column with its index, and prefetches the next column's values: they are not adjacent, and come from
/// memory if a product of many columns wrote them.
#[inline(always)]
fn each<'a, 'x>(columns: &'a [&'x [f32]]) -> impl Iterator<Item = (usize, &'x [f32])> + 'a {
    columns.iter().enumerate().map(|(column, x)| {
        let next = columns.get(column + 1).copied().unwrap_or_default();
        next.chunks(16).for_each(|line| prefetch(line.as_ptr().cast()));
        (column, *x)
    })
}

#[inline(always)]
fn fill_bf16(x: &[f32], column: usize, c: usize, pairs: bool, values: &mut [f32]) {
    for (i, some) in x.chunks(32).enumerate() {
        let mut all = [0.0; 32];
        all[..some.len()].copy_from_slice(some);
        let rounded = all.map(rounded_to_bf16);
        let per_word = if pairs { 2 } else { 1 };
        let words: [u32; 32] = std::array::from_fn(|j| match (pairs, j) {
            (true, 16..) => 0,
            (true, _) => rounded[2 * j] >> 16 | rounded[2 * j + 1],
            (false, _) => rounded[j],
        });
        let first = i * 32 / per_word * c + column;
        let places = values[first..].iter_mut().step_by(c);
        for (to, word) in places.zip(&words[..some.len().div_ceil(per_word)]) {
            *to = f32::from_bits(*word);
        }
    }
}

/// Maximum number of groups in a part of a tile.
const GROUPS: usize = PART / 32 * PART_COLUMNS;

/// Computes the scales of groups of `G` values, `[k/G][c]`; returns the inverses, zero for groups of zeros.
#[inline(always)]
fn scales<I: Simd, const G: usize>(isa: I, columns: &[&[f32]], scales: &mut [f32]) -> [f32; GROUPS] {
    let c = columns.len();
    for (column, x) in each(columns) {
        for (b, group) in x.as_chunks::<G>().0.iter().enumerate() {
            scales[b * c + column] = f32::from_bits(isa.greatest_magnitude(group));
        }
    }
    let greatest = const { greatest::<G>() };
    let mut inverses = [0.0; GROUPS];
    for (scale, inverse) in scales.iter_mut().zip(&mut inverses) {
        let max = *scale;
        // Without a branch, so that it vectorises.
        let counts = (TINY..f32::INFINITY).contains(&max);
        *inverse = if counts { greatest / max } else { 0.0 };
        let odd = if max < TINY { 0.0 } else { f32::NAN };
        *scale = if counts { max / greatest } else { odd };
    }
    inverses
}

/// Computes [`codes_of`], with zeros if the inverse is zero, even for NaN.
#[inline(always)]
fn codes_or_zeros<const G: usize>(x: &[f32; G], inverse: f32) -> [i8; G] {
    if inverse == 0.0 { [0; G] } else { codes_of(x, inverse) }
}

/// Fills a tile of [`ActFormat::Q8Block32`], or some values of each of its columns: quantised values, `run` of them
/// adjacent, scales, and the sum of each 32 quantised values.
#[inline(always)]
pub(crate) fn fill_block32<I: Simd>(
    isa: I,
    columns: &[&[f32]],
    run: usize,
    quants: &mut [i8],
    all_scales: &mut [f32],
    sums: &mut [i32],
) {
    let c = columns.len();
    let inverses = scales::<I, 32>(isa, columns, all_scales);
    for (column, x) in columns.iter().enumerate() {
        for (b, group) in x.as_chunks::<32>().0.iter().enumerate() {
            let q = codes_or_zeros(group, inverses[b * c + column]);
            if run == 64 {
                // The last of an odd number of groups is not paired.
                let width = run.min(quants.len() / c - b / 2 * 64);
                let at = b / 2 * 64 * c + column * width + b % 2 * 32;
                quants[at..at + 32].copy_from_slice(&q);
            } else {
                scatter(isa, &q, &mut quants[b * 32 * c..], (column, c), run);
            }
            sums[b * c + column] = q.as_chunks::<16>().0.iter().map(|half| isa.sum_codes(half)).sum();
        }
    }
}

/// Computes the accumulators' initial values for products of [`ActFormat::Q8Block32`] with shifted quantised weights.
#[inline(always)]
pub(crate) fn acc_init_block32(sums: &[i32], acc_init: &mut [i32]) {
    for (start, sum) in acc_init.iter_mut().zip(sums) {
        *start = BIAS_BITS.wrapping_sub(sum.wrapping_mul(ZERO_POINT_SHIFT));
    }
}

/// Computes the sums of the quantised values that each of two lanes multiplies, for a part of a tile of
/// [`ActFormat::Q8Block32`]: of each four quantised values the first two, and the last two.
#[inline(always)]
fn sum_lanes<I: Simd>(isa: I, quants: &[i8], c: usize, acc_init: &mut [i32]) {
    for (quants, acc_init) in quants.chunks_exact(32 * c).zip(acc_init.chunks_exact_mut(c)) {
        for (column, start) in acc_init.iter_mut().enumerate() {
            let mut all = [0; 32];
            for (g, four) in all.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                four.copy_from_slice(&quants[(g * c + column) * 4..][..4]);
            }
            let [one, other] = isa.sums_of_lanes(&all);
            *start = pair(one, other);
        }
    }
}

/// Interleaves the quantised values of each two blocks of 32 in pairs.
#[inline(always)]
fn in_pairs(quants: &[i8; 128]) -> [i8; 128] {
    let mut out = [0; 128];
    for (quants, out) in quants.as_chunks::<64>().0.iter().zip(out.as_chunks_mut::<64>().0) {
        for s in 0..16 {
            out[4 * s..4 * s + 2].copy_from_slice(&quants[2 * s..2 * s + 2]);
            out[4 * s + 2..4 * s + 4].copy_from_slice(&quants[32 + 2 * s..32 + 2 * s + 2]);
        }
    }
    out
}

/// Fills a part of a tile of [`ActFormat::Q8Block128`].
#[inline(always)]
fn fill_block128<I: Simd>(isa: I, columns: &[&[f32]], out: &mut PackedASlice<'_>) {
    let (c, level) = (out.c, out.tier.level());
    let lanes = level.acc_init() == AccInit::Lanes && !out.acc_init.is_empty();
    let inverses = scales::<I, 128>(isa, columns, out.scales);
    for b in 0..columns.first().map_or(0, |x| x.len() / 128) {
        // Sums of each 16 quantised values of every column.
        let mut s16 = [[0; PART_COLUMNS]; 8];
        // Sums of the first eight of each 16, where lanes begin at them.
        let mut s8 = [[0; PART_COLUMNS]; 8];
        let (mut largest, has_overflow_bounds) = (Largest::default(), !out.overflow_bounds.is_empty());
        for (column, x) in columns.iter().enumerate() {
            let quants = codes_or_zeros::<128>(&x.as_chunks().0[b], inverses[b * c + column]);
            scatter(isa, &quants, &mut out.quants[b * 128 * c..], (column, c), level.run(c));
            let sums = if has_overflow_bounds {
                let moments = isa.moments(&quants);
                largest.count(&moments);
                moments.sums
            } else {
                std::array::from_fn(|i| isa.sum_codes(&quants.as_chunks::<16>().0[i]))
            };
            for i in 0..8 {
                s16[i][column] = sums[i];
            }
            if lanes {
                for (i, sum) in isa.sums_of_first_eights(&quants).into_iter().enumerate() {
                    s8[i][column] = sum;
                }
            }
            if !out.winograd.is_empty() {
                let places = out.winograd[b * 4 * c + column..].iter_mut().step_by(c);
                for (place, start) in places.zip(isa.winograd_corrections(&quants)) {
                    *place = start;
                }
            }
            if !out.lanes.is_empty() {
                let in_pairs = in_pairs(&quants);
                scatter(isa, &in_pairs, &mut out.lanes[b * 128 * c..], (column, c), 4);
            }
        }
        if let Some(overflow_bounds) = out.overflow_bounds.get_mut(b) {
            *overflow_bounds = largest.overflow_bounds();
        }
        for i in 0..4 {
            let (first, last) = (&s16[2 * i], &s16[2 * i + 1]);
            row(&mut out.sums[(b * 4 + i) * c..][..c], |column| pair(first[column], last[column]));
            if lanes {
                // Sums of the first 16 quantised values of both blocks, or of the last 16; then of the first half of
                // these, and of the last half.
                let one = 4 * (i / 2) + i % 2;
                let (all, first) = ([&s16[one], &s16[one + 2]], [&s8[one], &s8[one + 2]]);
                let acc_init = &mut out.acc_init[(b * 4 + i) * 3 * c..][..3 * c];
                let (of_all, acc_init) = acc_init.split_at_mut(c);
                row(of_all, |column| pair(all[0][column], all[1][column]));
                let (of_first, of_last) = acc_init.split_at_mut(c);
                row(of_first, |column| pair(first[0][column], first[1][column]));
                row(of_last, |column| {
                    let last = |i: usize| all[i][column].wrapping_sub(first[i][column]);
                    pair(last(0), last(1))
                });
            } else if !out.acc_init.is_empty() {
                let each = level.acc_init().of_block();
                let acc_init = &mut out.acc_init[(b * 4 + i) * each * c..][..each * c];
                let (all, acc_init) = acc_init.split_at_mut(c);
                row(all, |column| shifted(first[column].wrapping_add(last[column])));
                let (of_first, acc_init) = acc_init.split_at_mut(c);
                row(of_first, |column| shifted(first[column]));
                let (of_last, shared) = acc_init.split_at_mut(c);
                row(of_last, |column| shifted(last[column]));
                row(shared, |column| shifted(last[column]).wrapping_add(LOW_HALF_BIAS));
            }
        }
        for i in 0..2 {
            let s = &s16[4 * i..][..4];
            row(&mut out.pairs[(b * 2 + i) * c..][..c], |column| {
                pair(s[0][column].wrapping_add(s[1][column]), s[2][column].wrapping_add(s[3][column]))
            });
        }
    }
}

/// Returns the negated contribution of the shift to products with quantised values of sum `sum`. Nothing overflows
/// here; wrapping operations let the compiler compute all columns at once.
#[inline(always)]
fn shifted(sum: i32) -> i32 {
    sum.wrapping_mul(-ZERO_POINT_SHIFT)
}

/// Writes one number per column.
#[inline(always)]
fn row(out: &mut [i32], of: impl Fn(usize) -> i32) {
    for (column, out) in out.iter_mut().enumerate().take(PART_COLUMNS) {
        *out = of(column);
    }
}

/// Writes quantised values of one column into `[k/run][c][run]`.
#[inline(always)]
fn scatter<I: Simd>(isa: I, quants: &[i8], out: &mut [i8], (column, c): (usize, usize), run: usize) {
    let out = &mut out[..quants.len() * c];
    if c == 1 {
        out.copy_from_slice(quants);
    } else if run == 64 {
        for (quants, group) in quants.as_chunks::<64>().0.iter().zip(out.chunks_exact_mut(c * 64)) {
            group[column * 64..][..64].copy_from_slice(quants);
        }
    } else if run == 8 {
        let place = column * 8..(column + 1) * 8;
        for (run, group) in quants.as_chunks::<8>().0.iter().zip(out.chunks_exact_mut(c * 8)) {
            group[place.clone()].copy_from_slice(run);
        }
    } else {
        for (quants, group) in quants.as_chunks::<16>().0.iter().zip(out.chunks_exact_mut(c * 16)) {
            isa.store_fours(quants, &mut group[column * 4..], c * 4);
        }
    }
}

dispatch! {
    fn fill_on => fill(columns: &[&[f32]], out: &mut PackedASlice<'_>)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::scalar::Scalar;

    #[test]
    fn groups_round_to_even_and_never_reach_minus_128() {
        let mut x = [0.0_f32; 32];
        x[0] = -254.0;
        x[1] = 1.0; // 0.5 of a step: to even
        x[2] = 3.0; // 1.5 steps
        x[3] = 254.0;
        let mut q = [0; 32];
        assert_eq!(quantise_group(Scalar, &x, &mut q), 2.0);
        assert_eq!(&q[..4], &[-127, 0, 2, 127]);
    }

    #[test]
    fn odd_groups_have_defined_results() {
        let mut q = [1; 32];
        assert_eq!(quantise_group(Scalar, &[0.0; 32], &mut q), 0.0);
        assert_eq!(q, [0; 32]);
        assert_eq!(quantise_group(Scalar, &[1e-38; 32], &mut q), 0.0);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = [1.0; 32];
            x[17] = bad;
            assert!(quantise_group(Scalar, &x, &mut q).is_nan());
        }
        let mut x = [f32::MAX; 32];
        x[1] = f32::MIN;
        assert!(quantise_group(Scalar, &x, &mut q).is_finite());
        assert_eq!(&q[..2], &[127, -127]);
    }

    #[test]
    fn columns_become_what_their_groups_would() {
        let odd = [f32::NAN, f32::from_bits(0x7f80_0055), f32::INFINITY, f32::MIN, 1e-30, 9e-31, 0.0, -1e-45];
        let column =
            |c: usize| -> Vec<f32> {
                (0..256)
                    .map(|i| {
                        if i % 32 == c { odd[(i / 32 + c) % odd.len()] } else { (i * 37 % 101) as f32 - 50.0 }
                    })
                    .map(|x| if c % 2 == 1 { x.clamp(-1e-31, 1e-31) } else { x })
                    .collect()
            };
        let columns: Vec<Vec<f32>> = (0..PART_COLUMNS).map(column).collect();
        for tier in Tier::available() {
            for (act_format, group) in [(ActFormat::Q8Block32, 32), (ActFormat::Q8Block128, 128)] {
                let mut batch = crate::quant::packed_a::PackedA::default();
                let rows = columns.concat();
                // A tile of one column has its quantised values in order.
                for (c, x) in rows.chunks(256).enumerate() {
                    batch.fill(tier, &crate::threads::pool::Pool::new(1).unwrap(), act_format, x, 256);
                    let tile = batch.tile(0);
                    let mut quants = [0; 256];
                    for (b, x) in x.chunks(group).enumerate() {
                        let quants = &mut quants[b * group..][..group];
                        let scale = if group == 32 {
                            quantise_group::<_, 32>(Scalar, x.try_into().unwrap(), quants.try_into().unwrap())
                        } else {
                            quantise_group::<_, 128>(
                                Scalar,
                                x.try_into().unwrap(),
                                quants.try_into().unwrap(),
                            )
                        };
                        assert_eq!(scale.to_bits(), tile.scales[b].to_bits(), "scale {b} of column {c}");
                    }
                    assert_eq!(quants, tile.quants, "column {c} on {}", tier.level());
                }
            }
        }
    }

    #[test]
    fn bfloat16_are_the_nearest_that_count() {
        for i in 0..1 << 16 {
            for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let x = f32::from_bits(i << 16 | low);
                let nearest = leyden_tensor::quant::f32_to_bf16(x);
                let counts = x.is_nan() || f32::from_bits(u32::from(nearest) << 16).abs() >= 2_f32.powi(-56);
                let want = if counts { u32::from(nearest) << 16 } else { 0 };
                assert_eq!(rounded_to_bf16(x), want, "{x:e}");
            }
        }
    }

    #[test]
    fn codes_lie_in_runs() {
        let quants: Vec<i8> = (0..32).collect();
        let mut out = [0; 64];
        scatter(Scalar, &quants, &mut out, (1, 2), 8);
        assert_eq!(out[..24], [[0; 8], [0, 1, 2, 3, 4, 5, 6, 7], [0; 8]].concat());
        let mut out = [0; 64];
        scatter(Scalar, &quants, &mut out, (1, 2), 4);
        assert_eq!(out[..12], [[0; 4], [0, 1, 2, 3], [0; 4]].concat());
    }
}
