//! Passes: changes of a graph that give the same results faster. One file and one row of [`PASSES`] each.
//!
//! They run in order, then in the graphs within nodes, which know the outer graph's constants by then. A pass sees operators by their types
//! (`node.operator` as `Any`), and constants by their values.

mod captures;
mod dead;
mod fold;
mod fuse_conv;
mod fuse_product;
mod uses;

use crate::error::Error;
use crate::graph::{Context, Graph};
use crate::tensor::Tensor;
use leyden_kernels::Cpu;

/// A change of a graph.
type Pass = fn(&mut Graph, &Context<'_>) -> Result<(), Error>;

/// All passes, in order.
const PASSES: &[(&str, Pass)] = &[
    ("fold", fold::run),
    ("dead", dead::run),
    ("fuse convolutions", fuse_conv::run),
    ("fuse products", fuse_product::run),
    ("dead", dead::run),
    ("captures", captures::run),
];

/// Runs all passes.
pub(crate) fn run(graph: &mut Graph, ctx: &Context<'_>) -> Result<(), Error> {
    for (_, pass) in PASSES {
        pass(graph, ctx)?;
    }
    for node in &mut graph.nodes {
        for inner in node.operator.graphs_mut() {
            run(inner, ctx)?;
        }
    }
    Ok(())
}

/// Lets operators take their constants into faster forms.
pub(crate) fn prepare(graph: &mut Graph, cpu: &Cpu) -> Result<(), Error> {
    let Graph { nodes, values, .. } = graph;
    for node in nodes {
        let constant = |id: &Option<u32>| values.get((*id)? as usize)?.constant.as_ref()?.tensor().ok();
        let constants: Vec<Option<&Tensor>> = node.inputs.iter().map(constant).collect();
        node.operator.prepare(cpu, &constants).map_err(|e| e.node(&node.name, &node.op))?;
        for inner in node.operator.graphs_mut() {
            prepare(inner, cpu)?;
        }
    }
    Ok(())
}
