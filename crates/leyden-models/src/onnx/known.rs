//! Constant folding: nodes that compute with sizes, positions and masks.

use super::eval::Eval;
use super::layout::{Layout, axis_of, broadcast, count};
use super::nums::{Kind, Nums};
use super::value::Value;
use leyden_kernels::ops::ln;
use leyden_tensor::OnnxNode;
use std::sync::Arc;

type BinaryFn = fn(f64, f64) -> f64;

/// Returns the binary function of an operation, and true if its result is a boolean.
fn binary(op: &str) -> Option<(BinaryFn, bool)> {
    Some(match op {
        "Add" => (|a, b| a + b, false),
        "Sub" => (|a, b| a - b, false),
        "Mul" => (|a, b| a * b, false),
        "Div" => (|a, b| a / b, false),
        "Min" => (f64::min, false),
        "Max" => (f64::max, false),
        "Equal" => (|a, b| f64::from(a == b), true),
        "Less" => (|a, b| f64::from(a < b), true),
        "LessOrEqual" => (|a, b| f64::from(a <= b), true),
        "Greater" => (|a, b| f64::from(a > b), true),
        "GreaterOrEqual" => (|a, b| f64::from(a >= b), true),
        "And" => (|a, b| f64::from(a != 0.0 && b != 0.0), true),
        "Or" => (|a, b| f64::from(a != 0.0 || b != 0.0), true),
        _ => return None,
    })
}

/// Returns the unary function of an operation.
fn unary(op: &str) -> Option<fn(f64) -> f64> {
    Some(match op {
        "Abs" => f64::abs,
        "Neg" => |x| -x,
        "Not" => |x| f64::from(x == 0.0),
        "Sqrt" => f64::sqrt,
        "Reciprocal" => |x| 1.0 / x,
        "Log" => |x| if x > 0.0 { ln(x) } else { f64::NEG_INFINITY },
        "Floor" => f64::floor,
        "Ceil" => f64::ceil,
        "IsNaN" => |x| f64::from(x.is_nan()),
        _ => return None,
    })
}

impl Eval<'_> {
    /// Folds a node whose inputs are all constants; `None` if one is not, or the operation is unknown.
    pub(super) fn folded(&mut self, node: &OnnxNode, inputs: &[Value]) -> Result<Option<Value>, String> {
        let op = node.op.as_str();
        // Nodes with weights or values that depend on the text are traced.
        let is_known = |value: &Value| matches!(value, Value::Nums(_) | Value::Weight(_) | Value::None);
        let weights = inputs.iter().filter(|value| matches!(value, Value::Weight(w) if w.stored.len() > 1));
        if !inputs.iter().all(is_known) || weights.count() > 0 {
            return Ok(None);
        }
        let nums = |i: usize| self.nums(inputs.get(i));
        let found = match op {
            "Where" => {
                let (of, a, b) = (nums(0)?, nums(1)?, nums(2)?);
                let shape = broadcast(&broadcast(&of.shape, &a.shape)?, &b.shape)?;
                let wide = |x: &Nums| x.moved(&Layout::expand(&x.shape, &shape)?);
                let (of, yes, no) = (wide(&of)?, wide(&a)?, wide(&b)?);
                let choose = |((of, yes), no): ((&f64, &f64), &f64)| if *of != 0.0 { *yes } else { *no };
                let data = of.data.iter().zip(&yes.data).zip(&no.data).map(choose).collect();
                Nums { kind: a.kind, shape, data }
            }
            "Pow" => {
                let (a, b) = (nums(0)?, nums(1)?);
                match b.one() {
                    Some(2.0) => a.map(a.kind, |x| x * x),
                    Some(0.5) => a.map(a.kind, f64::sqrt),
                    _ => return Err("has a power other than 2 or 1/2".to_owned()),
                }
            }
            "Range" => {
                let [start, limit, step] = [nums(0)?, nums(1)?, nums(2)?].map(|n| n.one());
                let (Some(start), Some(limit), Some(step)) = (start, limit, step) else {
                    return Err("has bounds that are no numbers".to_owned());
                };
                let n = ((limit - start) / step).ceil().max(0.0);
                let n = count(&[if n.is_finite() { n as usize } else { usize::MAX }])?;
                let data = (0..n).map(|i| start + i as f64 * step).collect();
                Nums { kind: nums(0)?.kind, shape: vec![n], data }
            }
            "ConstantOfShape" => {
                let shape = nums(0)?.to_shape()?;
                let (kind, value) = match node.tensor("value") {
                    None => (Kind::Float, 0.0),
                    Some(_) => {
                        let value = self.constant(node)?;
                        let value = self.nums(Some(&value))?;
                        (value.kind, value.one().ok_or("has a value that is no number")?)
                    }
                };
                Nums::filled(kind, &shape, value)?
            }
            "Concat" => {
                let parts = (0..inputs.len()).map(nums).collect::<Result<Vec<_>, _>>()?;
                let rank = parts.first().map_or(0, |part| part.shape.len());
                let parts: Vec<&Nums> = parts.iter().map(AsRef::as_ref).collect();
                Nums::concat(&parts, axis_of(node.int("axis").unwrap_or(0), rank)?)?
            }
            "CumSum" => {
                let (x, axis) = (nums(0)?, nums(1)?.one().ok_or("has no axis")?);
                let plain = ["exclusive", "reverse"].iter().all(|name| node.int(name).unwrap_or(0) == 0);
                if axis_of(axis as i64, x.shape.len())? + 1 != x.shape.len() || !plain {
                    return Err("sums in another order than along the last axis".to_owned());
                }
                let mut data = x.data.clone();
                let n = x.shape.last().copied().unwrap_or(1).max(1);
                data.chunks_mut(n).for_each(|row| (1..row.len()).for_each(|i| row[i] += row[i - 1]));
                Nums { data, ..Nums::clone(&x) }
            }
            "ReduceSum" => {
                let (x, axes) = (nums(0)?, self.axes(node, inputs.get(1))?.ok_or("sums over all axes")?);
                self.spend(x.data.len())?;
                match axes[..] {
                    [axis] if axis_of(axis, x.shape.len())? + 1 == x.shape.len() => {
                        x.sum_rows(node.int("keepdims").unwrap_or(1) != 0)?
                    }
                    _ => return Err("sums over other axes than the last".to_owned()),
                }
            }
            "GatherElements" => gather_elements(&*nums(0)?, &*nums(1)?, node.int("axis").unwrap_or(0))?,
            "GatherND" if node.int("batch_dims").unwrap_or(0) == 0 => gather_nd(&*nums(0)?, &*nums(1)?)?,
            _ => match (unary(op), binary(op)) {
                (Some(f), _) => {
                    let x = nums(0)?;
                    let kind = if matches!(op, "Not" | "IsNaN") { Kind::Bool } else { x.kind };
                    x.map(kind, f)
                }
                (_, Some((f, is_test))) => {
                    let mut all = nums(0)?;
                    for i in 1..inputs.len() {
                        let b = nums(i)?;
                        let kind = if is_test { Kind::Bool } else { all.kind };
                        let whole = op == "Div" && all.kind == Kind::Int;
                        let f = |a: f64, b: f64| if whole { f(a, b).trunc() } else { f(a, b) };
                        all = Arc::new(all.zip(kind, &b, f)?);
                    }
                    Nums::clone(&all)
                }
                _ => return Ok(None),
            },
        };
        self.spend(found.data.len())?;
        // Graphs compute in single precision, and quotients of logarithms are whole numbers only with its rounding.
        let rounded =
            if found.kind == Kind::Float { found.map(found.kind, |x| f64::from(x as f32)) } else { found };
        Ok(Some(Value::Nums(Arc::new(rounded))))
    }
}

