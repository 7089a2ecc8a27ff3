//! Gated delta net (Yang et al., 2024) as in Qwen3-Next and Qwen3.5: a short convolution, the gated delta rule, and a
//! gated norm.

use super::attention::keep;
use super::linear::{Linear, apply};
use super::norm::Norm;
use super::residual::Residual;
use crate::config::{DeltaNetConfig, ModelConfig, NormConfig};
use crate::error::Error;
use crate::loader::{Loader, Part};
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::attention::KvCache;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::ops::{
    Activation, DeltaInput, DeltaShape, activate, delta_rule, gate, ln, rms_norm_in_place, short_convolution,
    sigmoid,
};
use std::ops::Range;
use std::slice;

/// Gated delta net of one layer.
#[derive(Debug)]
pub(crate) struct DeltaNet {
    /// Index of its states in the cache.
    layer: usize,
    shape: DeltaShape,
    eps: f32,
    /// Projection to queries, keys and values.
    qkv: Linear,
    /// Projection to the gate of the norm.
    z: Linear,
    /// Projection to the learning rate of the delta rule.
    beta: Linear,
    /// Projection to the time step, which scales the decay of the state.
    alpha: Linear,
    /// Weights of the convolution `[taps, channels]`.
    taps: Vec<f32>,
    step_bias: Vec<f32>,
    /// Logarithm of the state's decay in a time step of 1, negative `[heads]`.
    decay: Vec<f32>,
    norm: Norm,
    output: Linear,
}

