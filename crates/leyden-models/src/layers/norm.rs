//! Layer norm and RMS norm.

use crate::config::{NormConfig, NormKind};
use crate::error::Error;
use crate::loader::Loader;
use leyden_kernels::memory::Aligned;
use leyden_kernels::ops::{layer_norm, layer_norm_in_place, rms_norm, rms_norm_add, rms_norm_in_place};
use leyden_kernels::{Cpu, Tier};

/// Layer norm or RMS norm of as many values as there are weights.
#[derive(Debug)]
pub(crate) struct Norm {
    weight: Vec<f32>,
    /// Bias of a layer norm, zeros for one without; `None` for an RMS norm.
    bias: Option<Vec<f32>>,
    eps: f32,
}

impl Norm {
    /// Loads the norm of the tensors `name.weight` and, for a layer norm with bias, `name.bias`.
    pub(crate) fn load(loader: &Loader<'_>, config: NormConfig, name: &str, n: usize) -> Result<Norm, Error> {
        let mut weight = loader.required_vector(&format!("{name}.weight"), n)?;
        // Without an offset nothing is added: adding 0 would turn -0 into 0.
        if config.offset != 0.0 {
            weight.iter_mut().for_each(|w| *w += config.offset);
        }
        let bias = match config.kind {
            NormKind::Rms => None,
            NormKind::LayerWithoutBias => Some(vec![0.0; n]),
            NormKind::Layer => Some(loader.required_vector(&format!("{name}.bias"), n)?),
        };
        Ok(Norm { weight, bias, eps: config.eps })
    }

    /// Returns an RMS norm with these weights.
    pub(crate) fn rms(weight: Vec<f32>, eps: f32) -> Norm {
        Norm { weight, bias: None, eps }
    }

    /// Returns an RMS norm of `n` values without weights.
    pub(crate) fn plain_rms(n: usize, eps: f32) -> Norm {
        Norm::rms(vec![1.0; n], eps)
    }

    /// Returns the norm with its results multiplied by `factor`.
    pub(crate) fn scaled(mut self, factor: f32) -> Norm {
        self.weight.iter_mut().chain(self.bias.iter_mut().flatten()).for_each(|w| *w *= factor);
        self
    }

    fn one(&self, tier: Tier, x: &[f32], out: &mut [f32]) {
        match &self.bias {
            None => rms_norm(tier, x, &self.weight, self.eps, out),
            Some(bias) => layer_norm(tier, x, &self.weight, bias, self.eps, out),
        }
    }

    /// Normalises every row of `x` `[n, width]` into `out`.
    pub(crate) fn rows(&self, cpu: &Cpu, x: &[f32], out: &mut Aligned<f32>) {
        let width = self.weight.len();
        out.resize(x.len());
        cpu.for_rows(out, width, |i, out| self.one(cpu.tier(), &x[i * width..(i + 1) * width], out));
    }

    /// Normalises the rows of `x` with the indices `rows` into `out`.
    pub(crate) fn some_rows(&self, cpu: &Cpu, x: &[f32], rows: &[usize], out: &mut Aligned<f32>) {
        let width = self.weight.len();
        out.resize(rows.len() * width);
        cpu.for_rows(out, width, |i, out| {
            let from = rows[i] * width;
            self.one(cpu.tier(), &x[from..from + width], out);
        });
    }

    /// Adds every row of `x`, normalised, to the row of `out`. The contents of `x` are unspecified afterwards.
    pub(crate) fn add(&self, cpu: &Cpu, x: &mut [f32], out: &mut [f32]) {
        let width = self.weight.len();
        if self.bias.is_some() {
            self.in_place(cpu, x);
        }
        let x = &*x;
        cpu.for_rows(out, width, |i, out| {
            let x = &x[i * width..(i + 1) * width];
            match &self.bias {
                None => rms_norm_add(cpu.tier(), x, &self.weight, self.eps, out),
                Some(_) => out.iter_mut().zip(x).for_each(|(o, x)| *o += x),
            }
        });
    }

    /// Normalises every row in place.
    pub(crate) fn in_place(&self, cpu: &Cpu, x: &mut [f32]) {
        cpu.for_rows(x, self.weight.len(), |_, row| self.heads(cpu.tier(), row));
    }

    /// Normalises the heads of one row in place.
    pub(crate) fn heads(&self, tier: Tier, row: &mut [f32]) {
        match &self.bias {
            None => rms_norm_in_place(tier, row, &self.weight, self.eps),
            Some(bias) => layer_norm_in_place(tier, row, &self.weight, bias, self.eps),
        }
    }
}
