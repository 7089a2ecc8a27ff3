//! `PackedA`, the quantised activations of a batch: one activation format per weight type, columns interleaved in
//! tiles.
//!
//! | activation format | for weights | form of a column |
//! |---|---|---|
//! | [`ActFormat::F32`] | F32, F16 | unchanged |
//! | [`ActFormat::BF16`] | BF16 | rounded to bfloat16 |
//! | [`ActFormat::Q8Block32`] | blocks of 32 with one scale (Q4_0, Q8_0) | int8, an f32 scale per 32 |
//! | [`ActFormat::Q8Block128`] | 256-blocks with integer sub-scales (Q4_K, Q6_K) | int8, an f32 scale per 128 |
//! | [`ActFormat::Q8Token`] | INT8 rows | int8, an f32 scale per token and one for outlier channels; [`TokenRows`] |
//!
//! The activation format depends on the weight type alone, never on the number of columns, so a token's result does not
//! depend on the rest of its batch. A scale per 128 values rather than llama.cpp's per 256 costs two multiplications in
//! about eighty and loses less precision; 128 is also the largest number of Q4_K values whose scaled sum is exact in
//! f32.
//!
//! Quantised values are `round_to_even(x * (127 / max|x|))`, so -128 never occurs; in [`ActFormat::Q8Block128`] with
//! 120.49 instead of 127 ([`Q128_MAX`](crate::types::Q128_MAX) says why). A group with NaN or infinity gets a NaN
//! scale, which makes every result that uses it NaN; a group below 1e-30 throughout becomes zeros.
//!
//! Tile layout for `c` columns: quantised values `[k/4][c][4]`, scales `[k/group][c]`, sums `[k/32][c]`: the kernel
//! broadcasts four consecutive k of a column with one load. Floats are `[k][c]`, or `[k/2][c]` pairs of bfloat16 in a
//! word, the first in its lower half, for levels with pair products (`Level::bf16_pairs`). For matrix instructions
//! quantised values are `[k/8][c][8]` or `[k/64][c][64]` (`Level::run`); in the latter case a tile is stored as
//! consecutive parts of up to 16 columns.
//!
//! - `acc_init`: the accumulator's initial values, for levels that have some (`Level::acc_init`), once for all
//!   matrices: `[k/32][c]` or, in [`ActFormat::Q8Block128`], `[k/32][3 or 4][c]` (`AccInit::of_block`). If quantised
//!   weights are shifted to be unsigned, it is the negated contribution of the shift per group of 32, plus the initial
//!   value of biased sums (`IntSimd::BIASED`). If a lane holds two 16-bit sums, in batches of several tiles, it holds
//!   the sums of the quantised activations that each multiplies, two in a word: per 32 values those of the first two of
//!   each four, and of the last two; in [`ActFormat::Q8Block128`] those of two blocks.
//! - `lanes`: for such lanes, the quantised values `[k/64][16][c][4]`: two of the first 32 of each 64 values and
//!   two of the last (`gemm/microkernel/x86_64/avx2_maddubs.rs`).
//! - `words`: all quantised values as 16-bit integers, for levels that multiply signed weights so (`Level::words`), in
//!   batches of many tiles: `[k/4][2][c][2]`, the first and third of each four, then the second and fourth.
//! - `winograd`: the initial values of Winograd inner products (`gemm::unpack::winograd`) per 32 values, in batches of
//!   many tiles: `[k/32][c]`.

use crate::cpu::isa::{AccInit, Level, Tier};
use crate::memory::aligned::Aligned;
use crate::memory::disjoint::Disjoint;
use crate::quant::min_tiles::{MIN_TILES_AVX2, MIN_TILES_WITHOUT_REGISTERS, uses_winograd};
use crate::quant::overflow_bounds::OverflowBounds;
use crate::quant::quantize::{PART, PackedASlice};
use crate::quant::token_rows::TokenRows;
use crate::threads::pool::Pool;
use crate::types::ActFormat;
use std::ops::Range;

