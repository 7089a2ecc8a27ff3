//! [`Operator`]: the computation of a node, with its attributes read.

use crate::error::Error;
use crate::graph::Graph;
use crate::inputs::Inputs;
use crate::limits::Limits;
use crate::shape::{Shape, elements};
use crate::tensor::{Element, Tensor};
use crate::value::Value;
use leyden_kernels::Cpu;
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::cell::Cell;
use std::fmt::Debug;

/// Values that a node gives, in the order of its outputs; fewer are left out.
pub(crate) type Outputs = SmallVec<[Value; 2]>;

/// Returns the only output.
pub(crate) fn one(value: impl Into<Value>) -> Result<Outputs, Error> {
    Ok(smallvec![value.into()])
}

/// The computation of a node.
pub(crate) trait Operator: Any + Debug + Send + Sync {
    /// Computes the outputs.
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error>;

    /// Returns true if equal inputs give equal outputs, so that the node may be computed at load.
    fn is_pure(&self) -> bool {
        true
    }

    /// Returns true if the operator takes 16-bit floats as they are; else they become 32-bit ones around it.
    fn moves_halves(&self) -> bool {
        false
    }

    /// Takes constant inputs into a form that computes faster; called once, after all passes. Inputs stay as they are.
    fn prepare(&mut self, _cpu: &Cpu, _constants: &[Option<&Tensor>]) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the graphs within the node.
    fn graphs(&self) -> Vec<&Graph> {
        Vec::new()
    }

    /// Returns the graphs within the node.
    fn graphs_mut(&mut self) -> Vec<&mut Graph> {
        Vec::new()
    }
}

/// Surroundings of a run.
pub(crate) struct Context<'c> {
    pub(crate) cpu: &'c Cpu,
    pub(crate) limits: Limits,
    /// Nodes computed so far.
    pub(crate) nodes: Cell<u64>,
    /// State of the generator of random numbers.
    pub(crate) random: Cell<u64>,
    pub(crate) trace: Option<&'c crate::executor::Trace>,
}

impl Context<'_> {
    /// Returns the number of elements of a shape.
    ///
    /// # Errors
    /// A tensor of this shape would exceed the limit.
    pub(crate) fn elements(&self, shape: &[usize], bytes: usize) -> Result<usize, Error> {
        let n = elements(shape)?;
        if n.saturating_mul(bytes) > self.limits.tensor_bytes {
            let limit = self.limits.tensor_bytes;
            return Err(format!("a result of shape {shape:?} exceeds the limit of {limit} bytes").into());
        }
        Ok(n)
    }

    /// Returns zeros for a result.
    ///
    /// # Errors
    /// They would exceed the limit.
    pub(crate) fn zeros<T: Element>(&self, shape: &[usize]) -> Result<Vec<T>, Error> {
        Ok(vec![T::default(); self.elements(shape, size_of::<T>())?])
    }

    /// Counts a node against the limit.
    pub(crate) fn count(&self) -> Result<(), Error> {
        let n = self.nodes.get() + 1;
        self.nodes.set(n);
        if n > self.limits.nodes {
            return Err(format!("more than {} nodes were computed", self.limits.nodes).into());
        }
        Ok(())
    }

    /// Returns a tensor of a function of the position.
    pub(crate) fn filled<T: Element>(
        &self,
        shape: &[usize],
        f: impl Fn(usize) -> T,
    ) -> Result<Tensor, Error> {
        let n = self.elements(shape, size_of::<T>())?;
        Ok(Tensor::of(Shape::from_slice(shape), (0..n).map(f).collect()))
    }
}