/// Computes `GatherElements`: each result is the value at its own place, with the index along `axis` replaced.
fn gather_elements(x: &Nums, at: &Nums, axis: i64) -> Result<Nums, String> {
    let axis = axis_of(axis, x.shape.len())?;
    let fits = |i: usize| i == axis || at.shape[i] <= x.shape[i];
    if at.shape.len() != x.shape.len() || !(0..x.shape.len()).all(fits) {
        return Err(format!("takes {:?} of {:?}", at.shape, x.shape));
    }
    let mut data = Vec::with_capacity(at.data.len());
    for (i, number) in at.to_ints().into_iter().enumerate() {
        let (mut rest, mut place, mut step) = (i, 0, 1);
        for dim in (0..x.shape.len()).rev() {
            let own = rest % at.shape[dim].max(1);
            rest /= at.shape[dim].max(1);
            place += step * if dim == axis { axis_of(number, x.shape[axis])? } else { own };
            step *= x.shape[dim];
        }
        data.push(*x.data.get(place).ok_or("takes values that are not there")?);
    }
    Ok(Nums { kind: x.kind, shape: at.shape.clone(), data })
}

/// Computes `GatherND`: the values at the indices given by the rows of `at`.
fn gather_nd(x: &Nums, at: &Nums) -> Result<Nums, String> {
    let Some((&depth, outer)) = at.shape.split_last() else { return Err("names no place".to_owned()) };
    if depth == 0 || depth > x.shape.len() {
        return Err(format!("names places of {depth} numbers in {:?}", x.shape));
    }
    let inner = count(&x.shape[depth..])?;
    let shape = [outer, &x.shape[depth..]].concat();
    let mut data = Vec::with_capacity(count(&shape)?);
    for row in at.to_ints().chunks_exact(depth) {
        let mut place = 0;
        for (number, &dim) in row.iter().zip(&x.shape) {
            place = place * dim + axis_of(*number, dim)?;
        }
        data.extend_from_slice(&x.data[place * inner..(place + 1) * inner]);
    }
    Ok(Nums { kind: x.kind, shape, data })
}
