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
//! Codes are `round_to_even(x * (127 / max|x|))`, so -128 never occurs; of [`Grid::A128`] with 120.49 instead of 127 ([`MOST_OF_128`](crate::quantise::MOST_OF_128) says why). A group with NaN or infinity gets a NaN
//! scale, which reaches every result that reads it; a group below 1e-30 throughout becomes zeros.
//!
//! Tile layout for `c` columns: codes `[k/4][c][4]`, scales `[k/group][c]`, sums `[k/32][c]`: the kernel
//! broadcasts four consecutive k of a column with one load. Values lie as `[k][c]` floats, or as `[k/2][c]` pairs of
//! bfloat16 in a word, the first in its lower half, where an instruction takes those (`Level::bf16_pairs`).
//! Instructions that multiply matrices read codes as
//! `[k/8][c][8]` or `[k/64][c][64]` (`Level::run`); of the latter a tile is parts of up to sixteen columns, one behind the other. Where sums of products do not begin at nothing (`Level::starts`), `starts` holds what they
//! begin at, once for all matrices: `[k/32][c]` or, of [`Grid::A128`], `[k/32][3 or 4][c]` (`Starts::of_block`). Where codes of
//! weights are shifted to be unsigned that is what the shift adds to a product, negated, in groups of 32 plus what biased sums begin at
//! (`Dot::BIASED`);
//! where sums have two lanes of 16 bits, in batches of several tiles, the sums of the codes that each multiplies, two in a word: of each 32 values
//! those of the first two of each four, and of the others; and of [`Grid::A128`] those of two blocks.
//! There `lanes` holds the codes, `[k/64][16][c][4]`: two of the first 32 of each 64 values and two of the last (`isa/avx2_lanes.rs`).
//!
//! Where signed codes are multiplied as integers of 16 bits (`Level::words`), `words` holds all codes so in batches of many
//! tiles, `[k/4][2][c][2]`: the first and third of each four, then the second and fourth. Where products are those of sums
//! (`matmul::mixed`), `mixed` holds in such batches what those of each 32 values begin at, `[k/32][c]`.

use crate::isa::{Level, Starts, Tier};
use crate::matmul::many::{FEWEST_AVX2, FEWEST_WITHOUT_REGISTERS};
use crate::matmul::mixed::mixes;
use crate::memory::{Aligned, Disjoint};
use crate::pool::Pool;
use crate::quantise::{PART, Part, Peaks};
use std::ops::Range;

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

