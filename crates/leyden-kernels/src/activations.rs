//! Activations in the form the matrix kernels read: one grid per weight type, columns interleaved in tiles.
//!
//! | grid | for weights | what a column becomes |
//! |---|---|---|
//! | [`Grid::F32`] | F32, F16 | itself |
//! | [`Grid::BF16`] | BF16 | rounded to bfloat16 |
//! | [`Grid::A32`] | blocks of 32 with one scale (Q4_0, Q8_0) | int8 codes, one f32 scale per 32 |
//! | [`Grid::A128`] | 256-blocks with integer sub-scales (Q4_K, Q6_K) | int8 codes, one f32 scale per 128 |
//!
//! The grid depends on the weight type alone, never on the number of columns, so a token's result does not
//! depend on what shares its batch. A scale per 128 rather than llama.cpp's per 256 costs two multiplications
//! in about eighty and loses less; 128 values of Q4_K are also the most whose scaled sum is exact in f32.
//!
//! Codes are `round_to_even(x * (127 / max|x|))`, so -128 never occurs. A group with NaN or infinity gets a NaN
//! scale, which reaches every result that reads it; a group below 1e-30 throughout becomes zeros.
//!
//! Tile layout for `c` columns: codes `[k/4][c][4]`, scales `[k/group][c]`, sums `[k/32][c]`: the kernel
//! broadcasts four consecutive k of a column with one load. Values lie as `[k][c]` floats, or as `[k/2][c]` pairs of
//! bfloat16 in a word, the first in its lower half, where an instruction takes those (`Level::bf16_pairs`).
//! Instructions that multiply matrices read codes as
//! `[k/8][c][8]` (`Level::run`). Where sums of products do not begin at nothing (`Level::starts`), `starts` holds what they
//! begin at, once for all matrices: `[k/32][c]` or, of [`Grid::A128`], `[k/32][3 or 4][c]` (`Starts::of_block`). Where codes of
//! weights are shifted to be unsigned that is what the shift adds to a product, negated, in groups of 32 plus what biased sums begin at
//! (`Dot::BIASED`);
//! where sums have two lanes of 16 bits, the sums of the codes that each multiplies, two in a word.
//!
//! Where signed codes are multiplied as integers of 16 bits (`Level::words`), `words` holds all codes so in batches of many
//! tiles, `[k/4][2][c][2]`: the first and third of each four, then the second and fourth.

use crate::isa::dot::BIAS_BITS;
use crate::isa::{Isa, Level, MIDDLE, Moments, Starts, Tier, dispatch, prefetch};
use crate::matmul::format::bf16::counted;
use crate::matmul::many::FEWEST_AVX2;
use crate::memory::Disjoint;
use crate::pool::Pool;

/// How activations are represented for a weight type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grid {
    /// Unquantised.
    F32,
    /// Rounded to bfloat16, to nearest even; magnitudes below 2^-56 to zero.
    BF16,
    /// Int8 with a scale per 32.
    A32,
    /// Int8 with a scale per 128.
    A128,
}

impl Grid {
    /// Values that share a scale; 0 for the unquantised grid.
    #[must_use]
    pub fn group(self) -> usize {
        match self {
            Grid::F32 | Grid::BF16 => 0,
            Grid::A32 => 32,
            Grid::A128 => 128,
        }
    }

    /// Whether values stay floats, rounded or not.
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Grid::F32 | Grid::BF16)
    }
}

