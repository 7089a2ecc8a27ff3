//! Pooling: greatest values, means and norms of windows, or of whole planes.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::conv::three;
use crate::ops::reduce::sum_lanes;
use crate::ops::window::{Placed, Window};
use crate::shape::{Shape, product, size};
use crate::tensor::{Data, Element, Tensor};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Max,
    /// True if the padding counts.
    Mean(bool),
    Lp(i64),
}

#[derive(Debug)]
struct Pool {
    kind: Kind,
    window: Window,
    /// Places count along columns.
    column_major: bool,
    places: bool,
}

/// Calls `f(output, inputs of the window)` for each output of a plane; inputs as `(flat index)`.
fn for_windows(input: [usize; 3], p: &Placed, mut f: impl FnMut(usize, &[usize], usize)) {
    let (kernel, strides, dilations) = (three(&p.kernel, 1), three(&p.strides, 1), three(&p.dilations, 1));
    let (before, after, output) = (three(&p.before, 0), three(&p.after, 0), three(&p.output, 1));
    let mut list = Vec::with_capacity(kernel.iter().product());
    let mut flat = 0;
    let range = |o: usize, d: usize| {
        let start = (o * strides[d]) as isize - before[d] as isize;
        let at = move |k: usize| start + (k * dilations[d]) as isize;
        // Positions of the window within input and padding.
        let counted = (0..kernel[d]).filter(|k| at(*k) < (input[d] + after[d]) as isize).count();
        let list = (0..kernel[d]).map(at).filter(|i| *i >= 0 && *i < input[d] as isize).map(|i| i as usize);
        (list.collect::<smallvec::SmallVec<[usize; 16]>>(), counted)
    };
    let rows: Vec<_> = (0..output[1]).map(|o| range(o, 1)).collect();
    let columns: Vec<_> = (0..output[2]).map(|o| range(o, 2)).collect();
    for d in 0..output[0] {
        let (zs, nz) = range(d, 0);
        for (ys, ny) in &rows {
            for (xs, nx) in &columns {
                list.clear();
                for z in &zs {
                    for y in ys {
                        let line = (z * input[1] + y) * input[2];
                        list.extend(xs.iter().map(|x| line + x));
                    }
                }
                f(flat, &list, nz * ny * nx);
                flat += 1;
            }
        }
    }
}

fn pooled<T: Element>(
    ctx: &Context<'_>,
    v: &[T],
    x: &[usize],
    placed: &Placed,
    f: impl Fn(&[T], &[usize], usize) -> T + Sync,
) -> Result<Tensor, Error> {
    let shape: Shape = x[..2].iter().chain(&placed.output).copied().collect();
    let mut out = ctx.zeros::<T>(&shape)?;
    let (image, plane) = (product(&x[2..]), product(&placed.output));
    let input = three(&x[2..], 1);
    if plane > 0 {
        ctx.cpu.for_blocks(&mut out, plane, (4096 / plane).max(1), |first, planes| {
            for (i, out) in planes.chunks_exact_mut(plane).enumerate() {
                let v = &v[(first + i) * image..(first + i + 1) * image];
                for_windows(input, placed, |o, list, counted| out[o] = f(v, list, counted));
            }
        });
    }
    Ok(Tensor::of(shape, out))
}

/// Returns the greatest values of windows of 32-bit floats, row by row.
fn max_f32(ctx: &Context<'_>, v: &[f32], x: &[usize], p: &Placed) -> Result<Tensor, Error> {
    let shape: Shape = x[..2].iter().chain(&p.output).copied().collect();
    let mut out = ctx.zeros::<f32>(&shape)?;
    let (image, plane) = (product(&x[2..]), product(&p.output));
    let (input, kernel, strides) = (three(&x[2..], 1), three(&p.kernel, 1), three(&p.strides, 1));
    let (dilations, before, output) = (three(&p.dilations, 1), three(&p.before, 0), three(&p.output, 1));
    if plane == 0 {
        return Ok(Tensor::of(shape, out));
    }
    ctx.cpu.for_blocks(&mut out, plane, (4096 / plane).max(1), |first, planes| {
        for (i, out) in planes.chunks_exact_mut(plane).enumerate() {
            let v = &v[(first + i) * image..(first + i + 1) * image];
            for (row, line) in out.chunks_exact_mut(output[2]).enumerate() {
                let (d, h) = (row / output[1], row % output[1]);
                line.fill(f32::NEG_INFINITY);
                for k in 0..kernel[0] * kernel[1] {
                    let place = |o: usize, k: usize, n: usize| {
                        (o * strides[n] + k * dilations[n]).wrapping_sub(before[n])
                    };
                    let (z, y) = (place(d, k / kernel[1], 0), place(h, k % kernel[1], 1));
                    if z >= input[0] || y >= input[1] {
                        continue;
                    }
                    let from = &v[(z * input[1] + y) * input[2]..][..input[2]];
                    for x in 0..kernel[2] {
                        let shift = x * dilations[2];
                        let start = before[2].saturating_sub(shift).div_ceil(strides[2]);
                        let end =
                            (input[2] + before[2]).saturating_sub(shift).div_ceil(strides[2]).min(output[2]);
                        if start >= end {
                            continue;
                        }
                        let at = start * strides[2] + shift - before[2];
                        let values = from[at..].iter().step_by(strides[2]);
                        for (o, v) in line[start..end].iter_mut().zip(values) {
                            *o = if *v > *o { *v } else { *o };
                        }
                    }
                }
            }
        }
    });
    Ok(Tensor::of(shape, out))
}

