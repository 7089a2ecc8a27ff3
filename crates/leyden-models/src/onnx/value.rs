//! [`Value`]: traced value of a graph. It is a constant, a weight, or an expression that depends on the text.

use super::nums::Nums;
use super::weight::Weight;
use std::sync::Arc;

/// Traced value of a name in the graph.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Constants.
    Nums(Arc<Nums>),
    /// Weight in the file.
    Weight(Weight),
    /// Value that depends on the text.
    Text(Text),
    /// Result of `QuantizeLinear`, whose rounding is not reproduced.
    Quantised(Box<Value>),
    /// Integers from `DynamicQuantizeLinear` of a value.
    Codes(Text),
    /// Scale from `DynamicQuantizeLinear` of a value.
    Scale(Text),
    /// Zero point from `DynamicQuantizeLinear` of a value.
    Zero(Text),
    /// Scale of a value's integers times scales of weights.
    Scales(Text, Arc<Nums>),
    /// Product of a value's integers and a weight's, with zero points of the weight subtracted.
    IntProduct(Text, Weight, Option<Arc<Nums>>),
    /// Product of the integers of two values, with zero points subtracted.
    CodesProduct(Text, Text),
    /// Product of the scales of two values.
    ScalesProduct(Text, Text),
    /// Absent optional input.
    None,
}

impl Value {
    /// Returns the number of values that are decoded if the value is used as constants.
    pub(super) fn numbers(&self) -> usize {
        match self {
            Value::Weight(weight) if weight.is_small() => weight.stored.iter().product(),
            _ => 1,
        }
    }
}

/// Value that depends on the text: values of an operation's result in some order, times a factor.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// Index of the operation.
    pub(super) atom: usize,
    /// Number of values of the operation's result.
    pub(super) all: usize,
    pub(super) shape: Vec<usize>,
    /// Index of each value in the operation's result; `None` if the order is the same.
    pub(super) order: Option<Arc<Vec<u32>>>,
    pub(super) factor: f64,
}

impl Text {
    /// Returns true if it has all values of the operation in their order.
    pub(super) fn is_whole(&self) -> bool {
        self.order.is_none()
    }

    /// Returns true if it is the operation's result, unscaled.
    pub(super) fn is_plain(&self) -> bool {
        self.order.is_none() && self.factor == 1.0
    }

    /// Returns true if both are known to be the same value.
    pub(super) fn same(&self, other: &Text) -> bool {
        let place = || match (&self.order, &other.order) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        self.atom == other.atom && self.factor == other.factor && place()
    }
}

/// Elementwise operation on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
}

/// Elementwise function.
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

/// Operation of an expression.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Rows of a table.
    Rows { table: Weight, ids: Arc<Nums> },
    /// Product with a matrix `[inputs, outputs]`, and a bias.
    Linear { x: Text, weight: Weight, bias: Option<Weight> },
    /// Layer norm over the last axis, without weights and bias.
    Normed { x: Text, eps: f64 },
    /// Layer norm over the last axis.
    Norm { x: Text, weight: Weight, bias: Option<Weight>, eps: f64 },
    /// Elementwise operation on two values.
    Binary(Binary, Text, Text),
    /// Sum of a value and a constant.
    Plus(Text, f64),
    /// Elementwise function.
    Function(Function, Text),
    /// Matrix product of two values.
    Product(Text, Text),
    /// Softmax over the last axis.
    Softmax(Text),
    /// Mean over the last axis, which stays with length 1.
    Mean(Text),
}

/// Operation of an expression, with the shape of its result and the index of its last node.
#[derive(Clone, Debug)]
pub(super) struct Atom {
    pub(super) op: Op,
    pub(super) shape: Vec<usize>,
    pub(super) node: usize,
}
