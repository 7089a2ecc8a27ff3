//! Heads with a result per token of a text: its weight for sparse vectors, or a vector for late interaction
//! (M3-Embedding; Chen et al., 2024).

use super::linear::{Linear, apply};
use crate::config::{ModelConfig, SparseConfig};
use crate::error::Error;
use crate::loader::Loader;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::{Cpu, PackedA};
use std::collections::BTreeMap;

/// Head of token weights.
#[derive(Debug)]
pub(crate) struct TokenWeights(Linear);

impl TokenWeights {
    pub(crate) fn load(loader: &Loader<'_>, c: &ModelConfig) -> Result<Option<TokenWeights>, Error> {
        match c.sparse {
            Some(SparseConfig::Tokens) => {
                Linear::load(loader, "token_weight", 1, c.width).map(|linear| Some(TokenWeights(linear)))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn matrices(&self) -> [&PackedWeights; 1] {
        [&self.0.weights]
    }

    /// Returns the tokens with a positive weight, ascending; a token that occurs several times has its largest weight.
    pub(crate) fn weights(&self, cpu: &Cpu, tokens: &[Option<u32>], states: &[f32]) -> Vec<(u32, f32)> {
        let mut weights = vec![0.0; tokens.len()];
        apply(cpu, &mut PackedA::default(), states, Write::Set, [(&self.0, &mut weights[..])]);
        let mut found: BTreeMap<u32, f32> = BTreeMap::new();
        for (token, weight) in tokens.iter().zip(weights) {
            if let Some(token) = token.filter(|_| weight > 0.0) {
                let most = found.entry(token).or_default();
                *most = most.max(weight);
            }
        }
        found.into_iter().collect()
    }
}

/// Projection of hidden states to token vectors.
#[derive(Debug)]
pub(crate) struct TokenProjection(Linear);

impl TokenProjection {
    pub(crate) fn load(loader: &Loader<'_>, c: &ModelConfig) -> Result<Option<TokenProjection>, Error> {
        let of = |n| Linear::load(loader, "token_vector", n, c.width).map(TokenProjection);
        c.token_vectors.map(of).transpose()
    }

    pub(crate) fn matrices(&self) -> [&PackedWeights; 1] {
        [&self.0.weights]
    }

    /// Returns the number of values of a vector.
    pub(crate) fn width(&self) -> usize {
        self.0.weights.rows()
    }

    /// Computes a vector of length 1 for each token but the first, from the hidden states of all tokens.
    pub(crate) fn vectors(&self, cpu: &Cpu, states: &[f32]) -> Vec<f32> {
        let (n, width) = (self.0.weights.rows(), self.0.weights.k());
        let states = states.get(width..).unwrap_or_default();
        let mut vectors = vec![0.0; states.len() / width * n];
        apply(cpu, &mut PackedA::default(), states, Write::Set, [(&self.0, &mut vectors[..])]);
        for vector in vectors.chunks_exact_mut(n) {
            let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
            if length > 0.0 {
                vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
            }
        }
        vectors
    }
}
