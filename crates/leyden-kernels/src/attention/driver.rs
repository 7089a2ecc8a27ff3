//! Driver of attention: scores, softmax and weighted values of query rows over the tiles of one key-value head.

use crate::attention::block::{BLOCK_TOKENS, KEY_TOKENS, KvType, Row, TileRange};
use crate::attention::kv_cache::KvCache;
use crate::attention::mask::{Mask, TokenRange};
use crate::attention::online_softmax::{OnlineSoftmax, QUERY_ROWS, Sink, SoftmaxStates, padded};
use crate::attention::options::{AttentionOptions, AttentionSpan};
use crate::attention::q8_values;
use crate::attention::scores::{Keys, Values};
use crate::attention::simd::AttentionSimd;
use crate::attention::split_kv::KvSplit;
use crate::context::Cpu;
use crate::cpu::isa::{AccInit, Level, Tier};
use crate::gemm::registry::KEY_TILES;
use crate::memory::aligned::Aligned;
use crate::memory::disjoint::Disjoint;
use crate::ops::soft_cap16;
use crate::prefetch::prefetch_lines;
use crate::quant::packed_a::Tile;
use crate::quant::quantize::{acc_init_block32, fill_block32};
use crate::simd::dispatch::dispatch;
use crate::types::ActFormat;
use std::ops::Range;

/// Largest supported head dimension.
pub const MAX_HEAD_DIM: usize = 512;

/// Number of rows from which a tile of halves is converted to floats first; with fewer rows each load converts.
const MANY: usize = 17;

/// Number of multiplications below which attention runs on the calling thread.
const SINGLE_THREAD_MACS: usize = 64 << 10;
/// Minimum number of tiles in a task.
const MIN_SPLIT_TILES: usize = 4;
/// Number of tasks per thread below which the tiles of one row are split over several tasks.
const TASKS_PER_THREAD: usize = 4;

/// One task: rows of one sequence and one key-value head over a range of tiles.
struct Task<'a> {
    tier: Tier,
    cache: &'a KvCache,
    layer: usize,
    head: usize,
    blocks: &'a [u32],
    /// Head dimension of queries and keys; `value_dim` is that of values.
    dim: usize,
    value_dim: usize,
    /// Query rows, `[row][dim]`; `token_ranges` are the ranges of tokens that they attend to.
    queries: &'a [f32],
    token_ranges: &'a [TokenRange],
    /// Range of tiles to process.
    tiles: Range<usize>,
    scale: f32,
    soft_cap: Option<f32>,
    /// Attention sink of each row.
    sinks: Option<&'a [f32]>,
}

/// Query rows in the layout of the kernel that multiplies them with keys.
enum Queries {
    /// Groups of `R` rows, each as `[dim][R]`.
    Floats(Vec<f32>),
    /// In the activation format of Q8_0 weights, in tiles of up to the tier's number of columns: the fields of
    /// [`Tile`], one tile after the other.
    QuantFormat { quants: Vec<i8>, scales: Vec<f32>, sums: Vec<i32>, acc_init: Vec<i32> },
}

