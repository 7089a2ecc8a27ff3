//! Attention with a position bias, which depends on the distance of key and query: ALiBi (Press et al., 2021), T5's
//! buckets, DeBERTa's disentangled attention (He et al., 2020). It is computed for whole texts from the keys and values
//! of the step, without a cache.

use super::linear::{Linear, apply};
use super::norm::Norm;
use crate::config::{LayerConfig, ModelConfig, PositionBias};
use crate::error::Error;
use crate::loader::Loader;
use leyden_kernels::attention::{AttentionSpan, Mask};
use leyden_kernels::gemm::Write;
use leyden_kernels::ops::{dot_rows, exp, ln, log_sum_exp, pow, sum_rows};
use leyden_kernels::{Cpu, PackedA};

/// Position bias of one layer.
#[derive(Debug)]
pub(crate) enum Bias {
    /// ALiBi: minus the distance times the head's slope; slopes `[heads]`.
    Slopes(Vec<f32>),
    /// T5: a learned bias for each bucket of distances and each head; rows `[count, heads]`.
    Buckets { rows: Vec<f32>, count: usize, longest: usize },
    /// DeBERTa: products of queries and keys with embeddings of relative positions.
    Disentangled(Disentangled),
}

/// Embeddings of relative positions, projected as keys and as queries.
#[derive(Debug)]
pub(crate) struct Disentangled {
    /// Keys of relative positions `[heads, 2 * span, head_dim]`, if content-to-position scores are computed.
    keys: Option<Vec<f32>>,
    /// Queries of relative positions `[heads, 2 * span, head_dim]`, if position-to-content scores are computed.
    queries: Option<Vec<f32>>,
    /// Number of embeddings for each direction.
    span: usize,
    /// Number of positions that logarithmic buckets cover, if distances are put into buckets.
    longest: Option<usize>,
}

impl Disentangled {
    /// Returns the index of the embedding for the position of a query minus that of its key.
    fn index(&self, distance: i64) -> usize {
        let (span, last) = (self.span as i64, 2 * self.span as i64 - 1);
        let ranged = self.longest.map_or(distance, |longest| log_bucket(distance, self.span, longest));
        (ranged + span).clamp(0, last) as usize
    }
}

const DISTANCES: &str = "rel_embd";

