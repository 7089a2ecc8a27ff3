//! Removes nodes whose outputs nobody uses, and constants that are not used.

use crate::error::Error;
use crate::graph::{Context, Graph};

/// Removes dead nodes and constants.
pub(crate) fn run(graph: &mut Graph, _ctx: &Context<'_>) -> Result<(), Error> {
    let mut used = vec![false; graph.values.len()];
    for id in &graph.outputs {
        used[*id as usize] = true;
    }
    let mut kept = Vec::with_capacity(graph.nodes.len());
    let nodes = std::mem::take(&mut graph.nodes);
    for mut node in nodes.into_iter().rev() {
        for output in &mut node.outputs {
            let constant = |id: u32| graph.values[id as usize].constant.is_some();
            *output = output.filter(|id| used[*id as usize] && !constant(*id));
        }
        if node.outputs.iter().all(Option::is_none) {
            continue;
        }
        for id in node.inputs.iter().flatten() {
            used[*id as usize] = true;
        }
        kept.push(node);
    }
    kept.reverse();
    graph.nodes = kept;
    for (slot, used) in graph.values.iter_mut().zip(used) {
        if !used {
            slot.constant = None;
        }
    }
    Ok(())
}
