//! Mixtures of experts.

use super::linear::{Linear, apply};
use super::mlp::GatedMlp;
use super::residual::Residual;
use crate::config::{ExpertsConfig, LayerConfig, SharedExpert};
use crate::error::Error;
use crate::loader::{Loader, Part};
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{ExpertBiases, Experts, Gating, PackedWeights, Product, Write, moe, multiply};
use leyden_kernels::ops::{Activation, add_scaled, sigmoid};

/// Mixture of experts, each a gated feed-forward layer.
#[derive(Debug)]
pub(crate) struct Mixture {
    config: ExpertsConfig,
    activation: Activation,
    /// Names of router, gate, up and down projections in GGUF.
    names: [String; 4],
    router: Linear,
    /// Bias of the scores in the choice of experts; their weights do not include it `[experts]`.
    correction: Option<Vec<f32>>,
    /// Scale of each expert's weight `[experts]`.
    factors: Option<Vec<f32>>,
    /// Stacked gate projections `[experts, ffn, width]`.
    gate: PackedWeights,
    /// Stacked up projections `[experts, ffn, width]`.
    up: PackedWeights,
    /// Stacked down projections `[experts, width, ffn]`.
    down: PackedWeights,
    /// Biases of gate, up and down projections.
    biases: Option<[Vec<f32>; 3]>,
    shared: Option<Shared>,
}

/// Shared expert, which is computed for every token.
#[derive(Debug)]
struct Shared {
    mlp: GatedMlp,
    /// Projection to the scale of the results of each token.
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
        let router = Linear::load(loader, &name("ffn_gate_inp"), count, width)?;
        let both = name("ffn_gate_up_exps.weight");
        let (gate, up) = match loader.has(&both)? {
            true => {
                let half = |label, from| {
                    loader.stack_part(&both, [count, 2 * ffn, width], &Part::new(label, from..from + ffn))
                };
                (half("gate", 0)?, half("up", ffn)?)
            }
            false => (stack(&names[1], ffn, width)?, stack(&names[2], ffn, width)?),
        };
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
            router,
            correction: match config.correction {
                true => loader.vector(&name("exp_probs_b.bias"), count)?,
                false => None,
            },
            factors: loader.vector(&name("ffn_down_exps.scale"), count)?,
            gate,
            up,
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

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        let mut all = vec![&self.router.weights, &self.gate, &self.up, &self.down];
        all.extend(self.shared.iter().flat_map(|shared| shared.mlp.matrices()));
        all
    }

    /// Computes the results for `work.normed` and adds them to the stream.
    pub(crate) fn forward(&self, cpu: &Cpu, to: Residual<'_>, work: &mut Workspace) {
        let input = std::mem::take(&mut work.normed);
        self.route(cpu, &input, work);
        work.normed = input;
        to.write(cpu, work, |work, out, write| {
            if write == Write::Set {
                out.fill(0.0);
            }
            let input = std::mem::take(&mut work.normed);
            self.add(cpu, &input, work, out);
            work.normed = input;
            if let Some(shared) = &self.shared {
                shared.add(cpu, work, out);
            }
        });
    }

    /// Chooses the experts of each token; `input` is the router's input `[n_tokens, width]`.
    pub(crate) fn route(&self, cpu: &Cpu, input: &[f32], work: &mut Workspace) {
        let (c, router) = (&self.config, &self.router);
        work.moe.scores.resize(input.len() / router.weights.k() * c.count);
        apply(cpu, &mut work.activations, input, Write::Set, [(router, &mut work.moe.scores[..])]);
        let gating = Gating {
            experts: c.count,
            used: c.used,
            function: c.gating,
            normalise: c.normalise,
            bias: self.correction.as_deref(),
            groups: c.groups,
            scale: c.scale,
        };
        work.moe.routing.choose(cpu, &work.moe.scores, &gating);
        if let Some(factors) = &self.factors {
            work.moe.routing.scale(factors);
        }
        if let Some(sums) = &mut work.sums {
            sums.add([&self.names[0]], input, self.gate.k());
        }
    }

    /// Adds the results of the chosen experts for `input` to `out`, both `[n_tokens, width]`.
    pub(crate) fn add(&self, cpu: &Cpu, input: &[f32], work: &mut Workspace, out: &mut [f32]) {
        let [gate, up, down] = [&self.gate, &self.up, &self.down];
        let biases = self.biases.as_ref().map(|[gate, up, down]| ExpertBiases { gate, up, down });
        let experts = Experts { activation: self.activation, gate, up, down, biases };
        moe(cpu, &experts, &work.moe.routing, input, &mut work.moe.grouped, out);
        if let Some(sums) = &mut work.sums {
            let [_, gate, up, down] = self.names.each_ref().map(|name| &name[..]);
            let (width, hidden, count) = (self.gate.k(), self.down.k(), self.config.count);
            let between = work.moe.grouped.hidden();
            for (pair, (token, expert)) in work.moe.routing.pairs_by_expert().enumerate() {
                let row = &input[token * width..][..width];
                sums.add_to_expert([gate, up], expert, count, row);
                sums.add_to_expert([down], expert, count, &between[pair * hidden..][..hidden]);
            }
        }
    }
}

impl Shared {
    /// Adds its results for `work.normed` to `out`.
    fn add(&self, cpu: &Cpu, work: &mut Workspace, out: &mut [f32]) {
        let Some(gate) = &self.gate else {
            self.mlp.run(cpu, work, out, Write::Add);
            return;
        };
        let width = gate.k();
        let mut results = std::mem::take(&mut work.moe.shared);
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
        work.moe.shared = results;
    }
}
