//! The graph of a model: reads nodes, checks their connections and sorts them topologically.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use super::model::{OnnxAttribute, OnnxDim, OnnxFunction, OnnxGraph, OnnxNode, OnnxValue};
use super::tensor::{Files, Place};
use super::wire::{Slice, broken, opset};
use crate::error::{Error, ErrorKind};
use crate::file::TensorInfo;
use crate::file::gguf::check_name;

/// Maximum number of nodes in a model, including those of graphs within nodes.
const MAX_NODES: u64 = 1 << 18;
/// Maximum number of names of values, attributes and dimensions.
const MAX_NAMES: u64 = 1 << 22;
/// Maximum nesting depth of graphs within nodes.
const MAX_DEPTH: usize = 8;

/// A reader of graphs with limits that hold for all graphs of a model together.
pub(super) struct Reader<'r, 's> {
    pub(super) files: &'r mut Files<'s>,
    nodes: u64,
    names: u64,
}

/// A graph and its initialisers.
pub(super) struct Parsed {
    pub(super) graph: OnnxGraph,
    pub(super) tensors: Vec<(TensorInfo, Place)>,
}

fn bound(count: &mut u64, most: u64, what: &'static str) -> Result<(), ErrorKind> {
    *count = count.saturating_add(1);
    if *count > most { Err(ErrorKind::TooMany { what, count: *count, most }) } else { Ok(()) }
}

impl<'r, 's> Reader<'r, 's> {
    pub(super) fn new(files: &'r mut Files<'s>) -> Reader<'r, 's> {
        Reader { files, nodes: 0, names: 0 }
    }

    /// Reads a name, counted against the limit of all names.
    fn name(&mut self, slice: Slice<'_>, what: &'static str) -> Result<String, ErrorKind> {
        bound(&mut self.names, MAX_NAMES, "number of names")?;
        if !slice.bytes.is_empty() {
            check_name(what, u64::try_from(slice.bytes.len()).unwrap_or(u64::MAX))?;
        }
        slice.text(what)
    }

    /// Reads the graph of the model.
    pub(super) fn graph(&mut self, message: Slice<'_>) -> Result<Parsed, Error> {
        let mut parsed = Parsed { graph: OnnxGraph::default(), tensors: Vec::new() };
        let mut texts = Vec::new();
        self.parse(message, 0, &mut parsed.graph, |reader, slice| {
            if Files::is_text(slice) {
                texts.push(reader.files.constant(slice)?);
                return Ok(());
            }
            let found = reader.files.tensor(slice)?;
            check_name("name", u64::try_from(found.0.name.len()).unwrap_or(u64::MAX))?;
            parsed.tensors.push(found);
            Ok(())
        })?;
        parsed.graph.initialisers = texts;
        let known: Vec<&str> = parsed.tensors.iter().map(|(info, _)| info.name.as_str()).collect();
        let known = known.into_iter().map(str::to_owned).collect::<Vec<_>>();
        parsed.graph.connect(known.iter().map(String::as_str))?;
        Ok(parsed)
    }

    /// Reads a graph within a node.
    fn inner(&mut self, message: Slice<'_>, depth: usize) -> Result<OnnxGraph, Error> {
        if depth >= MAX_DEPTH {
            return Err(broken(format!("graphs are nested more than {MAX_DEPTH} deep")).into());
        }
        let mut graph = OnnxGraph::default();
        let mut tensors = Vec::new();
        self.parse(message, depth, &mut graph, |reader, slice| {
            tensors.push(reader.files.constant(slice)?);
            Ok(())
        })?;
        graph.initialisers = tensors;
        Ok(graph)
    }

