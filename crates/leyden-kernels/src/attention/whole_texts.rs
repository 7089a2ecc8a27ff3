//! Attention over texts that are computed whole, in 8-bit integers: for encoders whose matrices are INT8 rows.
//!
//! Queries, keys and values get one scale for each head of a token (Zhang et al., SageAttention, 2024). Values' scales go into the weights of
//! their tokens, of which 64 share a scale, so that a token that most look at costs few others their bits. Both products are those of
//! `gemm::microkernel::int8_rows`: keys are rows of a matrix, and so are the numbers of values. A row's scores are all there before its softmax,
//! which is therefore one pass (`whole_softmax`). They are logarithms to base 2, as `log2(e)` goes into the scale of the queries.

use crate::attention::mask::{Mask, Sight};
use crate::attention::options::AttentionSpan;
use crate::attention::simd::AttentionSimd;
use crate::context::Cpu;
use crate::cpu::isa::Tier;
use crate::gemm::microkernel::int8_rows::{
    Block, GROUP_ROWS, MAX_TOKENS, Results, SCALES_BYTES, STEP_BYTES, block_fn, group_bytes,
};
use crate::memory::disjoint::Disjoint;
use crate::memory::scratch::Scratch;
use crate::quant::quantize::quantise_values;
use crate::quant::token_rows::{Tokens, ZERO_POINT, quantise_segment};
use crate::simd::dispatch::dispatch;

/// Rows of a task, at most: keys and values are packed for each.
const TASK_ROWS: usize = 256;

/// Rows whose scores are there at a time.
const ROWS: usize = 8 * MAX_TOKENS;

/// Keys whose weights share a scale.
const KEYS: usize = GROUP_ROWS;

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

/// A row with zeros behind it, up to a multiple of sixteen values.
#[inline(always)]
fn padded<'a>(x: &'a [f32], room: &'a mut [f32]) -> &'a [f32] {
    if x.len() == room.len() {
        return x;
    }
    room[..x.len()].copy_from_slice(x);
    room[x.len()..].fill(0.0);
    room
}

/// Packs keys as rows of a matrix, `depth` values each. What is behind the last one stays as it was.
#[inline(always)]
fn pack_keys<'k, I: AttentionSimd>(
    isa: I,
    keys: impl Fn(usize) -> &'k [f32],
    (n, depth): (usize, usize),
    groups: &mut [u8],
) {
    let (mut room, mut quants) = (Scratch::of(depth * size_of::<f32>()), Scratch::of(depth));
    let (room, quants) = (room.floats(), quants.signed());
    for token in 0..n {
        let (g, r) = (token / GROUP_ROWS, token % GROUP_ROWS);
        let (scales, weights) =
            groups[g * group_bytes(depth)..][..group_bytes(depth)].split_at_mut(SCALES_BYTES);
        let scale = quantise_values(isa, padded(keys(token), room), quants);
        scales[4 * r..4 * r + 4].copy_from_slice(&scale.to_le_bytes());
        for (four, to) in quants.as_chunks::<4>().0.iter().zip(weights.chunks_exact_mut(STEP_BYTES)) {
            to[4 * r..4 * r + 4].copy_from_slice(&four.map(|q| q as u8 ^ ZERO_POINT as u8));
        }
    }
}

/// Packs values as the columns of a matrix whose rows are their `width` numbers; gives the scales of their tokens, and zeros behind them. The
/// columns behind the last one stay as they were.
#[inline(always)]
fn pack_values<'v, I: AttentionSimd>(
    isa: I,
    values: impl Fn(usize) -> &'v [f32],
    (n, length, width): (usize, usize, usize),
    groups: &mut [u8],
    token_scales: &mut [f32],
) {
    let (mut room, mut quants) = (Scratch::of(width * size_of::<f32>()), Scratch::of(4 * width));
    let (room, quants) = (room.floats(), quants.signed());
    for group in groups.chunks_exact_mut(group_bytes(length)) {
        group[..SCALES_BYTES].as_chunks_mut::<4>().0.fill(1.0_f32.to_le_bytes());
    }
    token_scales[n..].fill(0.0);
    for first in (0..n).step_by(4) {
        for (token, quants) in (first..n).zip(quants.chunks_exact_mut(width)) {
            token_scales[token] = quantise_values(isa, padded(values(token), room), quants);
        }
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| &quants[i * width..][..width]);
        for (g, group) in groups.chunks_exact_mut(group_bytes(length)).enumerate() {
            let to = &mut group[SCALES_BYTES + first / 4 * STEP_BYTES..][..STEP_BYTES];
            let from = g * GROUP_ROWS;
            let rows = [a, b, c, d].map(|x| &x[from..from + GROUP_ROWS]);
            for (r, to) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                for i in 0..4 {
                    to[i] = rows[i][r] as u8 ^ ZERO_POINT as u8;
                }
            }
        }
    }
}

