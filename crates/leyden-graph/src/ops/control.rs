//! Control flow: branches, loops and scans. Values of outer graphs are inputs after the node's own.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::executor;
use crate::graph::{Context, Graph, Operator, Outputs};
use crate::inputs::Inputs;
use crate::ops::concat::{joined, part};
use crate::shape::{Shape, axis};
use crate::tensor::Tensor;
use crate::value::Value;

/// Returns the only truth value of a tensor.
fn truth(x: &Tensor) -> Result<bool, Error> {
    match x.truths()? {
        [one] => Ok(*one != 0),
        other => Err(format!("a condition has {} values", other.len()).into()),
    }
}

#[derive(Debug)]
struct If {
    branches: [Graph; 2],
}

impl Operator for If {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let branch = usize::from(truth(inputs.tensor(0)?)?);
        let captures = &inputs.0[1..];
        Ok(executor::run(&self.branches[branch], ctx, Vec::new(), captures)?.into())
    }

    fn moves_halves(&self) -> bool {
        true
    }

    fn graphs(&self) -> Vec<&Graph> {
        self.branches.iter().collect()
    }

    fn graphs_mut(&mut self) -> Vec<&mut Graph> {
        self.branches.iter_mut().collect()
    }
}

pub(crate) fn if_op(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(If { branches: [a.graph("else_branch")?, a.graph("then_branch")?] }))
}

/// Joins results of iterations along a new first dimension.
fn stacked(ctx: &Context<'_>, parts: Vec<Value>, at: usize) -> Result<Value, Error> {
    let tensors = parts.into_iter().map(|part| {
        let tensor = part.into_tensor()?;
        let mut shape = Shape::from_slice(tensor.shape());
        if at > shape.len() {
            return Err(Error::invalid(format!("axis {at} is outside shape {shape:?}")));
        }
        shape.insert(at, 1);
        tensor.reshaped(shape)
    });
    let tensors = tensors.collect::<Result<Vec<_>, Error>>()?;
    Ok(joined(ctx, &tensors.iter().collect::<Vec<_>>(), at)?.into())
}

#[derive(Debug)]
struct Loop {
    body: Graph,
    /// Number of the node's own inputs.
    own: usize,
}

impl Operator for Loop {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let most = if inputs.has(0) { inputs.int(0)? } else { i64::MAX };
        let mut going = if inputs.has(1) { truth(inputs.tensor(1)?)? } else { true };
        let carried = self.own - 2;
        let mut state: Vec<Option<Value>> = (2..self.own).map(|i| inputs.0[i].take()).collect();
        let captures = &inputs.0[self.own..];
        let scans = self.body.outputs.len().saturating_sub(1 + carried);
        let mut results: Vec<Vec<Value>> = vec![Vec::new(); scans];
        if self.body.inputs.len() != carried + 2 || self.body.outputs.len() < carried + 1 {
            return Err(format!("the body's inputs and outputs do not fit {carried} carried values").into());
        }
        let mut i = 0_i64;
        while i < most && going {
            let mut given: Vec<Option<Value>> =
                vec![Some(Tensor::scalar(i).into()), Some(Tensor::bools(Shape::new(), vec![1]).into())];
            given.append(&mut state);
            let mut values = executor::run(&self.body, ctx, given, captures)?.into_iter();
            let next = values.next().ok_or("the body has no condition")?;
            going = truth(next.tensor()?)?;
            state = values.by_ref().take(carried).map(Some).collect();
            for (to, value) in results.iter_mut().zip(values) {
                to.push(value);
            }
            i += 1;
            ctx.count()?;
        }
        let mut outputs = Outputs::new();
        for value in state {
            outputs.push(value.ok_or("a carried value is missing")?);
        }
        for parts in results {
            outputs.push(if parts.is_empty() {
                // Nothing is known of the shape but that there are no elements.
                Tensor::vector(Vec::<f32>::new()).into()
            } else {
                stacked(ctx, parts, 0)?
            });
        }
        Ok(outputs)
    }

    fn moves_halves(&self) -> bool {
        true
    }

    fn graphs(&self) -> Vec<&Graph> {
        vec![&self.body]
    }

    fn graphs_mut(&mut self) -> Vec<&mut Graph> {
        vec![&mut self.body]
    }
}

pub(crate) fn loop_op(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let own = a.node.inputs.len();
    if own < 2 {
        return Err(format!("{own} inputs where at least two should be").into());
    }
    Ok(Box::new(Loop { body: a.graph("body")?, own }))
}

#[derive(Debug)]
struct Scan {
    body: Graph,
    own: usize,
    scanned: usize,
    input_axes: Vec<i64>,
    output_axes: Vec<i64>,
    input_back: Vec<bool>,
    output_back: Vec<bool>,
    /// Version 8: a batch before the steps, and lengths as input 0.
    batched: bool,
}

