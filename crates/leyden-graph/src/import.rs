//! The importer: from the nodes of a file to a [`Graph`] of operators.
//!
//! Functions of the model are replaced by their nodes. Operators that are missing are collected, so that one error
//! names them all.

use crate::attributes::{Attributes, Inner};
use crate::error::{Error, ErrorKind, Missing};
use crate::graph::{Dim, Graph, Input, Node, ValueId};
use crate::ops;
use crate::outline::{GraphInput, Outline};
use crate::stored::{stored, tensor};
use crate::tensor::{ElementType, Tensor};
use crate::value::Value;
use leyden_tensor::{
    Onnx, OnnxAttribute, OnnxDim, OnnxFunction, OnnxGraph, OnnxNode, OnnxValue, WeightSource,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Maximum number of nodes after functions were replaced by their nodes.
const MAX_NODES: usize = 1 << 18;
/// Maximum nesting depth of functions.
const MAX_DEPTH: usize = 16;

/// Names of values, of this graph and those around it.
struct Scope<'s> {
    names: HashMap<String, ValueId>,
    outer: Option<&'s Scope<'s>>,
}

impl Scope<'_> {
    fn is_outer(&self, name: &str) -> bool {
        self.outer.is_some_and(|outer| outer.names.contains_key(name) || outer.is_outer(name))
    }
}

/// State that the graphs of one model share while they are imported.
pub(crate) struct Importer<'i> {
    opsets: &'i [(String, i64)],
    functions: &'i [OnnxFunction],
    scope: Option<&'i Scope<'i>>,
    missing: &'i RefCell<Vec<Missing>>,
    nodes: &'i RefCell<usize>,
}

/// Imports the graph of a model.
///
/// # Errors
/// Operators are missing, or an attribute is not supported; the error names the node.
pub(crate) fn import(onnx: &Onnx) -> Result<Graph, Error> {
    let (missing, nodes) = (RefCell::default(), RefCell::default());
    let importer = Importer {
        opsets: onnx.opsets(),
        functions: onnx.functions(),
        scope: None,
        missing: &missing,
        nodes: &nodes,
    };
    let mut constants = Vec::new();
    for info in onnx.tensor_info() {
        let (info, bytes) = onnx.shared(&info.name).ok_or("a tensor is missing")?;
        constants
            .push((info.name.clone(), stored(info, bytes).map_err(|e| e.node(&info.name, "initialiser"))));
    }
    let graph = importer.graph(onnx.graph(), constants, &mut Vec::new())?;
    let missing = missing.into_inner();
    if missing.is_empty() { Ok(graph) } else { Err(Error::new(ErrorKind::Missing(missing))) }
}

/// Returns a name of the tables for a domain.
fn plain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

type Constants = Vec<(String, Result<Tensor, Error>)>;

impl Inner for Importer<'_> {
    fn inner(&self, graph: &OnnxGraph, captures: &mut Vec<String>) -> Result<Graph, Error> {
        self.graph(graph, Vec::new(), captures)
    }
}