impl Queries {
    /// Lays out the task's rows, padded with zero rows to a multiple of `R`.
    #[inline(always)]
    fn new<I: AttentionSimd, const R: usize>(isa: I, task: &Task<'_>) -> Queries {
        let (dim, n) = (task.dim, task.token_ranges.len());
        if task.cache.shape().kv_type == KvType::Q8_0 {
            let mut quants = vec![0; n * dim];
            let mut scales = vec![0.0; n * dim / 32];
            let mut sums = vec![0; n * dim / 32];
            for tile in tiles(n, task.tier) {
                let c = tile.len();
                let at = |values: usize| tile.start * values..tile.end * values;
                let (quants, scales) = (&mut quants[at(dim)], &mut scales[at(dim / 32)]);
                let sums = &mut sums[at(dim / 32)];
                let mut columns = [&[][..]; Level::VECTOR_COLUMNS];
                for (row, query) in tile.clone().zip(&mut columns) {
                    *query = &task.queries[row * dim..(row + 1) * dim];
                }
                fill_block32(isa, &columns[..c], task.tier.level().run(c), quants, scales, sums);
            }
            let shifted = task.tier.level().acc_init() == AccInit::Shift;
            let mut acc_init = vec![0; if shifted { sums.len() } else { 0 }];
            acc_init_block32(&sums, &mut acc_init);
            return Queries::QuantFormat { quants, scales, sums, acc_init };
        }
        let mut turned = vec![0.0; n.next_multiple_of(R) * dim];
        for (group, rows) in turned.chunks_exact_mut(R * dim).zip(task.queries.chunks(R * dim)) {
            for (r, row) in rows.chunks_exact(dim).enumerate() {
                for (d, q) in row.iter().enumerate() {
                    group[d * R + r] = *q;
                }
            }
        }
        Queries::Floats(turned)
    }
}

/// Returns ranges of rows to multiply with quantised keys together: as few and as even as the tier's tiles allow.
#[inline(always)]
fn tiles(rows: usize, tier: Tier) -> impl Iterator<Item = Range<usize>> {
    let many = rows.div_ceil(tier.level().columns(ActFormat::Q8Block32)).max(1);
    (0..many).map(move |t| rows * t / many..rows * (t + 1) / many)
}

/// Computes the scores of all rows with the first `tokens` tokens of a tile.
#[inline(always)]
fn scores<I: AttentionSimd, const R: usize, const G: usize>(
    isa: I,
    task: &Task<'_>,
    keys: Keys<'_>,
    tokens: usize,
    queries: &Queries,
    out: &mut [Row],
) {
    let dim = task.dim;
    match queries {
        Queries::Floats(turned) => {
            for r in (0..task.token_ranges.len()).step_by(R) {
                for group in (0..tokens.div_ceil(KEY_TOKENS)).step_by(G) {
                    isa.scores::<R, G>(keys, &turned[r * dim..], group, task.scale, &mut out[r..]);
                }
            }
        }
        Queries::QuantFormat { quants, scales, sums, acc_init } => {
            let size = keys.bytes.len() / (BLOCK_TOKENS / KEY_TOKENS);
            let panels = keys.bytes.chunks_exact(size);
            let Products(y) = &mut Products([0.0; Level::VECTOR_COLUMNS * KEY_TOKENS]);
            for rows in tiles(task.token_ranges.len(), task.tier) {
                let at = |values: usize| rows.start * values..rows.end * values;
                let tile = Tile {
                    acc_init: acc_init.get(at(dim / 32)).unwrap_or_default(),
                    overflow_bounds: &[],
                    words: &[],
                    lanes: &[],
                    winograd: &[],
                    norms: &[],
                    c: rows.len(),
                    quants: &quants[at(dim)],
                    scales: &scales[at(dim / 32)],
                    sums: &sums[at(dim / 32)],
                    pairs: &[],
                    values: &[],
                };
                let function = KEY_TILES(task.tier)[rows.len() - 1];
                for (group, panel) in panels.clone().take(tokens.div_ceil(KEY_TOKENS)).enumerate() {
                    if rows.start == 0 {
                        prefetch_lines(&keys.next[group * size..][..size]);
                    }
                    // SAFETY: the Tier proves the features; a group of keys is a panel of Q8_0 weights of depth
                    // dim, the tile holds the queries on its activation format, and y has room for every row.
                    unsafe { function(panel, dim, &tile, y) };
                    for (row, y) in out[rows.clone()].iter_mut().zip(y.as_chunks::<KEY_TOKENS>().0) {
                        row.as_chunks_mut::<KEY_TOKENS>().0[group] = isa.scaled(y, task.scale);
                    }
                }
            }
        }
    }
}