/// Batch of activations in one activation format. Buffers grow to the largest batch seen and are then reused.
#[derive(Debug)]
pub struct PackedA {
    pub(crate) act_format: ActFormat,
    /// Number of tokens.
    pub(crate) m: usize,
    pub(crate) k: usize,
    /// Tier for which tiles were made, whose kernels multiply them; the next field is the columns of each tile.
    tier: Tier,
    bounds: Vec<(usize, usize)>,
    /// Columns of each part of a tile; most tiles have one part.
    parts: Vec<(usize, usize)>,
    /// Quantised values, aligned to cache lines because matrix instructions read whole ones.
    quants: Aligned<i8>,
    scales: Vec<f32>,
    sums: Vec<i32>,
    pairs: Vec<i32>,
    acc_init: Vec<i32>,
    overflow_bounds: Vec<OverflowBounds>,
    words: Vec<i16>,
    lanes: Vec<i8>,
    winograd: Vec<i32>,
    values: Vec<f32>,
    /// Q8Token: all data, without tiles.
    rows: TokenRows,
}

/// Data of one tile as kernels read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile<'a> {
    /// Number of columns.
    pub(crate) c: usize,
    pub(crate) quants: &'a [i8],
    pub(crate) scales: &'a [f32],
    /// Q8Block32: the sum of each 32 quantised values. Q8Block128: the sums of each 16 quantised values, two in a word.
    pub(crate) sums: &'a [i32],
    /// Q8Block128: the sums of each 32 quantised values, two in a word.
    pub(crate) pairs: &'a [i32],
    /// Accumulators' initial values for shifted quantised weights; empty if there are none.
    pub(crate) acc_init: &'a [i32],
    /// Q8Block128: overflow bounds of each 128 values; empty if unused.
    pub(crate) overflow_bounds: &'a [OverflowBounds],
    /// Quantised values as 16-bit integers; empty if unused.
    pub(crate) words: &'a [i16],
    /// Quantised values as pairs of two blocks; empty if unused.
    pub(crate) lanes: &'a [i8],
    /// Initial values of Winograd inner products; empty if unused.
    pub(crate) winograd: &'a [i32],
    pub(crate) values: &'a [f32],
    /// Norms of the unpacked panels, one per 128 values; empty if unused.
    pub(crate) norms: &'a [f32],
}

impl Tile<'_> {
    /// Returns the tile from column `first` on, for kernels that use pointers: strides stay those of all columns.
    #[inline(always)]
    pub(crate) fn after(&self, first: usize) -> Self {
        fn rest<T>(all: &[T], first: usize) -> &[T] {
            all.get(first..).unwrap_or_default()
        }
        Tile {
            quants: rest(self.quants, first * 4),
            scales: rest(self.scales, first),
            sums: rest(self.sums, first),
            pairs: rest(self.pairs, first),
            acc_init: rest(self.acc_init, first),
            words: rest(self.words, first * 2),
            lanes: rest(self.lanes, first * 4),
            winograd: rest(self.winograd, first),
            values: rest(self.values, first),
            ..*self
        }
    }
}

impl Default for PackedA {
    fn default() -> Self {
        PackedA {
            act_format: ActFormat::F32,
            m: 0,
            k: 0,
            tier: Tier::SCALAR,
            bounds: Vec::new(),
            parts: Vec::new(),
            quants: Aligned::default(),
            scales: Vec::new(),
            sums: Vec::new(),
            pairs: Vec::new(),
            acc_init: Vec::new(),
            overflow_bounds: Vec::new(),
            words: Vec::new(),
            lanes: Vec::new(),
            winograd: Vec::new(),
            values: Vec::new(),
            rows: TokenRows::default(),
        }
    }
}

impl PackedA {
    /// Returns the bytes of the quantised values or floats of one column.
    pub(crate) fn column_bytes(&self) -> usize {
        let per_column = sizes(self.act_format, self.k, self.tier.level());
        per_column.quants + per_column.values * size_of::<f32>()
    }

    /// Returns the number of tiles.
    #[must_use]
    pub fn tiles(&self) -> usize {
        self.bounds.len()
    }