impl Importer<'_> {
    fn graph(
        &self,
        source: &OnnxGraph,
        mut constants: Constants,
        captures: &mut Vec<String>,
    ) -> Result<Graph, Error> {
        let mut graph = Graph::default();
        let mut scope = Scope { names: HashMap::new(), outer: self.scope };
        for found in &source.initialisers {
            constants.push((found.info.name.clone(), tensor(found)));
        }
        for (name, value) in constants {
            let id = graph.add(&name, Some(Value::Tensor(value?)));
            scope.names.insert(name, id);
        }
        for input in &source.inputs {
            // Old files list initialisers too; a value given for one would replace it, which we do not offer.
            if !scope.names.contains_key(&input.name) {
                let id = graph.add(&input.name, None);
                scope.names.insert(input.name.clone(), id);
                graph.inputs.push(declared(input, id));
            }
        }
        let inlined = self.inlined(&source.nodes, 0)?;
        for node in inlined.as_deref().unwrap_or(&source.nodes) {
            self.node(node, &mut graph, &mut scope, captures)?;
        }
        for output in &source.outputs {
            let id = self.find(&output.name, &mut graph, &mut scope, captures);
            let unknown = || Error::invalid(format!("output `{}` is not computed by any node", output.name));
            graph.outputs.push(id.ok_or_else(unknown)?);
        }
        Ok(graph)
    }

    /// Returns the id of a value; one of an outer graph becomes a capture.
    fn find(
        &self,
        name: &str,
        graph: &mut Graph,
        scope: &mut Scope<'_>,
        captures: &mut Vec<String>,
    ) -> Option<ValueId> {
        if let Some(id) = scope.names.get(name) {
            return Some(*id);
        }
        if !scope.is_outer(name) {
            return None;
        }
        let id = graph.add(name, None);
        scope.names.insert(name.to_owned(), id);
        let at = captures.iter().position(|found| found == name).unwrap_or_else(|| {
            captures.push(name.to_owned());
            captures.len() - 1
        });
        graph.captures.push((id, at));
        Some(id)
    }

    fn node(
        &self,
        node: &OnnxNode,
        graph: &mut Graph,
        scope: &mut Scope<'_>,
        captures: &mut Vec<String>,
    ) -> Result<(), Error> {
        *self.nodes.borrow_mut() += 1;
        let failed = |e: Error| e.node(&node.name, &node.op);
        if *self.nodes.borrow() > MAX_NODES {
            return Err(failed(format!("more than {MAX_NODES} nodes with those of functions").into()));
        }
        let domain = plain(&node.domain);
        let opset = self.opsets.iter().find(|(found, _)| plain(found) == domain).map_or(1, |found| found.1);
        let importer = Importer { scope: Some(scope), ..*self };
        let attributes = Attributes::new(node, opset, &importer);
        let operator = match ops::find(domain, &node.op, opset) {
            Some(make) => {
                make(&attributes).and_then(|op| attributes.finish().map(|()| op)).map_err(failed)?
            }
            None => {
                self.note_missing(node, domain, opset);
                Box::new(ops::Unsupported)
            }
        };
        let inner = attributes.captures.take();
        let mut inputs = Vec::with_capacity(node.inputs.len() + inner.len());
        for name in node.inputs.iter().chain(&inner) {
            inputs.push(if name.is_empty() {
                None
            } else {
                let unknown = || failed(format!("input `{name}` is not computed by any node").into());
                Some(self.find(name, graph, scope, captures).ok_or_else(unknown)?)
            });
        }
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for name in &node.outputs {
            outputs.push((!name.is_empty()).then(|| {
                let id = graph.add(name, None);
                scope.names.insert(name.clone(), id);
                id
            }));
        }
        let (name, op) = (node.name.clone(), node.op.clone());
        graph.nodes.push(Node { name, op, operator, inputs, outputs });
        Ok(())
    }

    fn note_missing(&self, node: &OnnxNode, domain: &str, opset: i64) {
        let operator = if domain.is_empty() { node.op.clone() } else { format!("{domain}.{}", node.op) };
        let mut missing = self.missing.borrow_mut();
        match missing.iter_mut().find(|found| found.operator == operator) {
            Some(found) => found.count += 1,
            None => missing.push(Missing { operator, opset, node: node.name.clone(), count: 1 }),
        }
    }

    /// Returns nodes with calls of functions replaced; `None` if there are none.
    fn inlined(&self, nodes: &[OnnxNode], depth: usize) -> Result<Option<Vec<OnnxNode>>, Error> {
        let of = |node: &OnnxNode| {
            self.functions.iter().find(|f| {
                f.name == node.op && plain(&f.domain) == plain(&node.domain) && f.overload == node.overload
            })
        };
        if self.functions.is_empty() || !nodes.iter().any(|node| of(node).is_some()) {
            return Ok(None);
        }
        let mut all = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            let Some(function) = of(node) else {
                all.push(node.clone());
                continue;
            };
            if depth >= MAX_DEPTH {
                let what = format!("functions are nested more than {MAX_DEPTH} deep");
                return Err(Error::invalid(what).node(&node.name, &node.op));
            }
            let body = called(function, node, &format!("{}/{depth}.{i}", node.name));
            let body = self.inlined(&body, depth + 1)?.unwrap_or(body);
            if all.len() + body.len() > MAX_NODES {
                let what = format!("more than {MAX_NODES} nodes with those of functions");
                return Err(Error::invalid(what).node(&node.name, &node.op));
            }
            all.extend(body);
        }
        Ok(Some(all))
    }
}

/// Returns the nodes of a function for one call: names are those of the call, or get its prefix.
fn called(function: &OnnxFunction, call: &OnnxNode, prefix: &str) -> Vec<OnnxNode> {
    let mut names: HashMap<&str, String> = HashMap::new();
    for (i, input) in function.inputs.iter().enumerate() {
        names.insert(input, call.inputs.get(i).cloned().unwrap_or_default());
    }
    for (i, output) in function.outputs.iter().enumerate() {
        if let Some(name) = call.outputs.get(i).filter(|name| !name.is_empty()) {
            names.insert(output, name.clone());
        }
    }
    let attribute = |name: &str| {
        let found = call.attributes.iter().chain(&function.defaults).find(|(found, _)| found == name);
        found.map(|(_, value)| value.clone())
    };
    let renamed = |name: &String| match names.get(name.as_str()) {
        Some(found) => found.clone(),
        None if name.is_empty() => String::new(),
        None => format!("{prefix}/{name}"),
    };
    function.nodes.iter().map(|node| substituted(node, prefix, &renamed, &attribute)).collect()
}

