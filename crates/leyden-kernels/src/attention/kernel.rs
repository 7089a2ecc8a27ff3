//! Scores, softmax and weighted values of query rows over the tiles of one key-value head.

use super::cache::{BLOCK_TOKENS, KvCache, KvType};
use crate::Cpu;
use crate::isa::{Isa, dispatch};
use crate::memory::Disjoint;
use crate::ops::{Lanes, exp16, join};

/// The largest head size: query rows and partial results of a task live on the stack.
pub const MAX_HEAD_DIM: usize = 256;

/// Query rows (token, head) of one task; they share each load of a key or value.
const ROWS: usize = 16;
/// Rows computed together in registers.
const TOGETHER: usize = 4;

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
struct Rows<'a> {
    cache: &'a KvCache,
    layer: usize,
    head: usize,
    blocks: &'a [u32],
    /// Query rows, `[row][dim]`, and the number of visible tokens of each.
    queries: &'a [f32],
    visible: &'a [usize],
    scale: f32,
}

/// Sixteen neighbouring halves.
#[inline(always)]
fn halves(bytes: &[u8]) -> [u16; 16] {
    let mut h = [0; 16];
    for (h, b) in h.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *h = u16::from_le_bytes(*b);
    }
    h
}

#[inline(always)]
fn floats(bytes: &[u8]) -> Lanes {
    let mut f = [0.0; 16];
    for (f, b) in f.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *f = f32::from_le_bytes(*b);
    }
    f
}

/// Value `d` of the 16 keys from token `16 * g`.
#[inline(always)]
fn keys16<I: Isa>(isa: I, t: KvType, k: &[u8], dim: usize, g: usize, d: usize) -> Lanes {
    // Two groups of eight tokens.
    let at = |half: usize, size: usize| ((2 * g + half) * dim + d) * 8 * size;
    match t {
        KvType::F32 => {
            let mut b = [0; 64];
            b[..32].copy_from_slice(&k[at(0, 4)..][..32]);
            b[32..].copy_from_slice(&k[at(1, 4)..][..32]);
            floats(&b)
        }
        KvType::F16 => {
            let mut b = [0; 32];
            b[..16].copy_from_slice(&k[at(0, 2)..][..16]);
            b[16..].copy_from_slice(&k[at(1, 2)..][..16]);
            isa.f16_to_f32(&halves(&b))
        }
        KvType::Q8_0 => {
            let scale = |half: usize| BLOCK_TOKENS * dim + (((2 * g + half) * (dim / 32)) + d / 32) * 16;
            let mut s = [0; 32];
            s[..16].copy_from_slice(&k[scale(0)..][..16]);
            s[16..].copy_from_slice(&k[scale(1)..][..16]);
            let s = isa.f16_to_f32(&halves(&s));
            let (low, high) = (&k[at(0, 1)..][..8], &k[at(1, 1)..][..8]);
            std::array::from_fn(|i| f32::from((if i < 8 { low[i] } else { high[i - 8] }) as i8) * s[i])
        }
    }
}

/// Sixteen values from `d` of one token.
#[inline(always)]
fn values16<I: Isa>(isa: I, t: KvType, v: &[u8], dim: usize, token: usize, d: usize) -> Lanes {
    let at = token * dim + d;
    match t {
        KvType::F32 => floats(&v[at * 4..][..64]),
        KvType::F16 => isa.f16_to_f32(&halves(&v[at * 2..][..32])),
        KvType::Q8_0 => {
            let s = BLOCK_TOKENS * dim + (token * (dim / 32) + d / 32) * 2;
            let mut h = [0; 16];
            h[0] = u16::from_le_bytes([v[s], v[s + 1]]);
            let s = isa.f16_to_f32(&h)[0];
            let codes = &v[at..at + 16];
            std::array::from_fn(|i| f32::from(codes[i] as i8) * s)
        }
    }
}

/// Scores of `R` rows with the first `count` tokens of a tile: `fma(k[d], q[d], acc)` for d ascending, scaled.
#[inline(always)]
fn scores<I: Isa, const R: usize>(
    isa: I,
    t: KvType,
    k: &[u8],
    q: &[f32],
    (dim, count): (usize, usize),
    scale: f32,
    out: &mut [[f32; BLOCK_TOKENS]],
) {
    for g in 0..count.div_ceil(16) {
        let mut acc = [[0.0_f32; 16]; R];
        for d in 0..dim {
            let key = keys16(isa, t, k, dim, g, d);
            for r in 0..R {
                let x = q[r * dim + d];
                for i in 0..16 {
                    acc[r][i] = key[i].mul_add(x, acc[r][i]);
                }
            }
        }
        for r in 0..R {
            for i in 0..16 {
                out[r][g * 16 + i] = acc[r][i] * scale;
            }
        }
    }
}