/// A batch of activations on one grid. Buffers grow to the largest batch seen and are then reused.
#[derive(Debug)]
pub struct Activations {
    pub(crate) grid: Grid,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// The tier that tiles were made for, whose kernels multiply them, and the columns of each.
    tier: Tier,
    bounds: Vec<(usize, usize)>,
    /// The columns of each part of a tile, of which most tiles have one.
    parts: Vec<(usize, usize)>,
    /// Whole lines, as matrices are read by them.
    codes: Aligned<i8>,
    scales: Vec<f32>,
    sums: Vec<i32>,
    pairs: Vec<i32>,
    starts: Vec<i32>,
    peaks: Vec<Peaks>,
    words: Vec<i16>,
    lanes: Vec<i8>,
    mixed: Vec<i32>,
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
    /// What sums of shifted codes begin at; empty where that is nothing.
    pub(crate) starts: &'a [i32],
    /// A128: of each 128 values; empty where nobody reads it.
    pub(crate) peaks: &'a [Peaks],
    /// The codes as integers of 16 bits; empty where nobody reads it.
    pub(crate) words: &'a [i16],
    /// The codes as pairs of two blocks; empty where nobody reads it.
    pub(crate) lanes: &'a [i8],
    /// What sums of products of sums begin at; empty where nobody reads it.
    pub(crate) mixed: &'a [i32],
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
            lanes: rest(self.lanes, first * 4),
            mixed: rest(self.mixed, first),
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
            parts: Vec::new(),
            codes: Aligned::default(),
            scales: Vec::new(),
            sums: Vec::new(),
            pairs: Vec::new(),
            starts: Vec::new(),
            peaks: Vec::new(),
            words: Vec::new(),
            lanes: Vec::new(),
            mixed: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl Activations {
    /// Bytes of the codes or values of one column.
    pub(crate) fn column_bytes(&self) -> usize {
        let of_column = sizes(self.grid, self.k, self.tier.level());
        of_column.codes + of_column.values * size_of::<f32>()
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
        let tier = tier.for_batch(grid, n);
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
        let (tiles, together) = (n.div_ceil(level.columns(grid)), level.together(grid));
        let units = n.div_ceil(together);
        let at = move |t: usize| first + (units * t / tiles * together).min(n);
        (0..tiles).map(move |t| (at(t), at(t + 1)))
    }

    #[inline(always)]
    pub(crate) fn tile(&self, t: usize) -> Tile<'_> {
        let (start, end) = self.bounds(t);
        let per = |values: usize| start * values..end * values;
        let Sizes { codes, scales, sums, pairs, starts, values } =
            sizes(self.grid, self.k, self.tier.level());
        let peaks = peaks(self.grid, self.k);
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
            lanes: self.lanes.get(per(codes)).unwrap_or_default(),
            mixed: self.mixed.get(per(self.k / 32)).unwrap_or_default(),
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
        let tier = tier.for_batch(grid, x.len() / k);
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
        let filling = self.begin(tier, grid, k, tiles);
        pool.run(filling.parts.len(), |t| {
            let (start, end) = filling.parts[t];
            for first in (0..k).step_by(PART) {
                let last = k.min(first + PART);
                // SAFETY: each task has its own tile.
                let mut part = unsafe { filling.part(t, first..last) };
                let mut columns = [&[][..]; Level::PART_COLUMNS];
                for (column, x) in (start..end).zip(&mut columns) {
                    *x = row(column);
                    assert_eq!(x.len(), k, "row of activations");
                    *x = &x[first..last];
                }
                part.fill(&columns[..end - start]);
            }
        });
    }

    /// Begins a batch of tiles, the columns `start..end` of each following those of the one before, of columns of `k` values.
    /// What the batch held is lost; it is whole when every part of every tile was filled.
    ///
    /// # Panics
    /// If `k` is not a whole number of groups, or the tiles do not follow one another.
    pub(crate) fn begin(
        &mut self,
        tier: Tier,
        grid: Grid,
        k: usize,
        tiles: impl Iterator<Item = (usize, usize)>,
    ) -> Filling<'_> {
        let group = grid.group().max(1);
        assert!(k.is_multiple_of(group), "row of {k} in groups of {group}");
        // Parts do not overlap because of this.
        self.bounds.clear();
        self.bounds.extend(tiles);
        let n = self.bounds.iter().fold(0, |at, &(start, end)| {
            assert!(start == at && end >= start, "tiles follow one another");
            end
        });
        let tier = tier.for_tiles(grid, widest(self.bounds.iter().copied()));
        let level = tier.level();
        self.parts.clear();
        for &(start, end) in &self.bounds {
            let part = |start: usize| (start, end.min(start + Level::PART_COLUMNS));
            self.parts.extend((start..end).step_by(Level::PART_COLUMNS).map(part));
        }
        (self.grid, self.n, self.k, self.tier) = (grid, n, k, tier);
        let of_column = sizes(grid, k, level);
        if self.codes.len() < of_column.codes * n {
            self.codes.resize(of_column.codes * n);
        }
        grow(&mut self.scales, of_column.scales * n);
        grow(&mut self.sums, of_column.sums * n);
        grow(&mut self.pairs, of_column.pairs * n);
        grow(&mut self.values, of_column.values * n);
        // Lanes, and what their sums begin at, are of use to panels that are taken apart alone.
        let in_lanes = level.starts() == Starts::Lanes && self.bounds.len() >= FEWEST_WITHOUT_REGISTERS;
        let has_starts = level.starts() == Starts::Shift || in_lanes;
        let peaks = if has_starts { peaks(grid, k) } else { 0 };
        let words = level.words() && self.bounds.len() >= FEWEST_AVX2;
        let lanes = in_lanes && grid == Grid::A128;
        let of_starts = if has_starts { of_column.starts } else { 0 };
        self.starts.truncate(of_starts * n);
        grow(&mut self.starts, of_starts * n);
        self.peaks.truncate(peaks * n);
        grow(&mut self.peaks, peaks * n);
        let of_mixed = if grid == Grid::A128 && mixes(tier, self.bounds.len()) { k / 32 } else { 0 };
        self.mixed.truncate(of_mixed * n);
        grow(&mut self.mixed, of_mixed * n);
        let of_words = if words { of_column.codes } else { 0 };
        self.words.truncate(of_words * n);
        grow(&mut self.words, of_words * n);
        let of_lanes = if lanes { of_column.codes } else { 0 };
        self.lanes.truncate(of_lanes * n);
        grow(&mut self.lanes, of_lanes * n);
        Filling {
            tier,
            grid,
            parts: &self.parts,
            of_column,
            k,
            codes: Disjoint::new(&mut self.codes),
            scales: Disjoint::new(&mut self.scales),
            sums: Disjoint::new(&mut self.sums),
            pairs: Disjoint::new(&mut self.pairs),
            values: Disjoint::new(&mut self.values),
            starts: Disjoint::new(&mut self.starts),
            has_starts,
            peaks: Disjoint::new(&mut self.peaks),
            has_peaks: peaks > 0,
            words: Disjoint::new(&mut self.words),
            has_words: words,
            lanes: Disjoint::new(&mut self.lanes),
            has_lanes: lanes,
            mixed: Disjoint::new(&mut self.mixed),
            has_mixed: of_mixed > 0,
        }
    }
}

