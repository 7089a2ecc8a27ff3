//! Elements by index: gathers and scatters.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::binary::Number;
use crate::shape::{Shape, axis, product, strides};
use crate::tensor::{Data, Tensor, both_types, same_type};

/// Returns an index counted from the front.
fn index(i: i64, n: usize) -> Result<usize, Error> {
    let at = if i < 0 { i.saturating_add(n as i64) } else { i };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < n)
        .ok_or_else(|| format!("index {i} is outside {n} elements").into())
}

#[derive(Debug)]
struct Gather {
    axis: i64,
}

impl Operator for Gather {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let at = axis(self.axis, x.rank())?;
        let n = x.shape()[at];
        let rows = indices.ints()?.into_iter().map(|i| index(i, n)).collect::<Result<Vec<_>, _>>()?;
        let (outer, inner) = (product(&x.shape()[..at]), product(&x.shape()[at + 1..]));
        let mut shape = Shape::from_slice(&x.shape()[..at]);
        shape.extend_from_slice(indices.shape());
        shape.extend_from_slice(&x.shape()[at + 1..]);
        let len = ctx.elements(&shape, x.ty().bytes())?;
        let data = same_type!(x.data(), v => {
            let mut out = Vec::with_capacity(len);
            for i in 0..outer {
                for row in &rows {
                    let from = (i * n + row) * inner;
                    out.extend_from_slice(&v[from..from + inner]);
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

pub(crate) fn gather(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Gather { axis: a.int_or("axis", 0)? }))
}

/// Calls `f(position in indices, position in data)`, for indices along one dimension.
fn for_elements(
    x: &[usize],
    indices: &Tensor,
    at: usize,
    mut f: impl FnMut(usize, usize),
) -> Result<(), Error> {
    let fits = |i: usize| i == at || indices.shape()[i] <= x[i];
    if indices.rank() != x.len() || !(0..x.len()).all(fits) {
        return Err(format!("indices of shape {:?} do not fit shape {x:?}", indices.shape()).into());
    }
    let (own, steps) = (strides(x), strides(indices.shape()));
    for (i, row) in indices.ints()?.into_iter().enumerate() {
        let mut to = index(row, x[at])? * own[at];
        for d in 0..x.len() {
            if d != at {
                to += i / steps[d] % indices.shape()[d] * own[d];
            }
        }
        f(i, to);
    }
    Ok(())
}

#[derive(Debug)]
struct GatherElements {
    axis: i64,
}

impl Operator for GatherElements {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let at = axis(self.axis, x.rank())?;
        let mut from = Vec::with_capacity(indices.len());
        for_elements(x.shape(), indices, at, |_, place| from.push(place))?;
        let data = same_type!(x.data(), v => from.iter().map(|i| v[*i].clone()).collect());
        one(Tensor::with(indices.shape(), data))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn gather_elements(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(GatherElements { axis: a.int_or("axis", 0)? }))
}

/// Returns the start of each part that index tuples name, and the length of a part.
fn tuples(x: &[usize], indices: &Tensor, batch: usize) -> Result<(Vec<usize>, usize), Error> {
    let Some(&depth) = indices.shape().last() else { return Err("input 1 has no dimensions".into()) };
    if batch >= indices.rank() || batch > x.len() || depth > x.len() - batch || depth == 0 {
        return Err(format!("indices of shape {:?} do not fit shape {x:?}", indices.shape()).into());
    }
    if indices.shape()[..batch] != x[..batch] {
        return Err(format!("batches of shapes {:?} and {x:?} differ", indices.shape()).into());
    }
    let own = strides(x);
    let values = indices.ints()?;
    let per_batch = product(&indices.shape()[batch..indices.rank() - 1]).max(1);
    let batch_step: usize = product(&x[batch..]);
    let mut starts = Vec::with_capacity(values.len() / depth);
    for (i, tuple) in values.chunks_exact(depth).enumerate() {
        let mut at = i / per_batch * batch_step;
        for (d, value) in tuple.iter().enumerate() {
            at += index(*value, x[batch + d])? * own[batch + d];
        }
        starts.push(at);
    }
    Ok((starts, product(&x[batch + depth..])))
}

#[derive(Debug)]
struct GatherNd {
    batch: usize,
}

impl Operator for GatherNd {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (starts, inner) = tuples(x.shape(), indices, self.batch)?;
        let depth = indices.shape()[indices.rank() - 1];
        let mut shape = Shape::from_slice(&indices.shape()[..indices.rank() - 1]);
        shape.extend_from_slice(&x.shape()[self.batch + depth..]);
        let n = ctx.elements(&shape, x.ty().bytes())?;
        let data = same_type!(x.data(), v => {
            let mut out = Vec::with_capacity(n);
            starts.iter().for_each(|at| out.extend_from_slice(&v[*at..at + inner]));
            out
        });
        one(Tensor::with(shape, data))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn gather_nd(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(GatherNd { batch: crate::shape::size(a.int_or("batch_dims", 0)?)? }))
}

/// Combination of scattered values with those that are there.
#[derive(Clone, Copy, Debug)]
enum Reduction {
    None,
    Add,
    Mul,
    Max,
    Min,
}

impl Reduction {
    fn read(a: &Attributes<'_, '_>) -> Result<Reduction, Error> {
        let all = [Reduction::None, Reduction::Add, Reduction::Mul, Reduction::Max, Reduction::Min];
        Ok(all[a.choice("reduction", &["none", "add", "mul", "max", "min"])?])
    }

    fn of<T: Number>(self, old: T, new: T) -> T {
        match self {
            Reduction::None => new,
            Reduction::Add => old.add(new),
            Reduction::Mul => old.mul(new),
            Reduction::Max => old.greater(new),
            Reduction::Min => old.less(new),
        }
    }
}

/// Writes runs of `inner` updates to places.
fn scattered(
    x: &Tensor,
    updates: &Tensor,
    reduction: Reduction,
    places: &[usize],
    inner: usize,
) -> Result<Tensor, Error> {
    let unlike = || {
        let (a, b) = (x.ty().name(), updates.ty().name());
        Error::invalid(format!("does not scatter values of type {b} into {a}"))
    };
    if let Reduction::None = reduction {
        let data = both_types!(x.data(), updates.data(), (v, u) => {
            let mut out = v.to_vec();
            for (i, at) in places.iter().enumerate() {
                out[*at..at + inner].clone_from_slice(&u[i * inner..(i + 1) * inner]);
            }
            out
        }, return Err(unlike()));
        return Ok(Tensor::with(x.shape(), data));
    }
    fn reduced<T: Number>(
        x: &[T],
        u: &Tensor,
        reduction: Reduction,
        places: &[usize],
        inner: usize,
    ) -> Option<Data> {
        let u = T::of(u.data())?;
        let mut out = x.to_vec();
        for (i, at) in places.iter().enumerate() {
            for j in 0..inner {
                out[at + j] = reduction.of(out[at + j], u[i * inner + j]);
            }
        }
        Some(T::wrap(crate::tensor::Buffer::new(out)))
    }
    let data =
        crate::tensor::each_number!(x.data(), v => reduced(v, updates, reduction, places, inner), None);
    Ok(Tensor::with(x.shape(), data.ok_or_else(unlike)?))
}

#[derive(Debug)]
struct ScatterElements {
    axis: i64,
    reduction: Reduction,
}

impl Operator for ScatterElements {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, indices, updates) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let at = axis(self.axis, x.rank())?;
        if indices.shape() != updates.shape() {
            let (a, b) = (indices.shape(), updates.shape());
            return Err(format!("indices of shape {a:?} and updates of shape {b:?} differ").into());
        }
        let mut places = Vec::with_capacity(indices.len());
        for_elements(x.shape(), indices, at, |_, place| places.push(place))?;
        one(scattered(x, updates, self.reduction, &places, 1)?)
    }

    fn moves_halves(&self) -> bool {
        matches!(self.reduction, Reduction::None)
    }
}

pub(crate) fn scatter_elements(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(ScatterElements { axis: a.int_or("axis", 0)?, reduction: Reduction::read(a)? }))
}

