//! Attention over texts that are computed whole, in bfloat16: for encoders whose matrices are 8-bit integers.
//!
//! Queries, keys, values and the weights of tokens are rounded to bfloat16 and multiplied in the order of `gemm::microkernel::bf16_rows`. A
//! row's scores are all there before its softmax, which is therefore one pass (`bf16_weights`). They are logarithms to base 2, as `log2(e)`
//! goes into the scale of the queries.

use crate::attention::mask::{Mask, Sight};
use crate::attention::options::AttentionSpan;
use crate::attention::simd::AttentionSimd;
use crate::context::Cpu;
use crate::gemm::microkernel::bf16_rows::{Amx, BF16_ROWS_TOGETHER, Bf16Product, FloatRows, Plain, STEP};
use crate::memory::disjoint::Disjoint;
use crate::memory::scratch::Scratch;
use crate::ops::Lanes;
use crate::simd::dispatch::dispatch;
use crate::types::PANEL_ROWS;

/// Rows of a task, at most: keys and values are packed for each.
const TASK_ROWS: usize = 256;

/// Below this many multiplications attention runs on the calling thread.
const SINGLE_THREAD_MACS: usize = 1 << 20;

/// Texts whose keys and values follow one another, and the rows of queries that ask for them.
#[derive(Clone, Copy, Debug)]
pub struct WholeTexts<'a> {
    /// Of the rows of queries.
    pub spans: &'a [AttentionSpan<'a>],
    /// The row of the first key of each span's text.
    pub starts: &'a [usize],
    /// `[row][head][dim]`.
    pub queries: &'a [f32],
    /// `[token][key-value head][dim]`.
    pub keys: &'a [f32],
    /// `[token][key-value head][value_dim]`.
    pub values: &'a [f32],
    /// Query heads, and those of keys and values, which they share in groups.
    pub heads: [usize; 2],
    /// Numbers of a query or key, and of a value.
    pub dims: [usize; 2],
    /// What the products of queries and keys are multiplied by.
    pub scale: f32,
    /// Which tokens see which: both directions.
    pub mask: Mask,
    /// What scores get besides: for each head a number for each distance of a key from its query, from `1 - n` to `n - 1`.
    pub by_distance: Option<(&'a [f32], usize)>,
}

/// Some rows of one head of one text.
struct Task<'a> {
    texts: &'a WholeTexts<'a>,
    head: usize,
    /// The rows of queries, and the position of the first in the text.
    rows: std::ops::Range<usize>,
    position: usize,
    /// The text's keys.
    start: usize,
    tokens: usize,
}

