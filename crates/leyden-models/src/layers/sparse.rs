//! The head that gives a text a number for each token of the vocabulary: a masked language model's.

use super::linear::{Linear, apply};
use super::norm::Norm;
use crate::config::{ModelConfig, SparseConfig};
use crate::error::Error;
use crate::loader::Loader;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::ops::{self, Activation, ln};
use leyden_kernels::{Cpu, PackedA};

/// Tokens whose logits are computed at a time.
const TOKENS: usize = 64;

/// A matrix with a function and a norm, then the logits.
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

    /// Its matrices.
    pub(crate) fn matrices(&self) -> [&PackedWeights; 2] {
        [&self.dense.weights, &self.output.weights]
    }

    /// The tokens that have a number, ascending, of the states of all tokens of a text.
    pub(crate) fn numbers(&self, cpu: &Cpu, states: &[f32]) -> Vec<(u32, f32)> {
        let (width, vocabulary) = (self.dense.weights.k(), self.output.weights.rows());
        let once = |logit: f64| ln(1.0 + logit.max(0.0));
        let number = |logit: f64| if self.log_twice { ln(1.0 + once(logit)) } else { once(logit) };
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
                        true => *all += number(f64::from(*logit)),
                        // The logarithm keeps the order.
                        false => *all = all.max(f64::from(*logit)),
                    }
                }
            }
        }
        let number = |x: f64| if self.sum { x } else { number(x) };
        (0..).zip(all).filter(|(_, x)| *x > 0.0).map(|(id, x)| (id, number(x) as f32)).collect()
    }
}
