//! Dense layers after the pooling (sentence-transformers).

use super::classifier::activate;
use super::linear::{Linear, apply};
use crate::config::{DenseActivation, ModelConfig};
use crate::error::Error;
use crate::loader::Loader;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::{Cpu, PackedA};

/// Dense layers of a model, in order.
#[derive(Debug)]
pub(crate) struct VectorDenses(Vec<(Linear, Option<DenseActivation>)>);

impl VectorDenses {
    pub(crate) fn load(loader: &Loader<'_>, c: &ModelConfig) -> Result<VectorDenses, Error> {
        let one = |(i, dense): (usize, &crate::config::VectorDense)| {
            let linear = Linear::load(loader, &format!("dense_{}", i + 2), dense.outputs, dense.inputs)?;
            Ok((linear, dense.activation))
        };
        c.vector_dense.iter().enumerate().map(one).collect::<Result<_, Error>>().map(VectorDenses)
    }

    /// Returns their matrices, in order.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &PackedWeights> {
        self.0.iter().map(|(linear, _)| &linear.weights)
    }

    /// Returns the width of their output vectors; `None` without layers.
    pub(crate) fn width(&self) -> Option<usize> {
        self.0.last().map(|(linear, _)| linear.weights.rows())
    }

    /// Applies the layers to vectors `[n, inputs]`.
    pub(crate) fn project(&self, cpu: &Cpu, mut vectors: Vec<f32>) -> Vec<f32> {
        for (linear, activation) in &self.0 {
            let mut out = vec![0.0; vectors.len() / linear.weights.k() * linear.weights.rows()];
            apply(cpu, &mut PackedA::default(), &vectors, Write::Set, [(linear, &mut out[..])]);
            activation.iter().for_each(|activation| activate(cpu, *activation, &mut out));
            vectors = out;
        }
        vectors
    }
}
