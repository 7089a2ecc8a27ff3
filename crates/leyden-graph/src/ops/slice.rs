//! Parts of a tensor by start, end and step.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::shape::{Shape, axis, for_offsets, product, strides};
use crate::tensor::{Tensor, same_type};

/// Bounds of a part: attributes in version 1, inputs in later ones.
#[derive(Debug)]
struct Slice {
    bounds: Option<Bounds>,
}

/// Starts, ends and axes.
type Bounds = (Vec<i64>, Vec<i64>, Option<Vec<i64>>);

/// Returns first index, step and number of elements of a part of `n` elements.
fn range(n: usize, start: i64, end: i64, step: i64) -> Result<(usize, i64, usize), Error> {
    let n = n as i64;
    let at = |i: i64| if i < 0 { i.saturating_add(n) } else { i };
    let (start, end) = match step {
        0 => return Err("a step is zero".into()),
        1.. => (at(start).clamp(0, n), at(end).clamp(0, n)),
        _ => (at(start).clamp(-1, n - 1), at(end).clamp(-1, n - 1)),
    };
    let span = if step > 0 { end - start } else { start - end };
    let step_size = step.unsigned_abs().min(1 << 60) as i64;
    let count = if span > 0 { (span + step_size - 1) / step_size } else { 0 };
    Ok((start.max(0) as usize, step, count as usize))
}

/// Returns a part; one `(first, step, count)` for each dimension.
fn part(x: &Tensor, parts: &[(usize, i64, usize)]) -> Tensor {
    let shape: Shape = parts.iter().map(|p| p.2).collect();
    if parts.iter().zip(x.shape()).all(|(p, n)| *p == (0, 1, *n)) {
        return x.clone();
    }
    let own = strides(x.shape());
    let n = product(&shape);
    if n == 0 {
        return Tensor::with(shape, same_type!(x.data(), _v => Vec::new()));
    }
    // Trailing dimensions that are taken whole are copied at once, with a range of the dimension before them.
    let mut dims = parts.len();
    while dims > 0 && parts[dims - 1] == (0, 1, x.shape()[dims - 1]) {
        dims -= 1;
    }
    let inner: usize = product(&x.shape()[dims..]);
    if dims == 0 {
        return x.clone();
    }
    let (first, step, count) = parts[dims - 1];
    let outer = &parts[..dims - 1];
    let base: usize = outer.iter().zip(&own).map(|(p, s)| p.0 * s).sum();
    let counts: Shape = outer.iter().map(|p| p.2).collect();
    // Offsets count in two directions, so steps are applied to indices of the outer dimensions by hand.
    let unit: Shape = strides(&counts);
    let data = same_type!(x.data(), v => {
        let mut out = Vec::with_capacity(n);
        for_offsets(&counts, [&unit], |[flat]| {
            let mut at = base as i64;
            for (i, p) in outer.iter().enumerate() {
                let index = (flat / unit[i] % p.2.max(1)) as i64;
                at += index * p.1 * own[i] as i64;
            }
            let at = at as usize + first * inner;
            if step == 1 {
                out.extend_from_slice(&v[at..at + count * inner]);
            } else {
                for i in 0..count {
                    let at = (at as i64 + i as i64 * step * inner as i64) as usize;
                    out.extend_from_slice(&v[at..at + inner]);
                }
            }
        });
        out
    });
    Tensor::with(shape, data)
}

impl Operator for Slice {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let (starts, ends, axes, steps) = match &self.bounds {
            Some((starts, ends, axes)) => (starts.clone(), ends.clone(), axes.clone(), None),
            None => (inputs.ints(1)?, inputs.ints(2)?, inputs.optional_ints(3)?, inputs.optional_ints(4)?),
        };
        let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
        if [ends.len(), axes.len(), steps.len()].iter().any(|n| *n != starts.len()) {
            return Err("starts, ends, axes and steps differ in number".into());
        }
        let mut parts: Vec<_> = x.shape().iter().map(|n| (0, 1, *n)).collect();
        for i in 0..starts.len() {
            let at = axis(axes[i], x.rank())?;
            parts[at] = range(x.shape()[at], starts[i], ends[i], steps[i])?;
        }
        one(part(x, &parts))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

/// Makes `Slice` of version 1.
pub(crate) fn slice_1(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let starts = a.ints("starts")?.ok_or("attribute `starts` is missing")?;
    let ends = a.ints("ends")?.ok_or("attribute `ends` is missing")?;
    Ok(Box::new(Slice { bounds: Some((starts, ends, a.ints("axes")?)) }))
}

pub(crate) fn slice(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Slice { bounds: None }))
}
