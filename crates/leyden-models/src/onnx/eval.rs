//! [`Eval`]: traces a graph node by node, on sample texts of which sizes, ids and mask are known.

use super::layout::{self, Layout};
use super::nums::{Kind, Nums};
use super::value::{Atom, Op, Text, Value};
use super::weight::{Place, Weight};
use leyden_tensor::{Onnx, OnnxNode, TensorInfo};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Limit of values that are moved or computed in total.
const MAX_WORK: usize = 1 << 27;
/// Number of recent operations among which a new one is looked up, so that repeated ones are shared.
const RECENT: usize = 64;

/// Name of the node or output where a graph differs from an encoder, and the message.
pub(super) type Refused = (String, String);

/// Trace of a graph.
pub(super) struct Eval<'a> {
    pub(super) onnx: &'a Onnx,
    /// Operations of the expression so far.
    pub(super) atoms: Vec<Atom>,
    inputs: HashMap<&'a str, Arc<Nums>>,
    values: HashMap<&'a str, Value>,
    /// Index of the current node.
    node: usize,
    /// Number of values that were moved or computed.
    work: usize,
}

/// Returns the kind of a data type by its number in `TensorProto`.
fn kind_of(number: i64) -> Result<Kind, String> {
    match number {
        1 | 10 | 11 | 16 => Ok(Kind::Float),
        2..=7 | 12 | 13 => Ok(Kind::Int),
        9 => Ok(Kind::Bool),
        _ => Err(format!("casts to the type {number}")),
    }
}

/// Returns a stored tensor: integers of 16 bits and more, booleans and F64 as constants, other types as a weight that
/// stays in the file.
fn stored(info: &TensorInfo, bytes: &[u8], name: &str, place: Place) -> Result<Value, String> {
    let shape = info.shape.clone();
    let n = layout::count(&shape);
    let (kind, size) = match info.type_name {
        "I64" | "U64" => (Kind::Int, 8),
        "I32" | "U32" => (Kind::Int, 4),
        "I16" | "U16" => (Kind::Int, 2),
        "BOOL" => (Kind::Bool, 1),
        "F64" => (Kind::Float, 8),
        "F32" | "F16" | "BF16" | "I8" | "U8" => {
            let (name, type_name) = (name.into(), info.type_name);
            let weight =
                Weight { name, place, type_name, stored: shape, transposed: false, grid: None, part: None };
            return Ok(Value::Weight(weight));
        }
        other => return Err(format!("`{name}` is of the type {other}, which is not read")),
    };
    let number = |bytes: &[u8]| {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(all);
        match info.type_name {
            "I64" => word.cast_signed() as f64,
            "I32" => f64::from((word as u32).cast_signed()),
            "I16" => f64::from((word as u16).cast_signed()),
            "F64" => f64::from_bits(word),
            _ => word as f64,
        }
    };
    n?;
    let data = bytes.chunks_exact(size).map(number).collect();
    Ok(Value::Nums(Arc::new(Nums { kind, shape, data })))
}

