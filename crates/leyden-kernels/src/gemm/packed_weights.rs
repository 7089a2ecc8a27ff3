//! [`PackedWeights`]: a matrix in the layout in which kernels read it.
//!
//! Layouts are a closed set. A new one is a variant of [`Layout`], a file with its packing and its product, and one line in each
//! `match` of this file and of [`multiply`](super::multiply).

use crate::gemm::registry::Kernels;
use crate::gemm::sparse_form::SparseForm;
use crate::memory::huge::HugeBuf;
use crate::types::{ActFormat, OutlierChannels};
use leyden_tensor::{DType, FileBytes};

/// Weights of one matrix, or of a stack of matrices of one shape, in the order in which kernels read them.
#[derive(Debug)]
pub struct PackedWeights {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) count: usize,
    pub(super) rows: usize,
    pub(super) k: usize,
    pub(super) data: Data,
    pub(super) layout: Layout,
}

/// Layout of packed weights.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    /// Panels of 16 rows with the file's bits, none changed. Every matrix of a stack begins with a panel of its own.
    Panels { kernels: &'static Kernels, panel_bytes: usize },
    /// Groups of rows in 8-bit integers with one scale per row, their columns ordered for these outlier channels, if they
    /// are set.
    Int8Rows { group_bytes: usize, outliers: Option<OutlierChannels> },
    /// Nonzero weights of INT8 rows, with their places.
    SparseRows { form: SparseForm, outliers: OutlierChannels },
    /// Blocks of four weights of INT8 rows that are not all zero, and their number.
    SparseBlocks { blocks: usize, outliers: OutlierChannels },
}

/// Storage of packed weights.
#[derive(Debug)]
pub(super) enum Data {
    Memory(HugeBuf),
    File(FileBytes),
}

impl PackedWeights {
    /// Returns the tensor's name in the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the packed weights, in the layout [`LAYOUT`](super::LAYOUT).
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.data {
            Data::Memory(data) => data.as_slice(),
            Data::File(data) => data.as_slice(),
        }
    }

    /// Returns the number of matrices in the stack; 1 for a single matrix.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of outputs of each matrix.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of inputs of each matrix.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// Returns the type of the weights in the file.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the activation format that the weights are multiplied with.
    #[must_use]
    pub fn act_format(&self) -> ActFormat {
        match self.layout {
            Layout::Panels { kernels, .. } => kernels.format.act_format,
            Layout::Int8Rows { outliers, .. } => ActFormat::Q8Token(outliers.unwrap_or_default()),
            Layout::SparseRows { outliers, .. } | Layout::SparseBlocks { outliers, .. } => {
                ActFormat::Q8Token(outliers)
            }
        }
    }

    /// Returns the size in memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.as_bytes().len()
    }

    /// Returns the multiplications per token with one matrix of the stack.
    #[must_use]
    pub fn macs(&self) -> u64 {
        self.rows as u64 * self.k as u64
    }

    /// Returns true if the weights are in panels, which fused products of gated layers and of experts need.
    #[must_use]
    pub fn is_panels(&self) -> bool {
        matches!(self.layout, Layout::Panels { .. })
    }

    /// Returns true for INT8 rows, dense or sparse, whose activations are rows of tokens.
    #[must_use]
    pub fn is_int8_rows(&self) -> bool {
        !self.is_panels()
    }
}
