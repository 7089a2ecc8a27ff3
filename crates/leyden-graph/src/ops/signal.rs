//! Signals: Fourier transforms and windows.
//!
//! Transforms are sums by the definition in 64 bits, with a table of cosines and sines; lengths of audio frames are
//! short enough.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::binary::Number;
use crate::shape::{Shape, axis, product, size};
use crate::tensor::{ElementType, Tensor, each_number};
use std::f64::consts::TAU;

/// Cosine and sine of the parts of a circle.
fn circle(n: usize) -> Vec<(f64, f64)> {
    let at = |i: usize| TAU * i as f64 / n as f64;
    (0..n).map(|i| (libm::cos(at(i)), libm::sin(at(i)))).collect()
}

/// Computes bin `k` of a transform of `n` values, of which those that are missing are zero.
fn bin(x: impl Iterator<Item = (f64, f64)>, k: usize, circle: &[(f64, f64)], inverse: bool) -> (f64, f64) {
    let (n, mut at) = (circle.len(), 0);
    let (mut re, mut im) = (0.0, 0.0);
    for (a, b) in x {
        let (c, s) = circle[at];
        let s = if inverse { s } else { -s };
        re += a * c - b * s;
        im += a * s + b * c;
        at += k;
        if at >= n {
            at -= n;
        }
    }
    (re, im)
}

/// Short-time Fourier transform of `[batch, length, 1]`, result `[batch, frames, bins, 2]`.
#[derive(Debug)]
struct Stft {
    onesided: bool,
}

impl Operator for Stft {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let step = size(inputs.int(1)?)?.max(1);
        let window = inputs.optional(2)?.map(Tensor::to_f32).transpose()?;
        let length = match (inputs.has(3), &window) {
            (true, _) => size(inputs.int(3)?)?,
            (false, Some(window)) => window.len(),
            (false, None) => return Err("has neither a window nor a length".into()),
        };
        let (batch, n, parts) = match *x.shape() {
            [batch, n] => (batch, n, 1),
            [batch, n, parts @ (1 | 2)] => (batch, n, parts),
            _ => return Err(format!("input 0 has shape {:?}", x.shape()).into()),
        };
        if length == 0 || length > n || window.as_ref().is_some_and(|w| w.len() != length) {
            return Err(format!("a frame of {length} does not fit {n} values or the window").into());
        }
        let (frames, bins) = ((n - length) / step + 1, if self.onesided { length / 2 + 1 } else { length });
        let shape: Shape = [batch, frames, bins, 2].into_iter().collect();
        let mut out = ctx.zeros::<f32>(&shape)?;
        let (values, circle) = (x.to_f32()?, circle(length));
        ctx.cpu.for_blocks(&mut out, bins * 2, 1, |row, out| {
            let (b, f) = (row / frames, row % frames);
            let frame: Vec<(f64, f64)> = (0..length)
                .map(|i| {
                    let at = (b * n + f * step + i) * parts;
                    let w = window.as_ref().map_or(1.0, |w| f64::from(w[i]));
                    (f64::from(values[at]) * w, if parts == 2 { f64::from(values[at + 1]) * w } else { 0.0 })
                })
                .collect();
            for (k, out) in out.chunks_exact_mut(2).enumerate() {
                let (re, im) = bin(frame.iter().copied(), k, &circle, false);
                out.copy_from_slice(&[re as f32, im as f32]);
            }
        });
        one(Tensor::of(shape, out))
    }
}

pub(crate) fn stft(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Stft { onesided: a.flag("onesided", true)? }))
}

/// Discrete Fourier transform along a dimension; the last dimension has the parts of complex numbers.
#[derive(Debug)]
struct Dft {
    axis: Option<i64>,
    inverse: bool,
    onesided: bool,
}

