//! Multi-head latent attention (DeepSeek-AI, 2024): keys and values are projected from a latent vector per token; the
//! rotated part of keys is shared by all heads.
//!
//! The cache holds full keys and values, as for other attention.

use super::attention::keep;
use super::linear::{Linear, apply};
use super::norm::Norm;
use super::residual::Residual;
use super::rope::Ropes;
use crate::config::{LatentConfig, ModelConfig};
use crate::error::Error;
use crate::loader::Loader;
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{AttentionOptions, AttentionSpan, KvCache, Mask, attention};
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::ops::{RopePairs, Rotation, rope};
use leyden_tensor::DType;

/// Multi-head latent attention of one layer.
#[derive(Debug)]
pub(crate) struct Latent {
    /// Index of its keys and values in the cache.
    layer: usize,
    /// Down projection to the latent vector of queries, and its norm, if queries have one.
    query_down: Option<(Linear, Norm)>,
    query: Linear,
    /// Down projection to the latent vector and the rotated part of keys.
    down: Linear,
    norm: Norm,
    /// Up projection from the latent vector to every head's unrotated part of the key, and its value.
    up: Linear,
    output: Linear,
    config: LatentConfig,
    heads: usize,
    value_dim: usize,
    pairs: RopePairs,
    /// Index of the rotation in [`Ropes`].
    rotation: usize,
    scale: f32,
}

impl Latent {
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &ModelConfig,
        config: LatentConfig,
        i: usize,
        ropes: &mut Ropes,
    ) -> Result<Latent, Error> {
        let layer = &c.layers[i];
        let LatentConfig { query_rank, rank, qk_nope, qk_rope } = config;
        let name = |part: &str| format!("blk.{i}.attn_{part}");
        let linear = |part: &str, rows, k| Linear::load(loader, &name(part), rows, k);
        let norm = |part: &str, n| Norm::load(loader, c.norm, &name(part), n);
        let q = layer.heads * (qk_nope + qk_rope);
        let rope =
            layer.rope.as_ref().ok_or_else(|| loader.invalid(&name("kv_a_mqa"), "no rotation".into()))?;
        let (query_down, query) = match query_rank {
            None => (None, linear("q", q, c.width)?),
            Some(n) => (Some((linear("q_a", n, c.width)?, norm("q_a_norm", n)?)), linear("q_b", q, n)?),
        };
        let kv = layer.heads * (qk_nope + layer.value_dim);
        Ok(Latent {
            layer: i,
            query_down,
            query,
            down: linear("kv_a_mqa", rank + qk_rope, c.width)?,
            norm: norm("kv_a_norm", rank)?,
            up: match loader.has(&name("kv_b.weight"))? {
                true => linear("kv_b", kv, rank)?,
                false => joined(loader, &name, layer.heads, [qk_nope, layer.value_dim], rank)?,
            },
            output: linear("output", c.width, layer.heads * layer.value_dim)?,
            config,
            heads: layer.heads,
            value_dim: layer.value_dim,
            pairs: rope.pairs,
            rotation: ropes.index(loader, rope)?,
            scale: layer.attention_scale,
        })
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        let query_down = self.query_down.iter().map(|(linear, _)| linear);
        let all = query_down.chain([&self.query, &self.down, &self.up, &self.output]);
        all.map(|l| &l.weights).collect()
    }

    /// Returns the matrices whose products go into the cache.
    pub(crate) fn stored(&self) -> [&PackedWeights; 2] {
        [&self.down.weights, &self.up.weights]
    }

    /// Stores keys and values of all rows, and computes queries of `rows`, like
    /// [`Attention::store`](super::Attention::store).
    pub(crate) fn store(&self, cpu: &Cpu, rows: &[usize], cache: &mut KvCache, work: &mut Workspace) {
        let (n, width) = (work.step.slots.len(), self.down.weights.k());
        let LatentConfig { rank, qk_nope, qk_rope, .. } = self.config;
        let (key_dim, value_dim) = (qk_nope + qk_rope, self.value_dim);
        if let Some(sums) = &mut work.sums {
            sums.add([&self.down.name], &work.normed, width);
        }
        let compressed = rank + qk_rope;
        work.latent.compressed.resize(n * compressed);
        apply(
            cpu,
            &mut work.activations,
            &work.normed,
            Write::Set,
            [(&self.down, &mut work.latent.compressed[..])],
        );
        // The latent vectors, normalised, are the input of the next product.
        work.latent.latent.resize(n * rank);
        let from = &work.latent.compressed;
        cpu.for_rows(&mut work.latent.latent, rank, |i, row| {
            row.copy_from_slice(&from[i * compressed..][..rank]);
            self.norm.heads(cpu.tier(), row);
        });
        if let Some(sums) = &mut work.sums {
            sums.add([&self.up.name], &work.latent.latent, rank);
        }
        let both = qk_nope + value_dim;
        work.latent.keys_values.resize(n * self.heads * both);
        apply(
            cpu,
            &mut work.activations,
            &work.latent.latent,
            Write::Set,
            [(&self.up, &mut work.latent.keys_values[..])],
        );
        let rotations = &work.step.rotations[self.rotation];
        let parts = &work.latent.keys_values;
        work.latent.keys.resize(n * self.heads * key_dim);
        cpu.for_rows(&mut work.latent.keys, self.heads * key_dim, |i, row| {
            let (first, others) = row.split_at_mut(key_dim);
            let shared = &mut first[qk_nope..];
            shared.copy_from_slice(&from[i * compressed + rank..][..qk_rope]);
            rope(cpu.tier(), shared, qk_rope, self.pairs, &rotations[i]);
            for key in others.chunks_exact_mut(key_dim) {
                key[qk_nope..].copy_from_slice(&first[qk_nope..]);
            }
            let parts = parts[i * self.heads * both..].chunks_exact(both);
            for (key, part) in row.chunks_exact_mut(key_dim).zip(parts) {
                key[..qk_nope].copy_from_slice(&part[..qk_nope]);
            }
        });
        work.latent.values.resize(n * self.heads * value_dim);
        cpu.for_rows(&mut work.latent.values, self.heads * value_dim, |i, row| {
            let parts = parts[i * self.heads * both..].chunks_exact(both);
            for (value, part) in row.chunks_exact_mut(value_dim).zip(parts) {
                value.copy_from_slice(&part[qk_nope..]);
            }
        });
        cache.append(cpu, self.layer, &work.step.slots, &work.latent.keys, &work.latent.values);
        if rows.len() < n {
            keep(rows, width, &mut work.normed);
            keep(rows, width, &mut work.stream);
        }
        self.queries(cpu, rows, work);
    }

    /// Computes the queries of `work.normed`, which holds `rows` of the batch.
    fn queries(&self, cpu: &Cpu, rows: &[usize], work: &mut Workspace) {
        let LatentConfig { qk_nope, qk_rope, .. } = self.config;
        work.latent.queries.resize(rows.len() * self.query.weights.rows());
        let input = match &self.query_down {
            None => &work.normed,
            Some((down, norm)) => {
                if let Some(sums) = &mut work.sums {
                    sums.add([&down.name], &work.normed, down.weights.k());
                }
                work.latent.latent.resize(rows.len() * down.weights.rows());
                apply(
                    cpu,
                    &mut work.activations,
                    &work.normed,
                    Write::Set,
                    [(down, &mut work.latent.latent[..])],
                );
                norm.in_place(cpu, &mut work.latent.latent);
                &work.latent.latent
            }
        };
        if let Some(sums) = &mut work.sums {
            sums.add([&self.query.name], input, self.query.weights.k());
        }
        apply(cpu, &mut work.activations, input, Write::Set, [(&self.query, &mut work.latent.queries[..])]);
        let rotations: &[Rotation] = &work.step.rotations[self.rotation];
        cpu.for_rows(&mut work.latent.queries, self.query.weights.rows(), |i, row| {
            for head in row.chunks_exact_mut(qk_nope + qk_rope) {
                rope(cpu.tier(), &mut head[qk_nope..], qk_rope, self.pairs, &rotations[rows[i]]);
            }
        });
    }

    /// Computes attention for the rows in the stream and adds the results to it.
    pub(crate) fn attend(
        &self,
        cpu: &Cpu,
        spans: &[AttentionSpan<'_>],
        cache: &KvCache,
        to: Residual<'_>,
        work: &mut Workspace,
    ) {
        let options = AttentionOptions { scale: self.scale, mask: Mask::Causal, soft_cap: None, sinks: None };
        let rows = work.latent.queries.len() / self.query.weights.rows();
        work.latent.mixed.resize(rows * self.output.weights.k());
        attention(cpu, cache, self.layer, spans, &work.latent.queries, &options, &mut work.latent.mixed);
        if let Some(sums) = &mut work.sums {
            sums.add([&self.output.name], &work.latent.mixed, self.output.weights.k());
        }
        to.write(cpu, work, |work, out, write| {
            apply(cpu, &mut work.activations, &work.latent.mixed, write, [(&self.output, out)]);
        });
    }
}

