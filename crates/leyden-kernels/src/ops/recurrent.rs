//! Recurrent layers, with a state of fixed size per sequence: short convolutions, the state-space model of Mamba 2 (Dao
//! and Gu, 2024) and the gated delta rule (Yang et al., 2024).
//!
//! States are updated token by token, in a defined order, so that the results do not depend on how a text is cut into
//! steps. Independent parts of a state are separate tasks.

use super::{Lanes, exp16, join};
use crate::context::Cpu;
use crate::memory::disjoint::Disjoint;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

/// New tokens of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct StateSpan {
    /// Index of its first row in the batch.
    pub first: usize,
    /// Number of new tokens.
    pub tokens: usize,
    /// Index of the sequence's state.
    pub slot: usize,
    /// True if the sequence begins with these tokens: its state then counts as zero, whatever it contains.
    pub fresh: bool,
}

/// Maximum number of taps of a short convolution.
pub const MAX_TAPS: usize = 16;
/// Number of channels per task.
const CHANNELS: usize = 64;

/// Computes a causal convolution over the tokens of each channel: each row of `x` becomes
/// `bias + sum(weights[j] * x[t - taps + 1 + j])`. `states` hold the `taps - 1` rows before each sequence's next token,
/// `stride` values apart per sequence. `weights` are `[taps][width]`.
///
/// # Panics
/// If lengths do not fit, or there are more taps than [`MAX_TAPS`].
pub fn short_convolution(
    cpu: &Cpu,
    spans: &[StateSpan],
    (states, stride): (&mut [f32], usize),
    weights: &[f32],
    bias: Option<&[f32]>,
    width: usize,
    x: &mut [f32],
) {
    let taps = weights.len() / width;
    assert!(weights.len().is_multiple_of(width) && (1..=MAX_TAPS).contains(&taps), "taps of a convolution");
    assert!(bias.is_none_or(|bias| bias.len() == width), "biases of a convolution");
    assert!((taps - 1) * width <= stride, "the state of a convolution");
    let chunks = width.div_ceil(CHANNELS);
    let (states, rows) = (Disjoint::new(states), Disjoint::new(x));
    cpu.pool().run(spans.len() * chunks, |task| {
        let (span, from) = (&spans[task / chunks], task % chunks * CHANNELS);
        let n = CHANNELS.min(width - from);
        let mut before = [[0.0; CHANNELS]; MAX_TAPS];
        for (j, before) in before[..taps - 1].iter_mut().enumerate().filter(|_| !span.fresh) {
            // SAFETY: every task has its own channels of one sequence's state.
            let state = unsafe { states.range(span.slot * stride + j * width + from, n) };
            before[..n].copy_from_slice(state);
        }
        for row in span.first..span.first + span.tokens {
            // SAFETY: as above, for its rows.
            let x = unsafe { rows.range(row * width + from, n) };
            before[taps - 1][..n].copy_from_slice(x);
            match bias {
                Some(bias) => x.copy_from_slice(&bias[from..from + n]),
                None => x.fill(0.0),
            }
            for (j, before) in before[..taps].iter().enumerate() {
                multiply_add(cpu.tier(), &weights[j * width + from..][..n], &before[..n], x);
            }
            before[..taps].rotate_left(1);
        }
        for (j, before) in before[..taps - 1].iter().enumerate() {
            // SAFETY: as above.
            let state = unsafe { states.range(span.slot * stride + j * width + from, n) };
            state.copy_from_slice(&before[..n]);
        }
    });
}

#[inline(always)]
fn multiply_add_impl<I: Simd>(_isa: I, a: &[f32], b: &[f32], out: &mut [f32]) {
    for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
        *o = a.mul_add(*b, *o);
    }
}

dispatch! {
    /// Computes `out += a * b`, element by element, with one rounding each.
    pub fn multiply_add => multiply_add_impl(a: &[f32], b: &[f32], out: &mut [f32])
}

/// Dimensions of a state-space layer.
#[derive(Clone, Copy, Debug)]
pub struct SsmShape {
    /// Number of heads, each with a state `[head_dim][state]`.
    pub heads: usize,
    /// Head dimension.
    pub head_dim: usize,
    /// Size of the state per head dimension; a multiple of 16.
    pub state: usize,
    /// Number of groups of heads that share `b` and `c`.
    pub groups: usize,
}

