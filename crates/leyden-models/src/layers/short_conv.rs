//! Gated short convolutions (LFM2): a gate on the input, a convolution, a gate on the output.

use super::attention::keep;
use super::linear::{Linear, apply};
use super::residual::Residual;
use crate::error::Error;
use crate::loader::Loader;
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::attention::KvCache;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::ops::short_convolution;

/// Gated short convolution of one layer.
#[derive(Debug)]
pub(crate) struct ShortConv {
    /// Index of its states in the cache.
    layer: usize,
    /// Projection to the input gate, the output gate, and the input.
    input: Linear,
    /// Weights of the convolution `[taps, width]`.
    taps: Vec<f32>,
    output: Linear,
}

impl ShortConv {
    pub(crate) fn load(loader: &Loader<'_>, width: usize, taps: usize, i: usize) -> Result<ShortConv, Error> {
        let name = |part: &str| format!("blk.{i}.shortconv.{part}");
        Ok(ShortConv {
            layer: i,
            input: Linear::load(loader, &name("in_proj"), 3 * width, width)?,
            taps: loader.taps(&name("conv.weight"), width, taps)?,
            output: Linear::load(loader, &name("out_proj"), width, width)?,
        })
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        [&self.input, &self.output].map(|l| &l.weights).to_vec()
    }

    /// Returns the matrix that all tokens are multiplied with.
    pub(crate) fn stored(&self) -> [&PackedWeights; 1] {
        [&self.input.weights]
    }

    /// Updates the states with all rows of `work.normed`. `work.short_conv.y` and the stream then hold `rows` alone.
    pub(crate) fn store(&self, cpu: &Cpu, rows: &[usize], cache: &mut KvCache, work: &mut Workspace) {
        let width = self.input.weights.k();
        let n = work.normed.len() / width;
        if let Some(sums) = &mut work.sums {
            sums.add([&self.input.name], &work.normed, width);
        }
        work.short_conv.bcx.resize(n * 3 * width);
        let input = [(&self.input, &mut work.short_conv.bcx[..])];
        apply(cpu, &mut work.activations, &work.normed, Write::Set, input);
        let parts = &work.short_conv.bcx;
        work.short_conv.y.resize(n * width);
        cpu.for_rows(&mut work.short_conv.y, width, |i, row| {
            let (before, rest) = parts[i * 3 * width..(i + 1) * 3 * width].split_at(width);
            let gates = before.iter().zip(&rest[width..]);
            row.iter_mut().zip(gates).for_each(|(y, (b, x))| *y = b * x);
        });
        let states = cache.states(self.layer);
        let (stride, x) = (states.1, &mut work.short_conv.y);
        work.step.state_rounds.advance(states, 0..stride, |spans, states| {
            short_convolution(cpu, spans, (states, stride), &self.taps, None, width, x);
        });
        cpu.for_rows(&mut work.short_conv.y, width, |i, row| {
            let behind = &parts[i * 3 * width + width..][..width];
            row.iter_mut().zip(behind).for_each(|(y, c)| *y *= c);
        });
        if rows.len() < n {
            keep(rows, width, &mut work.short_conv.y);
            keep(rows, width, &mut work.stream);
        }
    }

    /// Projects the results for the rows of the stream, and adds them to it.
    pub(crate) fn output(&self, cpu: &Cpu, to: Residual<'_>, work: &mut Workspace) {
        if let Some(sums) = &mut work.sums {
            sums.add([&self.output.name], &work.short_conv.y, self.output.weights.k());
        }
        to.write(cpu, work, |work, out, write| {
            apply(cpu, &mut work.activations, &work.short_conv.y, write, [(&self.output, out)]);
        });
    }
}
