//! Building blocks of networks: each loads its weights and computes on the [`Workspace`](crate::Workspace).

mod altup;
mod attention;
mod classifier;
mod delta_net;
mod dense_and_experts;
mod embedding;
mod latent;
mod linear;
mod mamba2;
mod mlp;
mod moe;
mod norm;
mod per_layer;
mod position_bias;
mod residual;
mod rope;
mod short_conv;
mod spans;
mod sparse;
mod tail;
mod token_heads;
mod vector_dense;

pub(crate) use altup::Streams;
pub(crate) use attention::keep;
pub(crate) use classifier::Classifier;
pub(crate) use embedding::Embedding;
pub(crate) use norm::Norm;
pub(crate) use per_layer::PerLayerEmbedding;
pub(crate) use position_bias::bucket;
pub(crate) use rope::Ropes;
pub(crate) use spans::Spans;
pub(crate) use sparse::Sparse;
pub(crate) use token_heads::{TokenProjection, TokenWeights};
pub(crate) use vector_dense::VectorDenses;

use crate::batch::Rows;
use crate::config::{LayerConfig, ModelConfig, NormPlacement, RecurrentConfig};
use crate::error::Error;
use crate::int8::Int8Finish;
use crate::loader::Loader;
use crate::workspace::Workspace;
use altup::AltUp;
use attention::Attention;
use delta_net::DeltaNet;
use dense_and_experts::DenseAndExperts;
use latent::Latent;
use leyden_kernels::Cpu;
use leyden_kernels::attention::KvCache;
use leyden_kernels::gemm::PackedWeights;
use mamba2::Mamba2;
use mlp::{GatedMlp, PlainMlp};
use moe::Mixture;
use per_layer::PerLayerInput;
use residual::{Residual, add_scaled};
use short_conv::ShortConv;
use tail::Tail;

/// First sublayer of a transformer block: attention, or a layer with a recurrent state in its place.
#[allow(clippy::large_enum_variant, reason = "there is one for each layer, and nearly all are the largest")]
#[derive(Debug)]
pub(crate) enum Mixer {
    Attention(Attention),
    Latent(Latent),
    ShortConv(ShortConv),
    DeltaNet(Box<DeltaNet>),
    Mamba2(Box<Mamba2>),
}

impl Mixer {
    fn load(loader: &Loader<'_>, c: &ModelConfig, i: usize, ropes: &mut Ropes) -> Result<Mixer, Error> {
        let layer = &c.layers[i];
        Ok(match (layer.recurrent, layer.latent) {
            (None, None) => Mixer::Attention(Attention::load(loader, c, i, ropes)?),
            (None, Some(latent)) => Mixer::Latent(Latent::load(loader, c, latent, i, ropes)?),
            (Some(RecurrentConfig::ShortConv { taps }), _) => {
                Mixer::ShortConv(ShortConv::load(loader, c.width, taps, i)?)
            }
            (Some(RecurrentConfig::DeltaNet(net)), _) => {
                Mixer::DeltaNet(Box::new(DeltaNet::load(loader, c, net, i)?))
            }
            (Some(RecurrentConfig::Mamba2(net)), _) => {
                Mixer::Mamba2(Box::new(Mamba2::load(loader, c, net, i)?))
            }
        })
    }

    fn matrices(&self) -> Vec<&PackedWeights> {
        match self {
            Mixer::Attention(attention) => attention.matrices(),
            Mixer::Latent(latent) => latent.matrices(),
            Mixer::ShortConv(conv) => conv.matrices(),
            Mixer::DeltaNet(net) => net.matrices(),
            Mixer::Mamba2(net) => net.matrices(),
        }
    }

    /// Returns the matrices that all tokens are multiplied with, wanted or not: their results go into the cache.
    pub(crate) fn stored(&self) -> Vec<&PackedWeights> {
        match self {
            Mixer::Attention(attention) => attention.stored(),
            Mixer::Latent(latent) => latent.stored().to_vec(),
            Mixer::ShortConv(conv) => conv.stored().to_vec(),
            Mixer::DeltaNet(net) => net.stored().to_vec(),
            Mixer::Mamba2(net) => net.stored().to_vec(),
        }
    }

