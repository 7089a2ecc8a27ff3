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
    dim: usize,
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

/// Sixteen numbers from two groups of eight.
#[inline(always)]
fn both<const N: usize, const M: usize>(a: &[u8; N], b: &[u8; N]) -> [u8; M] {
    let mut bytes = [0; M];
    bytes[..N].copy_from_slice(a);
    bytes[N..].copy_from_slice(b);
    bytes
}

/// Adds `lanes[i] * x[r]` to every row.
#[inline(always)]
fn accumulate<const R: usize>(acc: &mut [Lanes; R], lanes: &Lanes, x: &[f32; R]) {
    for r in 0..R {
        for i in 0..16 {
            acc[r][i] = lanes[i].mul_add(x[r], acc[r][i]);
        }
    }
}

/// Scores of `R` rows with the first `count` tokens of a tile: `fma(k[d], q[d], acc)` for d ascending, scaled.
/// The queries come as `[dim][R]`.
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
    let q = q[..dim * R].as_chunks::<R>().0;
    let (codes, scales) = k.split_at(if t == KvType::Q8_0 { BLOCK_TOKENS * dim } else { k.len() });
    // Bytes of eight tokens' keys: two groups make 16 lanes.
    let group = codes.len() / 8;
    for g in 0..count.div_ceil(16) {
        let (low, high) = codes[2 * g * group..2 * (g + 1) * group].split_at(group);
        let mut acc = [[0.0_f32; 16]; R];
        match t {
            KvType::F32 => {
                for ((a, b), x) in low.as_chunks::<32>().0.iter().zip(high.as_chunks::<32>().0).zip(q) {
                    accumulate(&mut acc, &floats(&both::<32, 64>(a, b)), x);
                }
            }
            KvType::F16 => {
                for ((a, b), x) in low.as_chunks::<16>().0.iter().zip(high.as_chunks::<16>().0).zip(q) {
                    accumulate(&mut acc, &isa.f16_to_f32(&halves(&both::<16, 32>(a, b))), x);
                }
            }
            KvType::Q8_0 => {
                let group = scales.len() / 8;
                let (s_low, s_high) = scales[2 * g * group..2 * (g + 1) * group].split_at(group);
                let blocks = low.as_chunks::<256>().0.iter().zip(high.as_chunks::<256>().0);
                let scales = s_low.as_chunks::<16>().0.iter().zip(s_high.as_chunks::<16>().0);
                for (((low, high), (a, b)), q) in blocks.zip(scales).zip(q.chunks_exact(32)) {
                    let s = isa.f16_to_f32(&halves(&both::<16, 32>(a, b)));
                    for ((a, b), x) in low.as_chunks::<8>().0.iter().zip(high.as_chunks::<8>().0).zip(q) {
                        accumulate(&mut acc, &scaled(&both::<8, 16>(a, b), &s), x);
                    }
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

/// Signed bytes times their lanes' scales.
#[inline(always)]
fn scaled(codes: &[u8; 16], s: &Lanes) -> Lanes {
    let mut v = [0.0; 16];
    for i in 0..16 {
        v[i] = f32::from(codes[i] as i8) * s[i];
    }
    v
}

/// Weighted values of `R` rows over the first tokens of a tile, in order of token, as many as `p` has.
/// The weights come as `[token][R]`.
#[inline(always)]
fn weigh<I: Isa, const R: usize>(isa: I, t: KvType, v: &[u8], p: &[[f32; R]], dim: usize, out: &mut [f32]) {
    let (codes, scales) = v.split_at(if t == KvType::Q8_0 { BLOCK_TOKENS * dim } else { v.len() });
    let rows = codes.chunks_exact(codes.len() / BLOCK_TOKENS).zip(p);
    for d in (0..dim).step_by(16) {
        let mut acc = [[0.0_f32; 16]; R];
        match t {
            KvType::F32 => {
                for (v, x) in rows.clone() {
                    accumulate(&mut acc, &floats(&v[d * 4..][..64]), x);
                }
            }
            KvType::F16 => {
                for (v, x) in rows.clone() {
                    accumulate(&mut acc, &isa.f16_to_f32(&halves(&v[d * 2..][..32])), x);
                }
            }
            KvType::Q8_0 => {
                for ((v, x), s) in rows.clone().zip(scales.chunks_exact(dim / 16)) {
                    let mut h = [0; 16];
                    h[0] = u16::from_le_bytes([s[d / 32 * 2], s[d / 32 * 2 + 1]]);
                    let s = isa.f16_to_f32(&h)[0];
                    let mut codes = [0; 16];
                    codes.copy_from_slice(&v[d..][..16]);
                    accumulate(&mut acc, &scaled(&codes, &[s; 16]), x);
                }
            }
        }
        for r in 0..R {
            out[r * dim + d..r * dim + d + 16].copy_from_slice(&acc[r]);
        }
    }
}

/// One tile for rows `r..r + R`: scores, numerators, weighted values. Returns each row's maximum and sum.
#[inline(always)]
fn tile<I: Isa, const R: usize>(
    isa: I,
    task: &Rows<'_>,
    (k, v): (&[u8], &[u8]),
    q: &[f32],
    counts: &[usize],
    out: &mut [f32],
) -> [(f32, f32); TOGETHER] {
    let dim = task.dim;
    let t = task.cache.shape().kv_type;
    let widest = counts.iter().copied().max().unwrap_or(0);
    let mut s = [[0.0; BLOCK_TOKENS]; R];
    scores::<I, R>(isa, t, k, q, (dim, widest), task.scale, &mut s);
    let mut tops = [(0.0, 0.0); TOGETHER];
    for r in 0..R {
        if counts[r] > 0 {
            tops[r] = numerators(&mut s[r], counts[r]);
        } else {
            s[r] = [0.0; BLOCK_TOKENS];
        }
    }
    let mut p = [[0.0; R]; BLOCK_TOKENS];
    for (j, p) in p.iter_mut().enumerate() {
        for r in 0..R {
            p[r] = s[r][j];
        }
    }
    weigh::<I, R>(isa, t, v, &p[..widest], dim, out);
    tops
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
    let (n, dim) = (task.visible.len(), task.dim);
    let mut running = [(f32::NEG_INFINITY, 0.0_f32); ROWS];
    let mut partial = [0.0; TOGETHER * MAX_HEAD_DIM];
    // Queries of rows computed together, turned to [dim][rows].
    let mut turned = [0.0; ROWS * MAX_HEAD_DIM];
    for r in (0..n).step_by(TOGETHER) {
        let together = TOGETHER.min(n - r);
        for d in 0..dim {
            for i in 0..together {
                turned[r * dim + d * together + i] = task.queries[(r + i) * dim + d];
            }
        }
    }
    out.fill(0.0);
    let most = task.visible.iter().copied().max().unwrap_or(0);
    for (index, &block) in task.blocks[..most.div_ceil(BLOCK_TOKENS)].iter().enumerate() {
        let k = task.cache.keys(task.layer, block, task.head);
        let v = task.cache.values(task.layer, block, task.head);
        for r in (0..n).step_by(TOGETHER) {
            let together = TOGETHER.min(n - r);
            let mut counts = [0; TOGETHER];
            for (c, visible) in counts.iter_mut().zip(&task.visible[r..r + together]) {
                *c = visible.saturating_sub(index * BLOCK_TOKENS).min(BLOCK_TOKENS);
            }
            let q = &turned[r * dim..];
            let tops = by_rows!(together, tile(isa, task, (k, v), q, &counts, &mut partial));
            for i in (0..together).filter(|i| counts[*i] > 0) {
                let row = r + i;
                let (old, sum) = running[row];
                let (top, tile_sum) = tops[i];
                let max = if top > old { top } else { old };
                let mut e = [0.0; 16];
                (e[0], e[1]) = (old - max, top - max);
                let e = exp16(&e);
                // The first tile has nothing before it.
                let before = if index == 0 { 0.0 } else { e[0] };
                running[row] = (max, sum.mul_add(before, tile_sum * e[1]));
                let o = &mut out[row * dim..(row + 1) * dim];
                for (o, p) in o.iter_mut().zip(&partial[i * dim..]) {
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
            dim,
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