#[derive(Debug)]
struct ScatterNd(Reduction);

impl Operator for ScatterNd {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, indices, updates) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let (places, inner) = tuples(x.shape(), indices, 0)?;
        if updates.len() != places.len() * inner {
            return Err(format!("{} updates for {} places of {inner}", updates.len(), places.len()).into());
        }
        one(scattered(x, updates, self.0, &places, inner)?)
    }

    fn moves_halves(&self) -> bool {
        matches!(self.0, Reduction::None)
    }
}

pub(crate) fn scatter_nd(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(ScatterNd(Reduction::read(a)?)))
}

/// Writes updates to a cache from a position of each batch on.
#[derive(Debug)]
struct TensorScatter {
    axis: i64,
    circular: bool,
}

impl Operator for TensorScatter {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, updates) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let at = axis(self.axis, x.rank())?;
        let fits = |i: usize| i == at || x.shape()[i] == updates.shape()[i];
        if at == 0 || x.rank() != updates.rank() || !(0..x.rank()).all(fits) {
            return Err(format!("updates of shape {:?} do not fit {:?}", updates.shape(), x.shape()).into());
        }
        let (batch, n, m) = (x.shape()[0], x.shape()[at], updates.shape()[at]);
        let starts = inputs.optional_ints(2)?.unwrap_or_else(|| vec![0; batch]);
        let (middle, inner) = (product(&x.shape()[1..at]), product(&x.shape()[at + 1..]));
        if starts.len() != batch {
            return Err(format!("{} positions for a batch of {batch}", starts.len()).into());
        }
        let mut places = Vec::new();
        for (b, start) in starts.iter().enumerate() {
            for i in 0..middle {
                for j in 0..m {
                    let to = crate::shape::size(*start)?.saturating_add(j);
                    let to = if self.circular { to % n.max(1) } else { to };
                    if to >= n {
                        return Err(format!("position {to} is outside {n}").into());
                    }
                    places.push(((b * middle + i) * n + to) * inner);
                }
            }
        }
        one(scattered(x, updates, Reduction::None, &places, inner)?)
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn tensor_scatter(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let circular = a.choice("mode", &["linear", "circular"])? == 1;
    Ok(Box::new(TensorScatter { axis: a.int_or("axis", -2)?, circular }))
}