impl Operator for Dft {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let at = match self.axis {
            Some(axis) => axis,
            None if inputs.has(2) => inputs.int(2)?,
            None => -2,
        };
        let at = axis(at, x.rank())?;
        let (Some(&parts), true) = (x.shape().last(), x.rank() >= 2 && at + 1 < x.rank()) else {
            return Err(format!("input 0 has shape {:?}", x.shape()).into());
        };
        if parts == 0 || parts > 2 {
            return Err(format!("input 0 has shape {:?}", x.shape()).into());
        }
        let own = x.shape()[at];
        let n = if inputs.has(1) {
            size(inputs.int(1)?)?
        } else if self.inverse && self.onesided {
            2 * own.max(1) - 2
        } else {
            own
        };
        let mut shape = Shape::from_slice(x.shape());
        let last = shape.len() - 1;
        let real = self.inverse && self.onesided;
        shape[at] = if self.onesided && !self.inverse { n / 2 + 1 } else { n };
        shape[last] = if real { 1 } else { 2 };
        let mut out = ctx.zeros::<f32>(&shape)?;
        let values = x.to_f32()?;
        let (outer, inner) = (product(&shape[..at]), product(&shape[at + 1..last]));
        ctx.elements(&[n], 16)?;
        let circle = circle(n.max(1));
        let (bins, width) = (shape[at], shape[last]);
        for o in 0..outer {
            for i in 0..inner {
                let value = |j: usize| {
                    // The second half of a one-sided spectrum mirrors the first.
                    let (j, sign) = if real && j >= own { (n - j, -1.0) } else { (j, 1.0) };
                    if j >= own {
                        return (0.0, 0.0);
                    }
                    let at = ((o * own + j) * inner + i) * parts;
                    let im = if parts == 2 { f64::from(values[at + 1]) * sign } else { 0.0 };
                    (f64::from(values[at]), im)
                };
                let row: Vec<(f64, f64)> = (0..n).map(value).collect();
                for k in 0..bins {
                    let (mut re, mut im) = bin(row.iter().copied(), k, &circle, self.inverse);
                    if self.inverse {
                        (re, im) = (re / n as f64, im / n as f64);
                    }
                    let to = ((o * bins + k) * inner + i) * width;
                    out[to] = re as f32;
                    if width == 2 {
                        out[to + 1] = im as f32;
                    }
                }
            }
        }
        one(crate::ops::cast::cast(Tensor::of(shape, out), x.ty())?)
    }
}

pub(crate) fn dft(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let axis = if a.opset < 20 { Some(a.int_or("axis", 1)?) } else { None };
    Ok(Box::new(Dft { axis, inverse: a.flag("inverse", false)?, onesided: a.flag("onesided", false)? }))
}

/// A window as a sum of cosines.
#[derive(Debug)]
struct CosineWindow {
    terms: &'static [f64],
    periodic: bool,
    ty: ElementType,
}

impl Operator for CosineWindow {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let n = each_number!(inputs.tensor(0)?.data(), v => v.first().map(|v| v.to_f64()), None);
        let n = n.filter(|n| *n >= 0.0 && *n < 1e9).ok_or("input 0 is no length")? as usize;
        ctx.elements(&[n], 8)?;
        let period = if self.periodic { n } else { n.max(2) - 1 } as f64;
        let value = |i: usize| {
            let terms = self.terms.iter().enumerate();
            terms.map(|(k, a)| a * libm::cos(TAU * (k * i) as f64 / period)).sum::<f64>()
        };
        one(crate::ops::cast::cast(Tensor::vector((0..n).map(value).collect()), self.ty)?)
    }
}

fn window(a: &Attributes<'_, '_>, terms: &'static [f64]) -> Result<Box<dyn Operator>, Error> {
    let ty = ElementType::of_onnx(a.int_or("output_datatype", 1)?)?;
    Ok(Box::new(CosineWindow { terms, periodic: a.flag("periodic", true)?, ty }))
}

pub(crate) fn hann(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    window(a, &[0.5, -0.5])
}

pub(crate) fn hamming(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    window(a, &[25.0 / 46.0, -21.0 / 46.0])
}

pub(crate) fn blackman(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    window(a, &[0.42, -0.5, 0.08])
}
