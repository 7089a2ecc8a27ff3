//! Convolutions with what follows them: batch normalisation becomes part of filters and bias, an activation is computed
//! with the results.

use super::uses::uses;
use crate::error::Error;
use crate::graph::{Context, Graph, Operator};
use crate::ops::{Conv, Function, batch_norm_affine, conv_activation};
use crate::tensor::Tensor;
use std::any::Any;

/// Fuses each convolution with as many nodes after it as can be.
pub(crate) fn run(graph: &mut Graph, ctx: &Context<'_>) -> Result<(), Error> {
    let (count, mut maker) = uses(graph);
    for i in 0..graph.nodes.len() {
        let Some(input) = graph.nodes[i].inputs.first().copied().flatten() else { continue };
        let Some(before) = maker[input as usize].filter(|_| count[input as usize] == 1) else { continue };
        let conv = (&*graph.nodes[before].operator as &dyn Any).downcast_ref::<Conv>();
        if conv.is_none_or(|conv| conv.activation.is_some()) || graph.nodes[before].outputs.len() != 1 {
            continue;
        }
        let fused = match conv_activation(&*graph.nodes[i].operator, &constants(graph, i)) {
            Some(function) => activated(graph, before, function),
            None => normalised(graph, ctx, before, i)?,
        };
        if fused {
            // The convolution gives what the other node gave, which gives nothing any more.
            let outputs = std::mem::take(&mut graph.nodes[i].outputs);
            graph.nodes[before].outputs = outputs.into_iter().take(1).collect();
            graph.nodes[before].outputs.iter().flatten().for_each(|id| maker[*id as usize] = Some(before));
            graph.nodes[i].inputs.clear();
        }
    }
    Ok(())
}

fn constants(graph: &Graph, i: usize) -> Vec<Option<Tensor>> {
    let constant = |id: &Option<u32>| graph.constant(*id).and_then(|value| value.tensor().ok().cloned());
    graph.nodes[i].inputs.iter().map(constant).collect()
}

fn activated(graph: &mut Graph, at: usize, function: Function) -> bool {
    let operator: &mut dyn Operator = &mut *graph.nodes[at].operator;
    match (operator as &mut dyn Any).downcast_mut::<Conv>() {
        Some(conv) => {
            conv.activation = Some(function);
            true
        }
        None => false,
    }
}

/// Multiplies filters and bias by the factors of a batch normalisation.
fn normalised(graph: &mut Graph, _ctx: &Context<'_>, conv: usize, norm: usize) -> Result<bool, Error> {
    if graph.nodes[norm].outputs.iter().skip(1).any(Option::is_some) {
        return Ok(false);
    }
    let Some(affine) = batch_norm_affine(&*graph.nodes[norm].operator, &constants(graph, norm)) else {
        return Ok(false);
    };
    let own = constants(graph, conv);
    let Some(Some(w)) = own.get(1) else { return Ok(false) };
    let bias = match (graph.nodes[conv].inputs.get(2).copied().flatten(), own.get(2)) {
        (None, _) => vec![0.0; affine.len()],
        (Some(_), Some(Some(bias))) => bias.f32s()?.to_vec(),
        _ => return Ok(false),
    };
    let outputs = w.shape().first().copied().unwrap_or(0);
    if w.f32s().is_err() || outputs != affine.len() || bias.len() != affine.len() || outputs == 0 {
        return Ok(false);
    }
    let each = w.len() / outputs;
    let scaled = w.f32s()?.iter().enumerate().map(|(i, v)| v * affine[i / each.max(1)].0).collect();
    let moved = bias.iter().zip(&affine).map(|(b, (factor, offset))| b * factor + offset).collect();
    let w = Tensor::of(w.shape(), scaled);
    let name = graph.nodes[conv].name.clone();
    let w = graph.add(&format!("{name} filters"), Some(w.into()));
    let bias = graph.add(&format!("{name} bias"), Some(Tensor::vector::<f32>(moved).into()));
    let x = graph.nodes[conv].inputs[0];
    graph.nodes[conv].inputs = vec![x, Some(w), Some(bias)];
    Ok(true)
}