/// A batch that is being filled, part after part, by several tasks.
pub(crate) struct Filling<'a> {
    /// That the tiles are made for.
    tier: Tier,
    grid: Grid,
    parts: &'a [(usize, usize)],
    of_column: Sizes,
    k: usize,
    codes: Disjoint<'a, i8>,
    scales: Disjoint<'a, f32>,
    sums: Disjoint<'a, i32>,
    pairs: Disjoint<'a, i32>,
    values: Disjoint<'a, f32>,
    starts: Disjoint<'a, i32>,
    has_starts: bool,
    peaks: Disjoint<'a, Peaks>,
    has_peaks: bool,
    words: Disjoint<'a, i16>,
    has_words: bool,
    lanes: Disjoint<'a, i8>,
    has_lanes: bool,
    mixed: Disjoint<'a, i32>,
    has_mixed: bool,
}

impl Filling<'_> {
    /// The columns of each part of a tile.
    pub(crate) fn parts(&self) -> &[(usize, usize)] {
        self.parts
    }

    /// Asks for the memory of some values of all columns of part `t` of a tile, if there is such a one: for what a [`part`](Self::part) of few
    /// values is written to, which lies far from that of the last.
    pub(crate) fn fetch(&self, t: usize, values: Range<usize>) {
        let Some(&(start, end)) = self.parts.get(t) else { return };
        let (c, all) = (end - start, self.of_column);
        let [from, to] = [values.start, values.end].map(|k| sizes(self.grid, k, self.tier.level()));
        let place = |all: usize, from: usize, to: usize| start * all + c * from..start * all + c * to;
        place(all.codes, from.codes, to.codes).step_by(64).for_each(|at| self.codes.fetch(at));
        if self.has_starts {
            place(all.starts, from.starts, to.starts).step_by(16).for_each(|at| self.starts.fetch(at));
        }
        place(all.values, from.values, to.values).step_by(16).for_each(|at| self.values.fetch(at));
    }

    /// Some values of all columns of part `t` of a tile: whole groups, and pairs where the grid has such.
    ///
    /// # Safety
    /// Nobody else has any of these values of these columns.
    ///
    /// # Panics
    /// If the values are not whole groups and pairs, or beyond the batch.
    pub(crate) unsafe fn part(&self, t: usize, values: Range<usize>) -> Part<'_> {
        let (start, end) = self.parts[t];
        let c = end - start;
        let whole = |at: usize| at == self.k || at.is_multiple_of(self.grid.group().max(2));
        assert!(
            values.end <= self.k && whole(values.start) && whole(values.end),
            "part {values:?} of a tile"
        );
        let (all, level) = (self.of_column, self.tier.level());
        let [from, to] = [values.start, values.end].map(|k| sizes(self.grid, k, level));
        // Where a part of so many elements per column begins, and how many elements it has.
        let place = |all: usize, from: usize, to: usize| (start * all + c * from, c * (to - from));
        let (codes, scales) =
            (place(all.codes, from.codes, to.codes), place(all.scales, from.scales, to.scales));
        let (sums, pairs) = (place(all.sums, from.sums, to.sums), place(all.pairs, from.pairs, to.pairs));
        let floats = place(all.values, from.values, to.values);
        let starts = if self.has_starts { place(all.starts, from.starts, to.starts) } else { (0, 0) };
        let words = if self.has_words { codes } else { (0, 0) };
        let lanes = if self.has_lanes { codes } else { (0, 0) };
        let blocks = place(all.codes / 32, from.codes / 32, to.codes / 32);
        let mixed = if self.has_mixed { blocks } else { (0, 0) };
        // One set of a whole tile lies where its first column's would.
        let [all, from, to] = [self.k, values.start, values.end].map(|k| peaks(self.grid, k));
        let peaks = if self.has_peaks && c > 0 { (start * all + from, to - from) } else { (0, 0) };
        // SAFETY: tiles are disjoint ranges of columns, and values of a tile lie in their order: the caller's promise.
        unsafe {
            Part {
                tier: self.tier,
                grid: self.grid,
                c,
                codes: self.codes.range(codes.0, codes.1),
                scales: self.scales.range(scales.0, scales.1),
                sums: self.sums.range(sums.0, sums.1),
                pairs: self.pairs.range(pairs.0, pairs.1),
                starts: self.starts.range(starts.0, starts.1),
                peaks: self.peaks.range(peaks.0, peaks.1),
                words: self.words.range(words.0, words.1),
                lanes: self.lanes.range(lanes.0, lanes.1),
                mixed: self.mixed.range(mixed.0, mixed.1),
                values: self.values.range(floats.0, floats.1),
            }
        }
    }
}

