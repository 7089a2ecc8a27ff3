//! Attention over whole texts in 8-bit integers, without a cache: for encoders whose matrices are INT8 rows.
//!
//! Queries, keys and values are quantised with one scale per token and head (Zhang et al., SageAttention, 2024). The
//! scales of values are multiplied into the softmax weights, which share a scale per 64 keys, so that one token with a
//! large weight lowers the precision of few others. Both products use `gemm::microkernel::int8_rows`: the rows of the
//! matrix are the keys, then the dimensions of the values. All scores of a row are computed before its softmax, which
//! is therefore a single pass (`whole_softmax`). Scores are logarithms to base 2: `log2(e)` is multiplied into the
//! scale of the queries.

use crate::attention::mask::{Mask, TokenRange};
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

/// Maximum number of query rows per task; each task packs keys and values once.
const TASK_ROWS: usize = 256;

/// Number of rows whose scores are kept at a time.
const ROWS: usize = 8 * MAX_TOKENS;

/// Number of keys whose weights share a scale.
const KEYS: usize = GROUP_ROWS;

/// Number of multiplications below which attention runs on the calling thread.
const SINGLE_THREAD_MACS: usize = 1 << 20;

/// Texts with consecutive keys and values, and the query rows that attend to them.
#[derive(Clone, Copy, Debug)]
pub struct WholeTexts<'a> {
    /// Spans of query rows.
    pub spans: &'a [AttentionSpan<'a>],
    /// Row of the first key of each span's text.
    pub starts: &'a [usize],
    /// Queries, `[row][head][dim]`.
    pub queries: &'a [f32],
    /// Keys, `[token][key-value head][dim]`.
    pub keys: &'a [f32],
    /// Values, `[token][key-value head][value_dim]`.
    pub values: &'a [f32],
    /// Number of query heads, and of key-value heads, each shared by a group of query heads.
    pub heads: [usize; 2],
    /// Head dimension of queries and keys, and of values.
    pub dims: [usize; 2],
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// Attention mask, a bidirectional one.
    pub mask: Mask,
    /// Position bias `[head][distance]` added to scores, for distances of key minus query from `1 - n` to `n - 1`, and
    /// `n`.
    pub by_distance: Option<(&'a [f32], usize)>,
}

/// One task: query rows of one head of one text.
struct Task<'a> {
    texts: &'a WholeTexts<'a>,
    head: usize,
    /// Query rows; `position` is the position of the first one in the text.
    rows: std::ops::Range<usize>,
    position: usize,
    /// First key of the text; `tokens` is the number of its keys.
    start: usize,
    tokens: usize,
}

/// Pads a row with zeros to the length of `room`.
#[inline(always)]
fn padded<'a>(x: &'a [f32], room: &'a mut [f32]) -> &'a [f32] {
    if x.len() == room.len() {
        return x;
    }
    room[..x.len()].copy_from_slice(x);
    room[x.len()..].fill(0.0);
    room
}

/// Packs keys as rows of a matrix, `depth` values each. Rows after the last key keep their contents.
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
            let word = u32::from_le_bytes(four.map(|q| q as u8)) ^ 0x8080_8080;
            to[4 * r..4 * r + 4].copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Packs values as the columns of a matrix with `width` rows, one per dimension. Writes the scales of the tokens,
/// followed by zeros. Columns after the last token keep their contents.
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
            let rows = [a, b, c, d].map(|x| x[from..].first_chunk::<GROUP_ROWS>().expect("a whole group"));
            // Words, which compile to vectors; single bytes do not.
            let mut words = [0_u32; GROUP_ROWS];
            for (r, word) in words.iter_mut().enumerate() {
                let [a, b, c, d] = [0, 1, 2, 3].map(|i| u32::from(rows[i][r] as u8 ^ ZERO_POINT as u8));
                *word = a | b << 8 | c << 16 | d << 24;
            }
            for (to, word) in to.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *to = word.to_le_bytes();
            }
        }
    }
}

