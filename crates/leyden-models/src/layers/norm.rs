//! Normalisation of rows.

use crate::config::NormConfig;
use crate::error::Error;
use crate::load::Loader;
use leyden_kernels::memory::Aligned;
use leyden_kernels::ops::{rms_norm, rms_norm_add, rms_norm_in_place};
use leyden_kernels::{Cpu, Tier};

/// Root-mean-square normalisation of rows of as many values as there are weights.
#[derive(Debug)]
pub(crate) struct Norm {
    weight: Vec<f32>,
    eps: f32,
}

impl Norm {
    pub(crate) fn load(loader: &Loader<'_>, config: NormConfig, name: &str, n: usize) -> Result<Norm, Error> {
        let mut weight = loader.required_vector(name, n)?;
        // Only where there is one: adding nothing would turn -0 into 0.
        if config.offset != 0.0 {
            weight.iter_mut().for_each(|w| *w += config.offset);
        }
        Ok(Norm { weight, eps: config.eps })
    }

    /// Normalises every row of `x` into `out`.
    pub(crate) fn rows(&self, cpu: &Cpu, x: &[f32], out: &mut Aligned<f32>) {
        let width = self.weight.len();
        out.resize(x.len());
        cpu.for_rows(out, width, |i, out| {
            rms_norm(cpu.tier(), &x[i * width..(i + 1) * width], &self.weight, self.eps, out);
        });
    }

    /// Normalises some rows of `x` into `out`.
    pub(crate) fn some_rows(&self, cpu: &Cpu, x: &[f32], rows: &[usize], out: &mut Aligned<f32>) {
        let width = self.weight.len();
        out.resize(rows.len() * width);
        cpu.for_rows(out, width, |i, out| {
            let from = rows[i] * width;
            rms_norm(cpu.tier(), &x[from..from + width], &self.weight, self.eps, out);
        });
    }

    /// Adds every row of `x`, normalised, to that of `out`.
    pub(crate) fn add(&self, cpu: &Cpu, x: &[f32], out: &mut [f32]) {
        let width = self.weight.len();
        cpu.for_rows(out, width, |i, out| {
            rms_norm_add(cpu.tier(), &x[i * width..(i + 1) * width], &self.weight, self.eps, out);
        });
    }

    /// Normalises the heads of one row in place.
    pub(crate) fn heads(&self, tier: Tier, row: &mut [f32]) {
        rms_norm_in_place(tier, row, &self.weight, self.eps);
    }
}