/// The columns of the widest tile.
fn widest(tiles: impl Iterator<Item = (usize, usize)>) -> usize {
    tiles.map(|(start, end)| end - start).max().unwrap_or(0)
}

/// Elements per column of what a tile holds.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    codes: usize,
    scales: usize,
    sums: usize,
    pairs: usize,
    starts: usize,
    values: usize,
}

/// Of columns of `k` values.
fn sizes(grid: Grid, k: usize, level: Level) -> Sizes {
    match grid {
        Grid::BF16 if level.bf16_pairs() => Sizes { values: k.div_ceil(2), ..Sizes::default() },
        Grid::F32 | Grid::BF16 => Sizes { values: k, ..Sizes::default() },
        Grid::A32 => {
            let starts = if level.starts() == Starts::None { 0 } else { k / 32 };
            Sizes { codes: k, scales: k / 32, sums: k / 32, starts, ..Sizes::default() }
        }
        Grid::A128 => Sizes {
            codes: k,
            scales: k / 128,
            sums: k / 32,
            pairs: k / 64,
            // Lanes are of use to formats with a scale for each 16 values only.
            starts: k / 32 * level.starts().of_block(),
            values: 0,
        },
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

    #[test]
    fn tiles_cover_the_columns_and_pairs_stay_together() {
        for (level, grid) in Level::ALL.into_iter().flat_map(|l| [(l, Grid::F32), (l, Grid::A32)]) {
            let (widest, together) = (level.columns(grid), level.together(grid));
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
                assert_eq!(*want.codes, *got.codes);
                assert_eq!(want.sums, got.sums);
                assert_eq!(want.pairs, got.pairs);
                assert_eq!(want.scales, got.scales);
                assert_eq!(want.values, got.values);
            }
        }
    }
}
