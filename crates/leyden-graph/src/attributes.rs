//! [`Attributes`]: the attributes of a node while its operator is made.
//!
//! Each attribute that an operator reads is noted, so that one which nobody read is an error: it would change the
//! result, and we do not know how.

use crate::error::Error;
use crate::graph::Graph;
use crate::stored::tensor;
use crate::tensor::Tensor;
use leyden_tensor::{OnnxAttribute, OnnxGraph, OnnxNode};
use std::cell::RefCell;

/// Import of graphs within nodes.
pub(crate) trait Inner {
    /// Imports a graph. `captures` are the outer values that it uses, by name.
    fn inner(&self, graph: &OnnxGraph, captures: &mut Vec<String>) -> Result<Graph, Error>;
}

/// The attributes of a node, its operator set, and which inputs and outputs it has.
pub(crate) struct Attributes<'a, 'i> {
    pub(crate) node: &'a OnnxNode,
    /// Version of the operator set of the node's domain.
    pub(crate) opset: i64,
    importer: &'i dyn Inner,
    read: RefCell<Vec<&'a str>>,
    /// Names of outer values that graphs within the node use, in the order of the inputs after the node's own.
    pub(crate) captures: RefCell<Vec<String>>,
}

impl<'a, 'i> Attributes<'a, 'i> {
    pub(crate) fn new(node: &'a OnnxNode, opset: i64, importer: &'i dyn Inner) -> Self {
        Attributes { node, opset, importer, read: RefCell::default(), captures: RefCell::default() }
    }

    fn find(&self, name: &str) -> Option<&'a OnnxAttribute> {
        let (name, value) = self.node.attributes.iter().find(|(found, _)| found == name)?;
        self.read.borrow_mut().push(name);
        Some(value)
    }

    /// Returns an error if an attribute was not read.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let read = self.read.borrow();
        match self.node.attributes.iter().find(|(name, _)| !read.contains(&name.as_str())) {
            Some((name, _)) => Err(format!("attribute `{name}` is not supported").into()),
            None => Ok(()),
        }
    }

    /// Notes attributes that change no result of ours.
    pub(crate) fn ignore(&self, names: &[&str]) {
        for name in names {
            let _ = self.find(name);
        }
    }

    fn kind<T>(&self, name: &str, wanted: &str) -> Result<T, Error> {
        Err(format!("attribute `{name}` is no {wanted}").into())
    }

    /// Returns an integer.
    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, Error> {
        match self.find(name) {
            None => Ok(None),
            Some(OnnxAttribute::Int(value)) => Ok(Some(*value)),
            Some(_) => self.kind(name, "integer"),
        }
    }

    /// Returns an integer, or `default`.
    pub(crate) fn int_or(&self, name: &str, default: i64) -> Result<i64, Error> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// Returns a truth value.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        match self.int(name)? {
            None => Ok(default),
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(other) => Err(format!("attribute `{name}` is {other}, neither 0 nor 1").into()),
        }
    }

    /// Returns a float.
    pub(crate) fn float(&self, name: &str) -> Result<Option<f32>, Error> {
        match self.find(name) {
            None => Ok(None),
            Some(OnnxAttribute::Float(value)) => Ok(Some(*value)),
            Some(_) => self.kind(name, "float"),
        }
    }

    /// Returns a float, or `default`.
    pub(crate) fn float_or(&self, name: &str, default: f32) -> Result<f32, Error> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    /// Returns integers.
    pub(crate) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        match self.find(name) {
            None => Ok(None),
            Some(OnnxAttribute::Ints(values)) => Ok(Some(values.clone())),
            // An empty list of an old file has no kind.
            Some(OnnxAttribute::Floats(values)) if values.is_empty() => Ok(Some(Vec::new())),
            Some(_) => self.kind(name, "list of integers"),
        }
    }

    /// Returns sizes.
    pub(crate) fn sizes(&self, name: &str) -> Result<Option<Vec<usize>>, Error> {
        let Some(values) = self.ints(name)? else { return Ok(None) };
        let sizes = values.iter().map(|v| usize::try_from(*v).ok().filter(|v| *v <= 1 << 32));
        let bad = || Error::invalid(format!("attribute `{name}` is {values:?}: sizes out of range"));
        sizes.collect::<Option<Vec<_>>>().map(Some).ok_or_else(bad)
    }

    /// Returns floats.
    pub(crate) fn floats(&self, name: &str) -> Result<Option<Vec<f32>>, Error> {
        match self.find(name) {
            None => Ok(None),
            Some(OnnxAttribute::Floats(values)) => Ok(Some(values.clone())),
            Some(OnnxAttribute::Ints(values)) if values.is_empty() => Ok(Some(Vec::new())),
            Some(_) => self.kind(name, "list of floats"),
        }
    }

    /// Returns a text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Error> {
        match self.find(name) {
            None => Ok(None),
            Some(OnnxAttribute::Text(value)) => {
                let text = String::from_utf8(value.clone());
                text.map(Some).map_err(|_| format!("attribute `{name}` is not valid UTF-8").into())
            }
            Some(_) => self.kind(name, "text"),
        }
    }

    /// Returns the position of a text among `choices`; the first if there is none.
    pub(crate) fn choice(&self, name: &str, choices: &[&str]) -> Result<usize, Error> {
        let Some(text) = self.text(name)? else { return Ok(0) };
        let unknown = || format!("attribute `{name}` is `{text}`; supported: {}", choices.join(", ")).into();
        choices.iter().position(|c| *c == text).ok_or_else(unknown)
    }

    /// Returns texts.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Error> {
        match self.find(name) {
            None => Ok(None),
            Some(OnnxAttribute::Texts(values)) => {
                let texts = values.iter().map(|v| String::from_utf8(v.clone()));
                let texts = texts.collect::<Result<Vec<_>, _>>();
                texts.map(Some).map_err(|_| format!("attribute `{name}` is not valid UTF-8").into())
            }
            Some(OnnxAttribute::Ints(values)) if values.is_empty() => Ok(Some(Vec::new())),
            Some(_) => self.kind(name, "list of texts"),
        }
    }

    /// Returns a tensor.
    pub(crate) fn tensor(&self, name: &str) -> Result<Option<Tensor>, Error> {
        match self.find(name) {
            None => Ok(None),
            Some(OnnxAttribute::Tensor(value)) => tensor(value).map(Some),
            Some(_) => self.kind(name, "tensor"),
        }
    }

    /// Returns a graph.
    pub(crate) fn graph(&self, name: &str) -> Result<Graph, Error> {
        match self.find(name) {
            Some(OnnxAttribute::Graph(graph)) => self.inner(graph),
            Some(_) => self.kind(name, "graph"),
            None => Err(format!("attribute `{name}` is missing").into()),
        }
    }

    /// Imports a graph within the node; the values of outer graphs become inputs of the node after its own.
    fn inner(&self, graph: &OnnxGraph) -> Result<Graph, Error> {
        self.importer.inner(graph, &mut self.captures.borrow_mut())
    }

    /// Returns true if the output is used.
    pub(crate) fn has_output(&self, i: usize) -> bool {
        self.node.outputs.get(i).is_some_and(|name| !name.is_empty())
    }

    /// Returns the number of outputs.
    pub(crate) fn n_outputs(&self) -> usize {
        self.node.outputs.len()
    }
}