/// Output buffer of a Q8_0 kernel, aligned so that no vector crosses a cache line.
#[repr(align(64))]
struct Products([f32; Level::VECTOR_COLUMNS * KEY_TOKENS]);

/// Returns the factors of a row that attends to `attended`: for each token the factor that turns its softmax weight (at
/// most 1) into an integer, and the float value of one unit of `integer weight * quantised value`. The latter follows
/// from the largest scale in `attended` alone, and is NaN if one of these scales is.
#[inline(always)]
fn shares_of<I: AttentionSimd>(isa: I, values: q8_values::Block<'_>, attended: TileRange) -> (Row, f32) {
    let halves = values.scales();
    // The bits of non-negative halves have the order of their values; NaN comes last.
    let largest =
        halves[attended.first.min(attended.end)..attended.end].iter().fold(0, |a: u16, b| a.max(*b));
    let largest = isa.f16_to_f32(&[largest; 16])[0];
    let inverse = if largest > 0.0 { q8_values::MAX_WEIGHT / largest } else { 0.0 };
    let mut shares = [0.0; BLOCK_TOKENS];
    for (x, h) in shares.as_chunks_mut::<16>().0.iter_mut().zip(halves.as_chunks::<16>().0) {
        *x = isa.scaled(&isa.f16_to_f32(h), inverse);
    }
    (shares, largest / q8_values::MAX_WEIGHT)
}

/// Computes the weighted sums of a tile's quantised values. Row r attends to `attended(r)`; `weights` is scratch space
/// for the rows' integer weights.
#[inline(always)]
fn pv_product_q8<'a, I: AttentionSimd, const R: usize>(
    isa: I,
    values: impl Iterator<Item = q8_values::Block<'a>>,
    tokens: usize,
    (p, weights): (&[Row], &mut [q8_values::Weights]),
    (n, dim): (usize, usize),
    attended: impl Fn(usize) -> TileRange,
    sink: &mut impl Sink,
) {
    for (block, values) in values.enumerate() {
        let mut units = [0.0; QUERY_ROWS];
        // The heads of a token attend to the same tokens, and most rows attend to whole tiles.
        let mut shares = (attended(0), shares_of(isa, values, attended(0)));
        for r in 0..n {
            if shares.0 != attended(r) {
                shares = (attended(r), shares_of(isa, values, attended(r)));
            }
            let (_, (shares, unit)) = &shares;
            isa.q8_weights(&p[r], shares, &mut weights[r]);
            units[r] = *unit;
        }
        for r in (0..n).step_by(R) {
            let (weights, place) = ((&weights[r..], &units[r..]), (block * q8_values::VALUES, dim));
            isa.pv_product_q8::<R>(values, tokens, weights, place, &mut sink.rows(r));
        }
    }
}