/// Makes a row of scores weights, of the tokens that are seen, times the scales of their values, and quantises them. The scales of
/// [`KEYS`] weights each make up for the sum of all.
#[inline(always)]
fn softmax_row<I: AttentionSimd>(
    isa: I,
    scores: &mut [f32],
    seen: Sight,
    value_scales: &[f32],
    quants: &mut [i8],
    (scales, starts): (&mut [f32], &mut [i32]),
) {
    let (low, high) = (seen.first / 16 * 16, seen.end.next_multiple_of(16));
    scores[low..seen.first].fill(f32::NEG_INFINITY);
    scores[seen.end..high].fill(f32::NEG_INFINITY);
    let inverse = 1.0 / isa.softmax_weights(&mut scores[low..high]);
    scores[..seen.first].fill(0.0);
    scores[seen.end..].fill(0.0);
    let of_keys = scores.as_chunks_mut::<KEYS>().0.iter_mut().zip(value_scales.as_chunks::<KEYS>().0);
    let of_keys = of_keys.zip(quants.as_chunks_mut::<KEYS>().0).zip(scales.iter_mut().zip(starts));
    for (((weights, by), quants), (scale, start)) in of_keys {
        for i in 0..KEYS {
            weights[i] *= by[i];
        }
        (*scale, *start) = quantise_segment(isa, weights, quants);
        *scale *= inverse;
    }
}

