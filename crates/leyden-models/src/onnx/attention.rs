//! Attention and embeddings fused by onnxruntime's optimiser, decomposed into the operations of an unfused graph.

use super::eval::Eval;
use super::layout::Layout;
use super::nums::{Kind, Nums};
use super::value::{Binary, Function, Op, Text, Value};
use super::weight::Weight;
use leyden_tensor::{OnnxAttribute, OnnxNode};
use std::sync::Arc;

/// Index of the mask among the inputs of `Attention`.
const MASK: usize = 3;
/// Indices of a cache of earlier tokens and of its length.
const EARLIER: [usize; 2] = [4, 6];
/// Index of the bias that is added to scores.
const ADDED: usize = 5;

fn given(inputs: &[Value], i: usize) -> Option<&Value> {
    inputs.get(i).filter(|value| !matches!(value, Value::None))
}

impl Eval<'_> {
    /// Decomposes `Attention`, whose matrix has the columns of queries, keys and values.
    pub(super) fn attention(&mut self, node: &OnnxNode, inputs: &[Value]) -> Result<Option<Value>, String> {
        let (Some(Value::Text(x)), Some(Value::Weight(weight))) = (inputs.first(), inputs.get(1)) else {
            return Ok(None);
        };
        if EARLIER.iter().any(|i| given(inputs, *i).is_some()) {
            return Err("takes keys and values of earlier tokens".to_owned());
        }
        self.attended(node, x, weight, [given(inputs, 2), given(inputs, MASK), given(inputs, ADDED)])
    }

    /// Decomposes `QAttention`, the same with quantised input and weights.
    pub(super) fn quantised_attention(
        &mut self,
        node: &OnnxNode,
        inputs: &[Value],
    ) -> Result<Option<Value>, String> {
        let (Some(Value::Codes(x)), Some(Value::Weight(weight))) = (inputs.first(), inputs.get(1)) else {
            return Ok(None);
        };
        match given(inputs, 3) {
            Some(Value::Scale(of)) if of.same(x) => {}
            _ => return Err("has no scale of its first factor".to_owned()),
        }
        self.check_zero(x, given(inputs, 6))?;
        if given(inputs, 8).is_some() {
            return Err("takes keys and values of earlier tokens".to_owned());
        }
        let (scales, zeros) = (self.nums(given(inputs, 4))?, self.opt_nums(given(inputs, 7))?);
        let weight = weight.on_grid(&scales, zeros.as_deref(), -1)?;
        self.attended(node, x, &weight, [given(inputs, 2), given(inputs, 5), None])
    }

    fn attended(
        &mut self,
        node: &OnnxNode,
        x: &Text,
        weight: &Weight,
        [bias, mask, added]: [Option<&Value>; 3],
    ) -> Result<Option<Value>, String> {
        let ([texts, tokens, _], [_, columns]) = (&x.shape[..], &weight.shape()[..]) else {
            return Err(format!("attends to values of shape {:?}", x.shape));
        };
        let (texts, tokens, columns) = (*texts, *tokens, *columns);
        for (name, what) in [("unidirectional", "a causal mask"), ("do_rotary", "rotations")] {
            if node.int(name).unwrap_or(0) != 0 {
                return Err(format!("has {what}, which these encoders have not"));
            }
        }
        self.unmasked(mask, [texts, tokens])?;
        let sizes = match node.ints("qkv_hidden_sizes") {
            None => [columns / 3; 3],
            Some(&[q, k, v]) => [q, k, v].map(|n| usize::try_from(n).unwrap_or(0)),
            Some(_) => return Err("has no three sizes of queries, keys and values".to_owned()),
        };
        let heads = node.int("num_heads").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let sum = sizes.iter().try_fold(0_usize, |sum, n| sum.checked_add(*n));
        let divided = heads > 0 && sizes.iter().all(|n| *n > 0 && n.is_multiple_of(heads));
        if sum != Some(columns) || sizes[0] != sizes[1] || !divided {
            return Err(format!("has {heads} heads of {sizes:?} in {columns} columns"));
        }
        let bias = bias.map(|bias| self.vector(bias, columns)).transpose()?;
        let mut parts = Vec::new();
        let mut start = 0;
        // By head: queries and values `[tokens, dim]`, keys `[dim, tokens]`.
        for (n, order) in sizes.into_iter().zip([[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]]) {
            let mut part = Value::Text(self.linear(x, &weight.columns(start, n)?)?);
            if let Some(bias) = &bias {
                let own = Value::Weight(bias.values_from(self.onnx, start, n)?);
                part = self.binary(Binary::Add, &part, &own)?;
            }
            let split = [texts, tokens, heads, n / heads].map(|n| n as i64);
            let part = self.moved(&part, &Layout::reshape(&[texts, tokens, n], &split, true)?)?;
            let split = [texts, tokens, heads, n / heads];
            parts.push(self.moved(&part, &Layout::transpose(&split, &order)?)?);
            start += n;
        }
        let [Value::Text(queries), Value::Text(keys), Value::Text(values)] = &parts[..] else {
            return Ok(None);
        };
        let dim = sizes[0] / heads;
        // The scale 0 stands for the default.
        let scale = node.float("scale").map(f64::from).filter(|scale| *scale != 0.0);
        let scale = scale.unwrap_or_else(|| 1.0 / (dim as f64).sqrt());
        let scores = self.product(queries, keys)?;
        let scores = Text { factor: scores.factor * scale, ..scores };
        let scores = match added {
            Some(added) => match self.binary(Binary::Add, &Value::Text(scores), added)? {
                Value::Text(sum) => sum,
                _ => return Ok(None),
            },
            None => scores,
        };
        let shape = scores.shape.clone();
        let shares = self.push(Op::Softmax(scores), shape)?;
        let mixed = self.product(&shares, values)?;
        let (shape, width) = (mixed.shape.clone(), sizes[2]);
        let mixed = self.moved(&Value::Text(mixed), &Layout::transpose(&shape, &[0, 2, 1, 3])?)?;
        let joined = [texts, tokens, width].map(|n| n as i64);
        let back = Layout::reshape(&[texts, tokens, heads, width / heads], &joined, true)?;
        self.moved(&mixed, &back).map(Some)
    }

    /// Decomposes `FusedMatMul`: a product of optionally transposed factors, times a number.
    pub(super) fn fused_product(&mut self, node: &OnnxNode, x: &Value, y: &Value) -> Result<Value, String> {
        if ["transBatchA", "transBatchB"].iter().any(|name| node.int(name).unwrap_or(0) != 0) {
            return Err("transposes the axes of texts".to_owned());
        }
        let mut transposed = |value: &Value, name: &str| match (value, node.int(name).unwrap_or(0)) {
            (_, 0) => Ok(value.clone()),
            (Value::Weight(weight), _) if weight.stored.len() == 2 => Ok(Value::Weight(weight.transpose())),
            (Value::Text(text), _) if text.shape.len() > 1 => {
                let n = text.shape.len() as i64;
                let order: Vec<i64> = (0..n - 2).chain([n - 1, n - 2]).collect();
                let layout = Layout::transpose(&text.shape, &order)?;
                self.moved(value, &layout)
            }
            _ => Err("transposes what has no rows".to_owned()),
        };
        let (x, y) = (transposed(x, "transA")?, transposed(y, "transB")?);
        let product = match (&x, &y) {
            (Value::Text(x), Value::Weight(weight)) => self.linear(x, weight)?,
            (Value::Text(x), Value::Text(y)) => self.product(x, y)?,
            _ => return Err("multiplies what is not followed".to_owned()),
        };
        let alpha = f64::from(node.float("alpha").unwrap_or(1.0));
        Ok(Value::Text(Text { factor: product.factor * alpha, ..product }))
    }

    /// Decomposes `FusedGemm`: a product with a matrix, a bias, and an activation function.
    pub(super) fn fused_gemm(&mut self, node: &OnnxNode, inputs: &[Value]) -> Result<Option<Value>, String> {
        let function = match node.attribute("activation") {
            Some(OnnxAttribute::Text(name)) if name == b"Relu" => Function::Relu,
            Some(OnnxAttribute::Text(name)) if name == b"Tanh" => Function::Tanh,
            _ => return Err("has a function that no head has here".to_owned()),
        };
        let mut plain = node.clone();
        "Gemm".clone_into(&mut plain.op);
        plain.domain.clear();
        match self.traced(&plain, inputs)? {
            Some(Value::Text(sum)) => self.function(function, &sum).map(|made| Some(Value::Text(made))),
            _ => Ok(None),
        }
    }

    /// Checks that a mask masks no token of the sample texts. It is a mask of tokens, a mask of pairs of tokens, or the
    /// number of tokens of each text.
    fn unmasked(&mut self, mask: Option<&Value>, [texts, tokens]: [usize; 2]) -> Result<(), String> {
        let Some(mask) = mask else { return Ok(()) };
        let mask = self.nums(Some(mask))?;
        self.spend(mask.data.len())?;
        let is = |part: &[f64], n: usize| part.iter().all(|x| *x == n as f64);
        let fits = match mask.shape[..] {
            [n] if n == texts => is(&mask.data, tokens),
            // Ends of all texts, then their starts.
            [n] if n == 2 * texts => is(&mask.data[..texts], tokens) && is(&mask.data[texts..], 0),
            [a, b] => [a, b] == [texts, tokens] && is(&mask.data, 1),
            [a, b, c] => [a, b, c] == [texts, tokens, tokens] && is(&mask.data, 1),
            _ => false,
        };
        if fits { Ok(()) } else { Err("masks tokens of a text that is not padded".to_owned()) }
    }

    /// Decomposes `EmbedLayerNormalization` and `QEmbedLayerNormalization`. Returns their three outputs: the normalised
    /// sum of rows of up to three tables, the number of tokens of each text, and the sum.
    pub(super) fn embedded(
        &mut self,
        node: &OnnxNode,
        inputs: &[Value],
    ) -> Result<Option<Vec<Value>>, String> {
        // Tables, weight and bias, dequantised.
        let quantised = node.op == "QEmbedLayerNormalization";
        let mut tensors = Vec::new();
        for i in 0..5 {
            tensors.push(match given(inputs, 2 + i) {
                Some(Value::Weight(codes)) if quantised && codes.is_codes() => {
                    let (scale, zero) =
                        (self.nums(given(inputs, 8 + i))?, self.opt_nums(given(inputs, 13 + i))?);
                    Some(Value::Weight(codes.on_grid(&scale, zero.as_deref(), 0)?))
                }
                other => other.cloned(),
            });
        }
        let table = |i: usize| match &tensors[i] {
            Some(Value::Weight(table)) => match table.shape()[..] {
                [_, columns] => Some((table, columns)),
                _ => None,
            },
            _ => None,
        };
        let ids = self.nums(given(inputs, 0))?;
        let (Some((words, width)), Some((places, _)), &[_, tokens]) = (table(0), table(1), &ids.shape[..])
        else {
            return Ok(None);
        };
        let at = match self.opt_nums(given(inputs, 8).filter(|_| !quantised))? {
            Some(at) => at,
            None => Arc::new(Nums::ints(&[1, tokens], 0..tokens)),
        };
        let (words, places) = (self.rows(words, &ids, width)?, self.rows(places, &at, width)?);
        let mut sum = self.binary(Binary::Add, &words, &places)?;
        if let (Some((kinds, columns)), Some(of)) = (table(2), given(inputs, 1)) {
            let of = self.nums(Some(of))?;
            let kinds = self.rows(kinds, &of, columns)?;
            sum = self.binary(Binary::Add, &sum, &kinds)?;
        }
        let Value::Text(x) = &sum else { return Ok(None) };
        let weight = self.vector(tensors[3].as_ref().ok_or("lacks weights")?, width)?;
        let bias = tensors[4].as_ref().map(|bias| self.vector(bias, width)).transpose()?;
        let eps = f64::from(node.float("epsilon").unwrap_or(1e-12));
        let normed = self.push(Op::Norm { x: x.clone(), weight, bias, eps }, x.shape.clone())?;
        let counts = match given(inputs, 7) {
            Some(mask) => Value::Nums(Arc::new(self.nums(Some(mask))?.sum_rows(false)?)),
            None => Value::None,
        };
        Ok(Some(vec![Value::Text(normed), counts, sum]))
    }
}

impl Nums {
    /// Sums along the last axis, which stays with length 1 if `keeps`.
    pub(super) fn sum_rows(&self, keeps: bool) -> Result<Nums, String> {
        let Some((&n, outer)) = self.shape.split_last() else { return Err("sums a number".to_owned()) };
        let mut shape = outer.to_vec();
        if keeps {
            shape.push(1);
        }
        let data = match n {
            0 => vec![0.0; super::layout::count(outer)?],
            n => self.data.chunks_exact(n).map(|row| row.iter().sum()).collect(),
        };
        let kind = if self.kind == Kind::Float { Kind::Float } else { Kind::Int };
        Ok(Nums { kind, shape, data })
    }
}