/// Processes the tiles of a task. `R` rows and `G` vectors of tokens or values are computed together, in registers.
#[inline(always)]
fn rows<I: AttentionSimd, const R: usize, const G: usize>(isa: I, task: &Task<'_>, sink: &mut impl Sink) {
    let (n, dim, value_dim) = (task.token_ranges.len(), task.dim, task.value_dim);
    let kv_type = task.cache.shape().kv_type;
    let queries = Queries::new::<I, R>(isa, task);
    let mut p = Aligned::zeroed(padded(n) * BLOCK_TOKENS);
    let p = p.as_chunks_mut::<BLOCK_TOKENS>().0;
    let convert = n >= MANY && kv_type == KvType::F16;
    let mut weights = Aligned::zeroed(if kv_type == KvType::Q8_0 { padded(n) * BLOCK_TOKENS } else { 0 });
    let weights = weights.as_chunks_mut::<BLOCK_TOKENS>().0;
    let floats = |dim: usize| Aligned::zeroed(if convert { BLOCK_TOKENS * dim } else { 0 });
    let mut floats = [floats(dim), floats(value_dim)];
    let most = task.token_ranges.iter().map(|token_range| token_range.end).max().unwrap_or(0);
    for index in task.tiles.clone() {
        let block = task.blocks[index];
        let tokens = (most - index * BLOCK_TOKENS).min(BLOCK_TOKENS);
        let bytes = task.cache.keys(task.layer, block, task.head);
        let next = task.blocks[..task.tiles.end].get(index + 1).copied().unwrap_or(block);
        let ahead =
            [task.cache.keys(task.layer, next, task.head), task.cache.values(task.layer, next, task.head)];
        let mut keys = Keys { kv_type, bytes, next: ahead[0], dim };
        let bytes = task.cache.values(task.layer, block, task.head);
        let quants = q8_values::Block::all(bytes, ahead[1]);
        let mut values = Values { kv_type, bytes, next: ahead[1], dim: value_dim };
        if convert {
            let [k, v] = &mut floats;
            keys = keys.to_floats(isa, k);
            values = values.to_floats(isa, tokens, v);
        }
        scores::<I, R, G>(isa, task, keys, tokens, &queries, p);
        if let Some(cap) = task.soft_cap {
            for row in &mut p[..n] {
                for scores in row.as_chunks_mut::<16>().0.iter_mut().take(tokens.div_ceil(16)) {
                    *scores = soft_cap16(scores, cap);
                }
            }
        }
        let mut states = SoftmaxStates::none();
        let attended =
            |r: usize| task.token_ranges.get(r).map_or(TileRange { first: 0, end: 0 }, |s| s.in_tile(index));
        for (i, p) in p.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let first = i * 16;
            if n - first >= 16 {
                [states.max_scores[i], states.sums[i]] =
                    isa.exp_scores_of_16(p, std::array::from_fn(|r| attended(first + r)));
            } else {
                for r in first..n {
                    (states.max_scores[i][r - first], states.sums[i][r - first]) =
                        isa.exp_scores(&mut p[r - first], attended(r));
                }
            }
        }
        sink.begin(index, &states);
        if kv_type == KvType::Q8_0 {
            pv_product_q8::<I, R>(isa, quants, tokens, (p, weights), (n, value_dim), attended, sink);
        } else {
            let pieces = n.div_ceil(R) * (value_dim / 16).div_ceil(G);
            let mut parts = ahead.map(|next| next.chunks(next.len().div_ceil(pieces).next_multiple_of(64)));
            for r in (0..n).step_by(R) {
                let (p, mut out) = (&p[r..], sink.rows(r));
                let mut d = 0;
                while d + 16 * G <= value_dim {
                    if convert {
                        parts.iter_mut().filter_map(Iterator::next).for_each(prefetch_lines);
                    }
                    isa.pv_product::<R, G>(values, tokens, d, p, &mut out);
                    d += 16 * G;
                }
                while d < value_dim {
                    isa.pv_product::<R, 1>(values, tokens, d, p, &mut out);
                    d += 16;
                }
            }
        }
        sink.end();
    }
}

/// Processes a task with as many rows and vectors together as the instruction set has registers for.
#[inline(always)]
fn go_over<I: AttentionSimd>(isa: I, task: &Task<'_>, sink: &mut impl Sink) {
    // Sixteen sums where registers hold them, else four; other row counts leave rows unused. For many rows two vectors
    // instead of one: one load of a weight per product keeps both load ports busy.
    match (I::WIDE_REGISTER_FILE, task.token_ranges.len()) {
        (false, 1) => rows::<I, 1, 4>(isa, task, sink),
        (false, 2) => rows::<I, 2, 2>(isa, task, sink),
        (false, _) => rows::<I, 4, 1>(isa, task, sink),
        (true, 1) => rows::<I, 1, 4>(isa, task, sink),
        (true, 2) => rows::<I, 2, 4>(isa, task, sink),
        (true, 3 | 4) => rows::<I, 4, 4>(isa, task, sink),
        (true, _) => rows::<I, 8, 2>(isa, task, sink),
    }
}