    /// Returns the tokens of Q8Token.
    pub(crate) fn token_rows(&self) -> &TokenRows {
        &self.rows
    }

    /// Returns the tier whose kernels multiply the tiles.
    #[inline(always)]
    pub(crate) fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns the tier whose kernels multiply a batch of `n` columns with weights of `act_format` on a processor
    /// limited to `tier`: for BF16 it may differ.
    #[must_use]
    pub fn tier_of(tier: Tier, act_format: ActFormat, n: usize) -> Tier {
        let tier = tier.for_batch(act_format, n);
        let tiles = PackedA::tiles_of(tier.level(), act_format, 0, n);
        tier.for_tiles(act_format, widest(tiles))
    }

    /// Returns the columns of tile `t`.
    #[inline(always)]
    pub(crate) fn bounds(&self, t: usize) -> (usize, usize) {
        self.bounds[t]
    }

    /// Divides `n` columns from `first` on into tiles: as few as the widest tile allows, with widths that differ by at
    /// most one column (or two where columns are multiplied in pairs).
    pub(crate) fn tiles_of(
        level: Level,
        act_format: ActFormat,
        first: usize,
        n: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        let (tiles, together) = (n.div_ceil(level.columns(act_format)), level.together(act_format));
        let units = n.div_ceil(together);
        let at = move |t: usize| first + (units * t / tiles * together).min(n);
        (0..tiles).map(move |t| (at(t), at(t + 1)))
    }

