//! The blocks that networks are composed of: weights of one kind each, how they are loaded, and what they compute on the
//! [`Workspace`](crate::Workspace).

mod attention;
mod linear;
mod mlp;
mod moe;
mod norm;
mod rope;

pub(crate) use attention::{Attention, keep};
pub(crate) use norm::Norm;
pub(crate) use rope::Ropes;

use crate::batch::Workspace;
use crate::config::{DecoderConfig, LayerConfig, NormPlacement};
use crate::error::Error;
use crate::load::Loader;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{PackedWeights, Write};
use mlp::GatedMlp;
use moe::Mixture;

/// The second half of a transformer block.
#[derive(Debug)]
pub(crate) enum FeedForward {
    Gated(GatedMlp),
    Mixture(Mixture),
}

impl FeedForward {
    fn load(loader: &Loader<'_>, c: &DecoderConfig, layer: &LayerConfig, i: usize) -> Result<Self, Error> {
        Ok(match layer.experts {
            None => FeedForward::Gated(GatedMlp::load(loader, c.width, layer, i)?),
            Some(experts) => FeedForward::Mixture(Mixture::load(loader, c.width, layer, experts, i)?),
        })
    }

    /// Of the normalised rows, to where the half's results go.
    pub(crate) fn forward(&self, cpu: &Cpu, to: Half<'_>, work: &mut Workspace) {
        match self {
            FeedForward::Gated(mlp) => mlp.forward(cpu, to, work),
            FeedForward::Mixture(mixture) => mixture.forward(cpu, to, work),
        }
    }

    fn matrices(&self) -> Vec<&PackedWeights> {
        match self {
            FeedForward::Gated(mlp) => mlp.matrices(),
            FeedForward::Mixture(mixture) => mixture.matrices(),
        }
    }
}

/// Where the results of a half of a block go: onto the residual stream, or through a norm first.
#[derive(Clone, Copy)]
pub(crate) struct Half<'a> {
    norm: Option<&'a Norm>,
}

impl Half<'_> {
    /// Runs `product` with where it writes and how, and then what follows it. The stream has as many rows as the
    /// product.
    pub(crate) fn write(
        self,
        cpu: &Cpu,
        work: &mut Workspace,
        product: impl FnOnce(&mut Workspace, &mut [f32], Write),
    ) {
        // Taken from the workspace, whose other buffers the product reads.
        let mut stream = std::mem::take(&mut work.stream);
        match self.norm {
            None => product(work, &mut stream, Write::Add),
            Some(norm) => {
                let mut branch = std::mem::take(&mut work.branch);
                branch.resize(stream.len());
                product(work, &mut branch, Write::Set);
                norm.add(cpu, &branch, &mut stream);
                work.branch = branch;
            }
        }
        work.stream = stream;
    }
}

/// One transformer block.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Norm,
    pub(crate) attention: Attention,
    attention_post_norm: Option<Norm>,
    pub(crate) ffn_norm: Norm,
    pub(crate) ffn: FeedForward,
    ffn_post_norm: Option<Norm>,
}

impl Layer {
    /// Layer `i` of a model. `ropes` gets its position embedding.
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &DecoderConfig,
        i: usize,
        ropes: &mut Ropes,
    ) -> Result<Layer, Error> {
        let layer = &c.layers[i];
        let norm = |part: &str| Norm::load(loader, c.norm, &format!("blk.{i}.{part}.weight"), c.width);
        let post = |part: &str| match layer.norms {
            NormPlacement::Pre => Ok(None),
            NormPlacement::Sandwich => norm(part).map(Some),
        };
        Ok(Layer {
            attention_norm: norm("attn_norm")?,
            attention: Attention::load(loader, c, i, ropes)?,
            attention_post_norm: post("post_attention_norm")?,
            ffn_norm: norm("ffn_norm")?,
            ffn: FeedForward::load(loader, c, layer, i)?,
            ffn_post_norm: post("post_ffw_norm")?,
        })
    }

    /// Where the results of attention go.
    pub(crate) fn attention_half(&self) -> Half<'_> {
        Half { norm: self.attention_post_norm.as_ref() }
    }

    /// Where the results of the feed-forward layer go.
    pub(crate) fn ffn_half(&self) -> Half<'_> {
        Half { norm: self.ffn_post_norm.as_ref() }
    }

    /// Its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        let mut all = self.attention.matrices();
        all.extend(self.ffn.matrices());
        all
    }
}
