//! Per-layer embeddings (Gemma 3n): each token has an input vector for every layer, computed from a table and from the
//! token's embedding; a gated projection of it is added to the layer's results.

use super::attention::keep;
use super::linear::{Linear, apply};
use super::norm::Norm;
use crate::batch::Batch;
use crate::config::ModelConfig;
use crate::error::Error;
use crate::loader::Loader;
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::ops::{self, Activation};
use leyden_tensor::{WeightSource, quant};

const TABLE: &str = "per_layer_token_embd.weight";

/// Computation of the per-layer inputs of all layers.
#[derive(Debug)]
pub(crate) struct PerLayerEmbedding {
    /// Number of tokens in the table; other tokens use its first row.
    vocabulary: usize,
    dim: usize,
    project: Linear,
    /// Norm of each layer's input vector `[dim]`.
    norm: Norm,
}

impl PerLayerEmbedding {
    pub(crate) fn load(loader: &Loader<'_>, c: &ModelConfig, dim: usize) -> Result<PerLayerEmbedding, Error> {
        let all = c.layers.len() * dim;
        let vocabulary = loader.rows_of(TABLE, all)?;
        if vocabulary == 0 {
            return Err(loader.invalid(TABLE, "has no rows".to_owned()));
        }
        Ok(PerLayerEmbedding {
            vocabulary,
            dim,
            project: Linear::load(loader, "per_layer_model_proj", all, c.width)?,
            norm: Norm::load(loader, c.norm, "per_layer_proj_norm", dim)?,
        })
    }

    pub(crate) fn matrix(&self) -> &PackedWeights {
        &self.project.weights
    }

    /// Computes the per-layer inputs of a batch's tokens, whose embeddings the stream holds.
    pub(crate) fn forward(
        &self,
        cpu: &Cpu,
        source: &dyn WeightSource,
        batch: &Batch<'_>,
        work: &mut Workspace,
    ) -> Result<(), Error> {
        let (all, width) = (self.project.weights.rows(), self.project.weights.k());
        if let Some(sums) = &mut work.sums {
            sums.add([&self.project.name[..]], &work.stream, width);
        }
        work.per_layer.inputs.resize(batch.tokens.len() * all);
        let product = (&self.project, &mut work.per_layer.inputs[..]);
        apply(cpu, &mut work.activations, &work.stream, Write::Set, [product]);
        let table = source.require(TABLE)?;
        let to_stream = 1.0 / (width as f32).sqrt();
        let scale = (self.dim as f32).sqrt();
        let vocabulary = self.vocabulary;
        work.per_layer.table.resize(work.per_layer.inputs.len());
        cpu.for_rows(&mut work.per_layer.table, all, |i, row| {
            let token = batch.tokens[i] as usize;
            quant::decode_row(table.dtype(), table.row(if token < vocabulary { token } else { 0 }), row);
        });
        let of_table = &work.per_layer.table;
        cpu.for_rows(&mut work.per_layer.inputs, all, |i, row| {
            row.iter_mut().for_each(|x| *x *= to_stream);
            self.norm.heads(cpu.tier(), row);
            for (x, t) in row.iter_mut().zip(&of_table[i * all..(i + 1) * all]) {
                *x = (*x + t * scale) * std::f32::consts::FRAC_1_SQRT_2;
            }
        });
        if source.truncated() {
            return Err(Error::truncated(&source.path().display().to_string()));
        }
        Ok(())
    }
}

/// Part of a layer that adds its per-layer input.
#[derive(Debug)]
pub(crate) struct PerLayerInput {
    layer: usize,
    /// Length of a token's per-layer inputs, `layers * dim`.
    all: usize,
    gate: Linear,
    project: Linear,
    norm: Norm,
    activation: Activation,
}

impl PerLayerInput {
    pub(crate) fn load(loader: &Loader<'_>, c: &ModelConfig, dim: usize, i: usize) -> Result<Self, Error> {
        let name = |part: &str| format!("blk.{i}.{part}");
        Ok(PerLayerInput {
            layer: i,
            all: c.layers.len() * dim,
            gate: Linear::load(loader, &name("inp_gate"), dim, c.width)?,
            project: Linear::load(loader, &name("proj"), c.width, dim)?,
            norm: Norm::load(loader, c.norm, &name("post_norm"), c.width)?,
            activation: c.layers[i].activation,
        })
    }

    pub(crate) fn matrices(&self) -> [&PackedWeights; 2] {
        [&self.gate.weights, &self.project.weights]
    }

    /// Keeps the per-layer inputs of `rows` of the batch, if the workspace still holds those of all tokens.
    pub(crate) fn keep(&self, rows: &[usize], work: &mut Workspace) {
        if rows.len() < work.per_layer.inputs.len() / self.all {
            keep(rows, self.all, &mut work.per_layer.inputs);
        }
    }

    /// Computes the addition to `rows`, the rows of the stream, from their per-layer inputs, into `work.branch`.
    pub(crate) fn forward(&self, cpu: &Cpu, rows: &[f32], work: &mut Workspace) {
        let (dim, width) = (self.gate.weights.rows(), self.gate.weights.k());
        let n = rows.len() / width;
        if let Some(sums) = &mut work.sums {
            sums.add([&self.gate.name[..]], rows, width);
        }
        work.per_layer.gate.resize(n * dim);
        apply(cpu, &mut work.activations, rows, Write::Set, [(&self.gate, &mut work.per_layer.gate[..])]);
        let (per_layer, all) = (&work.per_layer.inputs, self.all);
        cpu.for_rows(&mut work.per_layer.gate, dim, |i, row| {
            let from = i * all + self.layer * dim;
            ops::gate(cpu.tier(), self.activation, row, &per_layer[from..from + dim]);
        });
        if let Some(sums) = &mut work.sums {
            sums.add([&self.project.name[..]], &work.per_layer.gate, dim);
        }
        work.branch.resize(rows.len());
        let product = (&self.project, &mut work.branch[..]);
        apply(cpu, &mut work.activations, &work.per_layer.gate, Write::Set, [product]);
        self.norm.in_place(cpu, &mut work.branch);
    }
}
