//! Layers with a state of a fixed size for each sequence: short convolutions, the state-space model of Mamba 2 (Dao and Gu,
//! 2024) and the gated delta rule (Yang et al., 2024).
//!
//! States go on token by token, in one written order, so that the results do not depend on how a text is cut into steps. The
//! parts of a state that do not touch each other are tasks of their own.

use super::{Lanes, exp16, join};
use crate::context::Cpu;
use crate::memory::disjoint::Disjoint;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

/// New tokens of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct StateSpan {
    /// Its first row in the batch.
    pub first: usize,
    /// How many there are.
    pub tokens: usize,
    /// Which of the states is the sequence's.
    pub slot: usize,
    /// Whether the sequence begins with these tokens: its state is then zero, whatever stands there.
    pub fresh: bool,
}

/// The most tokens that a short convolution joins.
pub const MAX_TAPS: usize = 16;
/// Channels of a task.
const CHANNELS: usize = 64;

/// Convolutions over the tokens of each channel, the last of `taps` tokens being the row's own: each row of `x` becomes
/// `bias + sum(weights[j] * x[t - taps + 1 + j])`. `states` hold the `taps - 1` rows before a sequence's next token each, of
/// `stride` values from one sequence's to the next's. `weights` are `[taps][width]`.
///
/// # Panics
/// If lengths do not fit, or there are more than [`MAX_TAPS`].
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
            // SAFETY: every task has channels of its own of one sequence's state.
            let state = unsafe { states.range(span.slot * stride + j * width + from, n) };
            before[..n].copy_from_slice(state);
        }
        for row in span.first..span.first + span.tokens {
            // SAFETY: as above, of its rows.
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
    /// `out += a * b`, element by element, with one rounding each.
    pub fn multiply_add => multiply_add_impl(a: &[f32], b: &[f32], out: &mut [f32])
}

/// The sizes of a state-space model's layer.
#[derive(Clone, Copy, Debug)]
pub struct SsmShape {
    /// Heads, each with a state `[head_dim][state]`.
    pub heads: usize,
    /// Numbers of a head.
    pub head_dim: usize,
    /// Numbers of the state for each; a multiple of 16.
    pub state: usize,
    /// Groups of heads that share `b` and `c`.
    pub groups: usize,
}

/// Inputs of a state-space model, row by row: of each head, of each group, and the steps of each head.
#[derive(Clone, Copy, Debug)]
pub struct SsmInput<'a> {
    /// `[rows][heads][head_dim]`, the first numbers of rows of `stride`, as `b` and `c`.
    pub x: &'a [f32],
    /// `[rows][groups][state]`.
    pub b: &'a [f32],
    /// `[rows][groups][state]`.
    pub c: &'a [f32],
    /// From one row's numbers to the next's in all three.
    pub stride: usize,
    /// `[rows][heads]`, positive.
    pub dt: &'a [f32],
    /// What the state decays by, negative, and the share of `x` that goes past it, of each head.
    pub a: &'a [f32],
    /// As above.
    pub d: &'a [f32],
}

/// For every head and token: `s = e^(dt a) s + dt x b`, `out = s c + d x`.
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
            // SAFETY: as above, of its rows.
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

/// The sizes of a layer of the gated delta rule.
#[derive(Clone, Copy, Debug)]
pub struct DeltaShape {
    /// Heads of values, each with a state `[key_dim][value_dim]`.
    pub heads: usize,
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Numbers of a head's query and key.
    pub key_dim: usize,
    /// Numbers of a head's value.
    pub value_dim: usize,
    /// Whether heads of values share heads of keys in turn, not neighbours.
    pub in_turn: bool,
}

/// Inputs of the gated delta rule, row by row.
#[derive(Clone, Copy, Debug)]
pub struct DeltaInput<'a> {
    /// `[rows][key_heads][key_dim]`, the first numbers of rows of `stride`, as keys and values; scaled.
    pub queries: &'a [f32],
    /// As above.
    pub keys: &'a [f32],
    /// `[rows][heads][value_dim]`.
    pub values: &'a [f32],
    /// From one row's numbers to the next's in all three.
    pub stride: usize,
    /// `[rows][heads]`: logarithms of what the state decays by, and the shares of what is new.
    pub decay: &'a [f32],
    /// As above.
    pub beta: &'a [f32],
}

/// For every head and token: `s = e^decay s`, `s += k (beta (v - k s))`, `out = q s`.
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
    let DeltaShape { heads, key_heads, key_dim, value_dim, in_turn } = shape;
    assert!(heads.is_multiple_of(key_heads), "heads of the delta rule");
    assert!(at + heads * key_dim * value_dim <= stride, "the state of the delta rule");
    let (states, rows) = (Disjoint::new(states), Disjoint::new(out));
    cpu.pool().run(spans.len() * heads, |task| {
        let (span, h) = (&spans[task / heads], task % heads);
        let of_keys = if in_turn { h % key_heads } else { h / (heads / key_heads) };
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
            // SAFETY: as above, of its rows.
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
