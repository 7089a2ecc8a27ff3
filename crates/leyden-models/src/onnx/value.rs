//! What the values of a graph are before a text is known: numbers, weights, and what depends on the text, as a tree of
//! computations.

use super::nums::Nums;
use super::weight::Weight;
use std::sync::Arc;

/// The value of a name in the graph.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Known numbers.
    Nums(Arc<Nums>),
    Weight(Weight),
    /// What depends on the text.
    Text(Text),
    /// What `QuantizeLinear` makes of a value. Its rounding is not computed.
    Quantised(Box<Value>),
    /// What `DynamicQuantizeLinear` makes of it: integers, their scale, their zero point.
    Codes(Text),
    Scale(Text),
    Zero(Text),
    /// The scale of a text's integers, times those of weights.
    Scales(Text, Arc<Nums>),
    /// The product of a text's integers and those of weights, less zero points.
    IntProduct(Text, Weight, Option<Arc<Nums>>),
    /// The product of the integers of two values of a text, less zero points, and of their scales.
    CodesProduct(Text, Text),
    ScalesProduct(Text, Text),
    /// An input that is left out.
    None,
}

impl Value {
    /// How many numbers are read of it where numbers are wanted.
    pub(super) fn numbers(&self) -> usize {
        match self {
            Value::Weight(weight) if weight.is_small() => weight.stored.iter().product(),
            _ => 1,
        }
    }
}

/// Values of a computation in some order, times a factor.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// The number of the computation.
    pub(super) atom: usize,
    /// How many values that has.
    pub(super) all: usize,
    pub(super) shape: Vec<usize>,
    /// Where each value lies among those of the computation; `None` if the order is the same.
    pub(super) order: Option<Arc<Vec<u32>>>,
    pub(super) factor: f64,
}

impl Text {
    /// All values of a computation in their order.
    pub(super) fn is_whole(&self) -> bool {
        self.order.is_none()
    }

    /// All values as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.order.is_none() && self.factor == 1.0
    }

    pub(super) fn same(&self, other: &Text) -> bool {
        let place = || match (&self.order, &other.order) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        self.atom == other.atom && self.factor == other.factor && place()
    }
}

/// An operation on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
}

/// A function of each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Gelu,
    GeluTanh,
    Relu,
    Tanh,
    Erf,
    Sqrt,
    Square,
    Cube,
    Reciprocal,
    Sigmoid,
}

/// One computation.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Rows of a table.
    Rows {
        table: Weight,
        ids: Arc<Nums>,
    },
    /// A product with a matrix, which has a row for each input, and a bias.
    Linear {
        x: Text,
        weight: Weight,
        bias: Option<Weight>,
    },
    /// Less the mean and divided by the standard deviation, over the last axis.
    Normed {
        x: Text,
        eps: f64,
    },
    /// The same with weights and a bias.
    Norm {
        x: Text,
        weight: Weight,
        bias: Option<Weight>,
        eps: f64,
    },
    Binary(Binary, Text, Text),
    /// Plus a number.
    Plus(Text, f64),
    Function(Function, Text),
    /// The product of two.
    Product(Text, Text),
    /// Over the last axis.
    Softmax(Text),
    /// Over the last axis, which stays.
    Mean(Text),
}

/// A computation and the node that it ends with.
#[derive(Clone, Debug)]
pub(super) struct Atom {
    pub(super) op: Op,
    pub(super) shape: Vec<usize>,
    pub(super) node: usize,
}
