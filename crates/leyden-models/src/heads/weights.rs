//! [`HeadWeights`]: weights of a model's heads.

use crate::config::ModelConfig;
use crate::error::Error;
use crate::layers::{Classifier, Spans, Sparse, TokenProjection, TokenWeights, VectorDenses};
use crate::loader::Loader;
use leyden_kernels::gemm::PackedWeights;

/// Weights of the heads that compute on the hidden states of a text. A model has those in its files.
#[derive(Debug)]
pub(crate) struct HeadWeights {
    /// Hidden size.
    pub(crate) width: usize,
    /// Maximum number of weights of a sparse vector; `None` without a limit.
    pub(crate) max_sparse: Option<usize>,
    pub(crate) classifier: Option<Classifier>,
    pub(crate) sparse: Option<Sparse>,
    pub(crate) token_weights: Option<TokenWeights>,
    pub(crate) token_vectors: Option<TokenProjection>,
    pub(crate) spans: Option<Spans>,
    pub(crate) vector_dense: VectorDenses,
}

impl HeadWeights {
    /// Loads the heads of a model with a vocabulary of `vocabulary` tokens.
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &ModelConfig,
        vocabulary: usize,
    ) -> Result<HeadWeights, Error> {
        Ok(HeadWeights {
            width: c.width,
            max_sparse: c.vectors.max_active_dims,
            classifier: c.classifier().map(|config| Classifier::load(loader, config, c)).transpose()?,
            sparse: Sparse::load(loader, c, vocabulary)?,
            token_weights: TokenWeights::load(loader, c)?,
            token_vectors: TokenProjection::load(loader, c)?,
            spans: Spans::load(loader, c)?,
            vector_dense: VectorDenses::load(loader, c)?,
        })
    }

    /// Returns the matrices of all heads.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &PackedWeights> {
        let classifier = self.classifier.iter().flat_map(Classifier::matrices);
        classifier
            .chain(self.sparse.iter().flat_map(Sparse::matrices))
            .chain(self.token_weights.iter().flat_map(TokenWeights::matrices))
            .chain(self.token_vectors.iter().flat_map(TokenProjection::matrices))
            .chain(self.spans.iter().flat_map(Spans::matrices))
            .chain(self.vector_dense.matrices())
    }
}