/// Below this a group counts as zero: 127 / max would overflow far earlier than any real activation is.
const TINY: f32 = 1e-30;
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
    let inverse = 127.0 / max;
    for i in 0..G {
        codes[i] = (x[i] * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i8;
    }
    max / 127.0
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

impl Peaks {
    /// Those of one column. No sum overflows, and additions that say so are made side by side.
    #[inline(always)]
    fn of(m: &Moments) -> Peaks {
        fn most<const N: usize>(of: [i32; N]) -> i32 {
            of.iter().fold(0, |most, v| most.max(*v))
        }
        let pairs =
            |of: &[i32; 8]| -> [i32; 4] { std::array::from_fn(|i| of[2 * i].wrapping_add(of[2 * i + 1])) };
        let of_signs = |magnitudes: i32, sum: i32| magnitudes.wrapping_add(sum.wrapping_abs()) >> 1;
        let (sums, magnitudes) = (pairs(&m.sums), pairs(&m.magnitudes));
        let signs: [i32; 8] = std::array::from_fn(|i| of_signs(m.magnitudes[i], m.sums[i]));
        let signs_of_32: [i32; 4] = std::array::from_fn(|i| of_signs(magnitudes[i], sums[i]));
        Peaks {
            sums: [most(m.magnitudes), most(signs), most(magnitudes), most(signs_of_32)],
            squares_of_96: m.squares[..6].iter().sum(),
            squares_of_16: most(m.squares),
        }
    }

    fn largest(self, other: Peaks) -> Peaks {
        Peaks {
            sums: std::array::from_fn(|i| self.sums[i].max(other.sums[i])),
            squares_of_96: self.squares_of_96.max(other.squares_of_96),
            squares_of_16: self.squares_of_16.max(other.squares_of_16),
        }
    }
}

/// One tile's buffers, all of `c` columns.
struct TileOut<'a> {
    codes: &'a mut [i8],
    scales: &'a mut [f32],
    sums: &'a mut [i32],
    pairs: &'a mut [i32],
    /// Empty where nobody reads it.
    starts: &'a mut [i32],
    /// Empty where nobody reads it.
    peaks: &'a mut [Peaks],
    /// Empty where nobody reads it.
    words: &'a mut [i16],
    values: &'a mut [f32],
    /// That the tile is made for.
    level: Level,
}

/// Values of a column that are written before those of the next: columns lie side by side, and so much of all stays in the
/// first cache. A whole number of groups and pairs.
const PART: usize = 512;