/// Computes a task over all tiles; `out` is `[row][value_dim]` with [`padded`] rows.
#[inline(always)]
fn attend<I: AttentionSimd>(isa: I, task: &Task<'_>, out: &mut [f32]) {
    let mut merger = OnlineSoftmax::new(task.token_ranges, task.value_dim, task.tiles.start, out);
    go_over(isa, task, &mut merger);
    merger.finish(task.sinks);
}

/// Computes one split of a task's tiles.
#[inline(always)]
fn attend_split<I: AttentionSimd>(isa: I, task: &Task<'_>, piece: &mut KvSplit<'_>) {
    go_over(isa, task, piece);
}

/// Merges the tiles of all splits of a task: states `[tile][row]`, values `[tile][row][value_dim]`.
#[inline(always)]
fn merge<I: AttentionSimd>(
    _isa: I,
    task: &Task<'_>,
    states: &[(f32, f32)],
    partial: &[f32],
    out: &mut [f32],
) {
    let (n, dim) = (task.token_ranges.len(), task.value_dim);
    let mut merger = OnlineSoftmax::new(task.token_ranges, dim, task.tiles.start, out);
    let tiles = states.chunks_exact(n).zip(partial.chunks_exact(n * dim));
    for (index, (states, partial)) in task.tiles.clone().zip(tiles) {
        merger.tile(index, states, partial);
    }
    merger.finish(task.sinks);
}

dispatch! {
    fn attend_on => attend(task: &Task<'_>, out: &mut [f32])
}
dispatch! {
    fn attend_split_on => attend_split(task: &Task<'_>, piece: &mut KvSplit<'_>)
}
dispatch! {
    fn merge_on => merge(
        task: &Task<'_>,
        states: &[(f32, f32)],
        partial: &[f32],
        out: &mut [f32]
    )
}

/// Query rows of one sequence and one key-value head: `heads` of each of `tokens`.
struct Rows<'a> {
    span: AttentionSpan<'a>,
    tokens: Range<usize>,
    head: usize,
    /// Query heads, numbered within the key-value head's group.
    heads: Range<usize>,
}

impl Rows<'_> {
    fn len(&self) -> usize {
        self.tokens.len() * self.heads.len()
    }

    /// Returns the range of tokens that token `i` of the span attends to.
    fn token_range(&self, mask: Mask, i: usize) -> TokenRange {
        mask.token_range(self.span.position + i, self.span.stored)
    }

    /// Returns the tiles that any token attends to: from the first tile of the first token to the last tile of the
    /// last.
    fn tiles(&self, mask: Mask) -> Range<usize> {
        let (first, last) =
            (self.token_range(mask, self.tokens.start), self.token_range(mask, self.tokens.end - 1));
        first.first / BLOCK_TOKENS..last.end.div_ceil(BLOCK_TOKENS)
    }
}

/// Arguments of an attention call, shared by its tasks.
struct Driver<'a> {
    tier: Tier,
    cache: &'a KvCache,
    layer: usize,
    queries: &'a [f32],
    options: AttentionOptions<'a>,
    /// Number of query heads per token.
    heads: usize,
    /// Number of query heads per key-value head.
    group: usize,
    dim: usize,
    value_dim: usize,
    out: Disjoint<'a, f32>,
}

