//! Scores, softmax and weighted values of query rows over the tiles of one key-value head.

use super::cache::{BLOCK_TOKENS, KEY_TOKENS, KvCache, KvType};
use super::loops::{Keys, Row, Values};
use crate::Cpu;
use crate::activations::{Tile, quantise_column_a32};
use crate::isa::{Isa, Tier, dispatch};
use crate::matmul::MAX_COLUMNS;
use crate::matmul::format::q8_0;
use crate::memory::Disjoint;
use crate::ops::{Lanes, exp16};
use std::ops::Range;

/// The largest head size.
pub const MAX_HEAD_DIM: usize = 256;

/// Query rows (token, head) of one task; they share each load of a key or value.
const ROWS: usize = 64;
/// From so many rows on a tile is turned into floats first; fewer convert as they go.
const MANY: usize = 17;

/// The new tokens of one sequence in a batch.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSpan<'a> {
    /// Index of the first new token in the batch.
    pub first: usize,
    /// How many there are.
    pub tokens: usize,
    /// Position of the first new token in its sequence; keys of all tokens up to its own are visible to each.
    pub position: usize,
    /// The sequence's blocks, in order.
    pub blocks: &'a [u32],
}

/// One task: rows of one sequence and one key-value head.
struct Task<'a> {
    tier: Tier,
    cache: &'a KvCache,
    layer: usize,
    head: usize,
    blocks: &'a [u32],
    /// Values per head.
    dim: usize,
    /// Query rows, `[row][dim]`, and the number of visible tokens of each.
    queries: &'a [f32],
    visible: &'a [usize],
    scale: f32,
}

/// Queries in the form that the keys are multiplied with.
enum Queries {
    /// `R` rows after another as `[dim][R]`.
    Floats(Vec<f32>),
    /// On the grid of Q8_0 weights, in tiles of up to so many columns as the tier has: for every tile, what
    /// [`Tile`] describes, one tile after the other.
    Codes { codes: Vec<i8>, scales: Vec<f32>, sums: Vec<i32> },
}