fn place<'p>(window: &Window, x: &'p Tensor) -> Result<(&'p [usize], Placed), Error> {
    let shape = x.shape();
    if shape.len() < 3 || shape.len() > 5 {
        return Err(
            format!("input 0 has shape {shape:?} where one to three spatial dimensions should be").into()
        );
    }
    let kernel = window.kernel.as_ref().ok_or("attribute `kernel_shape` is missing")?;
    Ok((shape, window.place(&shape[2..], kernel)?))
}

impl Operator for Pool {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let (shape, placed) = place(&self.window, x)?;
        if self.places {
            return self.with_places(ctx, x, &placed);
        }
        fn greatest<T: Element>(least: T) -> impl Fn(&[T], &[usize], usize) -> T {
            move |v, list, _| list.iter().fold(least, |a, i| if v[*i] > a { v[*i] } else { a })
        }
        let mean = |v: &[f32], list: &[usize], counted: usize| {
            let n = if self.kind == Kind::Mean(true) { counted } else { list.len() };
            list.iter().map(|i| v[*i]).sum::<f32>() / n as f32
        };
        let result = match (self.kind, x.data()) {
            (Kind::Max, Data::F32(v)) => max_f32(ctx, v, shape, &placed)?,
            (Kind::Max, Data::F64(v)) => pooled(ctx, v, shape, &placed, greatest(f64::NEG_INFINITY))?,
            (Kind::Max, Data::I8(v)) => pooled(ctx, v, shape, &placed, greatest(i8::MIN))?,
            (Kind::Max, Data::U8(v)) => pooled(ctx, v, shape, &placed, greatest(0_u8))?,
            (Kind::Mean(_), Data::F32(v)) => pooled(ctx, v, shape, &placed, mean)?,
            (Kind::Lp(p), Data::F32(v)) => pooled(ctx, v, shape, &placed, |v, list, _| {
                let sum: f64 = list.iter().map(|i| libm::pow(f64::from(v[*i].abs()), p as f64)).sum();
                libm::pow(sum, 1.0 / p as f64) as f32
            })?,
            (_, other) => return Err(format!("does not take values of type {}", other.ty().name()).into()),
        };
        one(result)
    }
}

impl Pool {
    /// Returns greatest values and their places in the whole tensor.
    fn with_places(&self, ctx: &Context<'_>, x: &Tensor, placed: &Placed) -> Result<Outputs, Error> {
        let shape = x.shape();
        let image = product(&shape[2..]);
        let input = three(&shape[2..], 1);
        let out_shape: Shape = shape[..2].iter().chain(&placed.output).copied().collect();
        ctx.elements(&out_shape, 8)?;
        let v = x.to_f32()?;
        let mut places = Vec::with_capacity(product(&out_shape));
        let mut values = Vec::with_capacity(places.capacity());
        for plane in 0..shape[0] * shape[1] {
            for_windows(input, placed, |_, list, _| {
                let base = plane * image;
                let best = list.iter().copied().reduce(|a, b| if v[base + b] > v[base + a] { b } else { a });
                let best = best.unwrap_or(0);
                values.push(v[base + best]);
                let [_, h, w] = input;
                let at = if self.column_major {
                    (best % w * h + best / w % h) + best / (w * h) * w * h
                } else {
                    best
                };
                places.push((base + at) as i64);
            });
        }
        let values = crate::ops::cast::cast(Tensor::of(out_shape.clone(), values), x.ty())?;
        Ok([values.into(), Tensor::of(out_shape, places).into()].into_iter().collect())
    }
}

