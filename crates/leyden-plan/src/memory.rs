//! [`memory`]: memory of a model by part.

use crate::error::Error;
use crate::matrix::Role;
use crate::model::ModelFacts;
use crate::workload::Workload;
use leyden_kernels::attention::{BLOCK_TOKENS, KvShape};
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of all weights of one type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeBytes {
    /// Name of the type.
    #[serde(rename = "type")]
    pub name: &'static str,
    /// Number of values.
    pub parameters: u64,
    /// Bytes in memory.
    pub bytes: u64,
}

/// Memory of a model, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryParts {
    /// Weights by type, the largest part first.
    pub weights: Vec<TypeBytes>,
    /// All weights.
    pub weight_bytes: u64,
    /// Keys and values of one token, in all layers.
    pub kv_token_bytes: u64,
    /// Keys and values of all users at the full context; layers with a window keep the window.
    pub kv_bytes: u64,
    /// Recurrent states of all users.
    pub state_bytes: u64,
    /// Workspace of a step.
    pub workspace_bytes: u64,
    /// Sum of all parts.
    pub total_bytes: u64,
}

/// Returns the memory of a model for a workload.
///
/// # Errors
/// The heads do not fit the storage type of keys and values.
pub fn memory(model: &ModelFacts, load: &Workload) -> Result<MemoryParts, Error> {
    let shape = model.config.kv_shape(&model.file, load.kv_type)?;
    let whole = model.config.needs_whole_texts();
    let users = load.users as u64;
    let kv_bytes = if whole { 0 } else { users.saturating_mul(cache_bytes(model, &shape, load.context)) };
    // Whole texts are computed in one step.
    let tokens = if whole { load.step_tokens.max(load.context) } else { load.step_tokens };
    let logits =
        if model.config.generates() { load.users.min(tokens).saturating_mul(model.vocabulary) } else { 0 };
    let workspace_bytes = model.config.workspace_bytes(tokens, logits) as u64;
    let state_bytes = users.saturating_mul(shape.state_bytes() as u64);
    let weight_bytes = model.weight_bytes();
    let parts = [kv_bytes, state_bytes, workspace_bytes];
    Ok(MemoryParts {
        weights: by_type(model),
        weight_bytes,
        kv_token_bytes: if whole { 0 } else { shape.token_bytes() as u64 },
        kv_bytes,
        state_bytes,
        workspace_bytes,
        total_bytes: parts.into_iter().fold(weight_bytes, u64::saturating_add),
    })
}

/// Returns the longest context of all users that fits `available` bytes, at most the model's; `None` if the rest does
/// not fit.
#[must_use]
pub fn max_context(model: &ModelFacts, load: &Workload, available: u64) -> Option<usize> {
    let fits = |context: usize| {
        memory(model, &Workload { context, ..*load }).is_ok_and(|m| m.total_bytes <= available)
    };
    let (mut low, mut high) = (BLOCK_TOKENS.min(model.config.context), model.config.context.max(1));
    if !fits(low) {
        return None;
    }
    if fits(high) {
        return Some(high);
    }
    while high - low > BLOCK_TOKENS {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    Some(low / BLOCK_TOKENS * BLOCK_TOKENS)
}

/// Returns the bytes of the cache of one sequence of `context` tokens.
fn cache_bytes(model: &ModelFacts, shape: &KvShape, context: usize) -> u64 {
    let layers = shape.layers.iter().zip(&model.config.layers);
    let bytes = layers.map(|(kv, layer)| {
        // One block more, as a window begins within a block.
        let window = if kv.windowed { layer.mask.window() } else { None };
        let kept = window.map_or(context, |window| context.min(window.saturating_add(BLOCK_TOKENS)));
        let one = KvShape { layers: vec![*kv], kv_type: shape.kv_type };
        let token = if kv.heads == 0 { 0 } else { one.token_bytes() };
        (kept.next_multiple_of(BLOCK_TOKENS) as u64).saturating_mul(token as u64)
    });
    bytes.fold(0, u64::saturating_add)
}

fn by_type(model: &ModelFacts) -> Vec<TypeBytes> {
    let mut sums: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for matrix in model.matrices.iter().filter(|m| m.role != Role::Unused) {
        let sum = sums.entry(matrix.dtype.name()).or_default();
        *sum = (sum.0.saturating_add(matrix.values()), sum.1.saturating_add(matrix.bytes()));
    }
    let of = |(name, (parameters, bytes))| TypeBytes { name, parameters, bytes };
    let mut all: Vec<TypeBytes> = sums.into_iter().map(of).collect();
    all.sort_by_key(|t| std::cmp::Reverse(t.bytes));
    all
}