impl Driver<'_> {
    /// Returns the index of each row in the queries and the output.
    fn places<'r>(&'r self, rows: &'r Rows<'_>) -> impl Iterator<Item = usize> + 'r {
        let head = rows.head * self.group;
        rows.tokens
            .clone()
            .flat_map(move |t| rows.heads.clone().map(move |h| (rows.span.first + t) * self.heads + head + h))
    }

    /// Returns the range of tokens that each row attends to.
    fn token_ranges(&self, rows: &Rows<'_>) -> Vec<TokenRange> {
        let token = |i: usize| rows.token_range(self.options.mask, rows.tokens.start + i / rows.heads.len());
        (0..rows.len()).map(token).collect()
    }

    /// Returns the sink of each row, if there are sinks.
    fn sinks(&self, rows: &Rows<'_>) -> Option<Vec<f32>> {
        let first = rows.head * self.group + rows.heads.start;
        let of_token = &self.options.sinks?[first..first + rows.heads.len()];
        Some(of_token.iter().copied().cycle().take(rows.len()).collect())
    }

    /// Calls `work` with the task of `rows` over `tiles`.
    fn with_task(&self, rows: &Rows<'_>, tiles: Range<usize>, work: impl FnOnce(&Task<'_>)) {
        let mut queries = Vec::with_capacity(rows.len() * self.dim);
        let query = |at: usize| &self.queries[at * self.dim..(at + 1) * self.dim];
        self.places(rows).for_each(|at| queries.extend_from_slice(query(at)));
        work(&Task {
            tier: self.tier,
            cache: self.cache,
            layer: self.layer,
            head: rows.head,
            blocks: rows.span.blocks,
            dim: self.dim,
            value_dim: self.value_dim,
            queries: &queries,
            token_ranges: &self.token_ranges(rows),
            tiles,
            scale: self.options.scale,
            soft_cap: self.options.soft_cap,
            sinks: self.sinks(rows).as_deref(),
        });
    }

    fn write(&self, rows: &Rows<'_>, result: &[f32]) {
        let dim = self.value_dim;
        for (at, row) in self.places(rows).zip(result.chunks_exact(dim)) {
            // SAFETY: each (token, query head) belongs to exactly one element of the rows, and each of these is
            // written by one task.
            unsafe { self.out.range(at * dim, dim) }.copy_from_slice(row);
        }
    }

    /// Computes all tiles of `rows` in one task.
    fn whole(&self, rows: &Rows<'_>) {
        self.with_task(rows, rows.tiles(self.options.mask), |task| {
            let mut result = Aligned::zeroed(padded(rows.len()) * self.value_dim);
            attend_on(self.tier, task, &mut result);
            self.write(rows, &result);
        });
    }

    /// Computes all rows, with their tiles split into pieces of `tiles`. Merging in order gives the same bits.
    fn split_kv(&self, cpu: &Cpu, all: &[Rows<'_>], tiles: usize) {
        let dim = self.value_dim;
        let mut pieces = Vec::new();
        // Offset of each element's first tile, in rows of tiles.
        let mut split_starts = Vec::with_capacity(all.len());
        let mut total = 0;
        for (i, rows) in all.iter().enumerate() {
            split_starts.push(total);
            let of_rows = rows.tiles(self.options.mask);
            total += of_rows.len() * rows.len();
            pieces.extend(of_rows.step_by(tiles).map(|first| (i, first)));
        }
        let (mut states, mut partial) = (vec![(0.0, 0.0); total], vec![0.0; total * dim]);
        let (kept_states, kept) = (Disjoint::new(&mut states), Disjoint::new(&mut partial));
        cpu.pool().run(pieces.len(), |p| {
            let (i, first) = pieces[p];
            let rows = &all[i];
            let (n, of_rows) = (rows.len(), rows.tiles(self.options.mask));
            let last = of_rows.end.min(first + tiles);
            let (start, count) = (split_starts[i] + (first - of_rows.start) * n, (last - first) * n);
            // SAFETY: a piece has its own tiles of its own rows.
            let states = unsafe { kept_states.range(start, count) };
            // SAFETY: as above.
            let partial = unsafe { kept.range(start * dim, count * dim) };
            let mut piece = KvSplit::new(first, (n, dim), states, partial);
            self.with_task(rows, first..last, |task| attend_split_on(self.tier, task, &mut piece));
        });
        cpu.pool().run(all.len(), |i| {
            let rows = &all[i];
            let tiles = rows.tiles(self.options.mask);
            let at = split_starts[i]..split_starts[i] + tiles.len() * rows.len();
            let values = &partial[at.start * dim..at.end * dim];
            let mut result = vec![0.0; rows.len() * dim];
            self.with_task(rows, tiles, |task| merge_on(self.tier, task, &states[at], values, &mut result));
            self.write(rows, &result);
        });
    }
}

