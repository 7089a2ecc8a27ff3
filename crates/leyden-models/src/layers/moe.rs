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
    /// The names of the matrices below in GGUF.
    names: [String; 4],
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
        let names = ["ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"]
            .map(|part| format!("blk.{i}.{part}.weight"));
        let stack = |name: &str, rows, k| loader.packed(name, &[config.count, rows, k]);
        Ok(Mixture {
            config,
            activation: layer.activation,
            router: loader.matrix(&names[0], config.count, width)?,
            gate: stack(&names[1], layer.ffn, width)?,
            up: stack(&names[2], layer.ffn, width)?,
            down: stack(&names[3], width, layer.ffn)?,
            names,
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
            if let Some(sums) = &mut work.sums {
                let [router, gate, up, down] = self.names.each_ref().map(|name| &name[..]);
                let (width, hidden) = (self.gate.k(), self.down.k());
                sums.add([router], &work.normed, width);
                let (input, between) = (&work.normed, work.grouped.hidden());
                for (pair, (token, expert)) in work.routing.pairs_by_expert().enumerate() {
                    let row = &input[token * width..][..width];
                    sums.add_to_expert([gate, up], expert, c.count, row);
                    sums.add_to_expert([down], expert, c.count, &between[pair * hidden..][..hidden]);
                }
            }
        });
    }
}