/// Weighted values of `R` rows over the first `count` tokens of a tile, in order of token.
#[inline(always)]
fn weigh<I: Isa, const R: usize>(
    isa: I,
    t: KvType,
    v: &[u8],
    p: &[[f32; BLOCK_TOKENS]],
    (dim, count): (usize, usize),
    out: &mut [f32],
) {
    for d in (0..dim).step_by(16) {
        let mut acc = [[0.0_f32; 16]; R];
        for j in 0..count {
            let value = values16(isa, t, v, dim, j, d);
            for r in 0..R {
                let x = p[r][j];
                for i in 0..16 {
                    acc[r][i] = value[i].mul_add(x, acc[r][i]);
                }
            }
        }
        for r in 0..R {
            out[r * dim + d..r * dim + d + 16].copy_from_slice(&acc[r]);
        }
    }
}

/// Runs `$f::<I, N>` for the run-time number of rows 1 to TOGETHER.
macro_rules! by_rows {
    ($n:expr, $f:ident($($arg:expr),*)) => {
        match $n {
            1 => $f::<I, 1>($($arg),*),
            2 => $f::<I, 2>($($arg),*),
            3 => $f::<I, 3>($($arg),*),
            _ => $f::<I, TOGETHER>($($arg),*),
        }
    };
}

/// Softmax numerators of one row in a tile: returns their maximum score and their sum. Tokens from `count` on
/// become zero.
#[inline(always)]
fn numerators(s: &mut [f32; BLOCK_TOKENS], count: usize) -> (f32, f32) {
    s[count..].fill(f32::NEG_INFINITY);
    let mut max = [f32::NEG_INFINITY; 16];
    for c in s.as_chunks::<16>().0 {
        for i in 0..16 {
            max[i] = if c[i] > max[i] { c[i] } else { max[i] };
        }
    }
    let max = join(&max, |a, b| if b > a { b } else { a });
    let mut sum = [0.0_f32; 16];
    for (n, c) in s.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let e = exp16(&std::array::from_fn(|i| c[i] - max));
        for i in 0..16 {
            c[i] = if n * 16 + i < count { e[i] } else { 0.0 };
            sum[i] += c[i];
        }
    }
    (max, join(&sum, |a, b| a + b))
}

/// Attention of up to [`ROWS`] rows; `out` has the shape of the queries.
#[inline(always)]
fn rows<I: Isa>(isa: I, task: &Rows<'_>, out: &mut [f32]) {
    let n = task.visible.len();
    let dim = task.queries.len() / n;
    let t = task.cache.shape().kv_type;
    let mut running = [(f32::NEG_INFINITY, 0.0_f32); ROWS];
    let mut partial = [0.0; ROWS * MAX_HEAD_DIM];
    let mut s = [[0.0; BLOCK_TOKENS]; ROWS];
    out.fill(0.0);
    let most = task.visible.iter().copied().max().unwrap_or(0);
    for (tile, &block) in task.blocks[..most.div_ceil(BLOCK_TOKENS)].iter().enumerate() {
        let k = task.cache.keys(task.layer, block, task.head);
        let v = task.cache.values(task.layer, block, task.head);
        let start = tile * BLOCK_TOKENS;
        let count = |r: usize| task.visible[r].saturating_sub(start).min(BLOCK_TOKENS);
        for r in (0..n).step_by(TOGETHER) {
            let together = TOGETHER.min(n - r);
            let widest = (r..r + together).map(count).max().unwrap_or(0);
            let q = &task.queries[r * dim..];
            let shape = (dim, widest);
            by_rows!(together, scores(isa, t, k, q, shape, task.scale, &mut s[r..]));
            let mut tops = [(0.0, 0.0); TOGETHER];
            for i in 0..together {
                if count(r + i) > 0 {
                    tops[i] = numerators(&mut s[r + i], count(r + i));
                } else {
                    s[r + i].fill(0.0);
                }
            }
            by_rows!(together, weigh(isa, t, v, &s[r..], shape, &mut partial[r * dim..]));
            for i in 0..together {
                let row = r + i;
                if count(row) == 0 {
                    continue;
                }
                let (old, sum) = running[row];
                let (top, tile_sum) = tops[i];
                let max = if top > old { top } else { old };
                let e = exp16(&std::array::from_fn(|i| if i == 0 { old - max } else { top - max }));
                // The first tile has nothing before it.
                let before = if tile == 0 { 0.0 } else { e[0] };
                running[row] = (max, sum.mul_add(before, tile_sum * e[1]));
                let o = &mut out[row * dim..(row + 1) * dim];
                for (o, p) in o.iter_mut().zip(&partial[row * dim..]) {
                    *o = o.mul_add(before, p * e[1]);
                }
            }
        }
    }
    for (o, (_, sum)) in out.chunks_exact_mut(dim).zip(running) {
        let inverse = 1.0 / sum;
        o.iter_mut().for_each(|o| *o *= inverse);
    }
}

dispatch! {
    fn rows_on => rows(task: &Rows<'_>, out: &mut [f32])
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
        let mut q = [0.0; ROWS * MAX_HEAD_DIM];
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
        let task = Rows {
            cache,
            layer,
            head,
            blocks: s.blocks,
            queries: &q[..n * dim],
            visible: &visible[..n],
            scale,
        };
        let mut result = [0.0; ROWS * MAX_HEAD_DIM];
        rows_on(cpu.tier(), &task, &mut result[..n * dim]);
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
