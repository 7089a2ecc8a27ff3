//! Shapes: their query and change, without touching values; transposition, expansion and tiling.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::shape::{Shape, axes, axis, broadcast, broadcast_strides, for_offsets, product, size, strides};
use crate::tensor::{Tensor, same_type};
use smallvec::SmallVec;

/// Changes of the shape alone.
#[derive(Debug)]
enum View {
    Identity,
    /// `allow_zero`, and the shape of an attribute in version 1.
    Reshape {
        zero: bool,
        shape: Option<Vec<i64>>,
    },
    Flatten {
        axis: i64,
    },
    Squeeze {
        axes: Option<Vec<i64>>,
    },
    Unsqueeze {
        axes: Option<Vec<i64>>,
    },
}

/// Returns the shape that `wanted` asks for: 0 keeps a size, -1 is what is left.
pub(crate) fn reshape(from: &[usize], wanted: &[i64], zero: bool) -> Result<Shape, Error> {
    let mut shape = Shape::new();
    let mut free = None;
    for (i, &n) in wanted.iter().enumerate() {
        shape.push(match n {
            -1 if free.replace(i).is_some() => return Err(format!("shape {wanted:?} has two -1").into()),
            -1 => 1,
            0 if !zero => {
                *from.get(i).ok_or_else(|| format!("shape {wanted:?} keeps size {i}, which is not there"))?
            }
            n => size(n)?,
        });
    }
    if let Some(i) = free {
        let all = crate::shape::elements(from)?;
        let rest = crate::shape::elements(&shape)?;
        if rest == 0 || all % rest != 0 {
            if all == 0 && rest == 0 {
                shape[i] = 0;
                return Ok(shape);
            }
            return Err(format!("shape {from:?} cannot become {wanted:?}").into());
        }
        shape[i] = all / rest;
    }
    Ok(shape)
}

impl Operator for View {
    fn run(&self, _ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        if let View::Identity = self {
            return one(inputs.take_value(0)?);
        }
        let x = inputs.take(0)?;
        let shape = match self {
            View::Identity => unreachable!("returned above"),
            View::Reshape { zero, shape } => {
                let wanted = match shape {
                    Some(shape) => shape.clone(),
                    None => inputs.ints(1)?,
                };
                reshape(x.shape(), &wanted, *zero)?
            }
            View::Flatten { axis: at } => {
                let at = if *at == x.rank() as i64 { x.rank() } else { axis(*at, x.rank())? };
                [product(&x.shape()[..at]), product(&x.shape()[at..])].into_iter().collect()
            }
            View::Squeeze { axes: list } => {
                let list = match list {
                    Some(list) => Some(list.clone()),
                    None => inputs.optional_ints(1)?,
                };
                let removed = match list {
                    Some(list) => axes(&list, x.rank())?,
                    None => (0..x.rank()).filter(|i| x.shape()[*i] == 1).collect(),
                };
                if let Some(i) = removed.iter().find(|i| x.shape()[**i] != 1) {
                    return Err(format!("dimension {i} of shape {:?} is not 1", x.shape()).into());
                }
                (0..x.rank()).filter(|i| !removed.contains(i)).map(|i| x.shape()[i]).collect()
            }
            View::Unsqueeze { axes: list } => {
                let list = match list {
                    Some(list) => list.clone(),
                    None => inputs.ints(1)?,
                };
                let mut shape = Shape::from_slice(x.shape());
                for at in axes(&list, x.rank() + list.len())? {
                    if at > shape.len() {
                        return Err(format!("axes {list:?} do not fit shape {:?}", x.shape()).into());
                    }
                    shape.insert(at, 1);
                }
                shape
            }
        };
        one(x.reshaped(shape)?)
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn identity(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(View::Identity))
}

pub(crate) fn reshape_op(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["consumed_inputs"]);
    let shape = if a.opset < 5 { a.ints("shape")? } else { None };
    Ok(Box::new(View::Reshape { zero: a.flag("allowzero", false)?, shape }))
}

pub(crate) fn flatten(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(View::Flatten { axis: a.int_or("axis", 1)? }))
}

pub(crate) fn squeeze(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(View::Squeeze { axes: a.ints("axes")? }))
}

pub(crate) fn unsqueeze(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(View::Unsqueeze { axes: a.ints("axes")? }))
}

/// The shape as a tensor, or the number of elements.
#[derive(Debug)]
enum Query {
    Shape { start: i64, end: Option<i64> },
    Size,
}

impl Operator for Query {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        match self {
            Query::Size => one(Tensor::scalar(x.len() as i64)),
            Query::Shape { start, end } => {
                let rank = x.rank() as i64;
                let at = |i: i64| (if i < 0 { i.saturating_add(rank) } else { i }).clamp(0, rank) as usize;
                let (start, end) = (at(*start), at(end.unwrap_or(rank)));
                let dims = x.shape().get(start..end).unwrap_or_default();
                one(Tensor::vector(dims.iter().map(|n| *n as i64).collect()))
            }
        }
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn shape_op(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Query::Shape { start: a.int_or("start", 0)?, end: a.int("end")? }))
}

pub(crate) fn size_op(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Query::Size))
}

/// Reads a tensor with the strides of a view of it.
fn gathered<T: Clone>(values: &[T], shape: &[usize], steps: &[usize]) -> Vec<T> {
    let n = shape.iter().product();
    let mut out = Vec::with_capacity(n);
    if n == 0 {
        return out;
    }
    // Trailing dimensions that are contiguous are copied at once.
    let mut dims = shape.len();
    let mut run = 1;
    while dims > 0 && (steps[dims - 1] == run || shape[dims - 1] == 1) {
        run *= shape[dims - 1];
        dims -= 1;
    }
    if run > 1 || dims == 0 {
        for_offsets(&shape[..dims], [&steps[..dims]], |[at]| out.extend_from_slice(&values[at..at + run]));
        return out;
    }
    let (n, step) = (shape[dims - 1], steps[dims - 1]);
    for_offsets(&shape[..dims - 1], [&steps[..dims - 1]], |[at]| {
        if step == 0 {
            out.extend(std::iter::repeat_n(values[at].clone(), n));
        } else {
            out.extend((0..n).map(|i| values[at + i * step].clone()));
        }
    });
    out
}