    #[inline(always)]
    pub(crate) fn tile(&self, t: usize) -> Tile<'_> {
        let (start, end) = self.bounds(t);
        let per = |values: usize| start * values..end * values;
        let Sizes { quants, scales, sums, pairs, acc_init, values } =
            sizes(self.act_format, self.k, self.tier.level());
        let overflow_bounds = overflow_bounds(self.act_format, self.k);
        Tile {
            c: end - start,
            quants: &self.quants[per(quants)],
            scales: &self.scales[per(scales)],
            sums: &self.sums[per(sums)],
            pairs: &self.pairs[per(pairs)],
            acc_init: self.acc_init.get(per(acc_init)).unwrap_or_default(),
            // The bounds of a tile are stored at the index of its first column.
            overflow_bounds: self
                .overflow_bounds
                .get(start * overflow_bounds..(start + 1) * overflow_bounds)
                .unwrap_or_default(),
            words: self.words.get(per(quants)).unwrap_or_default(),
            lanes: self.lanes.get(per(quants)).unwrap_or_default(),
            winograd: self.winograd.get(per(self.k / 32)).unwrap_or_default(),
            values: &self.values[per(values)],
            norms: &[],
        }
    }

    /// Fills the batch from `x`, `n` rows of `k` values (one per token), for weights of `act_format`.
    ///
    /// # Panics
    /// If `x.len()` is not `n * k`, or `k` is not a whole number of groups.
    pub fn fill(&mut self, tier: Tier, pool: &Pool, act_format: ActFormat, x: &[f32], k: usize) {
        assert!(k > 0 && x.len().is_multiple_of(k), "{} activations in rows of {k}", x.len());
        if let ActFormat::Q8Token(outliers) = act_format {
            self.bounds.clear();
            self.parts.clear();
            (self.act_format, self.m, self.k, self.tier) = (act_format, x.len() / k, k, tier);
            return self.rows.fill(tier, pool, x, k, outliers);
        }
        let tier = tier.for_batch(act_format, x.len() / k);
        let tiles = PackedA::tiles_of(tier.level(), act_format, 0, x.len() / k);
        self.fill_tiles(tier, pool, act_format, k, tiles, |column| &x[column * k..][..k]);
    }

    /// Fills a batch of tiles, given as consecutive column ranges `start..end`; `row` returns the values of each
    /// column.
    ///
    /// # Panics
    /// If `k` is not a whole number of groups, a row does not have `k` values, or the tiles are not consecutive.
    pub(crate) fn fill_tiles<'x>(
        &mut self,
        tier: Tier,
        pool: &Pool,
        act_format: ActFormat,
        k: usize,
        tiles: impl Iterator<Item = (usize, usize)>,
        row: impl Fn(usize) -> &'x [f32] + Sync,
    ) {
        let filling = self.begin(tier, act_format, k, tiles);
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

    /// Begins a batch of tiles, given as consecutive column ranges `start..end`, with `k` values per column. The
    /// batch's previous contents are lost; it is complete when all parts of all tiles have been filled.
    ///
    /// # Panics
    /// If `k` is not a whole number of groups, or the tiles are not consecutive.
    pub(crate) fn begin(
        &mut self,
        tier: Tier,
        act_format: ActFormat,
        k: usize,
        tiles: impl Iterator<Item = (usize, usize)>,
    ) -> Filling<'_> {
        let group = act_format.group().max(1);
        assert!(k.is_multiple_of(group), "row of {k} in groups of {group}");
        assert!(!matches!(act_format, ActFormat::Q8Token(_)), "rows of tokens are in no tiles");
        // Parts do not overlap because of this.
        self.bounds.clear();
        self.bounds.extend(tiles);
        let n = self.bounds.iter().fold(0, |at, &(start, end)| {
            assert!(start == at && end >= start, "tiles follow one another");
            end
        });
        let tier = tier.for_tiles(act_format, widest(self.bounds.iter().copied()));
        let level = tier.level();
        self.parts.clear();
        for &(start, end) in &self.bounds {
            let part = |start: usize| (start, end.min(start + Level::PART_COLUMNS));
            self.parts.extend((start..end).step_by(Level::PART_COLUMNS).map(part));
        }
        (self.act_format, self.m, self.k, self.tier) = (act_format, n, k, tier);
        let per_column = sizes(act_format, k, level);
        if self.quants.len() < per_column.quants * n {
            self.quants.resize(per_column.quants * n);
        }
        grow(&mut self.scales, per_column.scales * n);
        grow(&mut self.sums, per_column.sums * n);
        grow(&mut self.pairs, per_column.pairs * n);
        grow(&mut self.values, per_column.values * n);
        // Lanes and their initial values are used by unpacked panels only.
        let in_lanes = level.acc_init() == AccInit::Lanes && self.bounds.len() >= MIN_TILES_WITHOUT_REGISTERS;
        let has_acc_init = level.acc_init() == AccInit::Shift || in_lanes;
        let overflow_bounds = if has_acc_init { overflow_bounds(act_format, k) } else { 0 };
        let words = level.words() && self.bounds.len() >= MIN_TILES_AVX2;
        let lanes = in_lanes && act_format == ActFormat::Q8Block128;
        let of_acc_init = if has_acc_init { per_column.acc_init } else { 0 };
        self.acc_init.truncate(of_acc_init * n);
        grow(&mut self.acc_init, of_acc_init * n);
        self.overflow_bounds.truncate(overflow_bounds * n);
        grow(&mut self.overflow_bounds, overflow_bounds * n);
        let of_winograd = if act_format == ActFormat::Q8Block128 && uses_winograd(tier, self.bounds.len()) {
            k / 32
        } else {
            0
        };
        self.winograd.truncate(of_winograd * n);
        grow(&mut self.winograd, of_winograd * n);
        let of_words = if words { per_column.quants } else { 0 };
        self.words.truncate(of_words * n);
        grow(&mut self.words, of_words * n);
        let of_lanes = if lanes { per_column.quants } else { 0 };
        self.lanes.truncate(of_lanes * n);
        grow(&mut self.lanes, of_lanes * n);
        Filling {
            tier,
            act_format,
            parts: &self.parts,
            per_column,
            k,
            quants: Disjoint::new(&mut self.quants),
            scales: Disjoint::new(&mut self.scales),
            sums: Disjoint::new(&mut self.sums),
            pairs: Disjoint::new(&mut self.pairs),
            values: Disjoint::new(&mut self.values),
            acc_init: Disjoint::new(&mut self.acc_init),
            has_acc_init,
            overflow_bounds: Disjoint::new(&mut self.overflow_bounds),
            has_overflow_bounds: overflow_bounds > 0,
            words: Disjoint::new(&mut self.words),
            has_words: words,
            lanes: Disjoint::new(&mut self.lanes),
            has_lanes: lanes,
            winograd: Disjoint::new(&mut self.winograd),
            has_winograd: of_winograd > 0,
        }
    }
}

