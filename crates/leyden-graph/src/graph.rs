//! [`Graph`]: values and nodes as they are computed. Passes change it, the executor runs it.

use crate::operator::Operator;
use crate::tensor::ElementType;
use crate::value::Value;

/// Position of a value in [`Graph::values`].
pub(crate) type ValueId = u32;

/// Size of a dimension as the file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dim {
    Size(usize),
    Named(String),
    Unknown,
}

/// A value: an input, a constant, or the output of a node.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) constant: Option<Value>,
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) op: String,
    pub(crate) operator: Box<dyn Operator>,
    /// Own inputs, then the outer values that graphs within the node use.
    pub(crate) inputs: Vec<Option<ValueId>>,
    /// `None` for outputs that nobody uses.
    pub(crate) outputs: Vec<Option<ValueId>>,
}

/// An input as the file declares it.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) id: ValueId,
    pub(crate) ty: Option<ElementType>,
    pub(crate) shape: Option<Vec<Dim>>,
}

/// A graph, its nodes in an order in which they can be computed.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) values: Vec<Slot>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<ValueId>,
    pub(crate) nodes: Vec<Node>,
    /// Values that come from the outer graph: own id, and position among the captures of the node.
    pub(crate) captures: Vec<(ValueId, usize)>,
    /// For each node, the inputs that it uses last; filled by `Graph::plan`.
    pub(crate) last: Vec<u64>,
}

impl Graph {
    /// Returns a value's constant.
    pub(crate) fn constant(&self, id: Option<ValueId>) -> Option<&Value> {
        self.values.get(id? as usize)?.constant.as_ref()
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, name: &str, constant: Option<Value>) -> ValueId {
        self.values.push(Slot { name: name.to_owned(), constant });
        (self.values.len() - 1) as ValueId
    }

    /// Finds, for each node, the inputs that nobody uses afterwards, as bits of a word.
    pub(crate) fn plan(&mut self) {
        let mut used = vec![false; self.values.len()];
        for id in &self.outputs {
            used[*id as usize] = true;
        }
        self.last = vec![0; self.nodes.len()];
        for (node, last) in self.nodes.iter_mut().zip(&mut self.last).rev() {
            for (i, id) in node.inputs.iter().enumerate().rev() {
                let Some(id) = id else { continue };
                if !std::mem::replace(&mut used[*id as usize], true) && i < 64 {
                    *last |= 1 << i;
                }
            }
            for graph in node.operator.graphs_mut() {
                graph.plan();
            }
        }
    }
}
