//! [`Model`]: a graph that is ready to run.

use crate::error::Error;
use crate::executor;
use crate::graph::{Context, Dim, Graph};
use crate::import;
use crate::limits::Limits;
use crate::outline::GraphInput;
use crate::passes;
use crate::trace::{NodeTime, Trace};
use crate::value::Value;
use leyden_kernels::Cpu;
use leyden_tensor::{Onnx, WeightSource};
use std::cell::Cell;
use std::path::Path;

/// Options of [`Model`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Bounds on each run.
    pub limits: Limits,
    /// Seed of operators that make random numbers.
    pub seed: u64,
    /// Compute the graph as it is in the file: no folding, no fusion.
    pub plain: bool,
}

/// A graph with its constants, ready to run.
#[derive(Debug)]
pub struct Model {
    graph: Graph,
    options: Options,
    /// The file as messages name it.
    label: String,
    onnx: Onnx,
}

impl Model {
    /// Loads a model from a file; constants stay in the mapped file where they can.
    ///
    /// # Errors
    /// The file is not valid, an operator is missing, or a node is not supported. The error names file and node.
    pub fn load(path: &Path, cpu: &Cpu, options: Options) -> Result<Model, Error> {
        Model::new(Onnx::open(path)?, cpu, options)
    }

    /// Loads a model that is in memory; `label` takes the place of its path.
    ///
    /// # Errors
    /// As [`load`](Self::load), or tensors are in other files.
    pub fn from_vec(bytes: Vec<u8>, label: &str, cpu: &Cpu, options: Options) -> Result<Model, Error> {
        Model::new(Onnx::from_vec(bytes, label)?, cpu, options)
    }

    fn new(onnx: Onnx, cpu: &Cpu, options: Options) -> Result<Model, Error> {
        let label = onnx.path().display().to_string();
        let made = import::import(&onnx).and_then(|mut graph| {
            let ctx = context(cpu, options, None);
            if !options.plain {
                passes::run(&mut graph, &ctx)?;
            }
            passes::prepare(&mut graph, cpu)?;
            graph.plan();
            Ok(graph)
        });
        let graph = made.map_err(|e| e.file(&label))?;
        onnx.check_intact()?;
        Ok(Model { graph, options, label, onnx })
    }

    /// Returns the inputs.
    #[must_use]
    pub fn inputs(&self) -> Vec<GraphInput> {
        let name = |id: u32| self.graph.values[id as usize].name.clone();
        let dim = |dim: &Dim| match dim {
            Dim::Size(n) => n.to_string(),
            Dim::Named(name) => name.clone(),
            Dim::Unknown => "?".to_owned(),
        };
        let of = |input: &crate::graph::Input| GraphInput {
            name: name(input.id),
            ty: input.ty,
            shape: input.shape.as_ref().map(|dims| dims.iter().map(dim).collect()),
        };
        self.graph.inputs.iter().map(of).collect()
    }

    /// Returns the names of the outputs.
    #[must_use]
    pub fn outputs(&self) -> Vec<String> {
        self.graph.outputs.iter().map(|id| self.graph.values[*id as usize].name.clone()).collect()
    }

    /// Returns the nodes after all passes: name and operator.
    #[must_use]
    pub fn nodes(&self) -> Vec<(&str, &str)> {
        self.graph.nodes.iter().map(|node| (node.name.as_str(), node.op.as_str())).collect()
    }

    /// Computes all outputs, in the order of [`outputs`](Self::outputs).
    ///
    /// # Errors
    /// An input is missing, unknown or unlike its declaration, or a node fails; the error names it.
    pub fn run(&self, cpu: &Cpu, inputs: Vec<(String, Value)>) -> Result<Vec<Value>, Error> {
        self.computed(cpu, inputs, None).map_err(|e| e.file(&self.label))
    }

    /// Computes as [`run`](Self::run), and returns the time of each node.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_traced(
        &self,
        cpu: &Cpu,
        inputs: Vec<(String, Value)>,
    ) -> Result<(Vec<Value>, Vec<NodeTime>), Error> {
        let trace = Trace::default();
        let outputs = self.computed(cpu, inputs, Some(&trace)).map_err(|e| e.file(&self.label))?;
        Ok((outputs, trace.0.into_inner()))
    }

    fn computed(
        &self,
        cpu: &Cpu,
        inputs: Vec<(String, Value)>,
        trace: Option<&Trace>,
    ) -> Result<Vec<Value>, Error> {
        let mut given: Vec<Option<Value>> = vec![None; self.graph.inputs.len()];
        for (name, value) in inputs {
            let names: Vec<&str> =
                self.graph.inputs.iter().map(|i| self.graph.values[i.id as usize].name.as_str()).collect();
            let at = names.iter().position(|found| *found == name).ok_or_else(|| {
                Error::invalid(format!("there is no input `{name}`; inputs: {}", names.join(", ")))
            })?;
            self.check(&self.graph.inputs[at], &value).map_err(|e| e.node(&name, "input"))?;
            given[at] = Some(value);
        }
        let ctx = context(cpu, self.options, trace);
        let outputs = executor::run(&self.graph, &ctx, given, &[])?;
        self.onnx.check_intact()?;
        Ok(outputs)
    }

    fn check(&self, input: &crate::graph::Input, value: &Value) -> Result<(), Error> {
        let Value::Tensor(tensor) = value else { return Ok(()) };
        if let Some(ty) = input.ty.filter(|ty| *ty != tensor.ty()) {
            return Err(format!("has type {} where {} should be", tensor.ty().name(), ty.name()).into());
        }
        let Some(shape) = &input.shape else { return Ok(()) };
        // A size of zero is that of exporters which do not know it.
        let fits = |(dim, n): (&Dim, &usize)| !matches!(dim, Dim::Size(size) if size != n && *size != 0);
        if shape.len() != tensor.rank() || !shape.iter().zip(tensor.shape()).all(fits) {
            let wanted =
                self.inputs().into_iter().find(|i| i.name == self.graph.values[input.id as usize].name);
            let wanted = wanted.and_then(|i| i.shape).unwrap_or_default().join(", ");
            return Err(format!("has shape {:?} where [{wanted}] should be", tensor.shape()).into());
        }
        Ok(())
    }
}

fn context<'c>(cpu: &'c Cpu, options: Options, trace: Option<&'c Trace>) -> Context<'c> {
    Context { cpu, limits: options.limits, nodes: Cell::new(0), random: Cell::new(options.seed), trace }
}
