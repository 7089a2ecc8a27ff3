//! Mixtures of experts.

use super::Half;
use super::linear::{Linear, apply};
use super::mlp::GatedMlp;
use crate::batch::Workspace;
use crate::config::{ExpertsConfig, LayerConfig, SharedExpert};
use crate::error::Error;
use crate::load::Loader;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{ExpertBiases, Experts, Gating, PackedWeights, Product, Write, moe, multiply};
use leyden_kernels::ops::{Activation, add_scaled, sigmoid};

/// A mixture of experts, each of which is a gated feed-forward layer.
#[derive(Debug)]
pub(crate) struct Mixture {
    config: ExpertsConfig,
    activation: Activation,
    /// The names of the matrices below in GGUF.
    names: [String; 4],
    /// Gives every expert a score.
    router: Linear,
    /// What experts are chosen by beside their weights.
    correction: Option<Vec<f32>>,
    /// Stacks of one matrix for each expert.
    gate: PackedWeights,
    up: PackedWeights,
    down: PackedWeights,
    /// Of gate, up and down.
    biases: Option<[Vec<f32>; 3]>,
    shared: Option<Shared>,
}

/// The expert that every token goes through.
#[derive(Debug)]
struct Shared {
    mlp: GatedMlp,
    /// Gives every token the score that its results are weighed by.
    gate: Option<PackedWeights>,
}

impl Mixture {
    pub(crate) fn load(
        loader: &Loader<'_>,
        width: usize,
        layer: &LayerConfig,
        config: ExpertsConfig,
        i: usize,
    ) -> Result<Mixture, Error> {
        let (count, ffn) = (config.count, layer.ffn);
        let name = |part: &str| format!("blk.{i}.{part}");
        let names = ["ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"]
            .map(|part| name(&format!("{part}.weight")));
        let stack = |name: &str, rows, k| loader.packed(name, &[count, rows, k]);
        let bias = |part, rows| loader.values(&name(part), &[count, rows]);
        let shared = |shared: SharedExpert| {
            let part = |part: &str| name(&format!("ffn_{part}_shexp"));
            Ok::<_, Error>(Shared {
                mlp: GatedMlp::load(loader, part, (width, shared.ffn), layer.activation)?,
                gate: match shared.gated {
                    true => Some(loader.row(&name("ffn_gate_inp_shexp.weight"), width)?),
                    false => None,
                },
            })
        };
        Ok(Mixture {
            config,
            activation: layer.activation,
            router: Linear::load(loader, &name("ffn_gate_inp"), count, width)?,
            correction: match config.correction {
                true => loader.vector(&name("exp_probs_b.bias"), count)?,
                false => None,
            },
            gate: stack(&names[1], ffn, width)?,
            up: stack(&names[2], ffn, width)?,
            down: stack(&names[3], width, ffn)?,
            names,
            biases: match config.biases {
                true => Some([
                    bias("ffn_gate_exps.bias", ffn)?,
                    bias("ffn_up_exps.bias", ffn)?,
                    bias("ffn_down_exps.bias", width)?,
                ]),
                false => None,
            },
            shared: config.shared.map(shared).transpose()?,
        })
    }

    /// Its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        let mut all = vec![&self.router.weights, &self.gate, &self.up, &self.down];
        all.extend(self.shared.iter().flat_map(|shared| shared.mlp.matrices()));
        all
    }

    /// Of the rows of `work.normed`.
    pub(crate) fn forward(&self, cpu: &Cpu, to: Half<'_>, work: &mut Workspace) {
        let (c, router) = (&self.config, &self.router);
        // The scores are not needed for longer than this.
        work.other.resize(work.normed.len() / router.weights.k() * c.count);
        let scores = [(router, &mut work.other[..])];
        apply(cpu, &mut work.activations, &work.normed, Write::Set, scores);
        let gating = Gating {
            experts: c.count,
            used: c.used,
            function: c.gating,
            normalise: c.normalise,
            bias: self.correction.as_deref(),
            groups: c.groups,
            scale: c.scale,
        };
        work.routing.choose(cpu, &work.other, &gating);
        let [gate, up, down] = [&self.gate, &self.up, &self.down];
        let biases = self.biases.as_ref().map(|[gate, up, down]| ExpertBiases { gate, up, down });
        let experts = Experts { activation: self.activation, gate, up, down, biases };
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
            if let Some(shared) = &self.shared {
                shared.add(cpu, work, out);
            }
        });
    }
}

impl Shared {
    /// Adds its results for the rows of `work.normed` to those of `out`.
    fn add(&self, cpu: &Cpu, work: &mut Workspace, out: &mut [f32]) {
        let Some(gate) = &self.gate else {
            self.mlp.run(cpu, work, out, Write::Add);
            return;
        };
        let width = gate.k();
        let mut results = std::mem::take(&mut work.shared);
        results.resize(out.len());
        self.mlp.run(cpu, work, &mut results, Write::Set);
        let mut scores = vec![0.0; out.len() / width];
        work.activations.fill(cpu.tier(), cpu.pool(), gate.act_format(), &work.normed, width);
        let product = Product { weights: gate, bias: None, out: &mut scores, write: Write::Set };
        multiply(cpu, &work.activations, &mut [product]);
        sigmoid(cpu.tier(), &mut scores);
        cpu.for_rows(out, width, |i, out| {
            add_scaled(cpu.tier(), scores[i], &results[i * width..(i + 1) * width], out);
        });
        work.shared = results;
    }
}
