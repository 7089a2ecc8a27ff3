//! [`Matrix`]: tensor of a model, by name, size and type.

use leyden_kernels::gemm::packed_ratio;
use leyden_tensor::DType;

/// Names in GGUF of the embedding matrix and the output matrix.
pub(crate) const EMBEDDING: &str = "token_embd.weight";
pub(crate) const HEAD: &str = "output.weight";

/// Use of a tensor in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Table of which a step reads one row per token.
    Lookup,
    /// Matrix of a layer that makes keys and values, which the last layer also computes for tokens without outputs.
    Stored,
    /// Other matrix of a layer.
    Layer,
    /// Stack of experts' matrices.
    Experts,
    /// Output matrix, multiplied with the states of tokens whose logits are wanted.
    Head,
    /// Vectors and small tensors: memory, but no products.
    Small,
    /// Tensor that is not computed with.
    Unused,
}

/// Tensor of a model, or stack of equal ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Name in GGUF.
    pub name: String,
    /// Index of its layer, if it belongs to one.
    pub layer: Option<usize>,
    /// Use in a step.
    pub role: Role,
    /// Storage type.
    pub dtype: DType,
    /// Number of matrices: experts of a stack, else 1.
    pub count: usize,
    /// Rows of each.
    pub rows: usize,
    /// Columns of each.
    pub columns: usize,
}

impl Matrix {
    /// Returns the number of values.
    #[must_use]
    pub fn values(&self) -> u64 {
        (self.count as u64).saturating_mul(self.rows as u64).saturating_mul(self.columns as u64)
    }

    /// Returns the bytes in memory, packed for the kernels.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bits = self.dtype.block_bytes() as f64 / self.dtype.block_len() as f64;
        (self.values() as f64 * bits * packed_ratio(self.dtype).unwrap_or(1.0)) as u64
    }
}

/// Returns true for matrices that make keys and values. A joint matrix of queries, keys and values is computed whole.
pub(crate) fn is_stored(name: &str) -> bool {
    ["attn_k.", "attn_v.", "attn_qkv.", "attn_kv_a_mqa.", "ssm_in.", "in_proj."]
        .iter()
        .any(|part| name.contains(part))
}