impl DeltaNet {
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &ModelConfig,
        config: DeltaNetConfig,
        i: usize,
    ) -> Result<DeltaNet, Error> {
        let DeltaNetConfig { taps, heads, key_heads, key_dim, value_dim, round_robin } = config;
        let name = |part: &str| format!("blk.{i}.{part}");
        let linear = |part: &str, rows, k| Linear::load(loader, &name(part), rows, k);
        // Some models store several matrices as one, whose rows are grouped by key head, each group with the rows of
        // all parts.
        let shared = 2 * heads / key_heads;
        let of_shared = |whole: &str, each: usize, label, from: &[Range<usize>]| {
            let of_heads = |range: &Range<usize>| {
                let range = range.clone();
                (0..key_heads).map(move |h| h * each + range.start..h * each + range.end)
            };
            let part = Part { label, rows: from.iter().flat_map(of_heads).collect() };
            Linear::load_part(loader, &name(whole), key_heads * each, c.width, &part)
        };
        let (qkv, z) = (config.channels(), heads * value_dim);
        let logarithms = loader.has(&name("ssm_a_log"))?;
        let decay = match logarithms {
            false => loader.required_vector(&name("ssm_a"), heads)?,
            true => {
                let mut logs = loader.required_vector(&name("ssm_a_log"), heads)?;
                logs.iter_mut().for_each(|a| {
                    *a = -(leyden_kernels::ops::pow(std::f64::consts::E, f64::from(*a)) as f32)
                });
                logs
            }
        };
        let ([queries_keys_values, gate], [beta, alpha]) = (
            match loader.has(&name("ssm_in.weight"))? {
                true => {
                    let of_values = shared / 2 * value_dim;
                    let (values, each) = (2 * key_dim, 2 * (key_dim + of_values));
                    let qkv = [0..key_dim, key_dim..values, values..values + of_values];
                    let part = |label, from: &[Range<usize>]| of_shared("ssm_in", each, label, from);
                    [part("qkv", &qkv)?, part("z", slice::from_ref(&(each - of_values..each)))?]
                }
                false => [linear("attn_qkv", qkv, c.width)?, linear("attn_gate", z, c.width)?],
            },
            match loader.has(&name("ssm_ba.weight"))? {
                true => {
                    let part = |label, from: Range<usize>| of_shared("ssm_ba", shared, label, &[from]);
                    [part("beta", 0..shared / 2)?, part("alpha", shared / 2..shared)?]
                }
                false => [linear("ssm_beta", heads, c.width)?, linear("ssm_alpha", heads, c.width)?],
            },
        );
        let plain = NormConfig { offset: 0.0, ..c.norm };
        Ok(DeltaNet {
            layer: i,
            shape: DeltaShape { heads, key_heads, key_dim, value_dim, round_robin },
            eps: c.norm.eps,
            qkv: queries_keys_values,
            z: gate,
            beta,
            alpha,
            taps: loader.taps(&name("ssm_conv1d.weight"), qkv, taps)?,
            step_bias: loader.required_vector(&name("ssm_dt.bias"), heads)?,
            decay,
            norm: Norm::load(loader, plain, &name("ssm_norm"), value_dim)?,
            output: linear("ssm_out", c.width, z)?,
        })
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        [&self.qkv, &self.z, &self.beta, &self.alpha, &self.output].map(|l| &l.weights).to_vec()
    }

    /// Returns the matrices that all tokens are multiplied with.
    pub(crate) fn stored(&self) -> [&PackedWeights; 4] {
        [&self.qkv, &self.z, &self.beta, &self.alpha].map(|l| &l.weights)
    }

    /// Updates the states with all rows of `work.normed`. `work.delta_net.y` and the stream then hold `rows` alone.
    pub(crate) fn store(&self, cpu: &Cpu, rows: &[usize], cache: &mut KvCache, work: &mut Workspace) {
        let width = self.qkv.weights.k();
        let n = work.normed.len() / width;
        let DeltaShape { heads, key_heads, key_dim, value_dim, .. } = self.shape;
        if let Some(sums) = &mut work.sums {
            let all = [&self.qkv, &self.z, &self.beta, &self.alpha].map(|l| &l.name[..]);
            sums.add(all, &work.normed, width);
        }
        let channels = self.qkv.weights.rows();
        work.delta_net.qkv.resize(n * channels);
        work.delta_net.z.resize(n * heads * value_dim);
        work.delta_net.beta.resize(n * heads);
        work.delta_net.decay.resize(n * heads);
        let products = [
            (&self.qkv, &mut work.delta_net.qkv[..]),
            (&self.z, &mut work.delta_net.z[..]),
            (&self.beta, &mut work.delta_net.beta[..]),
            (&self.alpha, &mut work.delta_net.decay[..]),
        ];
        apply(cpu, &mut work.activations, &work.normed, Write::Set, products);
        let (states, stride) = cache.states(self.layer);
        let (of_convolution, x) = (self.taps.len() - channels, &mut work.delta_net.qkv);
        work.step.state_rounds.advance((states, stride), 0..of_convolution, |spans, states| {
            short_convolution(cpu, spans, (states, stride), &self.taps, None, channels, x);
        });
        let scale = 1.0 / (key_dim as f32).sqrt();
        let keys = key_heads * key_dim;
        // RMS norm with these weights scales a head to length one.
        let unit = vec![1.0 / (key_dim as f32).sqrt(); key_dim];
        let eps = self.eps / key_dim as f32;
        cpu.for_rows(&mut work.delta_net.qkv, channels, |_, row| {
            activate(cpu.tier(), Activation::Silu, row);
            for head in row[..2 * keys].chunks_exact_mut(key_dim) {
                rms_norm_in_place(cpu.tier(), head, &unit, eps);
            }
            row[..keys].iter_mut().for_each(|q| *q *= scale);
        });
        sigmoid(cpu.tier(), &mut work.delta_net.beta);
        let (step_bias, decay) = (&self.step_bias, &self.decay);
        cpu.for_rows(&mut work.delta_net.decay, heads, |_, row| {
            for ((a, bias), decay) in row.iter_mut().zip(step_bias).zip(decay) {
                *a = decay * softplus(*a + bias);
            }
        });
        work.delta_net.y.resize(n * heads * value_dim);
        let input = DeltaInput {
            queries: &work.delta_net.qkv,
            keys: &work.delta_net.qkv[keys..],
            values: &work.delta_net.qkv[2 * keys..],
            stride: channels,
            decay: &work.delta_net.decay,
            beta: &work.delta_net.beta,
        };
        let mixed = &mut work.delta_net.y;
        let (states, stride) = cache.states(self.layer);
        work.step.state_rounds.advance((states, stride), of_convolution..stride, |spans, states| {
            delta_rule(cpu, spans, (states, stride, of_convolution), self.shape, input, mixed);
        });
        let z = &work.delta_net.z;
        let all = heads * value_dim;
        cpu.for_rows(&mut work.delta_net.y, all, |i, row| {
            self.norm.heads(cpu.tier(), row);
            let mut gates = z[i * all..(i + 1) * all].to_vec();
            gate(cpu.tier(), Activation::Silu, &mut gates, row);
            row.copy_from_slice(&gates);
        });
        if rows.len() < n {
            keep(rows, all, &mut work.delta_net.y);
            keep(rows, width, &mut work.stream);
        }
    }

    /// Projects the results for the rows of the stream, and adds them to it.
    pub(crate) fn output(&self, cpu: &Cpu, to: Residual<'_>, work: &mut Workspace) {
        if let Some(sums) = &mut work.sums {
            sums.add([&self.output.name], &work.delta_net.y, self.output.weights.k());
        }
        to.write(cpu, work, |work, out, write| {
            apply(cpu, &mut work.activations, &work.delta_net.y, write, [(&self.output, out)]);
        });
    }
}

/// Computes `ln(1 + e^x)`.
pub(super) fn softplus(x: f32) -> f32 {
    let x = f64::from(x);
    let e = leyden_kernels::ops::pow(std::f64::consts::E, -x.abs());
    (x.max(0.0) + ln(1.0 + e)) as f32
}