impl Queries {
    /// The task's rows, and zeros up to a multiple of `R`.
    #[inline(always)]
    fn new<I: Isa, const R: usize>(isa: I, task: &Task<'_>) -> Queries {
        let (dim, n) = (task.dim, task.visible.len());
        if task.cache.shape().kv_type == KvType::Q8_0 {
            let mut codes = vec![0; n * dim];
            let mut scales = vec![0.0; n * dim / 32];
            let mut sums = vec![0; n * dim / 32];
            for tile in tiles(n, task.tier) {
                let c = tile.len();
                let at = |values: usize| tile.start * values..tile.end * values;
                let (codes, scales) = (&mut codes[at(dim)], &mut scales[at(dim / 32)]);
                let sums = &mut sums[at(dim / 32)];
                for (column, row) in tile.clone().enumerate() {
                    let query = &task.queries[row * dim..(row + 1) * dim];
                    quantise_column_a32(
                        isa,
                        query,
                        (column, c),
                        task.tier.level().run(c),
                        codes,
                        scales,
                        sums,
                    );
                }
            }
            return Queries::Codes { codes, scales, sums };
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

/// Ranges of rows that are multiplied with quantised keys together, as few and as even as the tier's tiles allow.
#[inline(always)]
fn tiles(rows: usize, tier: Tier) -> impl Iterator<Item = Range<usize>> {
    let many = rows.div_ceil(tier.level().columns()).max(1);
    (0..many).map(move |t| rows * t / many..rows * (t + 1) / many)
}

/// Scores of all rows with the first `tokens` tokens of a tile.
#[inline(always)]
fn scores<I: Isa, const R: usize, const G: usize>(
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
            for r in (0..task.visible.len()).step_by(R) {
                for group in (0..tokens.div_ceil(KEY_TOKENS)).step_by(G) {
                    isa.scores::<R, G>(keys, &turned[r * dim..], group, task.scale, &mut out[r..]);
                }
            }
        }
        Queries::Codes { codes, scales, sums } => {
            let panels = keys.bytes.chunks_exact(keys.bytes.len() / (BLOCK_TOKENS / KEY_TOKENS));
            for rows in tiles(task.visible.len(), task.tier) {
                let at = |values: usize| rows.start * values..rows.end * values;
                let tile = Tile {
                    start: 0,
                    c: rows.len(),
                    codes: &codes[at(dim)],
                    scales: &scales[at(dim / 32)],
                    sums: &sums[at(dim / 32)],
                    pairs: &[],
                    values: &[],
                };
                let function = (q8_0::FORMAT.tiles)(task.tier.level())[rows.len() - 1];
                for (group, panel) in panels.clone().take(tokens.div_ceil(KEY_TOKENS)).enumerate() {
                    let mut y = [0.0; MAX_COLUMNS * KEY_TOKENS];
                    // SAFETY: the Tier proves the features; a group of keys is a panel of Q8_0 weights of depth
                    // dim, the tile holds the queries on its grid, and y has room for every row.
                    unsafe { function(panel, dim, &tile, &mut y) };
                    for (row, y) in out[rows.clone()].iter_mut().zip(y.as_chunks::<KEY_TOKENS>().0) {
                        let scaled: Lanes = std::array::from_fn(|i| y[i] * task.scale);
                        row[group * KEY_TOKENS..][..KEY_TOKENS].copy_from_slice(&scaled);
                    }
                }
            }
        }
    }
}

/// Attention of a task; `out` has the shape of the queries. `R` rows and `G` vectors of tokens or values are
/// computed together, in registers.
#[inline(always)]
fn rows<I: Isa, const R: usize, const G: usize>(isa: I, task: &Task<'_>, out: &mut [f32]) {
    let (n, dim) = (task.visible.len(), task.dim);
    let kv_type = task.cache.shape().kv_type;
    let queries = Queries::new::<I, R>(isa, task);
    let mut running = [(f32::NEG_INFINITY, 0.0_f32); ROWS];
    let padded = n.next_multiple_of(R);
    let mut partial = vec![0.0; padded * dim];
    let mut p = vec![[0.0; BLOCK_TOKENS]; padded];
    let convert = n >= MANY && kv_type != KvType::F32;
    let mut floats = [(); 2].map(|()| if convert { vec![0.0; BLOCK_TOKENS * dim] } else { Vec::new() });
    out.fill(0.0);
    let most = task.visible.iter().copied().max().unwrap_or(0);
    for (index, &block) in task.blocks[..most.div_ceil(BLOCK_TOKENS)].iter().enumerate() {
        let tokens = (most - index * BLOCK_TOKENS).min(BLOCK_TOKENS);
        let bytes = task.cache.keys(task.layer, block, task.head);
        let mut keys = Keys { kv_type, bytes, dim };
        let bytes = task.cache.values(task.layer, block, task.head);
        let mut values = Values { kv_type, bytes, dim };
        if convert {
            let [k, v] = &mut floats;
            if kv_type == KvType::F16 {
                keys = keys.to_floats(isa, k);
            }
            values = values.to_floats(isa, tokens, v);
        }
        scores::<I, R, G>(isa, task, keys, tokens, &queries, &mut p);
        let mut tops = [(f32::NEG_INFINITY, 0.0_f32); ROWS];
        for r in 0..n {
            let count = task.visible[r].saturating_sub(index * BLOCK_TOKENS).min(BLOCK_TOKENS);
            if count > 0 {
                tops[r] = isa.numerators(&mut p[r], count);
            } else {
                p[r] = [0.0; BLOCK_TOKENS];
            }
        }
        for r in (0..n).step_by(R) {
            let (p, partial) = (&p[r..], &mut partial[r * dim..]);
            let mut d = 0;
            while d + 16 * G <= dim {
                isa.weigh::<R, G>(values, tokens, d, p, partial);
                d += 16 * G;
            }
            while d < dim {
                isa.weigh::<R, 1>(values, tokens, d, p, partial);
                d += 16;
            }
        }
        for first in (0..n).step_by(16) {
            // Factors of what came before and of this tile, for sixteen rows at once.
            let mut factors = [[0.0_f32; 16]; 2];
            let rows = first..n.min(first + 16);
            for (i, r) in rows.clone().enumerate() {
                let (old, top) = (running[r].0, tops[r].0);
                let max = if top > old { top } else { old };
                (factors[0][i], factors[1][i]) = (old - max, top - max);
                running[r].0 = max;
            }
            let factors = [exp16(&factors[0]), exp16(&factors[1])];
            for (i, r) in rows.enumerate().filter(|(_, r)| task.visible[*r] > index * BLOCK_TOKENS) {
                // The first tile has nothing before it.
                let (before, now) = (if index == 0 { 0.0 } else { factors[0][i] }, factors[1][i]);
                running[r].1 = running[r].1.mul_add(before, tops[r].1 * now);
                let o = &mut out[r * dim..(r + 1) * dim];
                for (o, p) in o.iter_mut().zip(&partial[r * dim..]) {
                    *o = o.mul_add(before, p * now);
                }
            }
        }
    }
    for (o, (_, sum)) in out.chunks_exact_mut(dim).zip(running) {
        let inverse = 1.0 / sum;
        o.iter_mut().for_each(|o| *o *= inverse);
    }
}

/// Attention of a task, with as many rows and vectors together as the instruction set has registers for.
#[inline(always)]
fn attend<I: Isa>(isa: I, task: &Task<'_>, out: &mut [f32]) {
    // Sixteen sums where they stay in registers, else four; a count between wastes a few rows.
    match (I::MANY_REGISTERS, task.visible.len()) {
        (false, 1) => rows::<I, 1, 4>(isa, task, out),
        (false, 2) => rows::<I, 2, 2>(isa, task, out),
        (false, _) => rows::<I, 4, 1>(isa, task, out),
        (true, 1) => rows::<I, 1, 4>(isa, task, out),
        (true, 2) => rows::<I, 2, 4>(isa, task, out),
        (true, 3 | 4) => rows::<I, 4, 4>(isa, task, out),
        (true, 5..=8) => rows::<I, 8, 2>(isa, task, out),
        (true, _) => rows::<I, 16, 1>(isa, task, out),
    }
}

dispatch! {
    fn attend_on => attend(task: &Task<'_>, out: &mut [f32])
}

/// Attention of a batch's new tokens in one layer. The cache already holds their keys and values.
///
/// `queries` and `out` are `[token][query head][head_dim]`; consecutive query heads share a key-value head.
///
/// # Panics
/// If lengths do not fit, a head is larger than [`MAX_HEAD_DIM`], or a span lacks blocks.
pub fn attention(
    cpu: &Cpu,
    cache: &KvCache,
    layer: usize,
    spans: &[AttentionSpan<'_>],
    queries: &[f32],
    scale: f32,
    out: &mut [f32],
) {
    let shape = *cache.shape();
    let dim = shape.head_dim;
    let tokens: usize = spans.iter().map(|s| s.tokens).sum();
    assert!(dim <= MAX_HEAD_DIM && queries.len() == out.len(), "head size {dim}");
    if tokens == 0 {
        return;
    }
    let width = queries.len() / tokens;
    assert_eq!(width * tokens, queries.len(), "whole rows of queries");
    let group = width / dim / shape.heads;
    assert_eq!(group * shape.heads * dim, width, "query heads divide over key-value heads");
    // Tokens per task, so that a task's rows are its tokens' heads of one group.
    let heads_together = group.min(ROWS);
    let tokens_together = (ROWS / heads_together).max(1);
    let head_splits = group.div_ceil(ROWS);
    let mut tasks: Vec<(usize, usize)> = Vec::new();
    let mut work = 0;
    for (i, s) in spans.iter().enumerate() {
        assert!(s.blocks.len() * BLOCK_TOKENS >= s.position + s.tokens, "blocks of span {i}");
        tasks.extend((0..s.tokens).step_by(tokens_together).map(|t| (i, t)));
        work += s.tokens * (s.position + s.tokens) * width;
    }
    let out = Disjoint::new(out);
    let per_span = shape.heads * head_splits;
    // Longest spans first: late tokens of a prompt see the most keys.
    let count = tasks.len() * per_span;
    let body = |index: usize| {
        let (span, token) = tasks[tasks.len() - 1 - index / per_span];
        let (head, split) = (index % per_span / head_splits, index % head_splits);
        let s = &spans[span];
        let heads = split * ROWS..((split + 1) * ROWS).min(group);
        let many = tokens_together.min(s.tokens - token);
        let mut q = vec![0.0; many * heads.len() * dim];
        let mut visible = [0; ROWS];
        let mut n = 0;
        for t in token..token + many {
            for h in heads.clone() {
                let at = (s.first + t) * width + (head * group + h) * dim;
                q[n * dim..(n + 1) * dim].copy_from_slice(&queries[at..at + dim]);
                visible[n] = s.position + t + 1;
                n += 1;
            }
        }
        let task = Task {
            tier: cpu.tier(),
            cache,
            layer,
            head,
            blocks: s.blocks,
            dim,
            queries: &q,
            visible: &visible[..n],
            scale,
        };
        let mut result = vec![0.0; n * dim];
        attend_on(cpu.tier(), &task, &mut result);
        let mut n = 0;
        for t in token..token + many {
            for h in heads.clone() {
                let at = (s.first + t) * width + (head * group + h) * dim;
                // SAFETY: each (token, query head) belongs to exactly one task.
                unsafe { out.range(at, dim) }.copy_from_slice(&result[n * dim..(n + 1) * dim]);
                n += 1;
            }
        }
    };
    if work < 64 << 10 { (0..count).for_each(body) } else { cpu.pool().run(count, body) }
}