impl TileOut<'_> {
    /// What values `first` to `last` of `c` columns become.
    fn part(&mut self, grid: Grid, c: usize, first: usize, last: usize) -> TileOut<'_> {
        let [from, to] = [first, last].map(|k| {
            let (codes, scales, sums, pairs, values) = sizes(grid, k, self.level);
            [codes, scales, sums, pairs, values, starts(grid, k, self.level)].map(|of_column| of_column * c)
        });
        let peaks = peaks(grid, first)..peaks(grid, last);
        TileOut {
            codes: &mut self.codes[from[0]..to[0]],
            scales: &mut self.scales[from[1]..to[1]],
            sums: &mut self.sums[from[2]..to[2]],
            pairs: &mut self.pairs[from[3]..to[3]],
            values: &mut self.values[from[4]..to[4]],
            starts: self.starts.get_mut(from[5]..to[5]).unwrap_or_default(),
            peaks: self.peaks.get_mut(peaks).unwrap_or_default(),
            words: self.words.get_mut(from[0]..to[0]).unwrap_or_default(),
            level: self.level,
        }
    }

    /// Makes the words of the codes of `c` columns, if anybody reads them.
    fn widen(&mut self, c: usize) {
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
fn quantise_column<I: Isa>(isa: I, grid: Grid, x: &[f32], column: usize, c: usize, out: &mut TileOut<'_>) {
    match grid {
        Grid::F32 => {
            for (k, &v) in x.iter().enumerate() {
                out.values[k * c + column] = v;
            }
        }
        Grid::BF16 => {
            for (i, some) in x.chunks(32).enumerate() {
                let mut all = [0.0; 32];
                all[..some.len()].copy_from_slice(some);
                let rounded = all.map(rounded_to_bf16);
                let pairs = out.level.bf16_pairs();
                let per_word = if pairs { 2 } else { 1 };
                let words: [u32; 32] = std::array::from_fn(|j| match (pairs, j) {
                    (true, 16..) => 0,
                    (true, _) => rounded[2 * j] >> 16 | rounded[2 * j + 1],
                    (false, _) => rounded[j],
                });
                let first = i * 32 / per_word * c + column;
                let places = out.values[first..].iter_mut().step_by(c);
                for (to, word) in places.zip(&words[..some.len().div_ceil(per_word)]) {
                    *to = f32::from_bits(*word);
                }
            }
        }
        Grid::A32 => {
            quantise_column_a32(isa, x, (column, c), out.level.run(c), out.codes, out.scales, out.sums);
            for (b, start) in out.starts.chunks_exact_mut(c).enumerate() {
                start[column] = BIAS_BITS - SHIFT * out.sums[b * c + column];
            }
        }
        Grid::A128 => {
            let lanes = out.level.starts() == Starts::Lanes;
            for (b, group) in x.as_chunks::<128>().0.iter().enumerate() {
                let mut codes = [0_i8; 128];
                out.scales[b * c + column] = quantise_group(isa, group, &mut codes);
                scatter(&codes, &mut out.codes[b * 128 * c..], (column, c), out.level.run(c));
                let s16 = if let Some(peaks) = out.peaks.get_mut(b) {
                    let moments = isa.moments(&codes);
                    let most = Peaks::of(&moments);
                    *peaks = if column == 0 { most } else { most.largest(*peaks) };
                    moments.sums
                } else {
                    std::array::from_fn(|i| isa.sum_codes(&codes.as_chunks::<16>().0[i]))
                };
                if !out.starts.is_empty() {
                    let each = out.level.starts().of_block();
                    let starts = &mut out.starts[b * 4 * each * c + column..];
                    if lanes {
                        for (i, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
                            let [low, high] = isa.sums_of_lanes(codes);
                            let both = [low[0] + high[0], low[1] + high[1]];
                            for (j, [one, other]) in [both, low, high].into_iter().enumerate() {
                                starts[(i * each + j) * c] = pair(one, other);
                            }
                        }
                    } else {
                        for (i, s) in s16.as_chunks::<2>().0.iter().enumerate() {
                            let [all, first, last] = [s[0] + s[1], s[0], s[1]].map(|s| -SHIFT * s);
                            for (j, start) in [all, first, last, last + MIDDLE].into_iter().enumerate() {
                                starts[(i * each + j) * c] = start;
                            }
                        }
                    }
                }
                for i in 0..4 {
                    out.sums[(b * 4 + i) * c + column] = pair(s16[2 * i], s16[2 * i + 1]);
                }
                for i in 0..2 {
                    let (lo, hi) = (s16[4 * i] + s16[4 * i + 1], s16[4 * i + 2] + s16[4 * i + 3]);
                    out.pairs[(b * 2 + i) * c + column] = pair(lo, hi);
                }
            }
        }
    }
}

/// One column of a tile of [`Grid::A32`]: codes, `run` of them side by side, scales and the sum of each 32 codes.
#[inline(always)]
pub(crate) fn quantise_column_a32<I: Isa>(
    isa: I,
    x: &[f32],
    (column, c): (usize, usize),
    run: usize,
    codes: &mut [i8],
    scales: &mut [f32],
    sums: &mut [i32],
) {
    for (b, group) in x.as_chunks::<32>().0.iter().enumerate() {
        let mut q = [0_i8; 32];
        scales[b * c + column] = quantise_group(isa, group, &mut q);
        scatter(&q, &mut codes[b * 32 * c..], (column, c), run);
        sums[b * c + column] = q.as_chunks::<16>().0.iter().map(|half| isa.sum_codes(half)).sum();
    }
}

/// Writes codes into `[k/run][c][run]` at one column.
#[inline(always)]
fn scatter(codes: &[i8], out: &mut [i8], (column, c): (usize, usize), run: usize) {
    if c == 1 {
        out[..codes.len()].copy_from_slice(codes);
    } else if run == 8 {
        scatter_runs::<8>(codes, out, column, c);
    } else {
        scatter_runs::<4>(codes, out, column, c);
    }
}

#[inline(always)]
fn scatter_runs<const RUN: usize>(codes: &[i8], out: &mut [i8], column: usize, c: usize) {
    let (out, place) = (&mut out[..codes.len() * c], column * RUN..(column + 1) * RUN);
    for (run, group) in codes.as_chunks::<RUN>().0.iter().zip(out.chunks_exact_mut(c * RUN)) {
        group[place.clone()].copy_from_slice(run);
    }
}

dispatch! {
    fn quantise_column_on => quantise_column(
        grid: Grid, x: &[f32], column: usize, c: usize, out: &mut TileOut<'_>)
}

/// A batch of activations on one grid. Buffers grow to the largest batch seen and are then reused.
#[derive(Debug)]
pub struct Activations {
    pub(crate) grid: Grid,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// The tier that tiles were made for, whose kernels multiply them, and the columns of each.
    tier: Tier,
    bounds: Vec<(usize, usize)>,
    codes: Vec<i8>,
    scales: Vec<f32>,
    sums: Vec<i32>,
    pairs: Vec<i32>,
    starts: Vec<i32>,
    peaks: Vec<Peaks>,
    words: Vec<i16>,
    values: Vec<f32>,
}

/// What a kernel reads of one tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile<'a> {
    /// Number of columns.
    pub(crate) c: usize,
    pub(crate) codes: &'a [i8],
    pub(crate) scales: &'a [f32],
    /// A32: the sum of each 32 codes. A128: the sums of each 16 codes, two in a word.
    pub(crate) sums: &'a [i32],
    /// A128: the sums of each 32 codes, two in a word.
    pub(crate) pairs: &'a [i32],
    /// What sums of codes that were taken apart begin at; empty where that is nothing.
    pub(crate) starts: &'a [i32],
    /// A128: of each 128 values; empty where nobody reads it.
    pub(crate) peaks: &'a [Peaks],
    /// The codes as integers of 16 bits; empty where nobody reads it.
    pub(crate) words: &'a [i16],
    pub(crate) values: &'a [f32],
    /// For each 128 values, what was found of the panels when they were taken apart; empty where nobody reads it.
    pub(crate) norms: &'a [f32],
}

impl Tile<'_> {
    /// The tile from column `first` on, for what reads it by pointers: strides stay those of all columns.
    #[inline(always)]
    pub(crate) fn after(&self, first: usize) -> Self {
        fn rest<T>(all: &[T], first: usize) -> &[T] {
            all.get(first..).unwrap_or_default()
        }
        Tile {
            codes: rest(self.codes, first * 4),
            scales: rest(self.scales, first),
            sums: rest(self.sums, first),
            pairs: rest(self.pairs, first),
            starts: rest(self.starts, first),
            words: rest(self.words, first * 2),
            values: rest(self.values, first),
            ..*self
        }
    }
}