/// Inputs of a state-space layer.
#[derive(Clone, Copy, Debug)]
pub struct SsmInput<'a> {
    /// Inputs `[rows][heads][head_dim]`, at the start of rows of `stride` values, as are `b` and `c`.
    pub x: &'a [f32],
    /// Input projections `[rows][groups][state]`.
    pub b: &'a [f32],
    /// Output projections `[rows][groups][state]`.
    pub c: &'a [f32],
    /// Distance between rows in all three, in values.
    pub stride: usize,
    /// Time steps `[rows][heads]`, positive.
    pub dt: &'a [f32],
    /// Decay rate of each head, negative.
    pub a: &'a [f32],
    /// Skip factor of `x`, of each head.
    pub d: &'a [f32],
}

/// Computes `s = e^(dt a) s + dt x b`, `out = s c + d x` for every head and token.
///
/// # Panics
/// If lengths do not fit.
pub fn ssm_scan(
    cpu: &Cpu,
    spans: &[StateSpan],
    (states, stride, at): (&mut [f32], usize, usize),
    shape: SsmShape,
    input: SsmInput<'_>,
    out: &mut [f32],
) {
    let SsmShape { heads, head_dim, state, groups } = shape;
    assert!(state.is_multiple_of(16) && heads.is_multiple_of(groups), "sizes of a state-space model");
    assert!(at + heads * head_dim * state <= stride, "the state of a state-space model");
    let (states, rows) = (Disjoint::new(states), Disjoint::new(out));
    cpu.pool().run(spans.len() * heads, |task| {
        let (span, h) = (&spans[task / heads], task % heads);
        let size = head_dim * state;
        // SAFETY: every task has the state of one head of one sequence.
        let s = unsafe { states.range(span.slot * stride + at + h * size, size) };
        if span.fresh {
            s.fill(0.0);
        }
        for row in span.first..span.first + span.tokens {
            let from = row * input.stride;
            let group = h / (heads / groups) * state;
            let (b, c) = (&input.b[from + group..][..state], &input.c[from + group..][..state]);
            let x = &input.x[from + h * head_dim..][..head_dim];
            let dt = input.dt[row * heads + h];
            // SAFETY: as above, for its rows.
            let out = unsafe { rows.range((row * heads + h) * head_dim, head_dim) };
            ssm_step(cpu.tier(), s, x, (b, c), (dt, input.a[h], input.d[h]), out);
        }
    });
}

#[inline(always)]
fn ssm_step_impl<I: Simd>(
    _isa: I,
    s: &mut [f32],
    x: &[f32],
    (b, c): (&[f32], &[f32]),
    (dt, a, d): (f32, f32, f32),
    out: &mut [f32],
) {
    let mut decay = [0.0; 16];
    decay[0] = dt * a;
    let decay = exp16(&decay)[0];
    let (b, c) = (b.as_chunks::<16>().0, c.as_chunks::<16>().0);
    for ((s, x), out) in s.chunks_exact_mut(b.len() * 16).zip(x).zip(out) {
        let step = dt * x;
        let mut sum: Lanes = [0.0; 16];
        for ((s, b), c) in s.as_chunks_mut::<16>().0.iter_mut().zip(b).zip(c) {
            for i in 0..16 {
                s[i] = s[i].mul_add(decay, step * b[i]);
                sum[i] = s[i].mul_add(c[i], sum[i]);
            }
        }
        *out = d.mul_add(*x, join(&sum, |a, b| a + b));
    }
}

dispatch! {
    fn ssm_step => ssm_step_impl(
        s: &mut [f32],
        x: &[f32],
        bc: (&[f32], &[f32]),
        factors: (f32, f32, f32),
        out: &mut [f32],
    )
}

/// Dimensions of a layer of the gated delta rule.
#[derive(Clone, Copy, Debug)]
pub struct DeltaShape {
    /// Number of value heads, each with a state `[key_dim][value_dim]`.
    pub heads: usize,
    /// Number of query and key heads.
    pub key_heads: usize,
    /// Head dimension of queries and keys.
    pub key_dim: usize,
    /// Head dimension of values.
    pub value_dim: usize,
    /// True if value head `h` uses key head `h % key_heads`; otherwise consecutive value heads share a key head.
    pub round_robin: bool,
}

