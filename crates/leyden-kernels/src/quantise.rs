//! How values become what kernels multiply, a part of a tile at a time: on a grid of codes first the greatest magnitude of every
//! group, then the scales of all, sixteen at once, then the codes. Group after group a division would wait for a magnitude and
//! the codes for the division.

use crate::Grid;
use crate::isa::dot::BIAS_BITS;
use crate::isa::{Isa, Level, MIDDLE, Moments, Starts, Tier, dispatch, prefetch};
use crate::matmul::format::bf16::counted;

const PART_COLUMNS: usize = Level::PART_COLUMNS;

/// Below this a group counts as zero: the inverse of its scale would overflow far earlier than any real activation is.
const TINY: f32 = 1e-30;
/// What the greatest magnitude of a group becomes before it is rounded: 127, and with a scale for 128 values a little less than 120.5. Codes
/// up to 120, of either sign, and a format's from 0 to 15 sum up to one of 256 numbers, a byte (`matmul::mixed`). The half that is left makes use
/// of the rounding.
const fn greatest<const G: usize>() -> f32 {
    if G == 128 { MOST_OF_128 as f32 + 0.49 } else { 127.0 }
}

/// The greatest magnitude of a code of [`Grid::A128`].
pub(crate) const MOST_OF_128: i32 = 120;

/// Adding 1.5 * 2^23 leaves the value, rounded to nearest even, in the low mantissa bits.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// Quantises one group; returns its scale.
#[inline(always)]
pub(crate) fn quantise_group<I: Isa, const G: usize>(isa: I, x: &[f32; G], codes: &mut [i8; G]) -> f32 {
    let max = f32::from_bits(isa.greatest_magnitude(x));
    if max < TINY {
        *codes = [0; G];
        return 0.0;
    }
    if !max.is_finite() {
        *codes = [0; G];
        return f32::NAN;
    }
    let greatest = const { greatest::<G>() };
    *codes = codes_of(x, greatest / max);
    max / greatest
}

/// The codes of a group by the inverse of its scale.
#[inline(always)]
fn codes_of<const G: usize>(x: &[f32; G], inverse: f32) -> [i8; G] {
    let mut codes = [0; G];
    for i in 0..G {
        codes[i] = (x[i] * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i8;
    }
    codes
}

/// The shift of codes that `starts` takes back.
pub(crate) const SHIFT: i32 = 128;

/// How large the sums of products of 128 values can become, the largest over all columns of a tile.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peaks {
    /// The largest sum of magnitudes of 16 codes, the largest sum of those of one sign, and both of 32 codes. Times the
    /// largest magnitude of a weight's code the former bounds sums with signed codes, the latter those with unsigned.
    pub(crate) sums: [i32; 4],
    /// The sum of the squares of the first 96 codes: beside that of the weights' it bounds the sum of their products.
    pub(crate) squares_of_96: i32,
    /// The largest sum of the squares of 16 codes.
    pub(crate) squares_of_16: i32,
}

/// The largest of each over the columns of a tile so far, where [`Peaks`] has the largest of all.
#[derive(Clone, Copy, Default)]
struct Largest {
    magnitudes: [i32; 8],
    signs: [i32; 8],
    magnitudes_of_32: [i32; 4],
    signs_of_32: [i32; 4],
    squares: [i32; 8],
    squares_of_96: i32,
}

