//! Nodes that compute with values that depend on the text. Scalar factors are kept apart from values, and GELU and
//! layer norm are recognised in the forms that exporters write them in.

use super::eval::Eval;
use super::layout::{axis_of, broadcast, count};
use super::nums::{Kind, Nums};
use super::value::{Binary, Function, Op, Text, Value};
use super::weight::Weight;
use leyden_tensor::OnnxNode;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};
use std::sync::Arc;

/// Relative tolerance of a graph's factors, which are rounded in half precision.
const TOLERANCE: f64 = 1e-3;
/// Factor of the cube in the approximation of GELU with the hyperbolic tangent.
const CUBE: f64 = 0.044715;

pub(super) fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE * b.abs()
}

impl Eval<'_> {
    /// Traces a node with an input that depends on the text; `None` for unknown operations.
    pub(super) fn traced(&mut self, node: &OnnxNode, inputs: &[Value]) -> Result<Option<Value>, String> {
        let function = |name: &str| match name {
            "Erf" => Some(Function::Erf),
            "Tanh" => Some(Function::Tanh),
            "Relu" => Some(Function::Relu),
            "Sqrt" => Some(Function::Sqrt),
            "Reciprocal" => Some(Function::Reciprocal),
            "Sigmoid" => Some(Function::Sigmoid),
            _ => None,
        };
        let (a, b) = match inputs {
            [a] => (a, None),
            [a, b, ..] => (a, Some(b)),
            [] => return Ok(None),
        };
        let op = node.op.as_str();
        let text = match (op, a, b) {
            (_, Value::Text(x), None) if function(op).is_some() => match function(op) {
                Some(f) => self.function(f, x)?,
                None => return Ok(None),
            },
            ("Neg", Value::Text(x), None) => Text { factor: -x.factor, ..x.clone() },
            ("IsNaN", Value::Text(x), None) => {
                // Exporters test attention weights for NaN, which texts with all tokens masked have.
                self.spend(count(&x.shape)?)?;
                return Ok(Some(Value::Nums(Arc::new(Nums::filled(Kind::Bool, &x.shape, 0.0)?))));
            }
            ("Gelu", Value::Text(x), None) => {
                let tanh = match node.attribute("approximate") {
                    Some(leyden_tensor::OnnxAttribute::Text(name)) => name == b"tanh",
                    _ => false,
                };
                self.function(if tanh { Function::GeluTanh } else { Function::Gelu }, x)?
            }
            ("Softmax", Value::Text(x), None) => {
                let newer = self.onnx.opset("").unwrap_or(0) >= 13;
                self.last(x, node.int("axis").unwrap_or(if newer { -1 } else { 1 }))?;
                self.push(Op::Softmax(x.clone()), x.shape.clone())?
            }
            ("ReduceMean", Value::Text(x), axes) => {
                let axes = self.axes(node, axes)?.ok_or("means over all axes")?;
                if axes.len() != 1 || node.int("keepdims").unwrap_or(1) != 1 {
                    return Err("means over other axes than the last".to_owned());
                }
                self.last(x, axes[0])?;
                let mut shape = x.shape.clone();
                shape.iter_mut().last().into_iter().for_each(|n| *n = 1);
                self.push(Op::Mean(x.clone()), shape)?
            }
            ("Pow", Value::Text(x), power) => match self.nums(power)?.one() {
                Some(2.0) => self.function(Function::Square, x)?,
                Some(3.0) => self.function(Function::Cube, x)?,
                Some(0.5) => self.function(Function::Sqrt, x)?,
                _ => return Err("has a power other than 2, 3 or 1/2".to_owned()),
            },
            ("LayerNormalization", Value::Text(x), Some(weight)) => {
                self.last(x, node.int("axis").unwrap_or(-1))?;
                let eps = f64::from(node.float("epsilon").unwrap_or(1e-5));
                let n = x.shape.last().copied().unwrap_or(0);
                let weight = self.vector(weight, n)?;
                let bias = match inputs.get(2) {
                    None | Some(Value::None) => None,
                    Some(bias) => Some(self.vector(bias, n)?),
                };
                self.push(Op::Norm { x: x.clone(), weight, bias, eps }, x.shape.clone())?
            }
            ("MatMul", Value::Text(x), Some(Value::Weight(weight))) => self.linear(x, weight)?,
            ("MatMul", Value::Text(x), Some(Value::Text(y))) => self.product(x, y)?,
            ("Gemm", Value::Text(x), Some(Value::Weight(weight))) => {
                let one = |name: &str| node.float(name).unwrap_or(1.0) == 1.0;
                if node.int("transA").unwrap_or(0) != 0 || !one("alpha") || !one("beta") {
                    return Err("is no product with a matrix and a bias alone".to_owned());
                }
                let transposed = node.int("transB").unwrap_or(0) != 0;
                let product =
                    self.linear(x, &if transposed { weight.transpose() } else { weight.clone() })?;
                match inputs.get(2) {
                    None | Some(Value::None) => product,
                    Some(bias) => return self.binary(Binary::Add, &Value::Text(product), bias).map(Some),
                }
            }
            ("Where", of, Some(yes)) => return self.choose(of, yes, inputs.get(2)).map(Some),
            (_, a, Some(b)) => {
                let op = match op {
                    "Add" => Binary::Add,
                    "Sub" => Binary::Sub,
                    "Mul" => Binary::Mul,
                    "Div" => Binary::Div,
                    _ => return Ok(None),
                };
                return self.binary(op, a, b).map(Some);
            }
            _ => return Ok(None),
        };
        Ok(Some(Value::Text(text)))
    }

    fn last(&self, x: &Text, axis: i64) -> Result<(), String> {
        match axis_of(axis, x.shape.len())? + 1 == x.shape.len() {
            true => Ok(()),
            false => Err(format!("goes along axis {axis}, not the last one")),
        }
    }

    pub(super) fn function(&mut self, f: Function, x: &Text) -> Result<Text, String> {
        self.push(Op::Function(f, x.clone()), x.shape.clone())
    }

    /// Returns a vector of `n` values, which may have further axes of length 1.
    pub(super) fn vector(&self, value: &Value, n: usize) -> Result<Weight, String> {
        let unlike = |shape: &[usize]| format!("has a vector of shape {shape:?} for {n} values");
        match value {
            Value::Weight(weight) if weight.stored == [n] && weight.is_floats() => Ok(weight.clone()),
            value => {
                let nums = self.nums(Some(value))?;
                if nums.data.len() != n || nums.shape.last() != Some(&n) && n != 1 {
                    return Err(unlike(&nums.shape));
                }
                let name = match value {
                    Value::Weight(weight) => weight.name.as_ref(),
                    _ => "constant",
                };
                Ok(Weight::known(name, &Arc::new(Nums { shape: vec![n], ..Nums::clone(&nums) })))
            }
        }
    }

    /// Takes rows of a table.
    pub(super) fn rows(&mut self, table: &Weight, ids: &Arc<Nums>, columns: usize) -> Result<Value, String> {
        let shape = [&ids.shape[..], &[columns]].concat();
        self.push(Op::Rows { table: table.clone(), ids: Arc::clone(ids) }, shape).map(Value::Text)
    }

    /// Multiplies with a matrix `[inputs, outputs]`.
    pub(super) fn linear(&mut self, x: &Text, weight: &Weight) -> Result<Text, String> {
        let [inputs, outputs] = weight.shape()[..] else {
            return Err(format!("multiplies with `{}` of shape {:?}", weight.name, weight.shape()));
        };
        let Some((&last, outer)) = x.shape.split_last() else { return Err("multiplies a number".to_owned()) };
        if last != inputs {
            return Err(format!("multiplies {last} values with a matrix of {inputs}"));
        }
        if !weight.is_floats() {
            return Err(format!("multiplies with integers, `{}`, that have no scale", weight.name));
        }
        let shape = [outer, &[outputs]].concat();
        let plain = Text { factor: 1.0, ..x.clone() };
        let made = self.push(Op::Linear { x: plain, weight: weight.clone(), bias: None }, shape)?;
        Ok(Text { factor: x.factor, ..made })
    }

    pub(super) fn product(&mut self, x: &Text, y: &Text) -> Result<Text, String> {
        let unlike = || format!("multiplies shapes {:?} and {:?}", x.shape, y.shape);
        let ([outer @ .., m, k], [others @ .., l, n]) = (&x.shape[..], &y.shape[..]) else {
            return Err(unlike());
        };
        if outer != others || k != l {
            return Err(unlike());
        }
        let shape = [outer, &[*m, *n]].concat();
        let plain = |x: &Text| Text { factor: 1.0, ..x.clone() };
        let made = self.push(Op::Product(plain(x), plain(y)), shape)?;
        Ok(Text { factor: x.factor * y.factor, ..made })
    }

    /// Traces `Where` with a constant condition that is the same everywhere.
    fn choose(&mut self, of: &Value, yes: &Value, no: Option<&Value>) -> Result<Value, String> {
        let of = self.nums(Some(of))?;
        let chosen = match of.same() {
            Some(0.0) => no.ok_or("lacks an input")?,
            Some(_) => yes,
            None => {
                return Err("has a condition that differs between values that depend on the text".to_owned());
            }
        };
        match chosen {
            Value::Text(text) if broadcast(&of.shape, &text.shape)? == text.shape => Ok(chosen.clone()),
            Value::Nums(nums) => {
                let shape = broadcast(&of.shape, &nums.shape)?;
                let layout = super::layout::Layout::expand(&nums.shape, &shape)?;
                self.moved(chosen, &layout)
            }
            _ => Err("chooses between values that are not supported".to_owned()),
        }
    }

    pub(super) fn binary(&mut self, op: Binary, a: &Value, b: &Value) -> Result<Value, String> {
        match (a, b) {
            (Value::Text(a), Value::Text(b)) => self.binary_texts(op, a, b).map(Value::Text),
            (Value::Text(a), b @ (Value::Nums(_) | Value::Weight(_))) => {
                self.binary_constant(op, a, b, false)
            }
            (a @ (Value::Nums(_) | Value::Weight(_)), Value::Text(b)) => self.binary_constant(op, b, a, true),
            // Dequantisation written as a multiplication of integers with scales.
            (Value::Weight(w), other) | (other, Value::Weight(w)) if op == Binary::Mul && w.is_codes() => {
                let scales = self.nums(Some(other))?;
                w.on_grid(&scales, None, -1).map(Value::Weight)
            }
            _ => Err("computes with values that are not supported".to_owned()),
        }
    }

    /// Traces a binary operation with constants that are the same everywhere, or with a vector.
    fn binary_constant(
        &mut self,
        op: Binary,
        x: &Text,
        known: &Value,
        reversed: bool,
    ) -> Result<Value, String> {
        let n = x.shape.last().copied().unwrap_or(1);
        // The bias of a matrix with one output is one number, but must stay a bias.
        let is_bias = op == Binary::Add && matches!(self.op(x), Op::Linear { bias: None, .. });
        let is_vector =
            matches!(known, Value::Weight(w) if w.stored == [n] && (n > 1 || is_bias && x.is_plain()));
        let nums = if is_vector { None } else { Some(self.nums(Some(known))?) };
        if let Some(nums) = &nums
            && broadcast(&x.shape, &nums.shape)? == x.shape
            && let Some(c) = nums.same()
        {
            if !c.is_finite() {
                return Err(format!("computes with {c}"));
            }
            let times = |factor: f64| Text { factor: x.factor * factor, ..x.clone() };
            let done = match op {
                Binary::Add | Binary::Sub if c == 0.0 && !reversed => x.clone(),
                Binary::Add if c == 0.0 => x.clone(),
                Binary::Add => self.push(Op::Plus(x.clone(), c), x.shape.clone())?,
                Binary::Sub if reversed => self.push(Op::Plus(times(-1.0), c), x.shape.clone())?,
                Binary::Sub => self.push(Op::Plus(x.clone(), -c), x.shape.clone())?,
                Binary::Mul => times(c),
                Binary::Div if reversed => {
                    let one = self.function(Function::Reciprocal, x)?;
                    Text { factor: c, ..one }
                }
                Binary::Div if c != 0.0 => times(1.0 / c),
                Binary::Div => return Err("divides by zero".to_owned()),
            };
            return Ok(Value::Text(done));
        }
        let by_place = |_| "adds or multiplies constants that depend on the position of a token".to_owned();
        let vector = self.vector(known, n).map_err(by_place)?;
        if reversed && matches!(op, Binary::Sub | Binary::Div) {
            return Err("subtracts from a vector, or divides one".to_owned());
        }
        let shape = x.shape.clone();
        let op = match (op, self.op(x)) {
            (Binary::Add, Op::Linear { x: of, weight, bias: None }) if x.is_plain() => {
                Op::Linear { x: of.clone(), weight: weight.clone(), bias: Some(vector) }
            }
            (Binary::Mul, Op::Normed { x: of, eps }) if x.is_plain() => {
                Op::Norm { x: of.clone(), weight: vector, bias: None, eps: *eps }
            }
            (Binary::Add, Op::Norm { x: of, weight, bias: None, eps }) if x.is_plain() => {
                Op::Norm { x: of.clone(), weight: weight.clone(), bias: Some(vector), eps: *eps }
            }
            _ => return Err("computes with a vector at a place where encoders do not".to_owned()),
        };
        self.push(op, shape).map(Value::Text)
    }

    /// Traces a binary operation on two values that depend on the text, and recognises squares, cubes, GELU and layer
    /// norm.
    pub(super) fn binary_texts(&mut self, op: Binary, a: &Text, b: &Text) -> Result<Text, String> {
        let shape = broadcast(&a.shape, &b.shape)?;
        let factor = match op {
            Binary::Add | Binary::Sub => 1.0,
            Binary::Mul => a.factor * b.factor,
            Binary::Div => a.factor / b.factor,
        };
        let plain = |x: &Text| Text { factor: 1.0, ..x.clone() };
        let made = match op {
            Binary::Add | Binary::Sub => self.push(Op::Binary(op, a.clone(), b.clone()), shape)?,
            Binary::Mul => {
                let (a, b) = (plain(a), plain(b));
                let gelu = self.gelu(&a, &b).or_else(|| self.gelu(&b, &a));
                match gelu {
                    Some((f, x)) => {
                        let made = self.function(f, &x)?;
                        // GELU is half of `x (1 + erf(x / sqrt 2))`; likewise with the hyperbolic tangent.
                        Text { factor: 2.0, ..made }
                    }
                    None if a.same(&b) => self.function(Function::Square, &a)?,
                    None if self.is_square_of(&a, &b) => self.function(Function::Cube, &b)?,
                    None if self.is_square_of(&b, &a) => self.function(Function::Cube, &a)?,
                    None => self.push(Op::Binary(op, a, b), shape)?,
                }
            }
            Binary::Div => {
                let (a, b) = (plain(a), plain(b));
                match self.normed(&a, &b) {
                    Some((x, eps)) => self.push(Op::Normed { x, eps }, shape)?,
                    None => self.push(Op::Binary(op, a, b), shape)?,
                }
            }
        };
        Ok(Text { factor: made.factor * factor, ..made })
    }

    fn is_square_of(&self, x: &Text, of: &Text) -> bool {
        matches!(self.op(x), Op::Function(Function::Square, y) if x.is_plain() && y.same(of))
    }

    /// Returns GELU and its input if `b` is `1 + erf(a / sqrt 2)`, or the same with its approximation by the hyperbolic
    /// tangent.
    fn gelu(&self, a: &Text, b: &Text) -> Option<(Function, Text)> {
        let Op::Plus(inner, 1.0) = self.op(b) else { return None };
        if !b.is_whole() || !inner.is_plain() || !a.is_whole() {
            return None;
        }
        let same = |x: &Text, factor: f64| x.atom == a.atom && x.is_whole() && near(x.factor, factor);
        match self.op(inner) {
            Op::Function(Function::Erf, x) if same(x, FRAC_1_SQRT_2) => Some((Function::Gelu, a.clone())),
            Op::Function(Function::Tanh, sum) if sum.is_whole() && near(sum.factor, FRAC_2_PI.sqrt()) => {
                let Op::Binary(Binary::Add, x, y) = self.op(sum) else { return None };
                let cube = |y: &Text| {
                    let Op::Function(Function::Cube, z) = self.op(y) else { return false };
                    y.is_whole() && near(y.factor, CUBE) && same(z, 1.0)
                };
                let found = same(x, 1.0) && cube(y) || same(y, 1.0) && cube(x);
                found.then(|| (Function::GeluTanh, a.clone()))
            }
            _ => None,
        }
    }

    /// Returns the input and epsilon of a normalisation `a / b`: `a` is the input minus its mean, `b` its standard
    /// deviation.
    fn normed(&self, a: &Text, b: &Text) -> Option<(Text, f64)> {
        let Op::Binary(Binary::Sub, x, mean) = self.op(a) else { return None };
        let Op::Mean(of) = self.op(mean) else { return None };
        let Op::Function(Function::Sqrt, variance) = self.op(b) else { return None };
        let Op::Plus(squares, eps) = self.op(variance) else { return None };
        let Op::Mean(square) = self.op(squares) else { return None };
        let Op::Function(Function::Square, deviation) = self.op(square) else { return None };
        let plain = [a, b, mean, variance, squares, square, deviation].iter().all(|x| x.is_plain());
        (plain && of.same(x) && deviation.same(a) && x.is_plain()).then(|| (x.clone(), *eps))
    }
}