/// Returns a tensor with its dimensions in another order.
pub(crate) fn transposed(x: &Tensor, order: &[usize]) -> Tensor {
    let own = strides(x.shape());
    let shape: Shape = order.iter().map(|i| x.shape()[*i]).collect();
    // Dimensions of size 1 move without a change of the values.
    let moved: SmallVec<[usize; 6]> = order.iter().copied().filter(|i| x.shape()[*i] != 1).collect();
    if moved.is_sorted() {
        return Tensor::with(shape, x.data().clone());
    }
    let steps: Shape = order.iter().map(|i| own[*i]).collect();
    let data = same_type!(x.data(), v => gathered(v, &shape, &steps));
    Tensor::with(shape, data)
}

/// Order of dimensions.
#[derive(Debug)]
pub(crate) struct Transpose {
    pub(crate) perm: Option<Vec<usize>>,
}

impl Operator for Transpose {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let order = match &self.perm {
            Some(perm) => perm.clone(),
            None => (0..x.rank()).rev().collect(),
        };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..x.rank()) {
            return Err(format!("attribute `perm` is {order:?} for shape {:?}", x.shape()).into());
        }
        one(transposed(x, &order))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn transpose(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Transpose { perm: a.sizes("perm")? }))
}

/// Returns a tensor broadcast to a shape.
pub(crate) fn expanded(ctx: &Context<'_>, x: &Tensor, shape: &[usize]) -> Result<Tensor, Error> {
    ctx.elements(shape, x.ty().bytes())?;
    if x.shape() == shape {
        return Ok(x.clone());
    }
    let steps = broadcast_strides(x.shape(), shape);
    let data = same_type!(x.data(), v => gathered(v, shape, &steps));
    Ok(Tensor::with(shape, data))
}

/// Broadcast to a shape that is an input.
#[derive(Debug)]
struct Expand;

impl Operator for Expand {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let wanted = inputs.ints(1)?.into_iter().map(size).collect::<Result<Shape, _>>()?;
        one(expanded(ctx, x, &broadcast(x.shape(), &wanted)?)?)
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn expand(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Expand))
}

/// Repetition along each dimension.
#[derive(Debug)]
struct Tile {
    old: bool,
}

impl Operator for Tile {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let mut repeats = vec![1; x.rank()];
        if self.old {
            let at = axis(inputs.int(2)?, x.rank())?;
            repeats[at] = size(inputs.int(1)?)?;
        } else {
            let given = inputs.ints(1)?;
            if given.len() != x.rank() {
                return Err(format!("{} repeats for shape {:?}", given.len(), x.shape()).into());
            }
            repeats = given.into_iter().map(size).collect::<Result<_, _>>()?;
        }
        let (mut view, mut steps, mut shape) = (Shape::new(), Shape::new(), Shape::new());
        for ((n, step), r) in x.shape().iter().zip(strides(x.shape())).zip(repeats) {
            view.extend([r, *n]);
            steps.extend([0, step]);
            shape.push(n.checked_mul(r).ok_or("the result is too large")?);
        }
        ctx.elements(&shape, x.ty().bytes())?;
        let data = same_type!(x.data(), v => gathered(v, &view, &steps));
        one(Tensor::with(shape, data))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn tile(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Tile { old: a.opset < 6 }))
}

/// Blocks of depth to space and back, for shapes `[batch, channels, height, width]`.
#[derive(Debug)]
struct Blocks {
    block: usize,
    to_space: bool,
    column_row: bool,
}

impl Operator for Blocks {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let (b, &[n, c, h, w]) = (self.block, x.shape()) else {
            return Err(format!("input 0 has shape {:?} where four dimensions should be", x.shape()).into());
        };
        let fits = if self.to_space { c % (b * b) == 0 } else { h % b == 0 && w % b == 0 };
        if !fits {
            return Err(format!("blocks of {b} do not fit shape {:?}", x.shape()).into());
        }
        let (view, order, shape): ([usize; 6], [usize; 6], [usize; 4]) = if self.to_space {
            let c = c / (b * b);
            let shape = [n, c, h * b, w * b];
            match self.column_row {
                false => ([n, b, b, c, h, w], [0, 3, 4, 1, 5, 2], shape),
                true => ([n, c, b, b, h, w], [0, 1, 4, 2, 5, 3], shape),
            }
        } else {
            let order = if self.column_row { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
            ([n, c, h / b, b, w / b, b], order, [n, c * b * b, h / b, w / b])
        };
        let view = x.clone().reshaped(Shape::from_slice(&view))?;
        one(transposed(&view, &order).reshaped(Shape::from_slice(&shape))?)
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

fn blocks(a: &Attributes<'_, '_>, to_space: bool) -> Result<Box<dyn Operator>, Error> {
    let block = size(a.int("blocksize")?.ok_or("attribute `blocksize` is missing")?)?;
    if block == 0 || block > 1 << 16 {
        return Err(format!("attribute `blocksize` is {block}").into());
    }
    let column_row = a.choice("mode", &["DCR", "CRD"])? == 1;
    Ok(Box::new(Blocks { block, to_space, column_row }))
}

pub(crate) fn depth_to_space(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    blocks(a, true)
}

pub(crate) fn space_to_depth(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    blocks(a, false)
}