impl Largest {
    /// Counts those of one column. No sum overflows, and additions that say so are made side by side.
    #[inline(always)]
    fn count(&mut self, m: &Moments) {
        let of_signs = |magnitudes: i32, sum: i32| magnitudes.wrapping_add(sum.wrapping_abs()) >> 1;
        let both = |of: &[i32; 8], i: usize| of[2 * i].wrapping_add(of[2 * i + 1]);
        for i in 0..8 {
            self.magnitudes[i] = self.magnitudes[i].max(m.magnitudes[i]);
            self.signs[i] = self.signs[i].max(of_signs(m.magnitudes[i], m.sums[i]));
            self.squares[i] = self.squares[i].max(m.squares[i]);
        }
        for i in 0..4 {
            let (magnitudes, sum) = (both(&m.magnitudes, i), both(&m.sums, i));
            self.magnitudes_of_32[i] = self.magnitudes_of_32[i].max(magnitudes);
            self.signs_of_32[i] = self.signs_of_32[i].max(of_signs(magnitudes, sum));
        }
        let squares = m.squares[..6].iter().fold(0_i32, |sum, v| sum.wrapping_add(*v));
        self.squares_of_96 = self.squares_of_96.max(squares);
    }

    #[inline(always)]
    fn peaks(&self) -> Peaks {
        fn most(of: &[i32]) -> i32 {
            of.iter().fold(0, |most, v| most.max(*v))
        }
        Peaks {
            sums: [
                most(&self.magnitudes),
                most(&self.signs),
                most(&self.magnitudes_of_32),
                most(&self.signs_of_32),
            ],
            squares_of_96: self.squares_of_96,
            squares_of_16: most(&self.squares),
        }
    }
}

/// Some values of all columns of a tile, where they are written.
pub(crate) struct Part<'a> {
    pub(crate) tier: Tier,
    pub(crate) grid: Grid,
    /// Columns.
    pub(crate) c: usize,
    pub(crate) codes: &'a mut [i8],
    pub(crate) scales: &'a mut [f32],
    pub(crate) sums: &'a mut [i32],
    pub(crate) pairs: &'a mut [i32],
    /// Empty where nobody reads it.
    pub(crate) starts: &'a mut [i32],
    /// Empty where nobody reads it.
    pub(crate) peaks: &'a mut [Peaks],
    /// Empty where nobody reads it.
    pub(crate) words: &'a mut [i16],
    /// Empty where nobody reads it.
    pub(crate) lanes: &'a mut [i8],
    /// Empty where nobody reads it.
    pub(crate) mixed: &'a mut [i32],
    pub(crate) values: &'a mut [f32],
}

/// Values of a column that are written before those of the next: columns lie side by side, and so much of all stays in the
/// first cache. A whole number of groups and pairs.
pub(crate) const PART: usize = 512;

impl Part<'_> {
    /// Fills it with the values of every column, at most [`PART`] of each.
    ///
    /// # Panics
    /// If there are others.
    pub(crate) fn fill(&mut self, columns: &[&[f32]]) {
        fill_on(self.tier, columns, self);
        self.widen();
    }

    /// Makes the words of the codes, if anybody reads them.
    fn widen(&mut self) {
        let c = self.c;
        for (codes, words) in self.codes.chunks_exact(4 * c).zip(self.words.chunks_exact_mut(4 * c)) {
            let (even, odd) = words.split_at_mut(2 * c);
            for ((two, even), odd) in codes.as_chunks::<2>().0.iter().zip(even).zip(odd) {
                [*even, *odd] = two.map(i16::from);
            }
        }
    }
}

/// The bits of the nearest bfloat16 as an f32, ties to the even one; of zero where it is too small to count.
#[inline(always)]
fn rounded_to_bf16(x: f32) -> u32 {
    let bits = x.to_bits();
    // Without a branch, so that many are rounded at once. A NaN stays one by its quiet bit.
    let nearest = bits.wrapping_add(0x7fff).wrapping_add(bits >> 16 & 1);
    let bits = if x.is_nan() { bits | 0x40_0000 } else { nearest };
    u32::from(counted((bits >> 16) as u16)) << 16
}

/// Two 16-bit numbers in one word, low half first.
#[inline(always)]
fn pair(low: i32, high: i32) -> i32 {
    (low & 0xffff) | (high << 16)
}