/// Inputs of the gated delta rule.
#[derive(Clone, Copy, Debug)]
pub struct DeltaInput<'a> {
    /// Scaled queries `[rows][key_heads][key_dim]`, at the start of rows of `stride` values, as are keys and values.
    pub queries: &'a [f32],
    /// Keys `[rows][key_heads][key_dim]`.
    pub keys: &'a [f32],
    /// Values `[rows][heads][value_dim]`.
    pub values: &'a [f32],
    /// Distance between rows in all three, in values.
    pub stride: usize,
    /// Logarithms of the state's decay, `[rows][heads]`.
    pub decay: &'a [f32],
    /// Write strengths, `[rows][heads]`.
    pub beta: &'a [f32],
}

/// Computes `s = e^decay s`, `s += k (beta (v - k s))`, `out = q s` for every head and token.
///
/// # Panics
/// If lengths do not fit.
pub fn delta_rule(
    cpu: &Cpu,
    spans: &[StateSpan],
    (states, stride, at): (&mut [f32], usize, usize),
    shape: DeltaShape,
    input: DeltaInput<'_>,
    out: &mut [f32],
) {
    let DeltaShape { heads, key_heads, key_dim, value_dim, round_robin } = shape;
    assert!(heads.is_multiple_of(key_heads), "heads of the delta rule");
    assert!(at + heads * key_dim * value_dim <= stride, "the state of the delta rule");
    let (states, rows) = (Disjoint::new(states), Disjoint::new(out));
    cpu.pool().run(spans.len() * heads, |task| {
        let (span, h) = (&spans[task / heads], task % heads);
        let of_keys = if round_robin { h % key_heads } else { h / (heads / key_heads) };
        let size = key_dim * value_dim;
        // SAFETY: every task has the state of one head of one sequence.
        let s = unsafe { states.range(span.slot * stride + at + h * size, size) };
        if span.fresh {
            s.fill(0.0);
        }
        let mut delta = vec![0.0; value_dim];
        for row in span.first..span.first + span.tokens {
            let from = row * input.stride;
            let [q, k] = [input.queries, input.keys].map(|x| &x[from + of_keys * key_dim..][..key_dim]);
            let v = &input.values[from + h * value_dim..][..value_dim];
            let factors = (input.decay[row * heads + h], input.beta[row * heads + h]);
            // SAFETY: as above, for its rows.
            let out = unsafe { rows.range((row * heads + h) * value_dim, value_dim) };
            delta_step(cpu.tier(), s, (q, k), v, factors, &mut delta, out);
        }
    });
}

#[inline(always)]
fn delta_step_impl<I: Simd>(
    _isa: I,
    s: &mut [f32],
    (q, k): (&[f32], &[f32]),
    v: &[f32],
    (decay, beta): (f32, f32),
    delta: &mut [f32],
    out: &mut [f32],
) {
    let mut factor = [0.0; 16];
    factor[0] = decay;
    let factor = exp16(&factor)[0];
    let n = v.len();
    delta.fill(0.0);
    for (s, k) in s.chunks_exact_mut(n).zip(k) {
        for (s, d) in s.iter_mut().zip(&mut *delta) {
            *s *= factor;
            *d = s.mul_add(*k, *d);
        }
    }
    for (d, v) in delta.iter_mut().zip(v) {
        *d = beta * (v - *d);
    }
    out.fill(0.0);
    for ((s, k), q) in s.chunks_exact_mut(n).zip(k).zip(q) {
        for ((s, d), o) in s.iter_mut().zip(&*delta).zip(&mut *out) {
            *s = d.mul_add(*k, *s);
            *o = s.mul_add(*q, *o);
        }
    }
}

dispatch! {
    fn delta_step => delta_step_impl(
        s: &mut [f32],
        qk: (&[f32], &[f32]),
        v: &[f32],
        factors: (f32, f32),
        delta: &mut [f32],
        out: &mut [f32],
    )
}

#[cfg(test)]
mod tests;
