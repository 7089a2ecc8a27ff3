//! State-space layer of Mamba 2 (Dao and Gu, 2024): a short convolution, the scan, and a gated norm.

use super::attention::keep;
use super::delta_net::softplus;
use super::linear::{Linear, apply};
use super::residual::Residual;
use crate::config::{Mamba2Config, ModelConfig};
use crate::error::Error;
use crate::loader::{Loader, Part};
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::attention::KvCache;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::ops::{
    Activation, SsmInput, SsmShape, activate, gate, pow, rms_norm_in_place, short_convolution, ssm_scan,
};

/// State-space layer of Mamba 2.
#[derive(Debug)]
pub(crate) struct Mamba2 {
    /// Index of its states in the cache.
    layer: usize,
    config: Mamba2Config,
    eps: f32,
    /// Projection to the gate of the norm; the next two are parts of the same stored matrix.
    z: Linear,
    /// Projection to the inputs of the convolution: x, B and C.
    xbc: Linear,
    /// Projection to the time steps.
    dt: Linear,
    /// Weights of the convolution `[taps, channels]`.
    taps: Vec<f32>,
    convolution_bias: Option<Vec<f32>>,
    step_bias: Vec<f32>,
    /// Logarithm of the state's decay in a time step of 1, negative (A) `[heads]`.
    decay: Vec<f32>,
    /// Factor of the input that is added to the result past the state (D) `[heads]`.
    skip: Vec<f32>,
    norm: Vec<f32>,
    output: Linear,
}

impl Mamba2 {
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &ModelConfig,
        config: Mamba2Config,
        i: usize,
    ) -> Result<Mamba2, Error> {
        let name = |part: &str| format!("blk.{i}.{part}");
        let (heads, inner, channels) = (config.heads, config.inner(), config.channels());
        let part = |label, from: usize, count| {
            let part = Part::new(label, from..from + count);
            Linear::load_part(loader, &name("ssm_in"), inner + channels + heads, c.width, &part)
        };
        let decay = match loader.has(&name("ssm_a_log"))? {
            false => loader.flat_vector(&name("ssm_a"), &[heads, 1])?,
            true => {
                let mut logs = loader.required_vector(&name("ssm_a_log"), heads)?;
                logs.iter_mut().for_each(|a| *a = -(pow(std::f64::consts::E, f64::from(*a)) as f32));
                logs
            }
        };
        Ok(Mamba2 {
            layer: i,
            config,
            eps: c.norm.eps,
            z: part("z", 0, inner)?,
            xbc: part("xbc", inner, channels)?,
            dt: part("dt", inner + channels, heads)?,
            taps: loader.taps(&name("ssm_conv1d.weight"), channels, config.taps)?,
            convolution_bias: loader.vector(&name("ssm_conv1d.bias"), channels)?,
            step_bias: loader.required_vector(&name("ssm_dt.bias"), heads)?,
            decay,
            skip: loader.flat_vector(&name("ssm_d"), &[heads, 1])?,
            norm: loader.flat_vector(&name("ssm_norm.weight"), &[config.groups, inner / config.groups])?,
            output: Linear::load(loader, &name("ssm_out"), c.width, inner)?,
        })
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        [&self.z, &self.xbc, &self.dt, &self.output].map(|l| &l.weights).to_vec()
    }

    /// Returns the matrices that all tokens are multiplied with.
    pub(crate) fn stored(&self) -> [&PackedWeights; 3] {
        [&self.z, &self.xbc, &self.dt].map(|l| &l.weights)
    }

    /// Updates the states with all rows of `work.normed`. `work.mamba2.y` and the stream then hold `rows` alone.
    pub(crate) fn store(&self, cpu: &Cpu, rows: &[usize], cache: &mut KvCache, work: &mut Workspace) {
        let Mamba2Config { heads, head_dim, state, groups, step_limits, .. } = self.config;
        let (inner, channels) = (self.config.inner(), self.config.channels());
        let width = self.z.weights.k();
        let n = work.normed.len() / width;
        if let Some(sums) = &mut work.sums {
            sums.add([&self.z.name[..]], &work.normed, width);
        }
        work.mamba2.z.resize(n * inner);
        work.mamba2.xbc.resize(n * channels);
        work.mamba2.dt.resize(n * heads);
        let products = [
            (&self.z, &mut work.mamba2.z[..]),
            (&self.xbc, &mut work.mamba2.xbc[..]),
            (&self.dt, &mut work.mamba2.dt[..]),
        ];
        apply(cpu, &mut work.activations, &work.normed, Write::Set, products);
        let (states, stride) = cache.states(self.layer);
        let bias = self.convolution_bias.as_deref();
        let (of_convolution, x) = (self.taps.len() - channels, &mut work.mamba2.xbc);
        work.step.state_rounds.advance((states, stride), 0..of_convolution, |spans, states| {
            short_convolution(cpu, spans, (states, stride), &self.taps, bias, channels, x);
        });
        cpu.for_rows(&mut work.mamba2.xbc, channels, |_, row| activate(cpu.tier(), Activation::Silu, row));
        cpu.for_rows(&mut work.mamba2.dt, heads, |_, row| {
            for (dt, bias) in row.iter_mut().zip(&self.step_bias) {
                *dt = softplus(*dt + bias).clamp(step_limits.0, step_limits.1);
            }
        });
        work.mamba2.y.resize(n * inner);
        let input = SsmInput {
            x: &work.mamba2.xbc,
            b: &work.mamba2.xbc[inner..],
            c: &work.mamba2.xbc[inner + groups * state..],
            stride: channels,
            dt: &work.mamba2.dt,
            a: &self.decay,
            d: &self.skip,
        };
        let shape = SsmShape { heads, head_dim, state, groups };
        let (states, stride) = cache.states(self.layer);
        let mixed = &mut work.mamba2.y;
        work.step.state_rounds.advance((states, stride), of_convolution..stride, |spans, states| {
            ssm_scan(cpu, spans, (states, stride, of_convolution), shape, input, mixed);
        });
        let (y, group) = (&work.mamba2.y, inner / groups);
        cpu.for_rows(&mut work.mamba2.z, inner, |i, row| {
            gate(cpu.tier(), Activation::Silu, row, &y[i * inner..(i + 1) * inner]);
            for (row, norm) in row.chunks_exact_mut(group).zip(self.norm.chunks_exact(group)) {
                rms_norm_in_place(cpu.tier(), row, norm, self.eps);
            }
        });
        std::mem::swap(&mut work.mamba2.z, &mut work.mamba2.y);
        if rows.len() < n {
            keep(rows, inner, &mut work.mamba2.y);
            keep(rows, width, &mut work.stream);
        }
    }

    /// Projects the results for the rows of the stream, and adds them to it.
    pub(crate) fn output(&self, cpu: &Cpu, to: Residual<'_>, work: &mut Workspace) {
        if let Some(sums) = &mut work.sums {
            sums.add([&self.output.name], &work.mamba2.y, self.output.weights.k());
        }
        to.write(cpu, work, |work, out, write| {
            apply(cpu, &mut work.activations, &work.mamba2.y, write, [(&self.output, out)]);
        });
    }
}