/// Batch that several tasks fill, part by part.
pub(crate) struct Filling<'a> {
    /// Tier for which the tiles are made.
    tier: Tier,
    act_format: ActFormat,
    parts: &'a [(usize, usize)],
    per_column: Sizes,
    k: usize,
    quants: Disjoint<'a, i8>,
    scales: Disjoint<'a, f32>,
    sums: Disjoint<'a, i32>,
    pairs: Disjoint<'a, i32>,
    values: Disjoint<'a, f32>,
    acc_init: Disjoint<'a, i32>,
    has_acc_init: bool,
    overflow_bounds: Disjoint<'a, OverflowBounds>,
    has_overflow_bounds: bool,
    words: Disjoint<'a, i16>,
    has_words: bool,
    lanes: Disjoint<'a, i8>,
    has_lanes: bool,
    winograd: Disjoint<'a, i32>,
    has_winograd: bool,
}

impl Filling<'_> {
    /// Returns the columns of each part of a tile.
    pub(crate) fn parts(&self) -> &[(usize, usize)] {
        self.parts
    }

    /// Prefetches the memory of some values of all columns of part `t` of a tile, if it exists: a [`part`](Self::part)
    /// of few values is far from the previous one in memory.
    pub(crate) fn fetch(&self, t: usize, values: Range<usize>) {
        let Some(&(start, end)) = self.parts.get(t) else { return };
        let (c, all) = (end - start, self.per_column);
        let [from, to] = [values.start, values.end].map(|k| sizes(self.act_format, k, self.tier.level()));
        let place = |all: usize, from: usize, to: usize| start * all + c * from..start * all + c * to;
        place(all.quants, from.quants, to.quants).step_by(64).for_each(|at| self.quants.fetch(at));
        if self.has_acc_init {
            place(all.acc_init, from.acc_init, to.acc_init)
                .step_by(16)
                .for_each(|at| self.acc_init.fetch(at));
        }
        place(all.values, from.values, to.values).step_by(16).for_each(|at| self.values.fetch(at));
    }

    /// Returns some values of all columns of part `t` of a tile: whole groups, and pairs in formats with pairs.
    ///
    /// # Safety
    /// No other slice holds any of these values of these columns.
    ///
    /// # Panics
    /// If the values are not whole groups and pairs, or beyond the batch.
    pub(crate) unsafe fn part(&self, t: usize, values: Range<usize>) -> PackedASlice<'_> {
        let (start, end) = self.parts[t];
        let c = end - start;
        let whole = |at: usize| at == self.k || at.is_multiple_of(self.act_format.group().max(2));
        assert!(
            values.end <= self.k && whole(values.start) && whole(values.end),
            "part {values:?} of a tile"
        );
        let (all, level) = (self.per_column, self.tier.level());
        let [from, to] = [values.start, values.end].map(|k| sizes(self.act_format, k, level));
        // Offset and number of elements of a part, for `all` elements per column.
        let place = |all: usize, from: usize, to: usize| (start * all + c * from, c * (to - from));
        let (quants, scales) =
            (place(all.quants, from.quants, to.quants), place(all.scales, from.scales, to.scales));
        let (sums, pairs) = (place(all.sums, from.sums, to.sums), place(all.pairs, from.pairs, to.pairs));
        let floats = place(all.values, from.values, to.values);
        let acc_init =
            if self.has_acc_init { place(all.acc_init, from.acc_init, to.acc_init) } else { (0, 0) };
        let words = if self.has_words { quants } else { (0, 0) };
        let lanes = if self.has_lanes { quants } else { (0, 0) };
        let blocks = place(all.quants / 32, from.quants / 32, to.quants / 32);
        let winograd = if self.has_winograd { blocks } else { (0, 0) };
        // The bounds of a tile are stored at the index of its first column.
        let [all, from, to] = [self.k, values.start, values.end].map(|k| overflow_bounds(self.act_format, k));
        let overflow_bounds =
            if self.has_overflow_bounds && c > 0 { (start * all + from, to - from) } else { (0, 0) };
        // SAFETY: tiles are disjoint ranges of columns, and values of a tile are stored in order; no other slice holds
        // these (`# Safety`).
        unsafe {
            PackedASlice {
                tier: self.tier,
                act_format: self.act_format,
                c,
                quants: self.quants.range(quants.0, quants.1),
                scales: self.scales.range(scales.0, scales.1),
                sums: self.sums.range(sums.0, sums.1),
                pairs: self.pairs.range(pairs.0, pairs.1),
                acc_init: self.acc_init.range(acc_init.0, acc_init.1),
                overflow_bounds: self.overflow_bounds.range(overflow_bounds.0, overflow_bounds.1),
                words: self.words.range(words.0, words.1),
                lanes: self.lanes.range(lanes.0, lanes.1),
                winograd: self.winograd.range(winograd.0, winograd.1),
                values: self.values.range(floats.0, floats.1),
            }
        }
    }
}