impl Bias {
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &ModelConfig,
        i: usize,
        [query, key]: [&Linear; 2],
    ) -> Result<Option<Bias>, Error> {
        let layer = &c.layers[i];
        let Some(bias) = layer.position_bias else { return Ok(None) };
        let heads = layer.heads;
        Ok(Some(match bias {
            PositionBias::Alibi => Bias::Slopes(alibi_slopes(heads)),
            PositionBias::Buckets { count, longest } => {
                let rows = loader.table(&format!("{DISTANCES}.weight"), count, heads)?;
                Bias::Buckets { rows, count, longest }
            }
            PositionBias::Disentangled {
                span,
                longest,
                content_to_position,
                position_to_content,
                shared,
                norm,
            } => {
                let mut embeddings = loader.table(&format!("{DISTANCES}.weight"), 2 * span, c.width)?;
                if norm {
                    Norm::load(loader, c.norm, "rel_embd_norm", c.width)?
                        .in_place(loader.cpu(), &mut embeddings);
                }
                let own = |part: &str, linear: &Linear| {
                    Linear::load(loader, &format!("blk.{i}.{part}"), linear.weights.rows(), c.width)
                };
                let by_head =
                    |wanted: bool, part: &str, linear: &Linear| -> Result<Option<Vec<f32>>, Error> {
                        if !wanted {
                            return Ok(None);
                        }
                        let mut out = vec![0.0; 2 * span * linear.weights.rows()];
                        let own = if shared { None } else { Some(own(part, linear)?) };
                        let linear = own.as_ref().unwrap_or(linear);
                        apply(
                            loader.cpu(),
                            &mut PackedA::default(),
                            &embeddings,
                            Write::Set,
                            [(linear, &mut out[..])],
                        );
                        Ok(Some(by_heads(&out, heads, layer.head_dim)))
                    };
                Bias::Disentangled(Disentangled {
                    keys: by_head(content_to_position, "attn_pos_k", key)?,
                    queries: by_head(position_to_content, "attn_pos_q", query)?,
                    span,
                    longest,
                })
            }
        }))
    }

    /// Returns the biases for positions of keys minus those of queries from `1 - longest` to `longest - 1`
    /// `[heads, 2 * longest - 1]`, or `None` for disentangled attention, whose biases depend on queries and keys too.
    pub(crate) fn by_distance(&self, heads: usize, longest: usize) -> Option<Vec<f32>> {
        let distances = || 1 - longest as i64..longest as i64;
        match self {
            Bias::Slopes(slopes) => {
                let of = |slope: &f32| -> Vec<f32> {
                    distances().map(|d| -slope * d.unsigned_abs() as f32).collect()
                };
                Some(slopes.iter().flat_map(of).collect())
            }
            Bias::Buckets { rows, count, longest } => {
                let buckets: Vec<usize> = distances().map(|d| bucket(d, *count, *longest)).collect();
                let of = |head| buckets.iter().map(move |bucket| rows[bucket * heads + head]);
                Some((0..heads).flat_map(of).collect())
            }
            Bias::Disentangled(_) => None,
        }
    }

    /// Computes attention of the queries over the keys and values of their whole texts, into `mixed` `[rows, heads *
    /// value_dim]`.
    pub(crate) fn attend(&self, cpu: &Cpu, input: &AttentionInput<'_>, mixed: &mut [f32]) {
        let AttentionInput { layer, spans, starts, queries, keys, values } = *input;
        let (heads, d, v) = (layer.heads, layer.head_dim, layer.value_dim);
        let (k_width, v_width) = (layer.kv_heads * d, layer.kv_heads * v);
        let shared = heads / layer.kv_heads;
        let tier = cpu.tier();
        // The largest distance is that of the longest text in the step.
        let longest = spans.iter().map(|span| span.stored).max().unwrap_or(1);
        let distances = || 1 - longest as i64..longest as i64;
        // Biases by head, or for disentangled attention the embeddings used: `count` of them from `low` on.
        let biases = self.by_distance(heads, longest).unwrap_or_default();
        let indices: Vec<usize> = match self {
            Bias::Disentangled(it) => distances().map(|d| it.index(d)).collect(),
            _ => Vec::new(),
        };
        let low = indices.iter().min().copied().unwrap_or_default();
        let count = indices.iter().max().map_or(0, |high| high - low + 1);
        // Products of every key with the embeddings of relative positions (position to content).
        let mut of_keys = Vec::new();
        if let Bias::Disentangled(Disentangled { queries: Some(queries), span, .. }) = self {
            of_keys.resize(keys.len() / k_width * heads * count, 0.0);
            cpu.for_rows(&mut of_keys, heads * count, |j, row| {
                for (head, out) in row.chunks_exact_mut(count).enumerate() {
                    let at = j * k_width + head / shared * d;
                    let embeddings = &queries[(2 * head * span + low) * d..][..count * d];
                    dot_rows(tier, &keys[at..at + d], embeddings, d, out);
                }
            });
        }
        let span_of = |row: usize| spans.partition_point(|s| s.first + s.tokens <= row);
        cpu.for_rows(mixed, heads * v, |row, out| {
            let which = span_of(row);
            let span = &spans[which];
            let (n, start) = (span.stored, starts[which]);
            let position = span.position + row - span.first;
            let (mut scores, mut extra) = (vec![0.0; n], Vec::new());
            for (head, out) in out.chunks_exact_mut(v).enumerate() {
                let query = &queries[(row * heads + head) * d..][..d];
                let kv_head = head / shared;
                dot_rows(tier, query, &keys[start * k_width + kv_head * d..], k_width, &mut scores);
                scores.iter_mut().for_each(|score| *score *= layer.attention_scale);
                match self {
                    Bias::Slopes(_) | Bias::Buckets { .. } => {
                        let own = &biases[head * (2 * longest - 1)..][longest - 1 - position..];
                        scores.iter_mut().zip(own).for_each(|(score, bias)| *score += bias);
                    }
                    Bias::Disentangled(it) => {
                        let embedding = |j: usize| indices[longest - 1 + position - j] - low;
                        let scale = layer.attention_scale;
                        if let Some(keys) = &it.keys {
                            extra.resize(count, 0.0);
                            let embeddings = &keys[(2 * head * it.span + low) * d..][..count * d];
                            dot_rows(tier, query, embeddings, d, &mut extra);
                            let scores = scores.iter_mut().enumerate();
                            scores.for_each(|(j, s)| *s += extra[embedding(j)] * scale);
                        }
                        if it.queries.is_some() {
                            let of = |j: usize| of_keys[((start + j) * heads + head) * count + embedding(j)];
                            scores.iter_mut().enumerate().for_each(|(j, s)| *s += of(j) * scale);
                        }
                    }
                }
                if let Mask::Around(tokens) = layer.mask {
                    let outside = |j: usize| position.abs_diff(j) > tokens;
                    let masked = scores.iter_mut().enumerate().filter(|(j, _)| outside(*j));
                    masked.for_each(|(_, score)| *score = f32::NEG_INFINITY);
                }
                let (most, sum) = log_sum_exp(tier, &scores);
                scores.iter_mut().for_each(|score| *score -= most);
                exp(tier, &mut scores);
                sum_rows(tier, &scores, &values[start * v_width + kv_head * v..], v_width, out);
                out.iter_mut().for_each(|x| *x /= sum);
            }
        });
    }
}