/// Computes the attention of a batch's new tokens in one layer. Their keys and values must already be in the cache.
///
/// `queries` are `[token][query head][key_dim]` and `out` `[token][query head][value_dim]`; consecutive query heads
/// share a key-value head. With fewer tasks than the threads can use, the tiles of each row are split over several
/// tasks.
///
/// # Panics
/// If lengths do not fit, a head dimension exceeds [`MAX_HEAD_DIM`], a window is empty, or a span has too few blocks.
pub fn attention(
    cpu: &Cpu,
    cache: &KvCache,
    layer: usize,
    spans: &[AttentionSpan<'_>],
    queries: &[f32],
    options: &AttentionOptions<'_>,
    out: &mut [f32],
) {
    let (shape, options, mask) = (cache.shape().layers[layer], *options, options.mask);
    let (dim, value_dim) = (shape.key_dim, shape.value_dim);
    let tokens: usize = spans.iter().map(|s| s.tokens).sum();
    assert!(dim.max(value_dim) <= MAX_HEAD_DIM, "head sizes {dim} and {value_dim}");
    if tokens == 0 {
        return;
    }
    let heads = queries.len() / tokens / dim;
    assert_eq!(heads * dim * tokens, queries.len(), "whole rows of queries");
    assert_eq!(heads * value_dim * tokens, out.len(), "whole rows of results");
    let group = heads / shape.heads;
    assert_eq!(group * shape.heads, heads, "query heads divide over key-value heads");
    assert!(mask != Mask::Window(0), "a window of no tokens");
    assert!(options.sinks.is_none_or(|s| s.len() == group * shape.heads), "a sink for each query head");
    // Tokens per task, so that the rows of a task are its tokens' heads of one group.
    let tokens_together = (QUERY_ROWS / group.min(QUERY_ROWS)).max(1);
    let mut all = Vec::new();
    let mut work = 0;
    for (i, span) in spans.iter().enumerate() {
        assert!(span.stored >= span.position + span.tokens, "keys of span {i}");
        assert!(span.blocks.len() * BLOCK_TOKENS >= span.stored, "blocks of span {i}");
        let last = mask.token_range((span.position + span.tokens).saturating_sub(1), span.stored);
        work += span.tokens * (last.end - last.first) * heads * dim;
        for token in (0..span.tokens).step_by(tokens_together) {
            let tokens = token..span.tokens.min(token + tokens_together);
            for head in 0..shape.heads {
                for heads in (0..group).step_by(QUERY_ROWS).map(|h| h..group.min(h + QUERY_ROWS)) {
                    all.push(Rows { span: *span, tokens: tokens.clone(), head, heads });
                }
            }
        }
    }
    // Longest first: late tokens of a prompt attend to the most keys.
    all.reverse();
    let out = Disjoint::new(out);
    let driver = Driver {
        tier: cpu.tier().for_few(),
        cache,
        layer,
        queries,
        options,
        heads,
        group,
        dim,
        value_dim,
        out,
    };
    let wanted = cpu.pool().members() * TASKS_PER_THREAD;
    if work < SINGLE_THREAD_MACS {
        all.iter().for_each(|rows| driver.whole(rows));
    } else if cpu.pool().members() > 1 && all.len() < wanted {
        let tiles: usize = all.iter().map(|rows| rows.tiles(mask).len()).sum();
        let piece = tiles.div_ceil(wanted).max(MIN_SPLIT_TILES);
        if all.iter().any(|rows| rows.tiles(mask).len() > piece) {
            driver.split_kv(cpu, &all, piece);
        } else {
            cpu.pool().run(all.len(), |i| driver.whole(&all[i]));
        }
    } else {
        cpu.pool().run(all.len(), |i| driver.whole(&all[i]));
    }
}
