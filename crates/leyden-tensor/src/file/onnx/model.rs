//! The graph of an ONNX model as data.

use crate::file::TensorInfo;
use crate::file::source::FileBytes;

/// A graph; its nodes are sorted topologically.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OnnxGraph {
    /// Name.
    pub name: String,
    /// Inputs. Old files list initialisers here too.
    pub inputs: Vec<OnnxValue>,
    /// Outputs.
    pub outputs: Vec<OnnxValue>,
    /// Nodes.
    pub nodes: Vec<OnnxNode>,
    /// Initialisers of a graph within a node. Those of the model's own graph are the tensors of [`Onnx`](crate::Onnx),
    /// texts excepted, which are here.
    pub initialisers: Vec<OnnxTensor>,
}

/// One operation.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OnnxNode {
    /// Name, or number and operation of a node without a name.
    pub name: String,
    /// Operation (`op_type`).
    pub op: String,
    /// Domain of the operation; empty for ONNX's own.
    pub domain: String,
    /// Names of the inputs; an empty name is an optional input that is not given.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Attributes.
    pub attributes: Vec<(String, OnnxAttribute)>,
    /// Distinguishes functions of one name.
    pub overload: String,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OnnxAttribute {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A text, mostly UTF-8.
    Text(Vec<u8>),
    /// A tensor.
    Tensor(Box<OnnxTensor>),
    /// A graph: a branch, or the body of a loop.
    Graph(Box<OnnxGraph>),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Texts.
    Texts(Vec<Vec<u8>>),
    /// Tensors.
    Tensors(Vec<OnnxTensor>),
    /// Graphs.
    Graphs(Vec<OnnxGraph>),
    /// A description of a type.
    Type,
    /// The attribute of this name at the node that calls the function.
    OfCaller(String),
}

/// A function of a model: nodes that take the place of a node of its name and domain.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OnnxFunction {
    /// Name.
    pub name: String,
    /// Domain; empty for ONNX's own.
    pub domain: String,
    /// Distinguishes functions of one name (`overload`).
    pub overload: String,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Attributes that a caller may leave out, with their values.
    pub defaults: Vec<(String, OnnxAttribute)>,
    /// Nodes, sorted topologically.
    pub nodes: Vec<OnnxNode>,
    /// Versions of operator sets.
    pub opsets: Vec<(String, i64)>,
}

/// A tensor other than an initialiser of the model's own graph.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OnnxTensor {
    /// Type and shape.
    pub info: TensorInfo,
    /// Values, little-endian; empty for texts.
    pub bytes: FileBytes,
    /// Values of type `STRING`, mostly UTF-8.
    pub texts: Vec<Vec<u8>>,
}

/// An input or output of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnnxValue {
    /// Name.
    pub name: String,
    /// Type of the values, as in [`TensorInfo::type_name`]; `None` if it is not a tensor or the type is unknown.
    pub type_name: Option<&'static str>,
    /// Dimensions, if the file gives their number.
    pub shape: Option<Vec<OnnxDim>>,
}

/// Size of a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnnxDim {
    /// A fixed size.
    Size(usize),
    /// A named size: the same wherever the name appears.
    Named(String),
    /// Any size.
    Unknown,
}

impl OnnxNode {
    /// Returns the attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&OnnxAttribute> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// Returns the integer of this name; `None` if there is none.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.attribute(name) {
            Some(OnnxAttribute::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// Returns the float of this name; `None` if there is none.
    pub fn float(&self, name: &str) -> Option<f32> {
        match self.attribute(name) {
            Some(OnnxAttribute::Float(value)) => Some(*value),
            _ => None,
        }
    }

    /// Returns the integers of this name; `None` if there are none.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attribute(name) {
            Some(OnnxAttribute::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// Returns the tensor of this name; `None` if there is none.
    pub fn tensor(&self, name: &str) -> Option<&OnnxTensor> {
        match self.attribute(name) {
            Some(OnnxAttribute::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the graphs among the attributes: branches and bodies of loops.
    pub fn graphs(&self) -> impl Iterator<Item = &OnnxGraph> {
        self.attributes.iter().flat_map(|(_, value)| match value {
            OnnxAttribute::Graph(graph) => std::slice::from_ref(&**graph),
            OnnxAttribute::Graphs(graphs) => graphs.as_slice(),
            _ => &[],
        })
    }

    pub(super) fn graphs_mut(&mut self) -> impl Iterator<Item = &mut OnnxGraph> {
        self.attributes.iter_mut().flat_map(|(_, value)| match value {
            OnnxAttribute::Graph(graph) => std::slice::from_mut(&mut **graph),
            OnnxAttribute::Graphs(graphs) => graphs.as_mut_slice(),
            _ => &mut [],
        })
    }
}
