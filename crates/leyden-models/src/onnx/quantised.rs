//! Nodes of quantised graphs, and nodes fused by onnxruntime. Weights are dequantised; the rounding of activations is
//! not reproduced.

use super::eval::Eval;
use super::nums::{Kind, Nums};
use super::value::{Binary, Function, Op, Text, Value};
use super::weight::Weight;
use leyden_tensor::OnnxNode;
use std::sync::Arc;

impl Eval<'_> {
    /// Traces a node with quantised inputs or results; `None` for other nodes.
    pub(super) fn quantised(
        &mut self,
        node: &OnnxNode,
        inputs: &[Value],
    ) -> Result<Option<Vec<Value>>, String> {
        let (first, second) = (inputs.first(), inputs.get(1));
        let one = match (node.op.as_str(), first, second) {
            ("QuantizeLinear", Some(value @ (Value::Text(_) | Value::Nums(_))), _) => {
                Value::Quantised(Box::new(value.clone()))
            }
            ("QuantizeLinear", Some(Value::Weight(w)), _) if w.stored.iter().product::<usize>() == 1 => {
                Value::Quantised(Box::new(Value::Weight(w.clone())))
            }
            ("QuantizeLinear", ..) => return Err("rounds weights that are stored as floats".to_owned()),
            ("DequantizeLinear", Some(value), _) => self.dequantised(node, value, inputs)?,
            ("DynamicQuantizeLinear", Some(Value::Text(x)), _) => {
                return Ok(Some(vec![
                    Value::Codes(x.clone()),
                    Value::Scale(x.clone()),
                    Value::Zero(x.clone()),
                ]));
            }
            ("MatMulInteger", Some(Value::Codes(x)), Some(Value::Weight(weight))) => {
                self.check_zero(x, inputs.get(2))?;
                Value::IntProduct(x.clone(), weight.clone(), self.opt_nums(inputs.get(3))?)
            }
            ("MatMulInteger", Some(Value::Codes(x)), Some(Value::Codes(y))) => {
                self.check_zero(x, inputs.get(2))?;
                self.check_zero(y, inputs.get(3))?;
                Value::CodesProduct(x.clone(), y.clone())
            }
            ("Mul", Some(Value::Scale(x)), Some(Value::Scale(y))) => {
                Value::ScalesProduct(x.clone(), y.clone())
            }
            ("Mul", Some(Value::CodesProduct(x, y)), Some(Value::ScalesProduct(a, b)))
            | ("Mul", Some(Value::ScalesProduct(a, b)), Some(Value::CodesProduct(x, y)))
                if a.same(x) && b.same(y) || a.same(y) && b.same(x) =>
            {
                Value::Text(self.product(x, y)?)
            }
            ("Mul", Some(Value::Scale(x)), Some(known)) | ("Mul", Some(known), Some(Value::Scale(x))) => {
                Value::Scales(x.clone(), self.nums(Some(known))?)
            }
            ("Mul", Some(Value::IntProduct(x, weight, zeros)), Some(Value::Scales(of, scales)))
            | ("Mul", Some(Value::Scales(of, scales)), Some(Value::IntProduct(x, weight, zeros)))
                if of.same(x) =>
            {
                Value::Text(self.integers(x, weight, scales, zeros.as_deref())?)
            }
            _ => return Ok(None),
        };
        Ok(Some(vec![one]))
    }

    /// Checks that a zero point belongs to the quantised values of `x`.
    pub(super) fn check_zero(&self, x: &Text, zero: Option<&Value>) -> Result<(), String> {
        match zero {
            Some(Value::Zero(of)) if of.same(x) => Ok(()),
            _ => Err("has no zero point of its first factor".to_owned()),
        }
    }

    fn integers(
        &mut self,
        x: &Text,
        weight: &Weight,
        scales: &Nums,
        zeros: Option<&Nums>,
    ) -> Result<Text, String> {
        let weight = weight.on_grid(scales, zeros, -1)?;
        self.linear(x, &weight)
    }

    fn dequantised(&mut self, node: &OnnxNode, value: &Value, inputs: &[Value]) -> Result<Value, String> {
        if node.int("block_size").unwrap_or(0) != 0 {
            return Err("has scales for blocks".to_owned());
        }
        if let Value::Quantised(inner) = value {
            return Ok((**inner).clone());
        }
        let (scales, zeros) = (self.nums(inputs.get(1))?, self.opt_nums(inputs.get(2))?);
        let axis = node.int("axis").unwrap_or(1);
        match value {
            Value::Weight(weight) if weight.stored.len() == 1 => {
                weight.on_grid(&scales, zeros.as_deref(), 0).map(Value::Weight)
            }
            Value::Weight(weight) => weight.on_grid(&scales, zeros.as_deref(), axis).map(Value::Weight),
            Value::Nums(codes) => {
                let less = match zeros {
                    Some(zeros) => codes.zip(Kind::Float, &zeros, |q, z| q - z)?,
                    None => codes.map(Kind::Float, |q| q),
                };
                let times = |q: f64, s: f64| f64::from(q as f32 * s as f32);
                Ok(Value::Nums(Arc::new(less.zip(Kind::Float, &scales, times)?)))
            }
            Value::Text(x) => match self.op(x) {
                Op::Rows { table, ids } if x.factor == 1.0 && table.is_codes() => {
                    if scales.data.len() != 1 {
                        return Err("has several scales for the rows of a table".to_owned());
                    }
                    let (table, ids) = (table.on_grid(&scales, zeros.as_deref(), 0)?, Arc::clone(ids));
                    let columns = table.shape().last().copied().unwrap_or(0);
                    match self.rows(&table, &ids, columns)? {
                        // The rows keep the order of the moved integers.
                        Value::Text(made) => Ok(Value::Text(Text { atom: made.atom, ..x.clone() })),
                        other => Ok(other),
                    }
                }
                _ => Err("scales values that are not integers".to_owned()),
            },
            _ => Err("scales values that are not integers".to_owned()),
        }
    }

    /// Decomposes a node that onnxruntime's optimiser fused.
    pub(super) fn fused(&mut self, node: &OnnxNode, inputs: &[Value]) -> Result<Option<Value>, String> {
        if node.domain != "com.microsoft" {
            return Ok(None);
        }
        let given = |i: usize| inputs.get(i).filter(|value| !matches!(value, Value::None));
        let text = |value: &Value| match value {
            Value::Text(x) => Ok(x.clone()),
            _ => Err("needs a value that depends on the text".to_owned()),
        };
        let found = match (node.op.as_str(), given(0), given(1)) {
            ("Attention", ..) => return self.attention(node, inputs),
            ("QAttention", ..) => return self.quantised_attention(node, inputs),
            ("DequantizeLinear", Some(value), _) => return self.dequantised(node, value, inputs).map(Some),
            ("QuantizeLinear", Some(value @ (Value::Text(_) | Value::Nums(_))), _) => {
                return Ok(Some(Value::Quantised(Box::new(value.clone()))));
            }
            ("FusedMatMul", Some(x), Some(y)) => return self.fused_product(node, x, y).map(Some),
            ("FusedGemm", ..) => return self.fused_gemm(node, inputs),
            ("Gelu", Some(Value::Text(x)), _) => self.function(Function::Gelu, x)?,
            ("BiasGelu", Some(x), Some(bias)) => {
                let sum = text(&self.binary(Binary::Add, x, bias)?)?;
                self.function(Function::Gelu, &sum)?
            }
            ("FastGelu", Some(x), bias) => {
                let sum = match bias {
                    Some(bias) => text(&self.binary(Binary::Add, x, bias)?)?,
                    None => text(x)?,
                };
                self.function(Function::GeluTanh, &sum)?
            }
            ("SkipLayerNormalization", Some(x), Some(skip)) => {
                let x = match given(4) {
                    Some(bias) => self.binary(Binary::Add, x, bias)?,
                    None => x.clone(),
                };
                let sum = text(&self.binary(Binary::Add, &x, skip)?)?;
                let n = sum.shape.last().copied().unwrap_or(0);
                let weight = self.vector(given(2).ok_or("lacks weights")?, n)?;
                let bias = given(3).map(|bias| self.vector(bias, n)).transpose()?;
                let eps = f64::from(node.float("epsilon").unwrap_or(1e-12));
                let shape = sum.shape.clone();
                self.push(Op::Norm { x: sum, weight, bias, eps }, shape)?
            }
            ("DynamicQuantizeMatMul", Some(Value::Text(x)), Some(Value::Weight(weight))) => {
                let (scales, zeros) = (self.nums(given(2))?, self.opt_nums(given(3))?);
                let product = self.integers(x, weight, &scales, zeros.as_deref())?;
                match given(4) {
                    Some(bias) => text(&self.binary(Binary::Add, &Value::Text(product), bias)?)?,
                    None => product,
                }
            }
            ("MatMulIntegerToFloat", Some(Value::Codes(x)), Some(Value::Codes(y))) => {
                for (of, scale, zero) in [(x, 2, 4), (y, 3, 5)] {
                    self.check_zero(of, given(zero))?;
                    match given(scale) {
                        Some(Value::Scale(found)) if found.same(of) => {}
                        _ => return Err("has no scale of one of its factors".to_owned()),
                    }
                }
                self.product(x, y)?
            }
            ("MatMulIntegerToFloat", Some(Value::Codes(x)), Some(Value::Weight(weight))) => {
                self.check_zero(x, given(4))?;
                match given(2) {
                    Some(Value::Scale(of)) if of.same(x) => {}
                    _ => return Err("has no scale of its first factor".to_owned()),
                }
                let (scales, zeros) = (self.nums(given(3))?, self.opt_nums(given(5))?);
                let product = self.integers(x, weight, &scales, zeros.as_deref())?;
                match given(6) {
                    Some(bias) => text(&self.binary(Binary::Add, &Value::Text(product), bias)?)?,
                    None => product,
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(Value::Text(found)))
    }
}
