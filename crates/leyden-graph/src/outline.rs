//! Contents of a graph, for people.

use crate::tensor::ElementType;
use std::collections::BTreeMap;

/// An input of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphInput {
    /// Name.
    pub name: String,
    /// Type of the elements, if the file gives it.
    pub ty: Option<ElementType>,
    /// Dimensions, if the file gives them: a number, a name, or `?`.
    pub shape: Option<Vec<String>>,
}

/// Contents of a graph, for people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outline {
    /// Inputs.
    pub inputs: Vec<GraphInput>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Operators with the number of their nodes, those of graphs within nodes included.
    pub operators: BTreeMap<String, usize>,
    /// Operators that are not supported, in the form of messages.
    pub missing: Vec<String>,
}
