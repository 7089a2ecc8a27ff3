//! Dense feed-forward layer in parallel with experts, each with norms of its own (Gemma 4).

use super::mlp::GatedMlp;
use super::moe::Mixture;
use super::norm::Norm;
use super::residual::Residual;
use crate::config::{ExpertsConfig, LayerConfig, ModelConfig};
use crate::error::Error;
use crate::loader::Loader;
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{PackedWeights, Write};

/// Dense feed-forward layer and experts, whose results are added. The router's input is the stream after a norm of its
/// own.
#[derive(Debug)]
pub(crate) struct DenseAndExperts {
    dense: GatedMlp,
    dense_norm: Norm,
    router_norm: Norm,
    experts_norm: Norm,
    experts: Mixture,
    experts_post_norm: Norm,
}

impl DenseAndExperts {
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &ModelConfig,
        layer: &LayerConfig,
        (dense, experts): (usize, ExpertsConfig),
        i: usize,
    ) -> Result<DenseAndExperts, Error> {
        let width = c.width;
        let name = |part: &str| format!("blk.{i}.{part}");
        let norm = |part: &str| Norm::load(loader, c.norm, &name(part), width);
        let scale = loader.required_vector(&name("ffn_gate_inp.scale"), width)?;
        Ok(DenseAndExperts {
            dense: GatedMlp::load(
                loader,
                |part| name(&format!("ffn_{part}")),
                (width, dense),
                layer.activation,
            )?,
            dense_norm: norm("post_ffw_norm_1")?,
            router_norm: Norm::rms(scale, c.norm.eps).scaled(1.0 / (width as f32).sqrt()),
            experts_norm: norm("pre_ffw_norm_2")?,
            experts: Mixture::load(loader, width, layer, experts, i)?,
            experts_post_norm: norm("post_ffw_norm_2")?,
        })
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        [self.dense.matrices(), self.experts.matrices()].concat()
    }

    /// Computes the results for the rows of the stream and adds them to it; `work.normed` is the dense layer's input.
    pub(crate) fn forward(&self, cpu: &Cpu, to: Residual<'_>, work: &mut Workspace) {
        let mut input = std::mem::take(&mut work.moe.input);
        self.router_norm.rows(cpu, &work.stream, &mut input);
        self.experts.route(cpu, &input, work);
        self.experts_norm.rows(cpu, &work.stream, &mut input);
        to.write(cpu, work, |work, out, write| {
            let mut dense = std::mem::take(&mut work.moe.shared);
            dense.resize(out.len());
            self.dense.run(cpu, work, &mut dense, Write::Set);
            let mut chosen = std::mem::take(&mut work.moe.experts);
            chosen.resize(out.len());
            chosen.fill(0.0);
            self.experts.add(cpu, &input, work, &mut chosen);
            self.experts_post_norm.in_place(cpu, &mut chosen);
            if write == Write::Set {
                out.fill(0.0);
            }
            self.dense_norm.add(cpu, &mut dense, out);
            out.iter_mut().zip(chosen.iter()).for_each(|(o, x)| *o += x);
            (work.moe.shared, work.moe.experts) = (dense, chosen);
        });
        work.moe.input = input;
    }
}
