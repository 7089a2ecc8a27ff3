//! The executor: computes the nodes of a graph in order. A value is dropped, or given to a node to write in place, at
//! its last use.

use crate::error::Error;
use crate::graph::{Context, Graph, Node, Outputs};
use crate::inputs::Inputs;
use crate::tensor::ElementType;
use crate::trace::NodeTime;
use crate::value::Value;
use std::time::Instant;

/// Computes a graph. `captures` are the outer values that it uses.
///
/// # Errors
/// A node fails; the error names it.
pub(crate) fn run(
    graph: &Graph,
    ctx: &Context<'_>,
    inputs: Vec<Option<Value>>,
    captures: &[Option<Value>],
) -> Result<Vec<Value>, Error> {
    let mut slots: Vec<Option<Value>> = vec![None; graph.values.len()];
    for (input, value) in graph.inputs.iter().zip(inputs) {
        slots[input.id as usize] = value;
    }
    for (id, at) in &graph.captures {
        slots[*id as usize] = captures.get(*at).cloned().flatten();
    }
    for (i, node) in graph.nodes.iter().enumerate() {
        let last = graph.last.get(i).copied().unwrap_or(0);
        let mut given = Inputs::default();
        for (i, id) in node.inputs.iter().enumerate() {
            given.0.push(id.and_then(|id| match &graph.values[id as usize].constant {
                Some(constant) => Some(constant.clone()),
                None if i < 64 && last >> i & 1 == 1 => slots[id as usize].take(),
                None => slots[id as usize].clone(),
            }));
        }
        let results = node_outputs(graph, i, ctx, given)?;
        for (id, value) in node.outputs.iter().zip(results) {
            if let Some(id) = id {
                slots[*id as usize] = Some(value);
            }
        }
    }
    let taken = |id: &u32| {
        let slot = &graph.values[*id as usize];
        let value = slot.constant.clone().or_else(|| slots[*id as usize].clone());
        value.ok_or_else(|| Error::invalid(format!("output `{}` was not computed", slot.name)))
    };
    graph.outputs.iter().map(taken).collect()
}

/// Computes one node.
pub(crate) fn node_outputs(
    graph: &Graph,
    i: usize,
    ctx: &Context<'_>,
    inputs: Inputs,
) -> Result<Outputs, Error> {
    let node = &graph.nodes[i];
    ctx.count().map_err(|e| e.node(&node.name, &node.op))?;
    let shapes = |inputs: &Inputs| {
        let tensors = inputs.0.iter().flatten().filter_map(|value| value.tensor().ok());
        tensors.map(|tensor| tensor.shape().to_vec()).collect()
    };
    let timed = ctx.trace.map(|trace| (trace, shapes(&inputs), Instant::now()));
    let result = computed(node, ctx, inputs).map_err(|e| e.node(&node.name, &node.op))?;
    if let Some((trace, shapes, start)) = timed {
        let (node, operator) = (node.name.clone(), node.op.clone());
        trace.0.borrow_mut().push(NodeTime { node, operator, shapes, time: start.elapsed() });
    }
    Ok(result)
}

/// Computes one node; floats of 16 bits are computed as 32-bit ones, except where they are only moved.
fn computed(node: &Node, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
    let half = |value: &Option<Value>| match value {
        Some(Value::Tensor(tensor)) => {
            Some(tensor.ty()).filter(|ty| matches!(ty, ElementType::F16 | ElementType::BF16))
        }
        _ => None,
    };
    if node.operator.moves_halves() {
        return node.operator.run(ctx, inputs);
    }
    let Some(ty) = inputs.0.iter().find_map(half) else { return node.operator.run(ctx, inputs) };
    for value in inputs.0.iter_mut() {
        if let Some(Value::Tensor(tensor)) = value.take_if(|value| half(&Some(value.clone())).is_some()) {
            *value = Some(tensor.widened().into());
        }
    }
    let outputs = node.operator.run(ctx, inputs)?;
    let narrowed = outputs.into_iter().map(|value| match value {
        Value::Tensor(tensor) => tensor.narrowed(ty).into(),
        other => other,
    });
    Ok(narrowed.collect())
}
