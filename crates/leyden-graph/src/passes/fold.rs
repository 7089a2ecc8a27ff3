//! Constant folding: nodes whose inputs are all constant are computed at load.

use crate::error::Error;
use crate::executor::node_outputs;
use crate::graph::{Context, Graph};
use crate::inputs::Inputs;
use crate::value::Value;

/// Maximum size of a folded constant, bytes, unless its inputs have a quarter of it: constants take memory for good.
const MAX_BYTES: usize = 1 << 20;

fn bytes(value: &Value) -> usize {
    value.tensor().map_or(0, crate::tensor::Tensor::bytes)
}

/// Computes nodes of constants.
pub(crate) fn run(graph: &mut Graph, ctx: &Context<'_>) -> Result<(), Error> {
    for i in 0..graph.nodes.len() {
        let node = &graph.nodes[i];
        let foldable = |id: &Option<u32>| id.is_none() || graph.constant(*id).is_some();
        if !node.operator.is_pure() || !node.operator.graphs().is_empty() || !node.inputs.iter().all(foldable)
        {
            continue;
        }
        let inputs = Inputs(node.inputs.iter().map(|id| graph.constant(*id).cloned()).collect());
        let given: usize = inputs.0.iter().flatten().map(bytes).sum();
        // An error is that of a run: the node may be one that no run computes.
        let Ok(results) = node_outputs(graph, i, ctx, inputs) else { continue };
        if results.iter().map(bytes).sum::<usize>() > given.saturating_mul(4).max(MAX_BYTES) {
            continue;
        }
        let outputs = graph.nodes[i].outputs.clone();
        if results.len() < outputs.len() {
            continue;
        }
        for (id, value) in outputs.into_iter().zip(results) {
            if let Some(id) = id {
                graph.values[id as usize].constant = Some(value);
            }
        }
    }
    Ok(())
}
