//! Joining and splitting along a dimension.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::shape::{Shape, axis, product, size};
use crate::tensor::{Buffer, Data, Tensor, same_type};
use crate::value::Value;

/// Joins tensors along a dimension.
pub(crate) fn joined(ctx: &Context<'_>, parts: &[&Tensor], at: usize) -> Result<Tensor, Error> {
    let first = parts.first().ok_or("there are no tensors to join")?;
    let mut shape = Shape::from_slice(first.shape());
    shape[at] = 0;
    for part in parts {
        let fits = |i: usize| i == at || part.shape()[i] == first.shape()[i];
        if part.rank() != first.rank() || !(0..first.rank()).all(fits) {
            let (a, b) = (first.shape(), part.shape());
            return Err(format!("shapes {a:?} and {b:?} cannot be joined along dimension {at}").into());
        }
        if part.ty() != first.ty() {
            let (a, b) = (first.ty().name(), part.ty().name());
            return Err(format!("values of types {a} and {b} cannot be joined").into());
        }
        shape[at] = shape[at].saturating_add(part.shape()[at]);
    }
    let n = ctx.elements(&shape, first.ty().bytes())?;
    let outer = product(&shape[..at]);
    fn copied<'p, T: Clone + 'p>(
        n: usize,
        outer: usize,
        parts: impl Iterator<Item = Option<&'p [T]>>,
    ) -> Vec<T> {
        let parts: Vec<&[T]> = parts.flatten().collect();
        let mut out = Vec::with_capacity(n);
        for i in 0..outer {
            for part in &parts {
                let width = part.len() / outer;
                out.extend_from_slice(&part[i * width..(i + 1) * width]);
            }
        }
        out
    }
    macro_rules! of {
        ($($variant:ident)*) => {
            match first.data() {
                $(Data::$variant(_) => Data::$variant(Buffer::new(copied(n, outer, parts.iter().map(|p| match p.data() {
                    Data::$variant(v) => Some(&v[..]),
                    _ => None,
                })))),)*
                Data::Text(_) => Data::Text(std::sync::Arc::new(copied(n, outer, parts.iter().map(|p| match p.data() {
                    Data::Text(v) => Some(&v[..]),
                    _ => None,
                })))),
            }
        };
    }
    let data = of!(F32 F64 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 Bool);
    Ok(Tensor::with(shape, data))
}

/// Returns part of a tensor along a dimension.
pub(crate) fn part(x: &Tensor, at: usize, start: usize, n: usize) -> Tensor {
    let mut shape = Shape::from_slice(x.shape());
    let (outer, inner, all) = (product(&shape[..at]), product(&shape[at + 1..]), shape[at]);
    shape[at] = n;
    let data = same_type!(x.data(), v => {
        let mut out = Vec::with_capacity(outer * n * inner);
        for i in 0..outer {
            let from = (i * all + start) * inner;
            out.extend_from_slice(&v[from..from + n * inner]);
        }
        out
    });
    Tensor::with(shape, data)
}

#[derive(Debug)]
struct Concat {
    axis: i64,
}

impl Operator for Concat {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let parts = (0..inputs.len()).map(|i| inputs.tensor(i)).collect::<Result<Vec<_>, _>>()?;
        let rank = parts.first().map_or(0, |part| part.rank());
        one(joined(ctx, &parts, axis(self.axis, rank)?)?)
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn concat(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let axis = match a.int("axis")? {
        Some(axis) => axis,
        None if a.opset < 4 => 1,
        None => return Err("attribute `axis` is missing".into()),
    };
    Ok(Box::new(Concat { axis }))
}

/// Splits along a dimension, by sizes or into equal parts.
#[derive(Debug)]
struct Split {
    axis: i64,
    sizes: Option<Vec<usize>>,
    outputs: usize,
}

impl Operator for Split {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let at = axis(self.axis, x.rank())?;
        let n = x.shape()[at];
        let sizes = match (&self.sizes, inputs.optional_ints(1)?) {
            (Some(sizes), _) => sizes.clone(),
            (None, Some(sizes)) => sizes.into_iter().map(size).collect::<Result<_, _>>()?,
            (None, None) => {
                // The last part is smaller if the size is no multiple.
                let each = n.div_ceil(self.outputs.max(1));
                (0..self.outputs).map(|i| each.min(n.saturating_sub(i * each))).collect()
            }
        };
        let sum = sizes.iter().try_fold(0_usize, |n, s| n.checked_add(*s));
        if sum != Some(n) {
            return Err(format!("sizes {sizes:?} do not add up to {n}").into());
        }
        let mut start = 0;
        let parts = sizes.iter().map(|n| {
            let found = part(x, at, start, *n);
            start += n;
            Value::Tensor(found)
        });
        Ok(parts.collect())
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn split(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let outputs = match a.int("num_outputs")? {
        Some(n) => size(n)?.min(1 << 16),
        None => a.n_outputs(),
    };
    Ok(Box::new(Split { axis: a.int_or("axis", 0)?, sizes: a.sizes("split")?, outputs }))
}

/// Reverses the first elements of each sequence.
#[derive(Debug)]
struct ReverseSequence {
    batch: usize,
    time: usize,
}

impl Operator for ReverseSequence {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, lengths) = (inputs.tensor(0)?, inputs.ints(1)?);
        if x.rank() < 2 || lengths.len() != x.shape()[self.batch] {
            return Err(format!("{} lengths for shape {:?}", lengths.len(), x.shape()).into());
        }
        let n = x.shape()[self.time];
        if let Some(bad) = lengths.iter().find(|l| **l < 0 || **l > n as i64) {
            return Err(format!("length {bad} is outside the {n} steps").into());
        }
        let inner = product(&x.shape()[2..]);
        let second = x.shape()[1];
        let data = same_type!(x.data(), v => {
            let mut out = v.to_vec();
            for i in 0..x.shape()[0] {
                for j in 0..second {
                    let (b, t) = if self.batch == 0 { (i, j) } else { (j, i) };
                    let length = lengths[b] as usize;
                    let t = if t < length { length - 1 - t } else { t };
                    let from = if self.batch == 0 { b * second + t } else { t * second + b };
                    let to = (i * second + j) * inner;
                    out[to..to + inner].clone_from_slice(&v[from * inner..(from + 1) * inner]);
                }
            }
            out
        });
        one(Tensor::with(x.shape(), data))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn reverse_sequence(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    match (a.int_or("batch_axis", 1)?, a.int_or("time_axis", 0)?) {
        (0, 1) => Ok(Box::new(ReverseSequence { batch: 0, time: 1 })),
        (1, 0) => Ok(Box::new(ReverseSequence { batch: 1, time: 0 })),
        other => Err(format!("axes {other:?} are not supported").into()),
    }
}