/// Returns the width of the widest tile.
fn widest(tiles: impl Iterator<Item = (usize, usize)>) -> usize {
    tiles.map(|(start, end)| end - start).max().unwrap_or(0)
}

/// Number of elements per column of each array of a tile.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    quants: usize,
    scales: usize,
    sums: usize,
    pairs: usize,
    acc_init: usize,
    values: usize,
}

/// Returns the sizes for columns of `k` values.
fn sizes(act_format: ActFormat, k: usize, level: Level) -> Sizes {
    match act_format {
        ActFormat::BF16 if level.bf16_pairs() => Sizes { values: k.div_ceil(2), ..Sizes::default() },
        ActFormat::F32 | ActFormat::BF16 => Sizes { values: k, ..Sizes::default() },
        // Rows of tokens are not stored in tiles ([`TokenRows`]).
        ActFormat::Q8Token(_) => Sizes::default(),
        ActFormat::Q8Block32 => {
            let acc_init = if level.acc_init() == AccInit::None { 0 } else { k / 32 };
            Sizes { quants: k, scales: k / 32, sums: k / 32, acc_init, ..Sizes::default() }
        }
        ActFormat::Q8Block128 => Sizes {
            quants: k,
            scales: k / 128,
            sums: k / 32,
            pairs: k / 64,
            // Lanes are of use to formats with a scale per 16 values only.
            acc_init: k / 32 * level.acc_init().of_block(),
            values: 0,
        },
    }
}

/// Returns the number of `overflow_bounds` per tile.
fn overflow_bounds(act_format: ActFormat, k: usize) -> usize {
    if act_format == ActFormat::Q8Block128 { k / 128 } else { 0 }
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
        for (level, act_format) in
            Level::ALL.into_iter().flat_map(|l| [(l, ActFormat::F32), (l, ActFormat::Q8Block32)])
        {
            let (widest, together) = (level.columns(act_format), level.together(act_format));
            for n in 1..50 {
                let tiles: Vec<(usize, usize)> = PackedA::tiles_of(level, act_format, 0, n).collect();
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
        for act_format in [ActFormat::F32, ActFormat::BF16, ActFormat::Q8Block32, ActFormat::Q8Block128] {
            let mut want = PackedA::default();
            want.fill(Tier::SCALAR, &Pool::new(1).unwrap(), act_format, &x, k);
            for tier in Tier::available() {
                if tier.level().columns(act_format) != want.tier.level().columns(act_format) {
                    continue;
                }
                let mut got = PackedA::default();
                got.fill(tier, &Pool::new(3).unwrap(), act_format, &x, k);
                assert_eq!(*want.quants, *got.quants);
                assert_eq!(want.sums, got.sums);
                assert_eq!(want.pairs, got.pairs);
                assert_eq!(want.scales, got.scales);
                assert_eq!(want.values, got.values);
            }
        }
    }
}
