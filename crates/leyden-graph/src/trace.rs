//! Times of nodes.

use std::cell::RefCell;
use std::time::Duration;

/// Time that a node took.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeTime {
    /// Name of the node.
    pub node: String,
    /// Operator.
    pub operator: String,
    /// Shapes of the inputs that are tensors.
    pub shapes: Vec<Vec<usize>>,
    /// Time; of a node with graphs including theirs.
    pub time: Duration,
}

/// Times of nodes, while they are taken.
#[derive(Debug, Default)]
pub(crate) struct Trace(pub(crate) RefCell<Vec<NodeTime>>);
