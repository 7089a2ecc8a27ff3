//! The head that gives labels scores.

use super::linear::{Linear, apply};
use crate::config::{ClassifierConfig, DenseActivation, Scores};
use crate::error::Error;
use crate::load::Loader;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::ops::{exp, log_sum_exp};
use leyden_kernels::{Cpu, PackedA};

/// Two matrices with a function between them, on the state of a text's first token.
#[derive(Debug)]
pub(crate) struct Classifier {
    dense: Linear,
    output: Linear,
    activation: DenseActivation,
    scores: Scores,
}

impl Classifier {
    pub(crate) fn load(
        loader: &Loader<'_>,
        config: &ClassifierConfig,
        width: usize,
    ) -> Result<Classifier, Error> {
        Ok(Classifier {
            dense: Linear::load(loader, "cls", width, width)?,
            output: Linear::load(loader, "cls.output", config.labels.len(), width)?,
            activation: config.activation,
            scores: config.scores,
        })
    }

    /// Its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> [&PackedWeights; 2] {
        [&self.dense.weights, &self.output.weights]
    }

    /// The scores of all labels for the state of each of some texts.
    pub(crate) fn scores(&self, cpu: &Cpu, states: &[f32]) -> Vec<f32> {
        let mut activations = PackedA::default();
        let (width, labels) = (self.dense.weights.rows(), self.output.weights.rows());
        let texts = states.len() / width;
        let (mut hidden, mut scores) = (vec![0.0; texts * width], vec![0.0; texts * labels]);
        apply(cpu, &mut activations, states, Write::Set, [(&self.dense, &mut hidden[..])]);
        match self.activation {
            DenseActivation::Tanh => tanh(cpu, &mut hidden),
            DenseActivation::Relu => hidden.iter_mut().for_each(|x| *x = x.max(0.0)),
        }
        apply(cpu, &mut activations, &hidden, Write::Set, [(&self.output, &mut scores[..])]);
        for row in scores.chunks_exact_mut(labels) {
            match self.scores {
                Scores::Raw => {}
                Scores::Sigmoid => {
                    row.iter_mut().for_each(|x| *x = -*x);
                    exp(cpu.tier(), row);
                    row.iter_mut().for_each(|x| *x = 1.0 / (1.0 + *x));
                }
                Scores::Softmax => {
                    let (most, sum) = log_sum_exp(cpu.tier(), row);
                    row.iter_mut().for_each(|x| *x -= most);
                    exp(cpu.tier(), row);
                    row.iter_mut().for_each(|x| *x /= sum);
                }
            }
        }
        scores
    }
}

/// `1 - 2 / (e^2x + 1)`.
fn tanh(cpu: &Cpu, x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x *= 2.0);
    exp(cpu.tier(), x);
    x.iter_mut().for_each(|x| *x = 1.0 - 2.0 / (*x + 1.0));
}