impl Scan {
    /// Runs one sequence; `given` are the states, then the scanned tensors.
    fn sequence(
        &self,
        ctx: &Context<'_>,
        given: &[Tensor],
        captures: &[Option<Value>],
    ) -> Result<Vec<Value>, Error> {
        let states = given.len() - self.scanned;
        let mut state: Vec<Value> = given[..states].iter().cloned().map(Into::into).collect();
        let scanned = &given[states..];
        let mut axes = Vec::new();
        for (i, x) in scanned.iter().enumerate() {
            axes.push(axis(self.input_axes.get(i).copied().unwrap_or(0), x.rank())?);
        }
        let steps = scanned.first().map_or(0, |x| x.shape()[axes[0]]);
        if let Some(i) = (0..scanned.len()).find(|i| scanned[*i].shape()[axes[*i]] != steps) {
            return Err(format!("scanned input {i} has another number of steps than {steps}").into());
        }
        let n = self.body.outputs.len().checked_sub(states).ok_or("the body has too few outputs")?;
        if self.body.inputs.len() != given.len() {
            return Err(format!("the body has {} inputs, not {}", self.body.inputs.len(), given.len()).into());
        }
        let mut results: Vec<Vec<Value>> = vec![Vec::new(); n];
        for step in 0..steps {
            let mut values: Vec<Option<Value>> = state.drain(..).map(Some).collect();
            for (i, x) in scanned.iter().enumerate() {
                let back = self.input_back.get(i).copied().unwrap_or(false);
                let at = if back { steps - 1 - step } else { step };
                let mut shape = Shape::from_slice(x.shape());
                shape.remove(axes[i]);
                values.push(Some(part(x, axes[i], at, 1).reshaped(shape)?.into()));
            }
            let mut found = executor::run(&self.body, ctx, values, captures)?.into_iter();
            state.extend(found.by_ref().take(states));
            for (to, value) in results.iter_mut().zip(found) {
                to.push(value);
            }
        }
        for (i, mut parts) in results.into_iter().enumerate() {
            if self.output_back.get(i).copied().unwrap_or(false) {
                parts.reverse();
            }
            let rank = parts.first().map_or(Ok(1), |p| p.tensor().map(|t| t.rank() + 1))?;
            let at = axis(self.output_axes.get(i).copied().unwrap_or(0), rank)?;
            state.push(if parts.is_empty() {
                Tensor::vector(Vec::<f32>::new()).into()
            } else {
                stacked(ctx, parts, at)?
            });
        }
        Ok(state)
    }
}

impl Operator for Scan {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let first = usize::from(self.batched);
        let given = (first..self.own).map(|i| inputs.take(i)).collect::<Result<Vec<_>, _>>()?;
        if given.len() < self.scanned {
            return Err(format!("{} inputs where {} are scanned", given.len(), self.scanned).into());
        }
        let captures: Vec<Option<Value>> = inputs.0[self.own..].to_vec();
        if !self.batched {
            return Ok(self.sequence(ctx, &given, &captures)?.into());
        }
        if inputs.has(0) {
            return Err("lengths of sequences are not supported".into());
        }
        let batch = given.first().and_then(|x| x.shape().first().copied()).unwrap_or(0);
        let mut all: Vec<Vec<Value>> = Vec::new();
        for b in 0..batch {
            let row = |x: &Tensor| {
                if x.shape().first() != Some(&batch) {
                    return Err(Error::invalid(format!("shape {:?} has no batch of {batch}", x.shape())));
                }
                part(x, 0, b, 1).reshaped(Shape::from_slice(&x.shape()[1..]))
            };
            let rows = given.iter().map(row).collect::<Result<Vec<_>, _>>()?;
            for (i, value) in self.sequence(ctx, &rows, &captures)?.into_iter().enumerate() {
                if all.len() <= i {
                    all.push(Vec::new());
                }
                all[i].push(value);
            }
        }
        all.into_iter().map(|parts| stacked(ctx, parts, 0)).collect()
    }

    fn moves_halves(&self) -> bool {
        true
    }

    fn graphs(&self) -> Vec<&Graph> {
        vec![&self.body]
    }

    fn graphs_mut(&mut self) -> Vec<&mut Graph> {
        vec![&mut self.body]
    }
}

pub(crate) fn scan(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let flags = |name: &str| -> Result<Vec<bool>, Error> {
        Ok(a.ints(name)?.unwrap_or_default().into_iter().map(|v| v != 0).collect())
    };
    let batched = a.opset < 9;
    let (input_back, output_back) = if batched {
        (flags("directions")?, Vec::new())
    } else {
        (flags("scan_input_directions")?, flags("scan_output_directions")?)
    };
    let scanned = a.int("num_scan_inputs")?.ok_or("attribute `num_scan_inputs` is missing")?;
    let own = a.node.inputs.len();
    Ok(Box::new(Scan {
        body: a.graph("body")?,
        own,
        scanned: crate::shape::size(scanned)?,
        input_axes: a.ints("scan_input_axes")?.unwrap_or_default(),
        output_axes: a.ints("scan_output_axes")?.unwrap_or_default(),
        input_back,
        output_back,
        batched,
    }))
}