impl Default for Activations {
    fn default() -> Self {
        Activations {
            grid: Grid::F32,
            n: 0,
            k: 0,
            tier: Tier::SCALAR,
            bounds: Vec::new(),
            codes: Vec::new(),
            scales: Vec::new(),
            sums: Vec::new(),
            pairs: Vec::new(),
            starts: Vec::new(),
            peaks: Vec::new(),
            words: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl Activations {
    /// Bytes of the codes or values of one column.
    pub(crate) fn column_bytes(&self) -> usize {
        let (codes, _, _, _, values) = sizes(self.grid, self.k, self.tier.level());
        codes + values * size_of::<f32>()
    }

    /// The number of tiles.
    #[must_use]
    pub fn tiles(&self) -> usize {
        self.bounds.len()
    }

    /// The tier whose kernels multiply the tiles.
    #[inline(always)]
    pub(crate) fn tier(&self) -> Tier {
        self.tier
    }

    /// The tier whose kernels multiply a batch of `n` columns for weights of `grid` on a processor limited to `tier`: for
    /// BF16 it may be another.
    #[must_use]
    pub fn tier_of(tier: Tier, grid: Grid, n: usize) -> Tier {
        let tiles = Activations::tiles_of(tier.level(), grid, 0, n);
        tier.for_tiles(grid, widest(tiles))
    }

    /// The columns of tile `t`.
    #[inline(always)]
    pub(crate) fn bounds(&self, t: usize) -> (usize, usize) {
        self.bounds[t]
    }

    /// The tiles of `n` columns that begin at `first`: as few as the widest tile allows, all within one column of each
    /// other (or two of those that belong together).
    pub(crate) fn tiles_of(
        level: Level,
        grid: Grid,
        first: usize,
        n: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        let (tiles, together) = (n.div_ceil(level.columns(grid)), level.together());
        let units = n.div_ceil(together);
        let at = move |t: usize| first + (units * t / tiles * together).min(n);
        (0..tiles).map(move |t| (at(t), at(t + 1)))
    }

    #[inline(always)]
    pub(crate) fn tile(&self, t: usize) -> Tile<'_> {
        let (start, end) = self.bounds(t);
        let per = |values: usize| start * values..end * values;
        let (codes, scales, sums, pairs, values) = sizes(self.grid, self.k, self.tier.level());
        let (starts, peaks) = (starts(self.grid, self.k, self.tier.level()), peaks(self.grid, self.k));
        Tile {
            c: end - start,
            codes: &self.codes[per(codes)],
            scales: &self.scales[per(scales)],
            sums: &self.sums[per(sums)],
            pairs: &self.pairs[per(pairs)],
            starts: self.starts.get(per(starts)).unwrap_or_default(),
            // One set of a whole tile lies where its first column's would.
            peaks: self.peaks.get(start * peaks..(start + 1) * peaks).unwrap_or_default(),
            words: self.words.get(per(codes)).unwrap_or_default(),
            values: &self.values[per(values)],
            norms: &[],
        }
    }

    /// Fills the batch from `x`, `n` rows of `k` values (a row is one token), for weights of `grid`.
    ///
    /// # Panics
    /// If `x.len()` is not `n * k`, or `k` is not a whole number of groups.
    pub fn fill(&mut self, tier: Tier, pool: &Pool, grid: Grid, x: &[f32], k: usize) {
        assert!(k > 0 && x.len().is_multiple_of(k), "{} activations in rows of {k}", x.len());
        let tiles = Activations::tiles_of(tier.level(), grid, 0, x.len() / k);
        self.fill_tiles(tier, pool, grid, k, tiles, |column| &x[column * k..][..k]);
    }

    /// Fills a batch of tiles, the columns `start..end` of each following those of the one before, from the row that
    /// `row` gives for each column.
    ///
    /// # Panics
    /// If `k` is not a whole number of groups, a row is not of `k` values, or the tiles do not follow one another.
    pub(crate) fn fill_tiles<'x>(
        &mut self,
        tier: Tier,
        pool: &Pool,
        grid: Grid,
        k: usize,
        tiles: impl Iterator<Item = (usize, usize)>,
        row: impl Fn(usize) -> &'x [f32] + Sync,
    ) {
        let group = grid.group().max(1);
        assert!(k.is_multiple_of(group), "row of {k} in groups of {group}");
        // Tasks write beside each other because of this.
        self.bounds.clear();
        self.bounds.extend(tiles);
        let n = self.bounds.iter().fold(0, |at, &(start, end)| {
            assert!(start == at && end >= start, "tiles follow one another");
            end
        });
        let tier = tier.for_tiles(grid, widest(self.bounds.iter().copied()));
        let level = tier.level();
        (self.grid, self.n, self.k, self.tier) = (grid, n, k, tier);
        let (codes, scales, sums, pairs, values) = sizes(grid, k, level);
        grow(&mut self.codes, codes * n);
        grow(&mut self.scales, scales * n);
        grow(&mut self.sums, sums * n);
        grow(&mut self.pairs, pairs * n);
        grow(&mut self.values, values * n);
        let starts = starts(grid, k, level);
        let peaks = if level.starts() == Starts::Shift { peaks(grid, k) } else { 0 };
        self.starts.truncate(starts * n);
        grow(&mut self.starts, starts * n);
        self.peaks.truncate(peaks * n);
        grow(&mut self.peaks, peaks * n);
        let words = if level.words() && self.bounds.len() >= FEWEST_AVX2 { codes } else { 0 };
        self.words.truncate(words * n);
        grow(&mut self.words, words * n);
        let codes_out = Disjoint::new(&mut self.codes);
        let scales_out = Disjoint::new(&mut self.scales);
        let sums_out = Disjoint::new(&mut self.sums);
        let pairs_out = Disjoint::new(&mut self.pairs);
        let values_out = Disjoint::new(&mut self.values);
        let starts_out = Disjoint::new(&mut self.starts);
        let peaks_out = Disjoint::new(&mut self.peaks);
        let words_out = Disjoint::new(&mut self.words);
        let bounds = &self.bounds;
        pool.run(bounds.len(), |t| {
            let (start, end) = bounds[t];
            let c = end - start;
            // SAFETY: tiles are disjoint ranges of columns, and each task has its own tile.
            let codes = unsafe { codes_out.range(start * codes, c * codes) };
            // SAFETY: as above.
            let scales = unsafe { scales_out.range(start * scales, c * scales) };
            // SAFETY: as above.
            let sums = unsafe { sums_out.range(start * sums, c * sums) };
            // SAFETY: as above.
            let pairs = unsafe { pairs_out.range(start * pairs, c * pairs) };
            // SAFETY: as above.
            let values = unsafe { values_out.range(start * values, c * values) };
            // SAFETY: as above.
            let starts = unsafe { starts_out.range(start * starts, c * starts) };
            // SAFETY: as above.
            let peaks = unsafe { peaks_out.range(start * peaks, peaks.min(c * peaks)) };
            // SAFETY: as above.
            let words = unsafe { words_out.range(start * words, c * words) };
            let mut out = TileOut { codes, scales, sums, pairs, starts, peaks, words, values, level };
            for first in (0..k).step_by(PART) {
                let last = k.min(first + PART);
                let mut part = out.part(grid, c, first, last);
                for column in 0..c {
                    let x = row(start + column);
                    assert_eq!(x.len(), k, "row of activations");
                    if column + 1 < c {
                        // What comes next lies elsewhere, and in memory if a product of many columns wrote it.
                        let next = row(start + column + 1).get(first..last).unwrap_or_default();
                        next.chunks(16).for_each(|line| prefetch(line.as_ptr().cast()));
                    }
                    quantise_column_on(tier, grid, &x[first..last], column, c, &mut part);
                }
                part.widen(c);
            }
        });
    }
}

/// The columns of the widest tile.
fn widest(tiles: impl Iterator<Item = (usize, usize)>) -> usize {
    tiles.map(|(start, end)| end - start).max().unwrap_or(0)
}

/// Elements per column of codes, scales, sums, pairs and values.
fn sizes(grid: Grid, k: usize, level: Level) -> (usize, usize, usize, usize, usize) {
    match grid {
        Grid::BF16 if level.bf16_pairs() => (0, 0, 0, 0, k.div_ceil(2)),
        Grid::F32 | Grid::BF16 => (0, 0, 0, 0, k),
        Grid::A32 => (k, k / 32, k / 32, 0, 0),
        Grid::A128 => (k, k / 128, k / 32, k / 64, 0),
    }
}

/// Elements per column of `starts`. Lanes are of use to formats with a scale for each 16 values only.
fn starts(grid: Grid, k: usize, level: Level) -> usize {
    match (grid, level.starts()) {
        (Grid::A32, Starts::Shift) => k / 32,
        (Grid::A128, starts) => k / 32 * starts.of_block(),
        _ => 0,
    }
}

/// Elements of `peaks` per tile.
fn peaks(grid: Grid, k: usize) -> usize {
    if grid == Grid::A128 { k / 128 } else { 0 }
}

fn grow<T: Clone + Default>(v: &mut Vec<T>, n: usize) {
    if v.len() < n {
        v.resize(n, T::default());
    }
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
    fn tiles_cover_the_columns_and_pairs_stay_together() {
        for (level, grid) in Level::ALL.into_iter().flat_map(|l| [(l, Grid::F32), (l, Grid::A32)]) {
            let (widest, together) = (level.columns(grid), level.together());
            for n in 1..50 {
                let tiles: Vec<(usize, usize)> = Activations::tiles_of(level, grid, 0, n).collect();
                assert!(tiles[0].0 == 0 && tiles.last().unwrap().1 == n);
                assert!(tiles.windows(2).all(|w| w[0].1 == w[1].0));
                assert!(tiles.iter().all(|(a, b)| (1..=widest).contains(&(b - a))));
                assert!(tiles[..tiles.len() - 1].iter().all(|(a, b)| (b - a).is_multiple_of(together)));
            }
        }
    }

    #[test]
    fn codes_lie_in_runs() {
        let codes: Vec<i8> = (0..32).collect();
        let mut out = [0; 64];
        scatter(&codes, &mut out, (1, 2), 8);
        assert_eq!(out[..24], [[0; 8], [0, 1, 2, 3, 4, 5, 6, 7], [0; 8]].concat());
        let mut out = [0; 64];
        scatter(&codes, &mut out, (1, 2), 4);
        assert_eq!(out[..12], [[0; 4], [0, 1, 2, 3], [0; 4]].concat());
    }

    #[test]
    fn every_tier_and_team_fills_the_same_bits() {
        let (n, k) = (11, 2 * PART + 256);
        let x: Vec<f32> = (0..n * k).map(|i| ((i * 7919 % 1013) as f32 - 500.0) * 0.37).collect();
        for grid in [Grid::F32, Grid::BF16, Grid::A32, Grid::A128] {
            let mut want = Activations::default();
            want.fill(Tier::SCALAR, &Pool::new(1).unwrap(), grid, &x, k);
            for tier in Tier::available() {
                if tier.level().columns(grid) != want.tier.level().columns(grid) {
                    continue;
                }
                let mut got = Activations::default();
                got.fill(tier, &Pool::new(3).unwrap(), grid, &x, k);
                assert_eq!(want.codes, got.codes);
                assert_eq!(want.sums, got.sums);
                assert_eq!(want.pairs, got.pairs);
                assert_eq!(want.scales, got.scales);
                assert_eq!(want.values, got.values);
            }
        }
    }
}
