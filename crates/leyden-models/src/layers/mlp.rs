//! Feed-forward layers, gated and plain.

use super::linear::{Linear, OutputOf, apply_adapted};
use super::residual::Residual;
use crate::config::LayerConfig;
use crate::error::Error;
use crate::int8::Int8Finish;
use crate::loader::{Loader, Part};
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{Gated, PackedWeights, Write, multiply, multiply_activated, swiglu_packed};
use leyden_kernels::ops::{self, Activation};

/// Feed-forward layer of an up projection, an activation function and a down projection.
#[derive(Debug)]
pub(crate) struct PlainMlp {
    pub(super) up: Linear,
    pub(super) down: Linear,
    pub(super) activation: Activation,
}

impl PlainMlp {
    pub(crate) fn load(
        loader: &Loader<'_>,
        width: usize,
        layer: &LayerConfig,
        i: usize,
    ) -> Result<PlainMlp, Error> {
        Ok(PlainMlp {
            up: Linear::load(loader, &format!("blk.{i}.ffn_up"), layer.ffn, width)?.adaptable(loader),
            down: Linear::load(loader, &format!("blk.{i}.ffn_down"), width, layer.ffn)?.adaptable(loader),
            activation: match layer.activation {
                Activation::Gelu if loader.int8_encoder() => Activation::GeluPolynomial,
                exact => exact,
            },
        })
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        [&self.up, &self.down].map(|l| &l.weights).to_vec()
    }

    /// Finishes its matrices of INT8 rows.
    pub(crate) fn finish_int8(&mut self, finish: &mut Int8Finish<'_>) -> Result<(), leyden_kernels::Error> {
        finish_int8([&mut self.up, &mut self.down], finish)
    }

    /// Computes the results for `work.normed` and adds them to the stream.
    pub(crate) fn forward(&self, cpu: &Cpu, to: Residual<'_>, work: &mut Workspace) {
        let (ffn, rows) = (self.up.weights.rows(), work.normed.len() / self.up.weights.k());
        if let Some(sums) = &mut work.sums {
            sums.add([&self.up.name], &work.normed, self.up.weights.k());
        }
        work.mlp.hidden.resize(rows * ffn);
        if work.adapters.is_empty() {
            let up = self.up.product(&mut work.mlp.hidden, Write::Set);
            let grid = self.up.weights.act_format();
            work.activations.fill(cpu.tier(), cpu.pool(), grid, &work.normed, self.up.weights.k());
            multiply_activated(cpu, &work.activations, up, self.activation);
        } else {
            let up = [(&self.up, &mut work.mlp.hidden[..])];
            apply_adapted(cpu, &mut work.adapters, &mut work.activations, &work.normed, Write::Set, up);
            cpu.for_rows(&mut work.mlp.hidden, ffn, |_, row| ops::activate(cpu.tier(), self.activation, row));
        }
        to.write(cpu, work, |work, out, write| {
            work.project_out(cpu, OutputOf::FeedForward, &self.down, out, write)
        });
    }
}

/// Finishes matrices of INT8 rows whose inputs were summed under their own names.
fn finish_int8<const N: usize>(
    matrices: [&mut Linear; N],
    finish: &mut Int8Finish<'_>,
) -> Result<(), leyden_kernels::Error> {
    matrices.into_iter().try_for_each(|linear| {
        let name = linear.name.clone();
        linear.finish_int8(finish, &name)
    })
}

/// Gated feed-forward layer (Shazeer, 2020).
#[derive(Debug)]
pub(crate) struct GatedMlp {
    gate: Linear,
    up: Linear,
    down: Linear,
    activation: Activation,
    /// Threshold of the gate's values (Gaussian top-k), in standard deviations above their mean; smaller values become
    /// zero.
    sparsity: Option<f32>,
}