#[inline(always)]
fn fill<I: Isa>(isa: I, columns: &[&[f32]], out: &mut Part<'_>) {
    let (c, level) = (out.c, out.tier.level());
    assert!(columns.len() == c && columns.iter().all(|x| x.len() <= PART), "columns of a part");
    match out.grid {
        Grid::F32 => {
            for (column, x) in each(columns) {
                for (k, &v) in x.iter().enumerate() {
                    out.values[k * c + column] = v;
                }
            }
        }
        Grid::BF16 => {
            for (column, x) in each(columns) {
                fill_bf16(x, column, c, level.bf16_pairs(), out.values);
            }
        }
        Grid::A32 => {
            fill_a32(isa, columns, level.run(c), out.codes, out.scales, out.sums);
            if level.starts() == Starts::Lanes {
                sum_lanes(isa, out.codes, c, out.starts);
            } else {
                start_a32(out.sums, out.starts);
            }
        }
        Grid::A128 => fill_a128(isa, columns, out),
    }
}

/// Every column with its number. The next one's values are asked for: they lie elsewhere, and in memory if a product of many
/// columns wrote them.
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

/// Groups of a part of a tile, at most.
const GROUPS: usize = PART / 32 * PART_COLUMNS;

/// The scales of groups of `G` values, `[k/G][c]`, and what values are multiplied by: zero where all codes are.
#[inline(always)]
fn scales<I: Isa, const G: usize>(isa: I, columns: &[&[f32]], scales: &mut [f32]) -> [f32; GROUPS] {
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
        // Without a branch, so that many are divided at once.
        let counts = (TINY..f32::INFINITY).contains(&max);
        *inverse = if counts { greatest / max } else { 0.0 };
        let odd = if max < TINY { 0.0 } else { f32::NAN };
        *scale = if counts { max / greatest } else { odd };
    }
    inverses
}

/// As [`codes_of`], with zeros where the inverse is zero, of NaN too.
#[inline(always)]
fn codes_or_zeros<const G: usize>(x: &[f32; G], inverse: f32) -> [i8; G] {
    if inverse == 0.0 { [0; G] } else { codes_of(x, inverse) }
}

/// A tile of [`Grid::A32`], or some values of each of its columns: codes, `run` of them side by side, scales and the sum of each 32
/// codes.
#[inline(always)]
pub(crate) fn fill_a32<I: Isa>(
    isa: I,
    columns: &[&[f32]],
    run: usize,
    codes: &mut [i8],
    all_scales: &mut [f32],
    sums: &mut [i32],
) {
    let c = columns.len();
    let inverses = scales::<I, 32>(isa, columns, all_scales);
    for (column, x) in columns.iter().enumerate() {
        for (b, group) in x.as_chunks::<32>().0.iter().enumerate() {
            let q = codes_or_zeros(group, inverses[b * c + column]);
            if run == 64 {
                // Of an odd number of groups the last lies alone.
                let width = run.min(codes.len() / c - b / 2 * 64);
                let at = b / 2 * 64 * c + column * width + b % 2 * 32;
                codes[at..at + 32].copy_from_slice(&q);
            } else {
                scatter(isa, &q, &mut codes[b * 32 * c..], (column, c), run);
            }
            sums[b * c + column] = q.as_chunks::<16>().0.iter().map(|half| isa.sum_codes(half)).sum();
        }
    }
}

/// What the sums of products of [`Grid::A32`] begin at where the codes that each 32 of `sums` meet are shifted.
#[inline(always)]
pub(crate) fn start_a32(sums: &[i32], starts: &mut [i32]) {
    for (start, sum) in starts.iter_mut().zip(sums) {
        *start = BIAS_BITS.wrapping_sub(sum.wrapping_mul(SHIFT));
    }
}

/// The sums of the codes that each of two lanes multiplies, of a part of a tile of [`Grid::A32`]: of each four codes the first two, and
/// the last two.
#[inline(always)]
fn sum_lanes<I: Isa>(isa: I, codes: &[i8], c: usize, starts: &mut [i32]) {
    for (codes, starts) in codes.chunks_exact(32 * c).zip(starts.chunks_exact_mut(c)) {
        for (column, start) in starts.iter_mut().enumerate() {
            let mut all = [0; 32];
            for (g, four) in all.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                four.copy_from_slice(&codes[(g * c + column) * 4..][..4]);
            }
            let [one, other] = isa.sums_of_lanes(&all);
            *start = pair(one, other);
        }
    }
}