impl<'a> Eval<'a> {
    pub(super) fn new(onnx: &'a Onnx, inputs: HashMap<&'a str, Nums>) -> Eval<'a> {
        let inputs = inputs.into_iter().map(|(name, nums)| (name, Arc::new(nums))).collect();
        Eval { onnx, atoms: Vec::new(), inputs, values: HashMap::new(), node: 0, work: 0 }
    }

    /// Traces an output of the graph, and only the nodes that it needs.
    pub(super) fn output(&mut self, name: &'a str) -> Result<Value, Refused> {
        let nodes = &self.onnx.graph().nodes;
        let outputs = |node: &'a OnnxNode| node.outputs.iter().map(String::as_str);
        let makers: HashMap<&str, usize> =
            nodes.iter().enumerate().flat_map(|(i, node)| outputs(node).map(move |name| (name, i))).collect();
        let (mut needed, mut waiting) = (HashSet::new(), vec![name]);
        while let Some(name) = waiting.pop() {
            if let Some(&maker) = makers.get(name)
                && needed.insert(maker)
            {
                waiting.extend(nodes[maker].inputs.iter().map(String::as_str));
            }
        }
        let mut uses: HashMap<&str, usize> = HashMap::from([(name, 1)]);
        for &i in &needed {
            nodes[i].inputs.iter().for_each(|name| *uses.entry(name).or_default() += 1);
        }
        for (i, node) in nodes.iter().enumerate().filter(|(i, _)| needed.contains(i)) {
            self.node = i;
            let refused = |what: String| (node.name.clone(), what);
            let inputs = node.inputs.iter().map(|name| self.value(name)).collect::<Result<Vec<_>, _>>();
            let inputs = inputs.map_err(refused)?;
            self.spend(inputs.iter().map(Value::numbers).sum()).map_err(refused)?;
            let made = self.apply(node, &inputs).map_err(refused)?;
            for name in &node.inputs {
                if let Some(left) = uses.get_mut(name.as_str()) {
                    *left -= 1;
                    if *left == 0 {
                        self.values.remove(name.as_str());
                    }
                }
            }
            self.values.extend(outputs(node).zip(made).filter(|(name, _)| uses.contains_key(name)));
        }
        self.value(name).map_err(|what| (name.to_owned(), what))
    }

    fn value(&self, name: &str) -> Result<Value, String> {
        if name.is_empty() {
            return Ok(Value::None);
        }
        if let Some(value) = self.values.get(name) {
            return Ok(value.clone());
        }
        if let Some((info, bytes)) = self.onnx.raw(name) {
            return stored(info, bytes, name, Place::Initialiser(name.into()));
        }
        match self.inputs.get(name) {
            Some(nums) => Ok(Value::Nums(Arc::clone(nums))),
            None => Err(format!("needs the input `{name}`, which is none of an encoder's")),
        }
    }

    fn apply(&mut self, node: &OnnxNode, inputs: &[Value]) -> Result<Vec<Value>, String> {
        let own = node.domain.is_empty();
        let op = node.op.as_str();
        let found = match op {
            "Constant" if own => Some(vec![self.constant(node)?]),
            "Cast" | "CastLike" if own => Some(vec![self.cast(node, inputs)?]),
            "Identity" | "Dropout" if own => inputs.first().cloned().map(|value| vec![value]),
            _ => None,
        };
        if let Some(found) = found {
            return Ok(found);
        }
        if let Some(found) = self.quantised(node, inputs)? {
            return Ok(found);
        }
        let found = match own {
            true => match self.moves(node, inputs)? {
                Some(found) => Some(found),
                None => match self.folded(node, inputs)? {
                    Some(found) => Some(found),
                    None => self.traced(node, inputs)?,
                },
            },
            false => match (node.domain.as_str(), op) {
                ("com.microsoft", "EmbedLayerNormalization" | "QEmbedLayerNormalization") => {
                    if let Some(found) = self.embedded(node, inputs)? {
                        return Ok(found);
                    }
                    None
                }
                _ => self.fused(node, inputs)?,
            },
        };
        found.map(|value| vec![value]).ok_or_else(|| {
            let domain = if own { String::new() } else { format!("{}.", node.domain) };
            format!("the operation {domain}{op} is not supported with these inputs")
        })
    }

    pub(super) fn constant(&mut self, node: &OnnxNode) -> Result<Value, String> {
        if let Some(tensor) = node.tensor("value") {
            let name = node.outputs.first().map_or("", String::as_str);
            return stored(
                &tensor.info,
                tensor.bytes.as_slice(),
                name,
                Place::Constant(tensor.bytes.clone()),
            );
        }
        let (kind, shape, data) = match (node.int("value_int"), node.float("value_float")) {
            (Some(n), _) => (Kind::Int, vec![], vec![n as f64]),
            (_, Some(x)) => (Kind::Float, vec![], vec![f64::from(x)]),
            _ => match node.ints("value_ints") {
                Some(all) => (Kind::Int, vec![all.len()], all.iter().map(|n| *n as f64).collect()),
                None => return Err("has a value of a kind that is not read".to_owned()),
            },
        };
        Ok(Value::Nums(Arc::new(Nums { kind, shape, data })))
    }

    fn cast(&mut self, node: &OnnxNode, inputs: &[Value]) -> Result<Value, String> {
        let kind = match (node.int("to"), inputs.get(1)) {
            (Some(to), _) => kind_of(to)?,
            (None, Some(Value::Nums(like))) => like.kind,
            _ => Kind::Float,
        };
        Ok(match inputs.first() {
            Some(Value::Nums(nums)) => {
                self.spend(nums.data.len())?;
                Value::Nums(Arc::new(nums.cast(kind)))
            }
            Some(
                value @ (Value::Text(_) | Value::Weight(_) | Value::IntProduct(..) | Value::CodesProduct(..)),
            ) if kind == Kind::Float => value.clone(),
            Some(Value::Weight(weight)) => Value::Nums(Arc::new(weight.to_nums(self.onnx)?.cast(kind))),
            _ => return Err("casts values that depend on the text to integers".to_owned()),
        })
    }

    /// Counts `values` moved or computed values, and fails beyond the limit.
    pub(super) fn spend(&mut self, values: usize) -> Result<(), String> {
        self.work = self.work.saturating_add(values);
        if self.work > MAX_WORK { Err("the graph is too large to be traced".to_owned()) } else { Ok(()) }
    }

    /// Returns the result of an operation, which is added to the expression unless a recent one is equal.
    pub(super) fn push(&mut self, op: Op, shape: Vec<usize>) -> Result<Text, String> {
        let from = self.atoms.len().saturating_sub(RECENT);
        let like = self.atoms[from..].iter().position(|atom| alike(&atom.op, &op) && atom.shape == shape);
        let atom = like.map_or(self.atoms.len(), |at| from + at);
        if like.is_none() {
            self.atoms.push(Atom { op, shape: shape.clone(), node: self.node });
        }
        let all = layout::count(&shape)?;
        Ok(Text { atom, all, shape, order: None, factor: 1.0 })
    }

    pub(super) fn op(&self, text: &Text) -> &Op {
        &self.atoms[text.atom].op
    }

    /// Returns the numbers of a constant, or of a small weight.
    pub(super) fn nums(&self, value: Option<&Value>) -> Result<Arc<Nums>, String> {
        match value {
            Some(Value::Nums(nums)) => Ok(Arc::clone(nums)),
            Some(Value::Weight(weight)) => Ok(Arc::new(weight.to_nums(self.onnx)?)),
            Some(Value::None) | None => Err("lacks an input".to_owned()),
            Some(_) => Err("needs a constant, but the input depends on the text".to_owned()),
        }
    }

    /// Returns the numbers of a constant like [`nums`](Self::nums), or `None` for an absent input.
    pub(super) fn opt_nums(&self, value: Option<&Value>) -> Result<Option<Arc<Nums>>, String> {
        match value {
            None | Some(Value::None) => Ok(None),
            some => self.nums(some).map(Some),
        }
    }

    /// Applies a layout to a value.
    pub(super) fn moved(&mut self, value: &Value, layout: &Layout) -> Result<Value, String> {
        self.spend(if layout.from.is_some() { layout::count(&layout.shape)? } else { 0 })?;
        Ok(match value {
            Value::Nums(nums) => Value::Nums(Arc::new(nums.moved(layout)?)),
            Value::Text(text) => Value::Text(text.moved(layout)?),
            Value::Quantised(inner) => Value::Quantised(Box::new(self.moved(inner, layout)?)),
            Value::Weight(weight) => Value::Nums(Arc::new(weight.to_nums(self.onnx)?.moved(layout)?)),
            _ => return Err("moves dynamically quantised integers".to_owned()),
        })
    }
}

