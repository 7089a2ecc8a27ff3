//! Gives graphs within nodes the constants of the outer graph that they use.

use crate::error::Error;
use crate::graph::{Context, Graph};
use crate::value::Value;

/// Copies constants; they share their values.
pub(crate) fn run(graph: &mut Graph, _ctx: &Context<'_>) -> Result<(), Error> {
    let Graph { nodes, values, .. } = graph;
    for node in nodes {
        let captured = node.operator.graphs().iter().flat_map(|g| g.captures.iter().map(|c| c.1 + 1)).max();
        let Some(own) = captured.and_then(|n| node.inputs.len().checked_sub(n)) else { continue };
        let constants: Vec<Option<Value>> = node.inputs[own..]
            .iter()
            .map(|id| id.and_then(|id| values[id as usize].constant.clone()))
            .collect();
        for inner in node.operator.graphs_mut() {
            for (id, at) in inner.captures.clone() {
                if let Some(Some(constant)) = constants.get(at) {
                    inner.values[id as usize].constant = Some(constant.clone());
                }
            }
        }
    }
    Ok(())
}
