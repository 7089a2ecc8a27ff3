//! Selections by value, and sums along a dimension: greatest values, places of non-zeros, distinct values.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::binary::Number;
use crate::ops::layout::transposed;
use crate::shape::{Shape, axis, product, size, strides};
use crate::tensor::{Data, Tensor, each_number, same_type};
use std::cmp::Ordering;

fn unlike(x: &Tensor) -> Error {
    format!("does not take values of type {}", x.ty().name()).into()
}

/// Orders values, NaN above all.
fn order<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| {
        #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
        let nan = |x: &T| x.partial_cmp(x).is_none();
        nan(a).cmp(&nan(b))
    })
}

/// The greatest or least values along a dimension, with their places; ties by place.
#[derive(Debug)]
struct TopK {
    k: Option<i64>,
    axis: i64,
    largest: bool,
}

impl Operator for TopK {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let k = size(match self.k {
            Some(k) => k,
            None => inputs.int(1)?,
        })?;
        let at = axis(self.axis, x.rank())?;
        let (outer, n, inner) = (product(&x.shape()[..at]), x.shape()[at], product(&x.shape()[at + 1..]));
        if k > n {
            return Err(format!("{k} of {n} values are asked for").into());
        }
        let mut shape = Shape::from_slice(x.shape());
        shape[at] = k;
        let mut places = vec![0_i64; outer * k * inner];
        fn sort<T: PartialOrd + Copy>(
            largest: bool,
            value: impl Fn(usize) -> T,
            n: usize,
            k: usize,
        ) -> Vec<usize> {
            let mut list: Vec<usize> = (0..n).collect();
            let by = |a: &usize, b: &usize| {
                let found = order(&value(*a), &value(*b));
                (if largest { found.reverse() } else { found }).then(a.cmp(b))
            };
            if k > 0 && k < n {
                list.select_nth_unstable_by(k - 1, by);
                list.truncate(k);
            }
            list.sort_unstable_by(by);
            list.truncate(k);
            list
        }
        for o in 0..outer {
            for i in 0..inner {
                let list = each_number!(
                    x.data(),
                    v => sort(self.largest, |j| v[(o * n + j) * inner + i], n, k),
                    return Err(unlike(x))
                );
                for (j, place) in list.into_iter().enumerate() {
                    places[(o * k + j) * inner + i] = place as i64;
                }
            }
        }
        let data = same_type!(x.data(), v => {
            let at = |f: usize| (f / (k * inner) * n + places[f] as usize) * inner + f % inner;
            (0..places.len()).map(|f| v[at(f)].clone()).collect()
        });
        Ok([Tensor::with(shape.clone(), data).into(), Tensor::of(shape, places).into()].into_iter().collect())
    }
}

pub(crate) fn top_k(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["sorted"]);
    Ok(Box::new(TopK { k: a.int("k")?, axis: a.int_or("axis", -1)?, largest: a.flag("largest", true)? }))
}

/// Places of values that are not zero, `[rank, count]`.
#[derive(Debug)]
struct NonZero;

impl Operator for NonZero {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        fn found<T: PartialEq + Default>(v: &[T]) -> Vec<usize> {
            let zero = T::default();
            v.iter().enumerate().filter(|(_, v)| **v != zero).map(|(i, _)| i).collect()
        }
        let list = match x.data() {
            Data::Bool(v) => found(v),
            data => each_number!(data, v => found(v), return Err(unlike(x))),
        };
        let shape: Shape = [x.rank(), list.len()].into_iter().collect();
        ctx.elements(&shape, 8)?;
        let steps = strides(x.shape());
        let index = |d: usize, flat: usize| (flat / steps[d] % x.shape()[d]) as i64;
        let places = (0..x.rank()).flat_map(|d| list.iter().map(move |flat| (d, *flat)));
        one(Tensor::of(shape, places.map(|(d, flat)| index(d, flat)).collect()))
    }
}

pub(crate) fn non_zero(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(NonZero))
}

/// Slices along a dimension for which a condition holds.
#[derive(Debug)]
struct Compress {
    axis: Option<i64>,
}

impl Operator for Compress {
    fn run(&self, _ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut x = inputs.take(0)?;
        let condition = inputs.tensor(1)?;
        if self.axis.is_none() {
            let shape: Shape = [x.len()].into_iter().collect();
            x = x.reshaped(shape)?;
        }
        let at = axis(self.axis.unwrap_or(0), x.rank())?;
        let n = x.shape()[at];
        let list: Vec<usize> =
            condition.truths()?.iter().enumerate().filter(|(_, c)| **c != 0).map(|(i, _)| i).collect();
        if list.last().is_some_and(|last| *last >= n) {
            return Err(format!("a condition for element {} of {n}", list.len()).into());
        }
        let (outer, inner) = (product(&x.shape()[..at]), product(&x.shape()[at + 1..]));
        let mut shape = Shape::from_slice(x.shape());
        shape[at] = list.len();
        let data = same_type!(x.data(), v => {
            let mut out = Vec::with_capacity(outer * list.len() * inner);
            for o in 0..outer {
                for i in &list {
                    out.extend_from_slice(&v[(o * n + i) * inner..][..inner]);
                }
            }
            out
        });
        one(Tensor::with(shape, data))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn compress(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Compress { axis: a.int("axis")? }))
}