fn make(a: &Attributes<'_, '_>, kind: Kind) -> Result<Box<dyn Operator>, Error> {
    let column_major = kind == Kind::Max && a.int_or("storage_order", 0)? == 1;
    let places = a.has_output(1);
    Ok(Box::new(Pool { kind, window: Window::read(a)?, column_major, places }))
}

pub(crate) fn max_pool(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    make(a, Kind::Max)
}

pub(crate) fn average_pool(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    make(a, Kind::Mean(a.flag("count_include_pad", false)?))
}

pub(crate) fn lp_pool(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    make(a, Kind::Lp(a.int_or("p", 2)?))
}

/// Pooling of whole planes.
#[derive(Debug)]
struct Global(Kind);

impl Operator for Global {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        if x.rank() < 3 {
            return Err(
                format!("input 0 has shape {:?} where spatial dimensions should be", x.shape()).into()
            );
        }
        let n = product(&x.shape()[2..]);
        let shape: Shape = x.shape().iter().enumerate().map(|(i, n)| if i < 2 { *n } else { 1 }).collect();
        let v = x.f32s()?;
        if n == 0 {
            return Err(format!("planes of shape {:?} are empty", x.shape()).into());
        }
        let of = |row: &[f32]| match self.0 {
            Kind::Max => row.iter().fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a }),
            Kind::Mean(_) => sum_lanes(row, |v| v) / n as f32,
            Kind::Lp(p) => {
                let sum: f64 = row.iter().map(|v| libm::pow(f64::from(v.abs()), p as f64)).sum();
                libm::pow(sum, 1.0 / p as f64) as f32
            }
        };
        one(Tensor::of(shape, v.chunks_exact(n).map(of).collect()))
    }
}

pub(crate) fn global_max(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Global(Kind::Max)))
}

pub(crate) fn global_average(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Global(Kind::Mean(false))))
}

pub(crate) fn global_lp(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Global(Kind::Lp(a.int_or("p", 2)?))))
}

/// Puts values back to the places that pooling took them from.
#[derive(Debug)]
struct Unpool {
    window: Window,
}

impl Operator for Unpool {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, places) = (inputs.tensor(0)?, inputs.ints(1)?);
        let kernel = self.window.kernel.as_ref().ok_or("attribute `kernel_shape` is missing")?;
        let spatial = x.rank().saturating_sub(2);
        let strides =
            self.window.strides.clone().unwrap_or_else(|| std::iter::repeat_n(1, spatial).collect());
        let pads = self.window.pads.clone().unwrap_or_else(|| vec![0; 2 * spatial]);
        if kernel.len() != spatial || strides.len() != spatial || pads.len() != 2 * spatial || spatial == 0 {
            return Err(format!("a window of shape {kernel:?} does not fit shape {:?}", x.shape()).into());
        }
        let inferred = (0..spatial).map(|d| {
            let n = (x.shape()[d + 2].max(1) - 1) as i64 * strides[d] as i64 + kernel[d] as i64;
            size(n.saturating_sub(pads[d]).saturating_sub(pads[spatial + d]))
        });
        let mut shape = Shape::from_slice(&x.shape()[..2]);
        for n in inferred {
            shape.push(n?);
        }
        // Places count in the inferred shape.
        let wanted = match inputs.optional_ints(2)? {
            Some(wanted) => wanted.into_iter().map(size).collect::<Result<Shape, _>>()?,
            None => shape.clone(),
        };
        if wanted.len() != shape.len() {
            return Err(format!("the shape {wanted:?} does not fit {shape:?}").into());
        }
        let mut out = ctx.zeros::<f32>(&wanted)?;
        let (own, steps) = (crate::shape::strides(&shape), crate::shape::strides(&wanted));
        for (v, place) in x.f32s()?.iter().zip(&places) {
            let place = size(*place)?;
            let at =
                (0..shape.len()).map(|d| place / own[d].max(1) % shape[d].max(1) * steps[d]).sum::<usize>();
            *out.get_mut(at).ok_or_else(|| format!("place {at} is outside shape {wanted:?}"))? = *v;
        }
        one(Tensor::of(wanted, out))
    }
}

pub(crate) fn max_unpool(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Unpool { window: Window::read(a)? }))
}