impl GatedMlp {
    /// Loads the matrices `name("gate")`, `name("up")` and `name("down")`, with `ffn` hidden values.
    pub(crate) fn load(
        loader: &Loader<'_>,
        name: impl Fn(&str) -> String,
        (width, ffn): (usize, usize),
        activation: Activation,
    ) -> Result<GatedMlp, Error> {
        let linear = |part: &str, rows, k| Linear::load(loader, &name(part), rows, k);
        let (gate, up) = if loader.has(&format!("{}.weight", name("gate")))? {
            (linear("gate", ffn, width)?, linear("up", ffn, width)?)
        } else {
            // Both are stored as one matrix, usually the gate first.
            let part = |label, from: usize| {
                let part = Part::new(label, from..from + ffn);
                Linear::load_part(loader, &name("up"), 2 * ffn, width, &part)
            };
            let (gate, up) = if loader.gate_last() { (ffn, 0) } else { (0, ffn) };
            (part("gate", gate)?, part("up", up)?)
        };
        let [gate, up, down] = [gate, up, linear("down", width, ffn)?].map(|l| l.adaptable(loader));
        Ok(GatedMlp { gate, up, down, activation, sparsity: None })
    }

    /// Sets the threshold of the gate's values.
    pub(crate) fn with_sparsity(self, sparsity: Option<f32>) -> GatedMlp {
        GatedMlp { sparsity, ..self }
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        [&self.gate, &self.up, &self.down].map(|l| &l.weights).to_vec()
    }

    /// Finishes its matrices of INT8 rows.
    pub(crate) fn finish_int8(&mut self, finish: &mut Int8Finish<'_>) -> Result<(), leyden_kernels::Error> {
        finish_int8([&mut self.gate, &mut self.up, &mut self.down], finish)
    }

    /// Computes the results for `work.normed` and adds them to the stream.
    pub(crate) fn forward(&self, cpu: &Cpu, to: Residual<'_>, work: &mut Workspace) {
        to.write(cpu, work, |work, out, write| self.run(cpu, work, out, write));
    }

    /// Computes the results for `work.normed` into `out`.
    pub(crate) fn run(&self, cpu: &Cpu, work: &mut Workspace, out: &mut [f32], write: Write) {
        let (gate, up, down) = (&self.gate.weights, &self.up.weights, &self.down.weights);
        let plain = self.gate.bias.is_none() && self.up.bias.is_none();
        if let Some(sums) = &mut work.sums {
            sums.add([&self.gate, &self.up].map(|l| &l.name[..]), &work.normed, gate.k());
        }
        // The fused product leaves its results quantised and packed, so their squares cannot be summed and the gate's
        // values cannot be thresholded.
        let plain = plain && work.sums.is_none() && self.sparsity.is_none();
        // Adapters change the results of gate and up projections.
        let plain =
            plain && !work.adapters.change([&self.gate, &self.up, &self.down].map(|linear| linear.target));
        let plain = plain && self.matrices().into_iter().all(PackedWeights::is_panels);
        if plain && gate.act_format() == up.act_format() {
            work.activations.fill(cpu.tier(), cpu.pool(), gate.act_format(), &work.normed, gate.k());
            let gated = Gated { activation: self.activation, gate, up };
            let (input, packed, room) = (&work.activations, &mut work.mlp.packed, &mut work.mlp.hidden);
            swiglu_packed(cpu, input, &gated, down.act_format(), packed, room);
            multiply(cpu, &work.mlp.packed, &mut [self.down.product(out, write)]);
            return;
        }
        let (ffn, rows) = (gate.rows(), work.normed.len() / gate.k());
        work.mlp.hidden.resize(rows * ffn);
        work.mlp.up.resize(rows * ffn);
        let products = [(&self.gate, &mut work.mlp.hidden[..]), (&self.up, &mut work.mlp.up[..])];
        apply_adapted(cpu, &mut work.adapters, &mut work.activations, &work.normed, Write::Set, products);
        let up = &work.mlp.up;
        cpu.for_rows(&mut work.mlp.hidden, ffn, |i, row| {
            if let Some(deviations) = self.sparsity {
                ops::gaussian_top_k(cpu.tier(), row, deviations);
            }
            ops::gate(cpu.tier(), self.activation, row, &up[i * ffn..(i + 1) * ffn]);
        });
        work.project_out(cpu, OutputOf::FeedForward, &self.down, out, write);
    }
}
