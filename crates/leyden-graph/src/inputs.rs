//! [`Inputs`]: the values that a node gets. Those that nobody needs afterwards are its own, to be written in place.

use crate::error::Error;
use crate::tensor::{Element, Tensor};
use crate::value::Value;
use smallvec::SmallVec;

/// Values of a node's inputs; `None` for optional inputs that are not given.
#[derive(Debug, Default)]
pub(crate) struct Inputs(pub(crate) SmallVec<[Option<Value>; 6]>);

fn at(i: usize) -> impl Fn(Error) -> Error {
    move |e| Error::invalid(format!("input {i} {e}"))
}

impl Inputs {
    /// Returns the number of inputs.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the input is given.
    pub(crate) fn has(&self, i: usize) -> bool {
        self.0.get(i).is_some_and(Option::is_some)
    }

    /// Returns a value.
    pub(crate) fn value(&self, i: usize) -> Result<&Value, Error> {
        self.0.get(i).and_then(Option::as_ref).ok_or_else(|| format!("input {i} is missing").into())
    }

    /// Returns a value as the operator's own.
    pub(crate) fn take_value(&mut self, i: usize) -> Result<Value, Error> {
        self.0.get_mut(i).and_then(Option::take).ok_or_else(|| format!("input {i} is missing").into())
    }

    /// Returns a tensor.
    pub(crate) fn tensor(&self, i: usize) -> Result<&Tensor, Error> {
        self.value(i)?.tensor().map_err(at(i))
    }

    /// Returns a tensor as the operator's own.
    pub(crate) fn take(&mut self, i: usize) -> Result<Tensor, Error> {
        self.take_value(i)?.into_tensor().map_err(at(i))
    }

    /// Returns a tensor if it is given.
    pub(crate) fn optional(&self, i: usize) -> Result<Option<&Tensor>, Error> {
        if self.has(i) { self.tensor(i).map(Some) } else { Ok(None) }
    }

    /// Returns values of a type.
    pub(crate) fn values<T: Element>(&self, i: usize) -> Result<&[T], Error> {
        self.tensor(i)?.values().map_err(at(i))
    }

    /// Returns values of a type if they are given.
    pub(crate) fn optional_values<T: Element>(&self, i: usize) -> Result<Option<&[T]>, Error> {
        if self.has(i) { self.values(i).map(Some) } else { Ok(None) }
    }

    /// Returns integers.
    pub(crate) fn ints(&self, i: usize) -> Result<Vec<i64>, Error> {
        self.tensor(i)?.ints().map_err(at(i))
    }

    /// Returns integers if they are given.
    pub(crate) fn optional_ints(&self, i: usize) -> Result<Option<Vec<i64>>, Error> {
        if self.has(i) { self.ints(i).map(Some) } else { Ok(None) }
    }

    /// Returns the only integer of an input.
    pub(crate) fn int(&self, i: usize) -> Result<i64, Error> {
        self.tensor(i)?.int().map_err(at(i))
    }
}
