//! Reductions along dimensions. Sums keep 16 partial results along contiguous values, as all reductions here do, else
//! they add in order.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::binary::Number;
use crate::ops::layout::transposed;
use crate::shape::{Shape, axes, axis, product};
use crate::tensor::{Buffer, Data, Element, Tensor, each_number};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
}

#[derive(Debug)]
pub(crate) struct Reduce {
    kind: Kind,
    axes: Option<Vec<i64>>,
    keep: bool,
    nothing_if_empty: bool,
}

/// Adds values in 16 lanes, joined by halves.
pub(crate) fn sum_lanes(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<16>();
    let mut sum = [0.0_f32; 16];
    for c in chunks {
        for i in 0..16 {
            sum[i] += f(c[i]);
        }
    }
    for (s, v) in sum.iter_mut().zip(rest) {
        *s += f(*v);
    }
    let mut half = 8;
    while half > 0 {
        for i in 0..half {
            sum[i] += sum[i + half];
        }
        half /= 2;
    }
    sum[0]
}

/// Reduces each row to a value.
fn rows<T: Number>(kind: Kind, x: &[T], width: usize, count: usize) -> Vec<T> {
    let row = |i: usize| &x[i * width..(i + 1) * width];
    let fold = |first: T, f: fn(T, T) -> T, row: &[T]| row.iter().fold(first, |a, b| f(a, *b));
    let lowest = || T::from_f64(f64::NEG_INFINITY);
    let highest = || T::from_f64(f64::INFINITY);
    let (zero, unit) = (T::default(), T::from_f64(1.0));
    let magnitude = |v: T| if v < zero { zero.sub(v) } else { v };
    let float = |row: &[T], f: &dyn Fn(f64) -> f64| row.iter().map(|v| f(v.to_f64())).sum::<f64>();
    let one = |row: &[T]| match kind {
        Kind::Sum => fold(zero, T::add, row),
        Kind::Mean if T::INTEGER => fold(zero, T::add, row).div(T::from_f64(width as f64)),
        Kind::Mean => T::from_f64(float(row, &|v| v) / width as f64),
        Kind::Max => fold(lowest(), |a, b| b.greater(a), row),
        Kind::Min => fold(highest(), |a, b| b.less(a), row),
        Kind::Prod => fold(unit, T::mul, row),
        Kind::L1 => row.iter().fold(zero, |a, b| a.add(magnitude(*b))),
        Kind::L2 => T::from_f64(float(row, &|v| v * v).sqrt()),
        Kind::SumSquare => row.iter().fold(zero, |a, b| a.add(b.mul(*b))),
        Kind::LogSum => T::from_f64(libm::log(float(row, &|v| v))),
        Kind::LogSumExp => {
            let most = row.iter().map(|v| v.to_f64()).fold(f64::NEG_INFINITY, f64::max);
            if most.is_infinite() {
                return T::from_f64(most);
            }
            T::from_f64(most + libm::log(float(row, &|v| libm::exp(v - most))))
        }
    };
    (0..count).map(|i| one(row(i))).collect()
}

/// Reduces each row of 32-bit floats, by lanes.
fn rows_f32(kind: Kind, x: &[f32], width: usize, count: usize) -> Vec<f32> {
    let row = |i: usize| &x[i * width..(i + 1) * width];
    let all = |f: &dyn Fn(&[f32]) -> f32| (0..count).map(|i| f(row(i))).collect();
    match kind {
        Kind::Sum => all(&|row| sum_lanes(row, |v| v)),
        Kind::Mean => all(&|row| sum_lanes(row, |v| v) / width as f32),
        Kind::SumSquare => all(&|row| sum_lanes(row, |v| v * v)),
        Kind::L1 => all(&|row| sum_lanes(row, f32::abs)),
        Kind::L2 => all(&|row| sum_lanes(row, |v| v * v).sqrt()),
        other => rows(other, x, width, count),
    }
}

/// Adds or averages columns of 32-bit floats `[outer, width, inner]`, rows from first to last.
fn columns_f32(kind: Kind, x: &[f32], [outer, width, inner]: [usize; 3]) -> Option<Vec<f32>> {
    let f: fn(f32, f32) -> f32 = match kind {
        Kind::Sum | Kind::Mean => |a, b| a + b,
        Kind::Max => |a, b| if b.is_nan() || b > a { b } else { a },
        Kind::SumSquare => |a, b| a + b * b,
        _ => return None,
    };
    let start = if kind == Kind::Max { f32::NEG_INFINITY } else { 0.0 };
    let mut out = vec![start; outer * inner];
    for (o, sums) in out.chunks_exact_mut(inner).enumerate() {
        for w in 0..width {
            let row = &x[(o * width + w) * inner..][..inner];
            sums.iter_mut().zip(row).for_each(|(s, v)| *s = f(*s, *v));
        }
    }
    if kind == Kind::Mean {
        out.iter_mut().for_each(|v| *v /= width as f32);
    }
    Some(out)
}

