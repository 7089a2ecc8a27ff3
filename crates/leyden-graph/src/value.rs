//! [`Value`]: anything that flows between nodes: tensors, sequences, maps, and nothing.

use crate::error::Error;
use crate::tensor::Tensor;
use std::sync::Arc;

/// Key of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the types")]
pub enum Key {
    Int(i64),
    Text(String),
}

/// A value between nodes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A sequence.
    Sequence(Arc<Vec<Value>>),
    /// Numbers by labels, in the labels' order.
    Map(Arc<Vec<(Key, f32)>>),
    /// An optional value that is absent.
    Absent,
}

impl Value {
    /// Returns the tensor.
    ///
    /// # Errors
    /// It is something else.
    pub fn tensor(&self) -> Result<&Tensor, Error> {
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            other => Err(format!("is {} where a tensor should be", other.kind()).into()),
        }
    }

    /// Returns the tensor by value.
    pub(crate) fn into_tensor(self) -> Result<Tensor, Error> {
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            other => Err(format!("is {} where a tensor should be", other.kind()).into()),
        }
    }

    /// Returns the values of a sequence.
    pub(crate) fn sequence(&self) -> Result<&Arc<Vec<Value>>, Error> {
        match self {
            Value::Sequence(values) => Ok(values),
            other => Err(format!("is {} where a sequence should be", other.kind()).into()),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) => "a tensor",
            Value::Sequence(_) => "a sequence",
            Value::Map(_) => "a map",
            Value::Absent => "absent",
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }
}