/// Codes in pairs, those of each two blocks of 32 in turn.
#[inline(always)]
fn in_pairs(codes: &[i8; 128]) -> [i8; 128] {
    let mut out = [0; 128];
    for (codes, out) in codes.as_chunks::<64>().0.iter().zip(out.as_chunks_mut::<64>().0) {
        for s in 0..16 {
            out[4 * s..4 * s + 2].copy_from_slice(&codes[2 * s..2 * s + 2]);
            out[4 * s + 2..4 * s + 4].copy_from_slice(&codes[32 + 2 * s..32 + 2 * s + 2]);
        }
    }
    out
}

/// A part of [`Grid::A128`].
#[inline(always)]
fn fill_a128<I: Isa>(isa: I, columns: &[&[f32]], out: &mut Part<'_>) {
    let (c, level) = (out.c, out.tier.level());
    let lanes = level.starts() == Starts::Lanes && !out.starts.is_empty();
    let inverses = scales::<I, 128>(isa, columns, out.scales);
    for b in 0..columns.first().map_or(0, |x| x.len() / 128) {
        // The sums of each sixteen codes of every column.
        let mut s16 = [[0; PART_COLUMNS]; 8];
        // And of their first eight, where lanes begin at them.
        let mut s8 = [[0; PART_COLUMNS]; 8];
        let (mut largest, has_peaks) = (Largest::default(), !out.peaks.is_empty());
        for (column, x) in columns.iter().enumerate() {
            let codes = codes_or_zeros::<128>(&x.as_chunks().0[b], inverses[b * c + column]);
            scatter(isa, &codes, &mut out.codes[b * 128 * c..], (column, c), level.run(c));
            let sums = if has_peaks {
                let moments = isa.moments(&codes);
                largest.count(&moments);
                moments.sums
            } else {
                std::array::from_fn(|i| isa.sum_codes(&codes.as_chunks::<16>().0[i]))
            };
            for i in 0..8 {
                s16[i][column] = sums[i];
            }
            if lanes {
                for (i, sum) in isa.sums_of_first_eights(&codes).into_iter().enumerate() {
                    s8[i][column] = sum;
                }
            }
            if !out.mixed.is_empty() {
                let places = out.mixed[b * 4 * c + column..].iter_mut().step_by(c);
                for (place, start) in places.zip(isa.mixed_starts(&codes)) {
                    *place = start;
                }
            }
            if !out.lanes.is_empty() {
                let in_pairs = in_pairs(&codes);
                scatter(isa, &in_pairs, &mut out.lanes[b * 128 * c..], (column, c), 4);
            }
        }
        if let Some(peaks) = out.peaks.get_mut(b) {
            *peaks = largest.peaks();
        }
        for i in 0..4 {
            let (first, last) = (&s16[2 * i], &s16[2 * i + 1]);
            row(&mut out.sums[(b * 4 + i) * c..][..c], |column| pair(first[column], last[column]));
            if lanes {
                // Of the first sixteen codes of each two blocks of 32, or of their last; and of the first half of these, and of the last.
                let one = 4 * (i / 2) + i % 2;
                let (all, first) = ([&s16[one], &s16[one + 2]], [&s8[one], &s8[one + 2]]);
                let starts = &mut out.starts[(b * 4 + i) * 3 * c..][..3 * c];
                let (of_all, starts) = starts.split_at_mut(c);
                row(of_all, |column| pair(all[0][column], all[1][column]));
                let (of_first, of_last) = starts.split_at_mut(c);
                row(of_first, |column| pair(first[0][column], first[1][column]));
                row(of_last, |column| {
                    let last = |i: usize| all[i][column].wrapping_sub(first[i][column]);
                    pair(last(0), last(1))
                });
            } else if !out.starts.is_empty() {
                let each = level.starts().of_block();
                let starts = &mut out.starts[(b * 4 + i) * each * c..][..each * c];
                let (all, starts) = starts.split_at_mut(c);
                row(all, |column| shifted(first[column].wrapping_add(last[column])));
                let (of_first, starts) = starts.split_at_mut(c);
                row(of_first, |column| shifted(first[column]));
                let (of_last, shared) = starts.split_at_mut(c);
                row(of_last, |column| shifted(last[column]));
                row(shared, |column| shifted(last[column]).wrapping_add(MIDDLE));
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

/// What a shift of codes that sum up to `sum` adds to their products, negated. Nothing here overflows, and what says so is computed
/// for all columns at once.
#[inline(always)]
fn shifted(sum: i32) -> i32 {
    sum.wrapping_mul(-SHIFT)
}

/// Writes a number of each column.
#[inline(always)]
fn row(out: &mut [i32], of: impl Fn(usize) -> i32) {
    for (column, out) in out.iter_mut().enumerate().take(PART_COLUMNS) {
        *out = of(column);
    }
}

/// Writes codes into `[k/run][c][run]` at one column.
#[inline(always)]
fn scatter<I: Isa>(isa: I, codes: &[i8], out: &mut [i8], (column, c): (usize, usize), run: usize) {
    let out = &mut out[..codes.len() * c];
    if c == 1 {
        out.copy_from_slice(codes);
    } else if run == 64 {
        for (codes, group) in codes.as_chunks::<64>().0.iter().zip(out.chunks_exact_mut(c * 64)) {
            group[column * 64..][..64].copy_from_slice(codes);
        }
    } else if run == 8 {
        let place = column * 8..(column + 1) * 8;
        for (run, group) in codes.as_chunks::<8>().0.iter().zip(out.chunks_exact_mut(c * 8)) {
            group[place.clone()].copy_from_slice(run);
        }
    } else {
        for (codes, group) in codes.as_chunks::<16>().0.iter().zip(out.chunks_exact_mut(c * 16)) {
            isa.store_fours(codes, &mut group[column * 4..], c * 4);
        }
    }
}

dispatch! {
    fn fill_on => fill(columns: &[&[f32]], out: &mut Part<'_>)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::scalar::Scalar;

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
            for (grid, group) in [(Grid::A32, 32), (Grid::A128, 128)] {
                let mut batch = crate::Activations::default();
                let rows = columns.concat();
                // A tile of one column has its codes in order.
                for (c, x) in rows.chunks(256).enumerate() {
                    batch.fill(tier, &crate::pool::Pool::new(1).unwrap(), grid, x, 256);
                    let tile = batch.tile(0);
                    let mut codes = [0; 256];
                    for (b, x) in x.chunks(group).enumerate() {
                        let codes = &mut codes[b * group..][..group];
                        let scale = if group == 32 {
                            quantise_group::<_, 32>(Scalar, x.try_into().unwrap(), codes.try_into().unwrap())
                        } else {
                            quantise_group::<_, 128>(Scalar, x.try_into().unwrap(), codes.try_into().unwrap())
                        };
                        assert_eq!(scale.to_bits(), tile.scales[b].to_bits(), "scale {b} of column {c}");
                    }
                    assert_eq!(codes, tile.codes, "column {c} on {}", tier.level());
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
        let codes: Vec<i8> = (0..32).collect();
        let mut out = [0; 64];
        scatter(Scalar, &codes, &mut out, (1, 2), 8);
        assert_eq!(out[..24], [[0; 8], [0, 1, 2, 3, 4, 5, 6, 7], [0; 8]].concat());
        let mut out = [0; 64];
        scatter(Scalar, &codes, &mut out, (1, 2), 4);
        assert_eq!(out[..12], [[0; 4], [0, 1, 2, 3], [0; 4]].concat());
    }
}
