//! [`Graph`]: values and nodes as they are computed, and [`Operator`], the computation of a node with its attributes
//! read. Passes change a graph, the executor runs it.

use crate::error::Error;
use crate::inputs::Inputs;
use crate::limits::Limits;
use crate::shape::{Shape, elements};
use crate::tensor::{Element, ElementType, Tensor};
use crate::trace::Trace;
use crate::value::Value;
use leyden_kernels::Cpu;
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::cell::Cell;
use std::fmt::Debug;

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
    pub(crate) trace: Option<&'c Trace>,
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