impl Operator for Reduce {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let list = match &self.axes {
            Some(list) => list.clone(),
            None => inputs.optional_ints(1)?.unwrap_or_default(),
        };
        let mut x = inputs.take(0)?;
        if list.is_empty() && self.nothing_if_empty {
            // Each value is reduced by itself.
            let n = x.len();
            let data = each_number!(x.data(), v => wrap(rows(self.kind, v, 1, n)), return Err(unlike(&x)));
            return one(Tensor::with(x.shape(), data));
        }
        let rank = x.rank();
        let reduced = if list.is_empty() { (0..rank).collect() } else { axes(&list, rank)? };
        let kept: Vec<usize> = (0..rank).filter(|i| !reduced.contains(i)).collect();
        let shape: Shape = match self.keep {
            true => (0..rank).map(|i| if reduced.contains(&i) { 1 } else { x.shape()[i] }).collect(),
            false => kept.iter().map(|i| x.shape()[*i]).collect(),
        };
        let count = ctx.elements(&shape, x.ty().bytes())?;
        let width: usize = reduced.iter().map(|i| x.shape()[*i]).product();
        // Reduced dimensions that are neighbours before the last ones are added row by row, without a copy.
        let neighbours = reduced.windows(2).all(|w| w[1] == w[0] + 1);
        if let (Data::F32(v), true, Some(last)) =
            (x.data(), neighbours, reduced.last().filter(|l| **l + 1 < rank))
        {
            let size = [product(&x.shape()[..reduced[0]]), width, product(&x.shape()[last + 1..])];
            if size[2] > 0
                && let Some(values) = columns_f32(self.kind, v, size)
            {
                return one(Tensor::of(shape, values));
            }
        }
        let order: Vec<usize> = kept.iter().copied().chain(reduced.iter().copied()).collect();
        if !order.is_sorted() {
            x = transposed(&x, &order);
        }
        if width == 0
            && matches!(self.kind, Kind::Max | Kind::Min)
            && count > 0
            && x.ty() == crate::tensor::ElementType::Bool
        {
            let value = u8::from(self.kind == Kind::Min);
            return one(Tensor::bools(shape, vec![value; count]));
        }
        let data = match x.data() {
            Data::F32(v) => wrap(rows_f32(self.kind, v, width, count)),
            Data::Bool(v) if matches!(self.kind, Kind::Max | Kind::Min) => {
                Data::Bool(Buffer::new(rows(self.kind, v, width, count)))
            }
            data => each_number!(data, v => wrap(rows(self.kind, v, width, count)), return Err(unlike(&x))),
        };
        one(Tensor::with(shape, data))
    }
}

fn wrap<T: Element>(values: Vec<T>) -> Data {
    T::wrap(Buffer::new(values))
}

fn unlike(x: &Tensor) -> Error {
    format!("does not take values of type {}", x.ty().name()).into()
}

macro_rules! reductions {
    ($($make:ident $kind:ident,)*) => {
        $(pub(crate) fn $make(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
            Ok(Box::new(Reduce {
                kind: Kind::$kind,
                axes: a.ints("axes")?,
                keep: a.flag("keepdims", true)?,
                nothing_if_empty: a.flag("noop_with_empty_axes", false)?,
            }))
        })*
    };
}
reductions! {
    sum Sum, mean Mean, max Max, min Min, prod Prod, l1 L1, l2 L2, sum_square SumSquare, log_sum LogSum,
    log_sum_exp LogSumExp,
}

/// Position of the greatest or least value.
#[derive(Debug)]
struct Arg {
    axis: i64,
    keep: bool,
    last: bool,
    greatest: bool,
}

impl Operator for Arg {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let at = axis(self.axis, x.rank())?;
        let (outer, n, inner) = (product(&x.shape()[..at]), x.shape()[at], product(&x.shape()[at + 1..]));
        if n == 0 {
            return Err(format!("dimension {at} of shape {:?} is empty", x.shape()).into());
        }
        let mut shape = Shape::from_slice(x.shape());
        if self.keep {
            shape[at] = 1;
        } else {
            shape.remove(at);
        }
        fn found<T: PartialOrd + Copy>(v: &[T], size: [usize; 3], greatest: bool, last: bool) -> Vec<i64> {
            let [outer, n, inner] = size;
            let mut out = Vec::with_capacity(outer * inner);
            for o in 0..outer {
                for i in 0..inner {
                    let value = |j: usize| v[(o * n + j) * inner + i];
                    let mut best = 0;
                    for j in 1..n {
                        let (a, b) = (value(j), value(best));
                        if if greatest { a > b } else { a < b } || last && a == b {
                            best = j;
                        }
                    }
                    out.push(best as i64);
                }
            }
            out
        }
        let size = [outer, n, inner];
        let places =
            each_number!(x.data(), v => found(v, size, self.greatest, self.last), return Err(unlike(x)));
        one(Tensor::of(shape, places))
    }
}

fn arg(a: &Attributes<'_, '_>, greatest: bool) -> Result<Box<dyn Operator>, Error> {
    let (axis, keep) = (a.int_or("axis", 0)?, a.flag("keepdims", true)?);
    Ok(Box::new(Arg { axis, keep, last: a.flag("select_last_index", false)?, greatest }))
}

pub(crate) fn arg_max(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    arg(a, true)
}

pub(crate) fn arg_min(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    arg(a, false)
}
