//! Products with what follows them: a bias of the columns, and an activation.

use super::uses::uses;
use crate::error::Error;
use crate::graph::{Context, Graph, Operator};
use crate::ops::{Gemm, MatMul, conv_activation, is_add};
use crate::tensor::{ElementType, Tensor};
use std::any::Any;

/// Fuses biases, then activations.
pub(crate) fn run(graph: &mut Graph, _ctx: &Context<'_>) -> Result<(), Error> {
    let (count, mut maker) = uses(graph);
    for i in 0..graph.nodes.len() {
        for side in 0..graph.nodes[i].inputs.len().min(2) {
            let Some(input) = graph.nodes[i].inputs.get(side).copied().flatten() else { continue };
            let Some(before) = maker[input as usize].filter(|at| count[input as usize] == 1 && *at != i)
            else {
                continue;
            };
            if fused(graph, before, i, side) {
                let outputs = std::mem::take(&mut graph.nodes[i].outputs);
                graph.nodes[before].outputs = outputs.into_iter().take(1).collect();
                graph.nodes[before]
                    .outputs
                    .iter()
                    .flatten()
                    .for_each(|id| maker[*id as usize] = Some(before));
                graph.nodes[i].inputs.clear();
                break;
            }
        }
    }
    Ok(())
}

fn constant(graph: &Graph, id: Option<u32>) -> Option<&Tensor> {
    graph.constant(id)?.tensor().ok()
}

/// Makes node `i` part of the product before it, if it can be.
fn fused(graph: &mut Graph, before: usize, i: usize, side: usize) -> bool {
    let constants: Vec<Option<Tensor>> =
        graph.nodes[i].inputs.iter().map(|id| constant(graph, *id).cloned()).collect();
    let function = if side == 0 { conv_activation(&*graph.nodes[i].operator, &constants) } else { None };
    // The bias must be a row as long as the constant matrix is wide.
    let columns = constant(graph, graph.nodes[before].inputs.get(1).copied().flatten())
        .filter(|b| b.rank() == 2 && b.ty() == ElementType::F32)
        .map(|b| b.shape()[1]);
    if columns.is_none() || graph.nodes[before].outputs.len() != 1 {
        return false;
    }
    let other = graph.nodes[i].inputs.get(1 - side).copied().flatten();
    let bias = other.filter(|id| {
        is_add(&*graph.nodes[i].operator)
            && constant(graph, Some(*id))
                .is_some_and(|b| b.ty() == ElementType::F32 && b.rank() == 1 && Some(b.len()) == columns)
    });
    let operator: &mut dyn Operator = &mut *graph.nodes[before].operator;
    let any = operator as &mut dyn Any;
    if let Some(gemm) = any.downcast_mut::<Gemm>() {
        if gemm.activation.is_none() && function.is_some() {
            gemm.activation = function;
            return true;
        }
        return false;
    }
    let Some(product) = any.downcast_mut::<MatMul>() else { return false };
    if product.alpha.is_some() || product.turned[1] || product.activation.is_some() {
        return false;
    }
    if function.is_some() {
        product.activation = function;
        return true;
    }
    match bias {
        Some(id) if !product.bias => {
            product.bias = true;
            graph.nodes[before].inputs.push(Some(id));
            true
        }
        _ => false,
    }
}