/// Computes the softmax of a row over the tokens in `attended`, multiplies the weights by the scales of the values, and
/// quantises them. The division by the softmax sum is multiplied into the scales of the groups of [`KEYS`] weights.
#[inline(always)]
fn softmax_row<I: AttentionSimd>(
    isa: I,
    scores: &mut [f32],
    attended: TokenRange,
    value_scales: &[f32],
    quants: &mut [i8],
    (scales, starts): (&mut [f32], &mut [i32]),
) {
    let (low, high) = (attended.first / 16 * 16, attended.end.next_multiple_of(16));
    scores[low..attended.first].fill(f32::NEG_INFINITY);
    scores[attended.end..high].fill(f32::NEG_INFINITY);
    let inverse = 1.0 / isa.softmax_weights(&mut scores[low..high]);
    scores[..attended.first].fill(0.0);
    scores[attended.end..].fill(0.0);
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
        // The part of the text that any of the rows attends to, in whole groups.
        let (top, bottom) =
            (texts.mask.token_range(position, n), texts.mask.token_range(position + count - 1, n));
        let groups = top.first / KEYS..bottom.end.div_ceil(KEYS);
        let (low, attended) = (groups.start * KEYS, groups.len() * KEYS);
        // The last group needs no panels of 16 keys, nor groups of four weights, after the last key.
        let wanted = bottom.end - low;
        segments.fill(KEYS / 4);
        segments[groups.len() - 1] = (wanted - (attended - KEYS)).div_ceil(4);
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
        // SAFETY: this tier runs; groups are whole and of the rows' depth, and scores has room for all results.
        unsafe {
            multiply(
                &block,
                Results { first: scores.as_mut_ptr(), n: wanted.next_multiple_of(KEYS / 2), stride: length },
            )
        };
        for i in 0..count {
            let TokenRange { first, end } = texts.mask.token_range(position + i, n);
            let token_range = TokenRange { first: first - low, end: end - low };
            let scores = &mut scores[i * length..][..attended];
            if let Some((numbers, longest)) = texts.by_distance {
                let of_head = &numbers[task.head * (2 * longest - 1)..][..2 * longest - 1];
                let own = &of_head[longest - 1 + first - (position + i)..][..end - first];
                for (score, number) in scores[token_range.first..token_range.end].iter_mut().zip(own) {
                    *score = number.mul_add(std::f32::consts::LOG2_E, *score);
                }
            }
            let quants = &mut weight_quants[i * length..][..attended];
            let at = i * groups.len()..(i + 1) * groups.len();
            let to = (&mut scales[at.clone()], &mut starts[at]);
            softmax_row(isa, scores, token_range, &value_scales[low..low + attended], quants, to);
        }
        let block = Block {
            groups: values,
            group_bytes: group_bytes(length),
            skip: low / 4,
            next: &[],
            tokens: Tokens {
                quants: &weight_quants[..(count - 1) * length + attended],
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
        // SAFETY: as above, and no other task writes this head of these rows.
        unsafe { multiply(&block, to) };
    }
}

dispatch! {
    fn attend_on => attend_on_isa(tier: Tier, task: &Task<'_>, out: &Disjoint<'_, f32>)
}

/// Computes the attention of query rows over whole texts: `out` is `[row][head][value_dim]`. A row's results depend on
/// its text alone.
///
/// # Panics
/// If lengths do not fit, or the mask is not bidirectional.
pub fn attention_of_texts(cpu: &Cpu, texts: &WholeTexts<'_>, out: &mut [f32]) {
    let ([heads, kv_heads], [dim, value_dim]) = (texts.heads, texts.dims);
    let rows: usize = texts.spans.iter().map(|s| s.tokens).sum();
    assert!(
        texts.mask.is_bidirectional() && heads.is_multiple_of(kv_heads),
        "bidirectional mask and whole groups of heads"
    );
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
            // Only the error of weights remains after rounding queries, keys and values: 64 weights share 127 levels.
            let rounded = |x: &[f32]| -> Vec<f64> {
                let max = x.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
                let of = |x: &f32| f64::from((x * (127.0 / max)).round_ties_even()) * f64::from(max / 127.0);
                x.iter().map(of).collect()
            };
            let bound = values.iter().fold(0.0_f64, |most, v| most.max(f64::from(v.abs()))) * 0.015;
            for span in &spans {
                for (row, head) in (0..span.tokens).flat_map(|row| (0..heads).map(move |head| (row, head))) {
                    let token_range = mask.token_range(row, span.stored);
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
                    let weights: Vec<f64> = (token_range.first..token_range.end).map(weight).collect();
                    let sum: f64 = weights.iter().sum();
                    for d in 0..dim {
                        let exact: f64 = (token_range.first..token_range.end)
                            .map(|token| weights[token - token_range.first] / sum * at(&values, token)[d])
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