/// Input of attention with a position bias.
#[derive(Clone, Copy)]
pub(crate) struct AttentionInput<'a> {
    pub(crate) layer: &'a LayerConfig,
    /// Spans of the rows of queries.
    pub(crate) spans: &'a [AttentionSpan<'a>],
    /// Row of the first key of each span's text.
    pub(crate) starts: &'a [usize],
    /// `[rows, heads * head_dim]`.
    pub(crate) queries: &'a [f32],
    /// `[n_tokens, kv_heads * head_dim]`.
    pub(crate) keys: &'a [f32],
    /// `[n_tokens, kv_heads * value_dim]`.
    pub(crate) values: &'a [f32],
}

/// Reorders `rows` `[n, heads, d]` by head: `[heads, n, d]`.
fn by_heads(rows: &[f32], heads: usize, d: usize) -> Vec<f32> {
    let head = |head: usize| rows.chunks_exact(heads * d).flat_map(move |row| &row[head * d..][..d]);
    (0..heads).flat_map(head).copied().collect()
}

/// Returns ALiBi's slopes `[heads]`: for a power of two a geometric series; otherwise that of the next lower power of
/// two, and then every other slope of twice as many heads.
fn alibi_slopes(heads: usize) -> Vec<f32> {
    let series = |n: usize, count: usize, step: usize| {
        let slope = move |i: usize| pow(2.0, -8.0 * (i * step + 1) as f64 / n as f64) as f32;
        (0..count).map(slope)
    };
    let whole = 1 << heads.max(1).ilog2();
    series(whole, whole, 1).chain(series(2 * whole, heads - whole, 2)).collect()
}

/// Returns T5's bucket for the position of a key minus that of its query.
pub(crate) fn bucket(distance: i64, count: usize, longest: usize) -> usize {
    let half = count / 2;
    let exact = half / 2;
    let ahead = if distance > 0 { half } else { 0 };
    let far = usize::try_from(distance.unsigned_abs()).unwrap_or(usize::MAX);
    let within = if far < exact {
        far
    } else {
        let share = ln(far as f64 / exact as f64) / ln(longest as f64 / exact as f64);
        (exact + (share * (half - exact) as f64) as usize).min(half - 1)
    };
    ahead + within
}

/// Returns DeBERTa's logarithmic bucket for the position of a query minus that of its key.
fn log_bucket(distance: i64, span: usize, longest: usize) -> i64 {
    let mid = (span / 2) as i64;
    if distance.abs() <= mid {
        return distance;
    }
    let share = ln(distance.abs() as f64 / mid as f64) / ln((longest as f64 - 1.0) / mid as f64);
    ((share * (mid - 1) as f64).ceil() as i64 + mid) * distance.signum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_and_ranges_are_the_published_ones() {
        assert_eq!(alibi_slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]);
        let twelve = alibi_slopes(12);
        assert_eq!((twelve.len(), twelve[8], twelve[7]), (12, 2.0_f32.powf(-0.5), 0.00390625));
        let of = |d: i64| bucket(d, 32, 128);
        assert_eq!([0, -7, -8, 1, 8, -200, 200].map(of), [0, 7, 8, 17, 24, 15, 31]);
        // Of transformers 5.24, with 256 ranges up to 512 tokens.
        let of = |d: i64| log_bucket(d, 256, 512);
        assert_eq!([0, 100, -128, 129, 300, 511, -511].map(of), [0, 100, -128, 129, 207, 255, -255]);
    }
}