impl Text {
    pub(super) fn moved(&self, layout: &Layout) -> Result<Text, String> {
        let order = match (&self.order, &layout.from) {
            (order, None) => order.clone(),
            (None, Some(from)) => Some(Arc::new(from.iter().map(|&at| at as u32).collect::<Vec<u32>>())),
            (Some(order), Some(_)) => Some(Arc::new(layout.apply(order)?)),
        };
        // The identity is stored as no order.
        let identity = |order: &Arc<Vec<u32>>| {
            order.len() == self.all && order.iter().enumerate().all(|(i, &at)| i == at as usize)
        };
        let order = order.filter(|order| !identity(order));
        Ok(Text { shape: layout.shape.clone(), order, ..self.clone() })
    }
}

/// Returns true if two operations are known to be equal.
fn alike(a: &Op, b: &Op) -> bool {
    match (a, b) {
        (Op::Binary(x, a, b), Op::Binary(y, c, d)) => x == y && a.same(c) && b.same(d),
        (Op::Plus(a, x), Op::Plus(b, y)) => x == y && a.same(b),
        (Op::Function(f, a), Op::Function(g, b)) => f == g && a.same(b),
        (Op::Mean(a), Op::Mean(b)) | (Op::Softmax(a), Op::Softmax(b)) => a.same(b),
        _ => false,
    }
}