/// Distinct values or slices, with their first places, the place of each value among them, and their counts.
#[derive(Debug)]
struct Unique {
    axis: Option<i64>,
    sorted: bool,
}

impl Operator for Unique {
    fn run(&self, _ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut x = inputs.take(0)?;
        if self.axis.is_none() {
            let shape: Shape = [x.len()].into_iter().collect();
            x = x.reshaped(shape)?;
        }
        let at = axis(self.axis.unwrap_or(0), x.rank())?;
        let front: Vec<usize> = std::iter::once(at).chain((0..x.rank()).filter(|d| *d != at)).collect();
        let rows = transposed(&x, &front);
        let (n, width) = (x.shape()[at], product(&rows.shape()[1..]));
        fn ordering<T: PartialOrd>(v: &[T], width: usize, a: usize, b: usize) -> Ordering {
            let (x, y) = (&v[a * width..(a + 1) * width], &v[b * width..(b + 1) * width]);
            x.iter().zip(y).map(|(x, y)| order(x, y)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
        }
        let compare = |a: usize, b: usize| match rows.data() {
            Data::Bool(v) => ordering(v, width, a, b),
            Data::Text(v) => ordering(v, width, a, b),
            data => each_number!(data, v => ordering(v, width, a, b), Ordering::Equal),
        };
        let mut list: Vec<usize> = (0..n).collect();
        list.sort_by(|a, b| compare(*a, *b));
        // Groups of equal rows; each begins with its first place because the sort is stable.
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for i in list {
            match groups.last_mut() {
                Some(group) if compare(group[0], i).is_eq() => group.push(i),
                _ => groups.push(vec![i]),
            }
        }
        if !self.sorted {
            groups.sort_by_key(|group| group[0]);
        }
        let mut inverse = vec![0_i64; n];
        for (g, group) in groups.iter().enumerate() {
            group.iter().for_each(|i| inverse[*i] = g as i64);
        }
        let data = same_type!(rows.data(), v => {
            groups.iter().flat_map(|g| v[g[0] * width..(g[0] + 1) * width].iter().cloned()).collect()
        });
        let mut shape = Shape::from_slice(rows.shape());
        shape[0] = groups.len();
        let mut back: Vec<usize> = (1..x.rank()).collect();
        back.insert(at, 0);
        let values = transposed(&Tensor::with(shape, data), &back);
        let first = Tensor::vector(groups.iter().map(|g| g[0] as i64).collect());
        let counts = Tensor::vector(groups.iter().map(|g| g.len() as i64).collect());
        let all = [values, first, Tensor::vector(inverse), counts];
        Ok(all.into_iter().map(Into::into).collect())
    }
}

pub(crate) fn unique(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Unique { axis: a.int("axis")?, sorted: a.flag("sorted", true)? }))
}

/// Sums or products of all values up to each place along a dimension.
#[derive(Debug)]
struct Cumulative {
    exclusive: bool,
    reverse: bool,
    product: bool,
}

impl Operator for Cumulative {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let at = axis(inputs.int(1)?, x.rank())?;
        let size = [product(&x.shape()[..at]), x.shape()[at], product(&x.shape()[at + 1..])];
        fn sums<T: Number>(v: &[T], [outer, n, inner]: [usize; 3], op: &Cumulative) -> Tensor {
            let mut out = vec![T::default(); v.len()];
            for o in 0..outer {
                for i in 0..inner {
                    let mut sum = if op.product { T::from_f64(1.0) } else { T::default() };
                    for j in 0..n {
                        let j = if op.reverse { n - 1 - j } else { j };
                        let at = (o * n + j) * inner + i;
                        let next = if op.product { sum.mul(v[at]) } else { sum.add(v[at]) };
                        out[at] = if op.exclusive { sum } else { next };
                        sum = next;
                    }
                }
            }
            Tensor::vector(out)
        }
        let sums = each_number!(x.data(), v => sums(v, size, self), return Err(unlike(x)));
        one(sums.reshaped(x.shape().into())?)
    }
}

fn cumulative(a: &Attributes<'_, '_>, product: bool) -> Result<Box<dyn Operator>, Error> {
    let (exclusive, reverse) = (a.flag("exclusive", false)?, a.flag("reverse", false)?);
    Ok(Box::new(Cumulative { exclusive, reverse, product }))
}

pub(crate) fn cum_sum(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    cumulative(a, false)
}

pub(crate) fn cum_prod(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    cumulative(a, true)
}

/// Upper or lower triangles of matrices.
#[derive(Debug)]
struct Trilu {
    upper: bool,
}

impl Operator for Trilu {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let k = if inputs.has(1) { inputs.int(1)? } else { 0 };
        let &[.., rows, columns] = x.shape() else {
            return Err(format!("input 0 has shape {:?} where two dimensions should be", x.shape()).into());
        };
        let kept = |i: usize| {
            let (r, c) = ((i / columns % rows.max(1)) as i64, (i % columns) as i64);
            if self.upper { c - r >= k } else { c - r <= k }
        };
        let data = same_type!(x.data(), v => {
            v.iter().enumerate().map(|(i, v)| if kept(i) { v.clone() } else { Default::default() }).collect()
        });
        one(Tensor::with(x.shape(), data))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn trilu(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Trilu { upper: a.flag("upper", true)? }))
}
