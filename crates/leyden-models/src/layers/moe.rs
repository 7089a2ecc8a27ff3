//! Mixtures of experts.

use super::Half;
use crate::batch::Workspace;
use crate::config::{ExpertsConfig, LayerConfig};
use crate::error::Error;
use crate::load::Loader;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{Experts, PackedWeights, Product, Write, moe, multiply};
use leyden_kernels::ops::Activation;

/// A mixture of experts, each of which is a gated feed-forward layer.
#[derive(Debug)]
pub(crate) struct Mixture {
    config: ExpertsConfig,
    activation: Activation,
    /// Gives every expert a score.
    router: PackedWeights,
    /// Stacks of one matrix for each expert.
    gate: PackedWeights,
    up: PackedWeights,
    down: PackedWeights,
}

impl Mixture {
    pub(crate) fn load(
        loader: &Loader<'_>,
        width: usize,
        layer: &LayerConfig,
        config: ExpertsConfig,
        i: usize,
    ) -> Result<Mixture, Error> {
        let stack =
            |part, rows, k| loader.packed(&format!("blk.{i}.{part}.weight"), &[config.count, rows, k]);
        Ok(Mixture {
            config,
            activation: layer.activation,
            router: loader.matrix(&format!("blk.{i}.ffn_gate_inp.weight"), config.count, width)?,
            gate: stack("ffn_gate_exps", layer.ffn, width)?,
            up: stack("ffn_up_exps", layer.ffn, width)?,
            down: stack("ffn_down_exps", width, layer.ffn)?,
        })
    }

    /// Its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        vec![&self.router, &self.gate, &self.up, &self.down]
    }

    /// Of the rows of `work.normed`.
    pub(crate) fn forward(&self, cpu: &Cpu, to: Half<'_>, work: &mut Workspace) {
        let (c, router) = (&self.config, &self.router);
        // The scores are not needed for longer than this.
        work.other.resize(work.normed.len() / router.k() * c.count);
        work.activations.fill(cpu.tier(), cpu.pool(), router.act_format(), &work.normed, router.k());
        let product = Product { weights: router, bias: None, out: &mut work.other, write: Write::Set };
        multiply(cpu, &work.activations, &mut [product]);
        work.routing.choose(cpu, &work.other, c.count, c.used, c.normalise);
        let experts =
            Experts { activation: self.activation, gate: &self.gate, up: &self.up, down: &self.down };
        to.write(cpu, work, |work, out, write| {
            if write == Write::Set {
                out.fill(0.0);
            }
            moe(cpu, &experts, &work.routing, &work.normed, &mut work.grouped, out);
        });
    }
}
