//! Classification head: scores of labels.

use super::linear::{Linear, apply};
use super::norm::Norm;
use crate::config::{ClassifierConfig, DenseActivation, Labelled, ModelConfig, NormConfig, Scores};
use crate::error::Error;
use crate::loader::Loader;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::ops::{self, Activation, exp, sigmoid, softmax};
use leyden_kernels::{Cpu, PackedA, Tier};

/// Projection from pooled hidden states, or from each token's, to labels; in some models after a dense layer with an
/// activation function.
#[derive(Debug)]
pub(crate) struct Classifier {
    dense: Option<(Linear, DenseActivation, Option<Norm>)>,
    output: Linear,
}

impl Classifier {
    pub(crate) fn load(
        loader: &Loader<'_>,
        config: &ClassifierConfig,
        c: &ModelConfig,
    ) -> Result<Classifier, Error> {
        let (width, labels) = (c.width, config.labels.len());
        let name = if config.of == Labelled::Tokens { "cls.tokens" } else { "cls.output" };
        let optional = config.dense.is_some_and(|dense| dense.optional);
        let has_dense = loader.has("cls.weight")?;
        if optional && !loader.has("cls.output.weight")? {
            if !has_dense {
                let what = "is missing: the file is of a reranker, but has no classification head; convert the \
                    model again with a converter that keeps it";
                return Err(loader.invalid("cls.output.weight", what.to_owned()));
            }
            // The only matrix is the output projection, though it is named as a dense layer.
            return Ok(Classifier { dense: None, output: Linear::load(loader, "cls", labels, width)? });
        }
        let dense = match config.dense.filter(|_| has_dense || !optional) {
            None => None,
            Some(dense) => {
                let matrix = Linear::load(loader, "cls", width, width)?;
                let norm = |_| Norm::load(loader, NormConfig { offset: 0.0, ..c.norm }, "cls.norm", width);
                Some((matrix, dense.activation, dense.norm.then_some(()).map(norm).transpose()?))
            }
        };
        Ok(Classifier { dense, output: Linear::load(loader, name, labels, width)? })
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &PackedWeights> {
        self.dense.iter().map(|(dense, ..)| &dense.weights).chain([&self.output.weights])
    }

    /// Returns the number of labels.
    pub(crate) fn labels(&self) -> usize {
        self.output.weights.rows()
    }

    /// Computes the logits of all labels for each of `states` `[n, width]`: `[n, labels]`.
    pub(crate) fn logits(&self, cpu: &Cpu, states: &[f32]) -> Vec<f32> {
        let mut activations = PackedA::default();
        let (width, labels) = (self.output.weights.k(), self.output.weights.rows());
        let rows = states.len() / width;
        let mut scores = vec![0.0; rows * labels];
        let mut hidden = Vec::new();
        let mut input = states;
        if let Some((dense, activation, norm)) = &self.dense {
            hidden.resize(rows * width, 0.0);
            apply(cpu, &mut activations, states, Write::Set, [(dense, &mut hidden[..])]);
            activate(cpu, *activation, &mut hidden);
            norm.iter().for_each(|norm| norm.in_place(cpu, &mut hidden));
            input = &hidden;
        }
        apply(cpu, &mut activations, input, Write::Set, [(&self.output, &mut scores[..])]);
        scores
    }
}

impl ClassifierConfig {
    /// Turns logits `[n, labels]` of [`LabelLogits`](crate::heads::LabelLogits) into scores, in place.
    pub fn scores(&self, tier: Tier, logits: &mut [f32]) {
        for row in logits.chunks_exact_mut(self.labels.len()) {
            match self.scores {
                Scores::Raw => {}
                Scores::Sigmoid => sigmoid(tier, row),
                Scores::Softmax | Scores::YesNo => softmax(tier, row),
            }
        }
    }

    /// Returns the relevance of each pair of texts from the logits `[n, labels]` of
    /// [`LabelLogits`](crate::heads::LabelLogits): from 0 to 1 or, if `raw`, as log-odds.
    #[must_use]
    pub fn relevance(&self, tier: Tier, logits: &[f32], raw: bool) -> Vec<f32> {
        let odds = |row: &[f32]| match row {
            [yes, no] => yes - no,
            _ => row.first().copied().unwrap_or_default(),
        };
        let mut scores: Vec<f32> = logits.chunks_exact(self.labels.len()).map(odds).collect();
        if !raw {
            sigmoid(tier, &mut scores);
        }
        scores
    }
}

/// Applies the activation function after a dense layer of a head, in place.
pub(super) fn activate(cpu: &Cpu, activation: DenseActivation, x: &mut [f32]) {
    match activation {
        DenseActivation::Tanh => tanh(cpu, x),
        DenseActivation::Relu => x.iter_mut().for_each(|x| *x = x.max(0.0)),
        DenseActivation::Gelu => ops::activate(cpu.tier(), Activation::Gelu, x),
    }
}

/// Computes the hyperbolic tangent in place, as `1 - 2 / (e^2x + 1)`.
fn tanh(cpu: &Cpu, x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x *= 2.0);
    exp(cpu.tier(), x);
    x.iter_mut().for_each(|x| *x = 1.0 - 2.0 / (*x + 1.0));
}
