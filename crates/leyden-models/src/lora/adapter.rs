//! [`Adapter`]: LoRA adapter of one network, and [`AdapterSet`]: adapters of a sequence.

use super::targets::Targets;
use crate::error::Error;
use leyden_kernels::gemm::PackedWeights;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// LoRA adapter that was read for one loaded network.
pub struct Adapter {
    pub(super) path: PathBuf,
    pub(super) targets: Arc<Targets>,
    /// Matrices of each target that the adapter changes `[targets]`.
    pub(super) factors: Vec<Option<Factors>>,
    pub(super) rank: usize,
}

/// Matrices A and B of one target: `scale * B (A x)` is added to its results.
pub(super) struct Factors {
    /// Matrix A `[rank, k]`; the parts of a joint matrix share it.
    pub(super) down: Arc<PackedWeights>,
    /// Matrix B `[rows, rank]`.
    pub(super) up: PackedWeights,
    pub(super) scale: f32,
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("path", &self.path).field("rank", &self.rank).finish_non_exhaustive()
    }
}

impl Adapter {
    /// Returns the file or folder that it was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the largest rank of its matrices.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the bytes of its packed matrices.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let factors = || self.factors.iter().flatten();
        let ups = factors().map(|f| f.up.bytes()).sum::<usize>();
        let mut downs: Vec<&Arc<PackedWeights>> = factors().map(|f| &f.down).collect();
        downs.dedup_by(|a, b| Arc::ptr_eq(a, b));
        ups + downs.iter().map(|down| down.bytes()).sum::<usize>()
    }

    pub(crate) fn is_of(&self, targets: &Arc<Targets>) -> bool {
        Arc::ptr_eq(&self.targets, targets)
    }
}

/// Adapters of a sequence with their scales; none by default.
///
/// Two sets are equal if they hold the same loaded adapters with the same scales in the same order; equal sets compute
/// the same results.
#[derive(Clone, Default)]
pub struct AdapterSet(Arc<[(Arc<Adapter>, f32)]>);

impl AdapterSet {
    /// Creates a set of adapters, whose results are added in this order. Adapters with scale 0 are left out.
    ///
    /// # Errors
    /// A scale is not finite; the error names the adapter's file.
    pub fn new(adapters: impl IntoIterator<Item = (Arc<Adapter>, f32)>) -> Result<AdapterSet, Error> {
        let checked = |(adapter, scale): (Arc<Adapter>, f32)| match scale.is_finite() {
            true => Ok((adapter, scale)),
            false => {
                let file = adapter.path.display().to_string();
                Err(Error::invalid(&file, "scale", format!("{scale} is not a finite number")))
            }
        };
        let all = adapters.into_iter().map(checked).collect::<Result<Vec<_>, Error>>()?;
        Ok(AdapterSet(all.into_iter().filter(|(_, scale)| *scale != 0.0).collect()))
    }

    /// Returns true if it has no adapters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the adapters with their scales.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Adapter>, f32)> {
        self.0.iter().map(|(adapter, scale)| (adapter, *scale))
    }

    fn identity(&self) -> impl Iterator<Item = (*const Adapter, u32)> {
        self.0.iter().map(|(adapter, scale)| (Arc::as_ptr(adapter), scale.to_bits()))
    }
}

impl PartialEq for AdapterSet {
    fn eq(&self, other: &AdapterSet) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.identity().eq(other.identity())
    }
}

impl Eq for AdapterSet {}

impl Hash for AdapterSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.len().hash(state);
        self.identity().for_each(|one| one.hash(state));
    }
}

impl fmt::Debug for AdapterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.0.iter().map(|(adapter, scale)| (adapter.path.display().to_string(), *scale));
        f.debug_list().entries(named).finish()
    }
}
