//! Head of sparse vectors (SPLADE): weights of the vocabulary's tokens, from the logits of a masked language model.

use super::linear::{Linear, apply};
use super::norm::Norm;
use crate::config::{ModelConfig, SparseConfig};
use crate::error::Error;
use crate::loader::Loader;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::ops::{self, Activation, ln};
use leyden_kernels::{Cpu, PackedA};

/// Number of tokens whose logits are computed at a time.
const TOKENS: usize = 64;

/// Dense layer with an activation function and a norm, then the projection to logits.
#[derive(Debug)]
pub(crate) struct Sparse {
    dense: Linear,
    activation: Activation,
    norm: Norm,
    output: Linear,
    sum: bool,
    log_twice: bool,
}

impl Sparse {
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &ModelConfig,
        vocabulary: usize,
    ) -> Result<Option<Sparse>, Error> {
        let Some(SparseConfig::Vocabulary { sum, log_twice }) = c.sparse else { return Ok(None) };
        let name = if loader.has("mlm.decoder.weight")? { "mlm.decoder.weight" } else { "token_embd.weight" };
        let weights = loader.matrix(name, vocabulary, c.width)?;
        let bias = loader.vector("mlm.output.bias", vocabulary)?;
        Ok(Some(Sparse {
            dense: Linear::load(loader, "mlm.dense", c.width, c.width)?,
            activation: c.layers[0].activation,
            norm: Norm::load(loader, c.norm, "mlm.norm", c.width)?,
            output: Linear::new(name.to_owned(), weights, bias),
            sum,
            log_twice,
        }))
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> [&PackedWeights; 2] {
        [&self.dense.weights, &self.output.weights]
    }

    /// Returns the tokens of the vocabulary with a positive weight, ascending, from the hidden states of all tokens of
    /// a text.
    pub(crate) fn weights(&self, cpu: &Cpu, states: &[f32]) -> Vec<(u32, f32)> {
        let (width, vocabulary) = (self.dense.weights.k(), self.output.weights.rows());
        let once = |logit: f64| ln(1.0 + logit.max(0.0));
        let weight = |logit: f64| if self.log_twice { ln(1.0 + once(logit)) } else { once(logit) };
        let mut all = vec![0.0_f64; vocabulary];
        let mut activations = PackedA::default();
        for states in states.chunks(TOKENS * width) {
            let tokens = states.len() / width;
            let mut hidden = vec![0.0; states.len()];
            apply(cpu, &mut activations, states, Write::Set, [(&self.dense, &mut hidden[..])]);
            ops::activate(cpu.tier(), self.activation, &mut hidden);
            self.norm.in_place(cpu, &mut hidden);
            let mut logits = vec![0.0; tokens * vocabulary];
            apply(cpu, &mut activations, &hidden, Write::Set, [(&self.output, &mut logits[..])]);
            for row in logits.chunks_exact(vocabulary) {
                for (all, logit) in all.iter_mut().zip(row) {
                    match self.sum {
                        true => *all += weight(f64::from(*logit)),
                        // The logarithm is monotonic, so it is taken once, of the maximum.
                        false => *all = all.max(f64::from(*logit)),
                    }
                }
            }
        }
        let weight = |x: f64| if self.sum { x } else { weight(x) };
        (0..).zip(all).filter(|(_, x)| *x > 0.0).map(|(id, x)| (id, weight(x) as f32)).collect()
    }
}