    /// Updates the cache with all rows of `work.normed`. The stream then holds `rows` alone.
    pub(crate) fn store(&self, cpu: &Cpu, rows: &[usize], cache: &mut KvCache, work: &mut Workspace) {
        match self {
            Mixer::Attention(attention) => attention.store(cpu, rows, cache, work),
            Mixer::Latent(latent) => latent.store(cpu, rows, cache, work),
            Mixer::ShortConv(conv) => conv.store(cpu, rows, cache, work),
            Mixer::DeltaNet(net) => net.store(cpu, rows, cache, work),
            Mixer::Mamba2(net) => net.store(cpu, rows, cache, work),
        }
    }

    /// Computes the results for `rows`, the rows in the stream, and adds them to it.
    pub(crate) fn attend(
        &self,
        cpu: &Cpu,
        rows: &Rows<'_>,
        cache: &KvCache,
        to: Residual<'_>,
        work: &mut Workspace,
    ) {
        match self {
            Mixer::Attention(attention) => attention.attend(cpu, rows, cache, to, work),
            Mixer::Latent(latent) => latent.attend(cpu, &rows.spans, cache, to, work),
            Mixer::ShortConv(conv) => conv.output(cpu, to, work),
            Mixer::DeltaNet(net) => net.output(cpu, to, work),
            Mixer::Mamba2(net) => net.output(cpu, to, work),
        }
    }
}

/// Second sublayer of a transformer block, if it has one.
#[derive(Debug)]
pub(crate) enum FeedForward {
    Gated(Box<GatedMlp>),
    Plain(Box<PlainMlp>),
    Mixture(Box<Mixture>),
    DenseAndExperts(Box<DenseAndExperts>),
}

impl FeedForward {
    fn load(loader: &Loader<'_>, c: &ModelConfig, layer: &LayerConfig, i: usize) -> Result<Self, Error> {
        Ok(match (layer.experts, layer.dense) {
            (None, _) if layer.gated => {
                let part = |part: &str| format!("blk.{i}.ffn_{part}");
                let mlp = GatedMlp::load(loader, part, (c.width, layer.ffn), layer.activation)?;
                FeedForward::Gated(Box::new(mlp.with_sparsity(layer.sparsity)))
            }
            (None, _) => FeedForward::Plain(Box::new(PlainMlp::load(loader, c.width, layer, i)?)),
            (Some(experts), Some(dense)) => {
                let both = (dense, experts);
                FeedForward::DenseAndExperts(Box::new(DenseAndExperts::load(loader, c, layer, both, i)?))
            }
            (Some(experts), None) => {
                FeedForward::Mixture(Box::new(Mixture::load(loader, c.width, layer, experts, i)?))
            }
        })
    }

    /// Computes the results for `work.normed` and adds them to the stream.
    pub(crate) fn forward(&self, cpu: &Cpu, to: Residual<'_>, work: &mut Workspace) {
        match self {
            FeedForward::Gated(mlp) => mlp.forward(cpu, to, work),
            FeedForward::Plain(mlp) => mlp.forward(cpu, to, work),
            FeedForward::Mixture(mixture) => mixture.forward(cpu, to, work),
            FeedForward::DenseAndExperts(both) => both.forward(cpu, to, work),
        }
    }

    fn matrices(&self) -> Vec<&PackedWeights> {
        match self {
            FeedForward::Gated(mlp) => mlp.matrices(),
            FeedForward::Plain(mlp) => mlp.matrices(),
            FeedForward::Mixture(mixture) => mixture.matrices(),
            FeedForward::DenseAndExperts(both) => both.matrices(),
        }
    }
}

/// Transformer block.
#[derive(Debug)]
pub(crate) struct Layer {
    placement: NormPlacement,
    residual_scale: f32,
    altup: Option<Box<AltUp>>,
    attention_norm: Option<Norm>,
    pub(crate) mixer: Mixer,
    attention_post_norm: Option<Norm>,
    ffn_norm: Option<Norm>,
    pub(crate) ffn: Option<FeedForward>,
    ffn_post_norm: Option<Norm>,
    per_layer: Option<PerLayerInput>,
    /// Factor of the block's output.
    output_scale: Option<f32>,
}