#[inline(always)]
fn attend_on_isa<I: AttentionSimd>(isa: I, tier: Tier, task: &Task<'_>, out: &Disjoint<'_, f32>) {
    let texts = task.texts;
    let ([heads, kv_heads], [dim, value_dim], n) = (texts.heads, texts.dims, task.tokens);
    let kv_head = task.head / (heads / kv_heads);
    let (depth, length) = (dim.next_multiple_of(16), n.next_multiple_of(KEYS));
    let width = value_dim.next_multiple_of(GROUP_ROWS);
    let blocks = length / KEYS;
    let floats = |count: usize| Scratch::of(count * size_of::<f32>());
    let (mut keys, mut values) =
        (Scratch::of(blocks * group_bytes(depth)), Scratch::of(width / GROUP_ROWS * group_bytes(length)));
    let (mut value_scales, mut scores) = (floats(length), floats(ROWS * length));
    let (mut query_quants, mut weight_quants) = (Scratch::of(ROWS * depth), Scratch::of(ROWS * length));
    let (keys, values, value_scales, scores) =
        (keys.bytes(), values.bytes(), value_scales.floats(), scores.floats());
    let (query_quants, weight_quants) = (query_quants.signed(), weight_quants.signed());
    let mut room = floats(depth);
    let room = room.floats();
    let (mut query_scales, mut query_starts) = ([0.0; ROWS], [0; ROWS]);
    let (mut scales, mut starts) = (vec![0.0; ROWS * blocks], vec![0; ROWS * blocks]);
    let mut segments = vec![KEYS / 4; blocks];
    let key = |token: usize| &texts.keys[((task.start + token) * kv_heads + kv_head) * dim..][..dim];
    pack_keys(isa, key, (n, depth), keys);
    let value =
        |token: usize| &texts.values[((task.start + token) * kv_heads + kv_head) * value_dim..][..value_dim];
    pack_values(isa, value, (n, length, width), values, value_scales);
    let scale = texts.scale * std::f32::consts::LOG2_E;
    let multiply = block_fn(tier);
    for first in task.rows.clone().step_by(ROWS) {
        let count = (task.rows.end - first).min(ROWS);
        let position = task.position + first - task.rows.start;
        for i in 0..count {
            let query = &texts.queries[((first + i) * heads + task.head) * dim..][..dim];
            let quants = &mut query_quants[i * depth..][..depth];
            (query_scales[i], query_starts[i]) = quantise_segment(isa, padded(query, room), quants);
            query_scales[i] *= scale;
        }
        // What of the text any of the rows sees, in whole groups.
        let (top, bottom) = (texts.mask.sight(position, n), texts.mask.sight(position + count - 1, n));
        let groups = top.first / KEYS..bottom.end.div_ceil(KEYS);
        let (low, seen) = (groups.start * KEYS, groups.len() * KEYS);
        // Two panels of the last group do where there are no more keys, and so many fours of weights.
        let wanted = bottom.end - low;
        segments.fill(KEYS / 4);
        segments[groups.len() - 1] = (wanted - (seen - KEYS)).div_ceil(4);
        let block = Block {
            groups: &keys[groups.start * group_bytes(depth)..groups.end * group_bytes(depth)],
            group_bytes: group_bytes(depth),
            skip: 0,
            next: &[],
            tokens: Tokens {
                quants: &query_quants[..count * depth],
                stride: depth,
                segments: &[depth / 4],
                scales: &query_scales[..count],
                starts: &query_starts[..count],
            },
            bias: None,
            activation: None,
            add: false,
        };
        // SAFETY: this is the tier that runs; groups are whole, of the depth of rows, and scores have room for all of them.
        unsafe {
            multiply(
                &block,
                Results { first: scores.as_mut_ptr(), n: wanted.next_multiple_of(KEYS / 2), stride: length },
            )
        };
        for i in 0..count {
            let Sight { first, end } = texts.mask.sight(position + i, n);
            let sight = Sight { first: first - low, end: end - low };
            let scores = &mut scores[i * length..][..seen];
            if let Some((numbers, longest)) = texts.by_distance {
                let of_head = &numbers[task.head * (2 * longest - 1)..][..2 * longest - 1];
                let own = &of_head[longest - 1 + first - (position + i)..][..end - first];
                for (score, number) in scores[sight.first..sight.end].iter_mut().zip(own) {
                    *score = number.mul_add(std::f32::consts::LOG2_E, *score);
                }
            }
            let quants = &mut weight_quants[i * length..][..seen];
            let at = i * groups.len()..(i + 1) * groups.len();
            let to = (&mut scales[at.clone()], &mut starts[at]);
            softmax_row(isa, scores, sight, &value_scales[low..low + seen], quants, to);
        }
        let block = Block {
            groups: values,
            group_bytes: group_bytes(length),
            skip: low / 4,
            next: &[],
            tokens: Tokens {
                quants: &weight_quants[..(count - 1) * length + seen],
                stride: length,
                segments: &segments[..groups.len()],
                scales: &scales[..count * groups.len()],
                starts: &starts[..count * groups.len()],
            },
            bias: None,
            activation: None,
            add: false,
        };
        let to = out.at((first * heads + task.head) * value_dim);
        let to = Results { first: to, n: value_dim, stride: heads * value_dim };
        // SAFETY: as above, and this head of these rows is this task's.
        unsafe { multiply(&block, to) };
    }
}

dispatch! {
    fn attend_on => attend_on_isa(tier: Tier, task: &Task<'_>, out: &Disjoint<'_, f32>)
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
    let work = |i: usize| attend_on(tier, tier, &tasks[i], &out);
    if macs < SINGLE_THREAD_MACS {
        (0..tasks.len()).for_each(work)
    } else {
        cpu.pool().run(tasks.len(), work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            // What is left once queries, keys and values are rounded: weights are, 64 of them to 127 levels.
            let rounded = |x: &[f32]| -> Vec<f64> {
                let max = x.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
                let of = |x: &f32| f64::from((x * (127.0 / max)).round_ties_even()) * f64::from(max / 127.0);
                x.iter().map(of).collect()
            };
            let bound = values.iter().fold(0.0_f64, |most, v| most.max(f64::from(v.abs()))) * 0.015;
            for span in &spans {
                for (row, head) in (0..span.tokens).flat_map(|row| (0..heads).map(move |head| (row, head))) {
                    let sight = mask.sight(row, span.stored);
                    let at = |x: &[f32], token: usize| -> Vec<f64> {
                        let from = ((span.first + token) * kv_heads + head / (heads / kv_heads)) * dim;
                        rounded(&x[from..from + dim])
                    };
                    let query = rounded(&queries[((span.first + row) * heads + head) * dim..][..dim]);
                    let weight = |token: usize| {
                        let key = at(&keys, token);
                        let dot: f64 = query.iter().zip(&key).map(|(q, k)| 0.2 * q * k).sum();
                        let more =
                            if biased { f64::from(numbers[head * 199 + 99 + token - row]) } else { 0.0 };
                        (dot + more).exp()
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
