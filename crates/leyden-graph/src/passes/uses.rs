//! Uses of values.

use crate::graph::Graph;

/// Returns, for each value, the number of its uses, and the node that gives it.
pub(crate) fn uses(graph: &Graph) -> (Vec<usize>, Vec<Option<usize>>) {
    let (mut count, mut maker) = (vec![0; graph.values.len()], vec![None; graph.values.len()]);
    for (i, node) in graph.nodes.iter().enumerate() {
        node.inputs.iter().flatten().for_each(|id| count[*id as usize] += 1);
        node.outputs.iter().flatten().for_each(|id| maker[*id as usize] = Some(i));
    }
    graph.outputs.iter().for_each(|id| count[*id as usize] += 1);
    (count, maker)
}