/// Joins the matrices of keys and values, which newer GGUF files store apart, into one. Each head's matrix of keys is
/// stored transposed, `[rank, qk_nope]`, so both are decoded to F32; they are small relative to the model.
fn joined(
    loader: &Loader<'_>,
    name: &impl Fn(&str) -> String,
    heads: usize,
    [qk_nope, value_dim]: [usize; 2],
    rank: usize,
) -> Result<Linear, Error> {
    let keys = loader.values(&name("k_b.weight"), &[heads, rank, qk_nope])?;
    let values = loader.values(&name("v_b.weight"), &[heads, value_dim, rank])?;
    let both = qk_nope + value_dim;
    let mut joined = vec![0.0; heads * both * rank];
    for (h, out) in joined.chunks_exact_mut(both * rank).enumerate() {
        let (k, v) = out.split_at_mut(qk_nope * rank);
        let from = &keys[h * rank * qk_nope..][..rank * qk_nope];
        for (r, row) in from.chunks_exact(qk_nope).enumerate() {
            row.iter().enumerate().for_each(|(p, x)| k[p * rank + r] = *x);
        }
        v.copy_from_slice(&values[h * value_dim * rank..][..value_dim * rank]);
    }
    let bytes: Vec<u8> = joined.iter().flat_map(|x| x.to_le_bytes()).collect();
    let weights = loader.made(&name("kv_b.weight"), DType::F32, &[heads * both, rank], &bytes)?;
    Ok(Linear::new(name("kv_b.weight"), weights, None))
}