impl Layer {
    /// Loads layer `i` of a model, and adds its kind of rotation to `ropes`.
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &ModelConfig,
        i: usize,
        ropes: &mut Ropes,
    ) -> Result<Layer, Error> {
        let layer = &c.layers[i];
        // The norms before and after attention, before and after the feed-forward layer.
        let names = match layer.norms {
            NormPlacement::Pre if layer.ffn == 0 => ["attn_norm", "", "", ""],
            NormPlacement::Pre => ["attn_norm", "", "ffn_norm", ""],
            NormPlacement::PreFfn => ["", "", "ffn_norm", ""],
            NormPlacement::Sandwich => ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"],
            NormPlacement::Post => ["", "attn_output_norm", "", "layer_output_norm"],
            NormPlacement::Output => ["", "post_attention_norm", "", "post_ffw_norm"],
            // Falcon's files call the norm before attention the second one.
            NormPlacement::Parallel if loader.has(&format!("blk.{i}.attn_norm_2.weight"))? => {
                ["attn_norm_2", "", "attn_norm", ""]
            }
            NormPlacement::Parallel if loader.has(&format!("blk.{i}.ffn_norm.weight"))? => {
                ["attn_norm", "", "ffn_norm", ""]
            }
            NormPlacement::Parallel => ["attn_norm", "", "", ""],
        };
        let norm = |n: usize| match names[n] {
            "" => Ok(None),
            // Some files name this norm by its place after attention.
            "ffn_norm" if !loader.has(&format!("blk.{i}.ffn_norm.weight"))? => {
                Norm::load(loader, c.norm, &format!("blk.{i}.post_attention_norm"), c.width).map(Some)
            }
            part => Norm::load(loader, c.norm, &format!("blk.{i}.{part}"), c.width).map(Some),
        };
        Ok(Layer {
            placement: layer.norms,
            residual_scale: layer.residual_scale,
            altup: match c.altup {
                Some(altup) => Some(Box::new(AltUp::load(loader, c, altup, i)?)),
                None => None,
            },
            attention_norm: norm(0)?,
            mixer: Mixer::load(loader, c, i, ropes)?,
            attention_post_norm: norm(1)?,
            ffn_norm: norm(2)?,
            ffn: match layer.ffn {
                0 => None,
                _ => Some(FeedForward::load(loader, c, layer, i)?),
            },
            ffn_post_norm: norm(3)?,
            per_layer: match c.per_layer_input {
                Some(dim) => Some(PerLayerInput::load(loader, c, dim, i)?),
                None => None,
            },
            output_scale: match layer.output_scale {
                true => {
                    loader.vector(&format!("blk.{i}.layer_output_scale.weight"), 1)?.map(|scale| scale[0])
                }
                false => None,
            },
        })
    }

    /// Computes the input of attention for all rows of the stream, into `work.normed`.
    pub(crate) fn attention_input(&self, cpu: &Cpu, work: &mut Workspace) {
        if let Some(altup) = &self.altup {
            altup.predict(cpu, work);
        }
        input(self.attention_norm.as_ref(), cpu, work);
    }

    /// Computes what needs the stream as it is before attention's results are added. The stream holds `rows` of the
    /// batch.
    pub(crate) fn before_attend(&self, cpu: &Cpu, rows: &[usize], work: &mut Workspace) {
        if let Some(altup) = &self.altup {
            altup.laurel(cpu, rows, work);
        }
        if let Some(per_layer) = &self.per_layer {
            per_layer.keep(rows, work);
        }
        if let (NormPlacement::Parallel, Some(norm)) = (self.placement, &self.ffn_norm) {
            norm.rows(cpu, &work.stream, &mut work.mlp.parallel_input);
        }
    }

    /// Adds the results of the augmented residual layer to the stream, if there is one.
    pub(crate) fn after_attend(&self, cpu: &Cpu, work: &mut Workspace) {
        if let Some(altup) = &self.altup {
            altup.add_laurel(cpu, work);
        }
    }

    /// Applies the layer's steps after both sublayers: alternating updates, per-layer embedding and output scale.
    pub(crate) fn finish(&self, cpu: &Cpu, work: &mut Workspace) {
        if let Some(altup) = &self.altup {
            altup.correct(cpu, work);
        }
        if let Some(per_layer) = &self.per_layer {
            let stream = std::mem::take(&mut work.stream);
            per_layer.forward(cpu, &stream, work);
            work.stream = stream;
            match &self.altup {
                Some(altup) => altup.add_to_others(cpu, work),
                None => add_scaled(cpu, &mut work.stream, &work.branch, 1.0),
            }
        }
        if let Some(scale) = self.output_scale {
            work.stream.iter_mut().for_each(|x| *x *= scale);
        }
    }

    /// Computes the input of the feed-forward layer for all rows of the stream, into `work.normed`.
    pub(crate) fn ffn_input(&self, cpu: &Cpu, work: &mut Workspace) {
        match (self.placement, &self.ffn_norm) {
            (NormPlacement::Parallel, Some(_)) => {
                std::mem::swap(&mut work.normed, &mut work.mlp.parallel_input)
            }
            // The input of attention, which `work.normed` still holds.
            (NormPlacement::Parallel, None) => {}
            (_, norm) => input(norm.as_ref(), cpu, work),
        }
    }

    fn residual<'a>(&self, norm: Option<&'a Norm>) -> Residual<'a> {
        Residual::new(self.placement, norm, self.residual_scale)
    }

    /// Returns the destination of attention's results.
    pub(crate) fn attention_residual(&self) -> Residual<'_> {
        self.residual(self.attention_post_norm.as_ref())
    }

    /// Returns the destination of the feed-forward layer's results.
    pub(crate) fn ffn_residual(&self) -> Residual<'_> {
        self.residual(self.ffn_post_norm.as_ref())
    }

    /// Returns the part of the layer after attention, if it can be computed a few tokens at a time.
    fn tail(&self) -> Option<Tail<'_>> {
        let plain = self.altup.is_none() && self.per_layer.is_none() && self.residual_scale == 1.0;
        let (Mixer::Attention(attention), Some(FeedForward::Plain(mlp))) = (&self.mixer, &self.ffn) else {
            return None;
        };
        let tail = Tail {
            output: attention.plain_output()?,
            attention_norm: self.attention_post_norm.as_ref()?,
            mlp,
            mlp_norm: self.ffn_post_norm.as_ref()?,
        };
        let matrices = [&tail.output.weights, &mlp.up.weights, &mlp.down.weights];
        let rows = matrices.iter().all(|matrix| matrix.is_int8_rows());
        (plain && rows && self.placement == NormPlacement::Post).then_some(tail)
    }

    /// Computes the rest of the layer, after [`Mixer::store`], for `rows`, the rows in the stream.
    pub(crate) fn forward(&self, cpu: &Cpu, rows: &Rows<'_>, cache: &KvCache, work: &mut Workspace) {
        let tail = self.tail().filter(|_| work.sums.is_none() && work.adapters.is_empty());
        if let (Some(tail), Mixer::Attention(attention)) = (tail, &self.mixer) {
            attention.mix(cpu, rows, cache, work);
            tail.forward(cpu, work);
        } else {
            self.before_attend(cpu, &rows.indices, work);
            self.mixer.attend(cpu, rows, cache, self.attention_residual(), work);
            self.after_attend(cpu, work);
            if let Some(ffn) = &self.ffn {
                self.ffn_input(cpu, work);
                ffn.forward(cpu, self.ffn_residual(), work);
            }
        }
        self.finish(cpu, work);
    }

    /// Finishes its matrices of INT8 rows.
    pub(crate) fn finish_int8(&mut self, finish: &mut Int8Finish<'_>) -> Result<(), leyden_kernels::Error> {
        if let Mixer::Attention(attention) = &mut self.mixer {
            attention.finish_int8(finish)?;
        }
        match &mut self.ffn {
            Some(FeedForward::Gated(mlp)) => mlp.finish_int8(finish),
            Some(FeedForward::Plain(mlp)) => mlp.finish_int8(finish),
            _ => Ok(()),
        }
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        let mut all = self.mixer.matrices();
        all.extend(self.ffn.iter().flat_map(FeedForward::matrices));
        all.extend(self.altup.iter().flat_map(|altup| altup.matrices()));
        all.extend(self.per_layer.iter().flat_map(PerLayerInput::matrices));
        all
    }
}

/// Number of values that a task copies.
const COPIED: usize = 16 << 10;

/// Sets `work.normed` to the stream, normalised if the sublayer has a norm before it.
fn input(norm: Option<&Norm>, cpu: &Cpu, work: &mut Workspace) {
    match norm {
        Some(norm) => norm.rows(cpu, &work.stream, &mut work.normed),
        None => {
            work.normed.resize(work.stream.len());
            let stream = &work.stream;
            cpu.for_blocks(&mut work.normed, 1, COPIED, |first, to| {
                to.copy_from_slice(&stream[first..first + to.len()]);
            });
        }
    }
}