fn substituted(
    node: &OnnxNode,
    prefix: &str,
    renamed: &dyn Fn(&String) -> String,
    attribute: &dyn Fn(&str) -> Option<OnnxAttribute>,
) -> OnnxNode {
    let mut node = node.clone();
    node.name = format!("{prefix}/{}", node.name);
    node.inputs = node.inputs.iter().map(renamed).collect();
    node.outputs = node.outputs.iter().map(renamed).collect();
    let attributes = std::mem::take(&mut node.attributes).into_iter();
    node.attributes = attributes
        .filter_map(|(name, value)| match value {
            OnnxAttribute::OfCaller(of) => attribute(&of).map(|value| (name, value)),
            OnnxAttribute::Graph(mut graph) => {
                let mut own: Vec<String> = graph.inputs.iter().map(|v| v.name.clone()).collect();
                own.extend(graph.initialisers.iter().map(|t| t.info.name.clone()));
                own.extend(graph.nodes.iter().flat_map(|n| n.outputs.iter().cloned()));
                let inner = |name: &String| if own.contains(name) { name.clone() } else { renamed(name) };
                graph.nodes = graph.nodes.iter().map(|n| substituted(n, prefix, &inner, attribute)).collect();
                graph.outputs.iter_mut().for_each(|output| output.name = inner(&output.name));
                Some((name, OnnxAttribute::Graph(graph)))
            }
            other => Some((name, other)),
        })
        .collect();
    node
}

fn declared(input: &OnnxValue, id: ValueId) -> Input {
    let ty = input.type_name.and_then(ElementType::named);
    let dim = |dim: &OnnxDim| match dim {
        OnnxDim::Size(n) => Dim::Size(*n),
        OnnxDim::Named(name) => Dim::Named(name.clone()),
        _ => Dim::Unknown,
    };
    Input { id, ty, shape: input.shape.as_ref().map(|dims| dims.iter().map(dim).collect()) }
}

impl Outline {
    /// Reads what a file contains, without constants and whether or not its operators are supported.
    ///
    /// # Errors
    /// The file is not valid.
    pub fn read(path: &Path) -> Result<Outline, Error> {
        Ok(outline(&Onnx::open(path)?))
    }
}

/// Returns what a model contains.
fn outline(onnx: &Onnx) -> Outline {
    let mut outline = Outline {
        inputs: Vec::new(),
        outputs: onnx.graph().outputs.iter().map(|output| output.name.clone()).collect(),
        operators: BTreeMap::new(),
        missing: Vec::new(),
    };
    for input in &onnx.graph().inputs {
        if onnx.shared(&input.name).is_none() {
            let found = declared(input, 0);
            let dim = |dim: &Dim| match dim {
                Dim::Size(n) => n.to_string(),
                Dim::Named(name) => name.clone(),
                Dim::Unknown => "?".to_owned(),
            };
            let shape = found.shape.map(|dims| dims.iter().map(dim).collect());
            outline.inputs.push(GraphInput { name: input.name.clone(), ty: found.ty, shape });
        }
    }
    let mut missing = Vec::new();
    count(onnx, &onnx.graph().nodes, &mut outline.operators, &mut missing);
    for function in onnx.functions() {
        count(onnx, &function.nodes, &mut outline.operators, &mut missing);
    }
    outline.missing = missing;
    outline
}

fn count(
    onnx: &Onnx,
    nodes: &[OnnxNode],
    operators: &mut BTreeMap<String, usize>,
    missing: &mut Vec<String>,
) {
    for node in nodes {
        let domain = plain(&node.domain);
        let name = if domain.is_empty() { node.op.clone() } else { format!("{domain}.{}", node.op) };
        let opset = onnx.opsets().iter().find(|(found, _)| plain(found) == domain).map_or(1, |found| found.1);
        let function = onnx.functions().iter().any(|f| f.name == node.op && plain(&f.domain) == domain);
        if !function && ops::find(domain, &node.op, opset).is_none() && !missing.contains(&name) {
            missing.push(name.clone());
        }
        *operators.entry(name).or_default() += 1;
        for graph in node.graphs() {
            count(onnx, &graph.nodes, operators, missing);
        }
    }
}

/// Returns the initialisers of a model by name, texts included.
///
/// # Errors
/// The file is not valid, or values of a type are not supported.
pub fn constants(path: &Path) -> Result<Vec<(String, Tensor)>, Error> {
    let onnx = Onnx::open(path)?;
    let mut all = Vec::new();
    for info in onnx.tensor_info() {
        if let Some((info, bytes)) = onnx.shared(&info.name) {
            all.push((
                info.name.clone(),
                stored(info, bytes).map_err(|e| e.node(&info.name, "initialiser"))?,
            ));
        }
    }
    for found in &onnx.graph().initialisers {
        all.push((found.info.name.clone(), tensor(found)?));
    }
    Ok(all)
}