/// Scratch memory as values of another type.
///
/// # Safety
/// Any bits are a value of the type, which needs no more than the alignment of a cache line.
unsafe fn room<T>(scratch: &mut Scratch) -> &mut [T] {
    let bytes = scratch.bytes();
    // SAFETY: initialised bytes from a cache line on; any bits are a value (`# Safety`).
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// The first sixteen values, or as many as there are, and zeros behind them.
#[inline(always)]
fn lanes(x: &[f32]) -> Lanes {
    let mut lanes = [0.0; PANEL_ROWS];
    match x.first_chunk::<PANEL_ROWS>() {
        Some(x) => lanes = *x,
        None => lanes[..x.len()].copy_from_slice(x),
    }
    lanes
}

/// Writes the values of a row, times a factor, and zeros behind them.
#[inline(always)]
fn round_row<B: Bf16Product>(x: &[f32], by: f32, out: &mut [B::Value]) {
    let (whole, rest) = x.as_chunks::<PANEL_ROWS>();
    let mut out = out.as_chunks_mut::<PANEL_ROWS>().0.iter_mut();
    for (x, to) in whole.iter().zip(&mut out) {
        B::round(x, by, to);
    }
    let mut rest = lanes(rest);
    for to in out {
        B::round(&rest, by, to);
        rest = [0.0; PANEL_ROWS];
    }
}

/// Makes a row of scores weights, of the tokens that are seen; the others among the `weights` become zeros. Returns the sum.
#[inline(always)]
fn softmax_row<I: AttentionSimd, B: Bf16Product>(
    isa: I,
    scores: &mut [f32],
    seen: Sight,
    weights: &mut [B::Value],
) -> f32 {
    let (low, high) = (seen.first / 16 * 16, seen.end.next_multiple_of(16));
    scores[low..seen.first].fill(f32::NEG_INFINITY);
    scores[seen.end..high].fill(f32::NEG_INFINITY);
    let sum = isa.bf16_weights(&mut scores[low..high]);
    weights[..low].fill(B::ZERO);
    weights[high..].fill(B::ZERO);
    for (x, to) in scores[low..high].as_chunks().0.iter().zip(weights[low..high].as_chunks_mut().0) {
        B::keep(x, to);
    }
    weights[low..seen.first].fill(B::ZERO);
    weights[seen.end..high].fill(B::ZERO);
    sum
}

#[inline(always)]
fn attend<I: AttentionSimd + FloatRows, B: Bf16Product>(isa: I, task: &Task<'_>, out: &Disjoint<'_, f32>) {
    let texts = task.texts;
    let ([heads, kv_heads], [dim, value_dim], n) = (texts.heads, texts.dims, task.tokens);
    let kv_head = task.head / (heads / kv_heads);
    let (depth, length) = (dim.next_multiple_of(STEP), n.next_multiple_of(STEP));
    let width = value_dim.next_multiple_of(2 * PANEL_ROWS);
    // Rows of scores and weights do not all begin at the same place of a page.
    let stride = length + 64;
    let values = size_of::<B::Value>();
    let of = |count: usize| Scratch::of(count * values);
    let (mut keys, mut vals) = (of(length * depth), of(length * width));
    let (mut queries, mut weights) = (of(BF16_ROWS_TOGETHER * depth), of(BF16_ROWS_TOGETHER * stride));
    let mut turned = of(PANEL_ROWS * depth);
    let mut scores = Scratch::of(4 * BF16_ROWS_TOGETHER * stride);
    let mut mixed = Scratch::of(4 * BF16_ROWS_TOGETHER * width);
    // SAFETY: floats and integers of 16 bits have any bits.
    let (keys, vals, queries, weights, turned, scores, mixed) = unsafe {
        (
            room::<B::Value>(&mut keys),
            room::<B::Value>(&mut vals),
            room::<B::Value>(&mut queries),
            room::<B::Value>(&mut weights),
            room::<B::Value>(&mut turned),
            room::<f32>(&mut scores),
            room::<f32>(&mut mixed),
        )
    };
    let key = |token: usize| &texts.keys[((task.start + token) * kv_heads + kv_head) * dim..][..dim];
    for (p, panel) in keys.chunks_exact_mut(depth * PANEL_ROWS).enumerate() {
        for (i, row) in turned.chunks_exact_mut(depth).enumerate() {
            let token = p * PANEL_ROWS + i;
            round_row::<B>(if token < n { key(token) } else { &[] }, 1.0, row);
        }
        B::turn(turned, depth, panel);
    }
    let value =
        |token: usize| &texts.values[((task.start + token) * kv_heads + kv_head) * value_dim..][..value_dim];
    for (p, panel) in vals.chunks_exact_mut(length * PANEL_ROWS).enumerate() {
        for (t, panel) in panel.chunks_exact_mut(2 * PANEL_ROWS).enumerate() {
            let row = |token: usize| {
                lanes(if token < n { value(token).get(p * PANEL_ROWS..).unwrap_or_default() } else { &[] })
            };
            B::pair([&row(2 * t), &row(2 * t + 1)], panel);
        }
    }
    let scale = texts.scale * std::f32::consts::LOG2_E;
    let _guard = B::begin();
    for first in task.rows.clone().step_by(BF16_ROWS_TOGETHER) {
        let count = (task.rows.end - first).min(BF16_ROWS_TOGETHER);
        let position = task.position + first - task.rows.start;
        for (i, to) in queries.chunks_exact_mut(depth).take(count).enumerate() {
            round_row::<B>(&texts.queries[((first + i) * heads + task.head) * dim..][..dim], scale, to);
        }
        // What of the text any of the rows sees, in whole steps.
        let (top, bottom) = (texts.mask.sight(position, n), texts.mask.sight(position + count - 1, n));
        let low = top.first / STEP * STEP;
        let high = bottom.end.next_multiple_of(STEP);
        let seen = high - low;
        // SAFETY: the guard lives; buffers are of whole steps, panels and rows.
        unsafe {
            let panels = (keys.as_ptr().add(low * depth), depth * PANEL_ROWS);
            let (rows, count) = (count, seen / PANEL_ROWS);
            B::multiply(
                isa,
                rows,
                (queries.as_ptr(), depth),
                panels,
                count,
                depth,
                (scores.as_mut_ptr(), stride),
            );
        }
        let mut sums = [1.0_f32; BF16_ROWS_TOGETHER];
        for i in 0..count {
            let Sight { first, end } = texts.mask.sight(position + i, n);
            let sight = Sight { first: first - low, end: end - low };
            let (scores, weights) = (&mut scores[i * stride..][..seen], &mut weights[i * stride..][..seen]);
            if let Some((numbers, longest)) = texts.by_distance {
                let of_head = &numbers[task.head * (2 * longest - 1)..][..2 * longest - 1];
                let own = &of_head[longest - 1 + first - (position + i)..][..end - first];
                for (score, number) in scores[sight.first..sight.end].iter_mut().zip(own) {
                    *score = number.mul_add(std::f32::consts::LOG2_E, *score);
                }
            }
            sums[i] = softmax_row::<I, B>(isa, scores, sight, weights);
        }
        // SAFETY: as above.
        unsafe {
            let panels = (vals.as_ptr().add(low * PANEL_ROWS), length * PANEL_ROWS);
            let to = (mixed.as_mut_ptr(), width);
            B::multiply(isa, count, (weights.as_ptr(), stride), panels, width / PANEL_ROWS, seen, to);
        }
        for i in 0..count {
            let inverse = 1.0 / sums[i];
            // SAFETY: this row's head is this task's.
            let to = unsafe { out.range(((first + i) * heads + task.head) * value_dim, value_dim) };
            for (to, x) in to.iter_mut().zip(&mixed[i * width..]) {
                *to = x * inverse;
            }
        }
    }
}

#[inline(always)]
fn attend_on_isa<I: AttentionSimd + FloatRows>(
    isa: I,
    task: &Task<'_>,
    matrices: bool,
    out: &Disjoint<'_, f32>,
) {
    // Where there are matrices there are wide vectors, so others do not compile that.
    if I::WIDE_REGISTER_FILE && matrices {
        attend::<I, Amx>(isa, task, out);
    } else {
        attend::<I, Plain>(isa, task, out);
    }
}

dispatch! {
    fn attend_on => attend_on_isa(task: &Task<'_>, matrices: bool, out: &Disjoint<'_, f32>)
}

/// Attention of rows of queries over whole texts: `out` is `[row][head][value_dim]`. A row's results depend on its text alone.
///
/// # Panics
/// If lengths do not fit, or tokens do not see those behind them.
pub fn attention_of_texts(cpu: &Cpu, texts: &WholeTexts<'_>, out: &mut [f32]) {
    let ([heads, kv_heads], [dim, value_dim]) = (texts.heads, texts.dims);
    let rows: usize = texts.spans.iter().map(|s| s.tokens).sum();
    assert!(texts.mask.sees_behind() && heads.is_multiple_of(kv_heads), "texts that are computed whole");
    assert!(texts.queries.len() == rows * heads * dim && out.len() == rows * heads * value_dim, "queries");
    assert!(texts.spans.len() == texts.starts.len(), "a text for each span");
    let mut tasks = Vec::new();
    let mut macs = 0;
    for (span, &start) in texts.spans.iter().zip(texts.starts) {
        let end = start + span.stored;
        assert!(span.position + span.tokens <= span.stored && span.first + span.tokens <= rows, "a span");
        assert!(texts.keys.len() >= end * kv_heads * dim && texts.values.len() >= end * kv_heads * value_dim);
        if let Some((numbers, longest)) = texts.by_distance {
            assert!(numbers.len() == heads * (2 * longest - 1) && span.stored <= longest, "distances");
        }
        macs += span.tokens * span.stored * heads * (dim + value_dim);
        for from in (0..span.tokens).step_by(TASK_ROWS) {
            let rows = span.first + from..span.first + span.tokens.min(from + TASK_ROWS);
            tasks.extend((0..heads).map(|head| Task {
                texts,
                head,
                rows: rows.clone(),
                position: span.position + from,
                start,
                tokens: span.stored,
            }));
        }
    }
    let (tier, out) = (cpu.tier(), Disjoint::new(out));
    let work = |i: usize| attend_on(tier, &tasks[i], tier.level().matrices(), &out);
    if macs < SINGLE_THREAD_MACS {
        (0..tasks.len()).for_each(work)
    } else {
        cpu.pool().run(tasks.len(), work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;
    use crate::quant::quantize::rounded_to_bf16;

    #[test]
    fn every_tier_gives_the_same_bits_near_the_definition() {
        let value = |i: usize| ((i * 7919 % 1013) as f32 - 500.0) * 0.004;
        for (lengths, [heads, kv_heads], dim, mask, biased) in [
            (&[1, 45, 128][..], [2, 2], 32, Mask::Full, false),
            (&[300], [4, 2], 64, Mask::Around(40), false),
            (&[70, 33], [2, 1], 24, Mask::Full, true),
        ] {
            let tokens: usize = lengths.iter().sum();
            let queries: Vec<f32> = (0..tokens * heads * dim).map(|i| 3.0 * value(i)).collect();
            let keys: Vec<f32> = (0..tokens * kv_heads * dim).map(|i| value(i + 77)).collect();
            let values: Vec<f32> = (0..tokens * kv_heads * dim).map(|i| value(3 * i + 5)).collect();
            let numbers: Vec<f32> = (0..heads * 199).map(|i| value(7 * i)).collect();
            let mut first = 0;
            let spans: Vec<AttentionSpan<'_>> = lengths
                .iter()
                .map(|&n| {
                    let span = AttentionSpan { first, tokens: n, position: 0, stored: n, blocks: &[] };
                    first += n;
                    span
                })
                .collect();
            let starts: Vec<usize> = spans.iter().map(|span| span.first).collect();
            let texts = WholeTexts {
                spans: &spans,
                starts: &starts,
                queries: &queries,
                keys: &keys,
                values: &values,
                heads: [heads, kv_heads],
                dims: [dim, dim],
                scale: 0.2,
                mask,
                by_distance: biased.then_some((&numbers[..], 100)),
            };
            let run = |tier, threads| {
                let mut out = vec![0.0; queries.len()];
                attention_of_texts(&Cpu::new(tier, threads).unwrap(), &texts, &mut out);
                out
            };
            let want = run(Tier::SCALAR, 1);
            for tier in Tier::available() {
                assert!(run(tier, 2) == want, "{lengths:?} on {}", tier.level());
            }
            // What is left once queries, keys and values are rounded: weights are, each by 2^-9 of itself at most.
            let near = |x: f32| f64::from(f32::from_bits(rounded_to_bf16(x)));
            let by = 0.2 * std::f32::consts::LOG2_E;
            let bound = values.iter().fold(0.0_f64, |most, v| most.max(near(*v).abs())) * 2.0 / 512.0 + 1e-4;
            for span in &spans {
                for (row, head) in (0..span.tokens).flat_map(|row| (0..heads).map(move |head| (row, head))) {
                    let sight = mask.sight(row, span.stored);
                    let at = |x: &[f32], token: usize| -> Vec<f64> {
                        let from = ((span.first + token) * kv_heads + head / (heads / kv_heads)) * dim;
                        x[from..from + dim].iter().map(|x| near(*x)).collect()
                    };
                    let query = &queries[((span.first + row) * heads + head) * dim..][..dim];
                    let weight = |token: usize| {
                        let key = at(&keys, token);
                        let dot: f64 = query.iter().zip(&key).map(|(q, k)| near(q * by) * k).sum();
                        let more =
                            if biased { f64::from(numbers[head * 199 + 99 + token - row]) } else { 0.0 };
                        (dot * std::f64::consts::LN_2 + more).exp()
                    };
                    let weights: Vec<f64> = (sight.first..sight.end).map(weight).collect();
                    let sum: f64 = weights.iter().sum();
                    for d in 0..dim {
                        let exact: f64 = (sight.first..sight.end)
                            .map(|token| weights[token - sight.first] / sum * at(&values, token)[d])
                            .sum();
                        let got = f64::from(want[((span.first + row) * heads + head) * dim + d]);
                        assert!((exact - got).abs() < bound, "{lengths:?} row {row}: {got} {exact}");
                    }
                }
            }
            // Some rows alone: as among all.
            let span = AttentionSpan { first: 0, tokens: 1, position: spans[0].stored - 1, ..spans[0] };
            let own = &queries[(spans[0].stored - 1) * heads * dim..][..heads * dim];
            let one = WholeTexts { spans: &[span], starts: &[0], queries: own, ..texts };
            let mut out = vec![0.0; heads * dim];
            attention_of_texts(&Cpu::new(Tier::best(), 1).unwrap(), &one, &mut out);
            assert_eq!(out, want[(spans[0].stored - 1) * heads * dim..][..heads * dim]);
        }
    }
}