    fn parse(
        &mut self,
        mut message: Slice<'_>,
        depth: usize,
        graph: &mut OnnxGraph,
        mut tensor: impl FnMut(&mut Self, Slice<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while let Some((number, field)) = message.next()? {
            match number {
                1 => {
                    bound(&mut self.nodes, MAX_NODES, "number of nodes")?;
                    let at = graph.nodes.len();
                    graph.nodes.push(self.node(field.bytes("node")?, depth, at)?);
                }
                2 => graph.name = self.name(field.bytes("name of a graph")?, "name of a graph")?,
                5 => tensor(self, field.bytes("initialiser")?)?,
                11 => graph.inputs.push(self.value(field.bytes("input")?)?),
                12 => graph.outputs.push(self.value(field.bytes("output")?)?),
                15 => return Err(broken("sparse initialisers are not supported").into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn node(&mut self, message: Slice<'_>, depth: usize, at: usize) -> Result<OnnxNode, Error> {
        let mut node = OnnxNode::default();
        let result = self.fill(&mut node, message, depth);
        if node.name.is_empty() {
            node.name = format!("node {at} ({})", node.op);
        }
        result.map_err(|e| e.item(&node.name))?;
        Ok(node)
    }

    fn fill(&mut self, node: &mut OnnxNode, mut message: Slice<'_>, depth: usize) -> Result<(), Error> {
        while let Some((number, field)) = message.next()? {
            match number {
                1 => node.inputs.push(self.name(field.bytes("input")?, "input")?),
                2 => node.outputs.push(self.name(field.bytes("output")?, "output")?),
                3 => node.name = self.name(field.bytes("name of a node")?, "name of a node")?,
                4 => node.op = self.name(field.bytes("op_type")?, "op_type")?,
                5 => {
                    let (name, value) = self.attribute(field.bytes("attribute")?, depth)?;
                    if node.attribute(&name).is_some() {
                        return Err(broken(format!("attribute `{name}` appears twice")).into());
                    }
                    node.attributes.push((name, value));
                }
                7 => node.domain = self.name(field.bytes("domain")?, "domain")?,
                8 => node.overload = self.name(field.bytes("overload")?, "overload")?,
                _ => {}
            }
        }
        if node.op.is_empty() {
            return Err(ErrorKind::Empty { what: "op_type" }.into());
        }
        // ONNX's own domain has two names.
        if node.domain == "ai.onnx" {
            node.domain.clear();
        }
        Ok(())
    }

    fn attribute(&mut self, mut message: Slice<'_>, depth: usize) -> Result<(String, OnnxAttribute), Error> {
        let mut name = String::new();
        let mut kind = None;
        let (mut float, mut int, mut text) = (0.0, 0, Vec::new());
        let (mut floats, mut ints, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut tensor, mut tensors) = (None, Vec::new());
        let (mut graph, mut graphs) = (None, Vec::new());
        let mut caller = String::new();
        // Old files lack the attribute's type, so the last field counts.
        let mut last = 0;
        while let Some((number, field)) = message.next()? {
            match number {
                1 => name = self.name(field.bytes("name of an attribute")?, "name of an attribute")?,
                2 => float = field.float("f")?,
                3 => int = field.int("i")?,
                4 => text = field.bytes("s")?.bytes.to_vec(),
                5 => tensor = Some(self.files.constant(field.bytes("t")?)?),
                6 => graph = Some(self.inner(field.bytes("g")?, depth.saturating_add(1))?),
                7 => field.add_floats("floats", &mut floats)?,
                8 => field.add_numbers("ints", &mut ints)?,
                9 => {
                    bound(&mut self.names, MAX_NAMES, "number of names")?;
                    texts.push(field.bytes("strings")?.bytes.to_vec());
                }
                10 => tensors.push(self.files.constant(field.bytes("tensors")?)?),
                11 => graphs.push(self.inner(field.bytes("graphs")?, depth.saturating_add(1))?),
                20 => kind = Some(field.number("type")?),
                21 => caller = self.name(field.bytes("ref_attr_name")?, "ref_attr_name")?,
                _ => continue,
            }
            if (2..=11).contains(&number) {
                last = number;
            }
        }
        bound(&mut self.names, MAX_NAMES, "number of names")?;
        if !caller.is_empty() {
            return Ok((name, OnnxAttribute::OfCaller(caller)));
        }
        // Fields and types are numbered in the same order: FLOAT is 1 and is in field 2.
        let field = kind.map_or(last, |kind| kind.saturating_add(1));
        let missing = || Error::new(broken(format!("attribute `{name}` has no value")));
        let value = match field {
            2 => OnnxAttribute::Float(float),
            3 => OnnxAttribute::Int(int),
            4 => OnnxAttribute::Text(text),
            5 => OnnxAttribute::Tensor(Box::new(tensor.ok_or_else(missing)?)),
            6 => OnnxAttribute::Graph(Box::new(graph.ok_or_else(missing)?)),
            7 => OnnxAttribute::Floats(floats),
            8 => OnnxAttribute::Ints(ints.into_iter().map(u64::cast_signed).collect()),
            9 => OnnxAttribute::Texts(texts),
            10 => OnnxAttribute::Tensors(tensors),
            11 => OnnxAttribute::Graphs(graphs),
            // Types of values are known when they are computed, so their description is not kept.
            14 => OnnxAttribute::Type,
            other => return Err(broken(format!("attribute `{name}` has a value of kind {other}")).into()),
        };
        Ok((name, value))
    }

    /// Reads a function.
    pub(super) fn function(&mut self, mut message: Slice<'_>) -> Result<OnnxFunction, Error> {
        let mut function = OnnxFunction::default();
        let mut graph = OnnxGraph::default();
        while let Some((number, field)) = message.next()? {
            match number {
                1 => function.name = self.name(field.bytes("name of a function")?, "name of a function")?,
                4 => function.inputs.push(self.name(field.bytes("input")?, "input")?),
                5 => function.outputs.push(self.name(field.bytes("output")?, "output")?),
                7 => {
                    bound(&mut self.nodes, MAX_NODES, "number of nodes")?;
                    let at = graph.nodes.len();
                    graph.nodes.push(self.node(field.bytes("node")?, 1, at)?);
                }
                9 => function.opsets.push(opset(field.bytes("opset_import")?)?),
                10 => function.domain = self.name(field.bytes("domain")?, "domain")?,
                11 => function.defaults.push(self.attribute(field.bytes("attribute_proto")?, 1)?),
                13 => function.overload = self.name(field.bytes("overload")?, "overload")?,
                _ => {}
            }
        }
        graph.connect(function.inputs.iter().map(String::as_str)).map_err(|e| e.item(&function.name))?;
        function.nodes = graph.nodes;
        Ok(function)
    }

    /// Reads an input or output with its type.
    fn value(&mut self, mut message: Slice<'_>) -> Result<OnnxValue, Error> {
        let mut value = OnnxValue::default();
        while let Some((number, field)) = message.next()? {
            match number {
                1 => value.name = self.name(field.bytes("name of a value")?, "name of a value")?,
                2 => {
                    let mut ty = field.bytes("type")?;
                    while let Some((number, field)) = ty.next()? {
                        // Other numbers are sequences, maps and optional values.
                        if number == 1 {
                            self.tensor_type(&mut value, field.bytes("tensor_type")?)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(value)
    }

    fn tensor_type(&mut self, value: &mut OnnxValue, mut message: Slice<'_>) -> Result<(), Error> {
        while let Some((number, field)) = message.next()? {
            match number {
                1 => value.type_name = super::tensor::type_name(field.number("elem_type")?),
                2 => {
                    let mut shape = Vec::new();
                    let mut dims = field.bytes("shape")?;
                    while let Some((_, dim)) = dims.next()? {
                        bound(&mut self.names, MAX_NAMES, "number of names")?;
                        shape.push(self.dim(dim.bytes("dim")?)?);
                    }
                    value.shape = Some(shape);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn dim(&mut self, mut message: Slice<'_>) -> Result<OnnxDim, Error> {
        let mut dim = OnnxDim::Unknown;
        while let Some((number, field)) = message.next()? {
            match number {
                1 => {
                    let size = usize::try_from(field.int("dim_value")?);
                    dim = size.map_or(OnnxDim::Unknown, OnnxDim::Size);
                }
                2 => dim = OnnxDim::Named(self.name(field.bytes("dim_param")?, "dim_param")?),
                _ => {}
            }
        }
        Ok(dim)
    }
}

impl OnnxGraph {
    /// Sorts nodes so that each follows the nodes that compute its inputs, and checks that such an order exists.
    /// `known` are the initialisers and, in a graph within a node, the values of the outer graphs.
    fn connect<'k>(&mut self, known: impl Iterator<Item = &'k str>) -> Result<(), Error> {
        let order = self.order(known)?;
        let in_order = order.iter().enumerate().all(|(i, at)| i == *at);
        if !in_order {
            let mut nodes: Vec<Option<OnnxNode>> =
                std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
            let moved = order.iter().filter_map(|at| nodes.get_mut(*at).and_then(Option::take));
            self.nodes = moved.collect();
        }
        Ok(())
    }

    fn order<'k>(&mut self, known: impl Iterator<Item = &'k str>) -> Result<Vec<usize>, Error> {
        let mut outside: HashSet<&str> = known.collect();
        let own: Vec<String> = self.initialisers.iter().map(|tensor| tensor.info.name.clone()).collect();
        outside.extend(own.iter().map(String::as_str));
        let inputs: Vec<String> = self.inputs.iter().map(|input| input.name.clone()).collect();
        outside.extend(inputs.iter().map(String::as_str));
        // Inner graphs first: they may use every value of this graph.
        let outputs: Vec<String> = self.nodes.iter().flat_map(|node| node.outputs.iter().cloned()).collect();
        let mut visible = outside.clone();
        visible.extend(outputs.iter().map(String::as_str));
        for node in &mut self.nodes {
            let name = node.name.clone();
            for graph in node.graphs_mut() {
                graph.connect(visible.iter().copied()).map_err(|e| e.item(&name))?;
            }
        }
        let mut makers: HashMap<&str, usize> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            for output in node.outputs.iter().filter(|name| !name.is_empty()) {
                if outside.contains(output.as_str()) || makers.insert(output, at).is_some() {
                    let what = format!("output `{output}` has the name of another value");
                    return Err(Error::new(broken(what)).item(&node.name));
                }
            }
        }
        let mut waits = vec![0_usize; self.nodes.len()];
        let mut feeds: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            let mut needs: HashSet<&str> = node.inputs.iter().map(String::as_str).collect();
            node.graphs().for_each(|graph| graph.free(&mut needs));
            for name in needs.into_iter().filter(|name| !name.is_empty()) {
                match makers.get(name) {
                    Some(maker) => {
                        if let (Some(feeds), Some(waits)) = (feeds.get_mut(*maker), waits.get_mut(at)) {
                            feeds.push(at);
                            *waits = waits.saturating_add(1);
                        }
                    }
                    None if outside.contains(name) => {}
                    None => {
                        let what = format!("input `{name}` is neither an initialiser nor computed by a node");
                        return Err(Error::new(broken(what)).item(&node.name));
                    }
                }
            }
        }
        for output in &self.outputs {
            if !outside.contains(output.name.as_str()) && !makers.contains_key(output.name.as_str()) {
                let kind = broken("no node computes this output of the graph");
                return Err(Error::new(kind).item(&output.name));
            }
        }
        let free = waits.iter().enumerate().filter(|(_, waits)| **waits == 0);
        let mut ready: BinaryHeap<Reverse<usize>> = free.map(|(at, _)| Reverse(at)).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(Reverse(at)) = ready.pop() {
            order.push(at);
            for &next in feeds.get(at).into_iter().flatten() {
                if let Some(waits) = waits.get_mut(next) {
                    *waits = waits.saturating_sub(1);
                    if *waits == 0 {
                        ready.push(Reverse(next));
                    }
                }
            }
        }
        if order.len() < self.nodes.len() {
            let waiting = waits.iter().position(|waits| *waits > 0).and_then(|at| self.nodes.get(at));
            let name = waiting.map_or("graph", |node| &node.name);
            return Err(Error::new(broken("depends on its own result: the graph has a cycle")).item(name));
        }
        Ok(order)
    }

    /// Adds the names that this graph uses from the outer graphs.
    fn free<'g>(&'g self, to: &mut HashSet<&'g str>) {
        let mut own: HashSet<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
        own.extend(self.initialisers.iter().map(|tensor| tensor.info.name.as_str()));
        own.extend(self.nodes.iter().flat_map(|node| node.outputs.iter().map(String::as_str)));
        let mut needs: HashSet<&str> = self.outputs.iter().map(|output| output.name.as_str()).collect();
        for node in &self.nodes {
            needs.extend(node.inputs.iter().map(String::as_str));
            node.graphs().for_each(|graph| graph.free(&mut needs));
        }
        to.extend(needs.into_iter().filter(|name| !own.contains(name)));
    }
}
