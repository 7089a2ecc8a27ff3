//! Quantisation, and products of 8-bit integers in their three forms: `QuantizeLinear` and `DequantizeLinear`, integers
//! with scales (`QLinearConv`, ...), and dynamic quantisation (`DynamicQuantizeLinear`, `MatMulInteger`, ...).
//!
//! Sums of products are exact 32-bit integers. Rounding is to nearest even, after a division where ONNX divides.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::conv::{Sizes, Windows, sizes as conv_sizes, three};
use crate::ops::functions::rounded;
use crate::ops::window::Window;
use crate::shape::{Shape, axis, broadcast, broadcast_strides, for_offsets, product};
use crate::tensor::{Buffer, Data, ElementType, Tensor};
use leyden_kernels::gemm::{DenseEpilogue, DenseMatrix, DenseRows, Panels, dense_multiply};
use std::ops::Range;

/// Returns integers of 8, 16 or 32 bits as 32-bit ones.
pub(crate) fn widened(x: &Tensor) -> Result<Vec<i32>, Error> {
    Ok(match x.data() {
        Data::I8(v) => v.iter().map(|v| i32::from(*v)).collect(),
        Data::U8(v) => v.iter().map(|v| i32::from(*v)).collect(),
        Data::I16(v) => v.iter().map(|v| i32::from(*v)).collect(),
        Data::U16(v) => v.iter().map(|v| i32::from(*v)).collect(),
        Data::I32(v) => v.to_vec(),
        other => return Err(format!("does not take values of type {}", other.ty().name()).into()),
    })
}

/// Least and greatest integer of a type.
fn bounds(ty: ElementType) -> Result<[f32; 2], Error> {
    Ok(match ty {
        ElementType::I8 => [-128.0, 127.0],
        ElementType::U8 => [0.0, 255.0],
        ElementType::I16 => [-32768.0, 32767.0],
        ElementType::U16 => [0.0, 65535.0],
        other => return Err(format!("does not quantise to type {}", other.name()).into()),
    })
}

/// Returns whole numbers within the bounds of a type as that type.
pub(crate) fn packed(values: impl Iterator<Item = f32>, ty: ElementType) -> Result<Data, Error> {
    Ok(match ty {
        ElementType::I8 => Data::I8(Buffer::new(values.map(|v| v as i8).collect())),
        ElementType::U8 => Data::U8(Buffer::new(values.map(|v| v as u8).collect())),
        ElementType::I16 => Data::I16(Buffer::new(values.map(|v| v as i16).collect())),
        ElementType::U16 => Data::U16(Buffer::new(values.map(|v| v as u16).collect())),
        other => return Err(format!("does not quantise to type {}", other.name()).into()),
    })
}

/// Quantises a value.
pub(crate) fn quantised(x: f32, scale: f32, zero: f32, [low, high]: [f32; 2]) -> f32 {
    // Magnitudes beyond the bounds are cut first, so that a sum can round; NaN becomes the lower bound.
    let y = x / scale;
    let y = if y < -4e5 { -4e5 } else { y };
    let y = if y > 4e5 { 4e5 } else { y };
    let q = rounded(y) + zero;
    let q = if q > high { high } else { q };
    if q >= low { q } else { low }
}

/// Place of each element's scale: `block` elements of `axis` share one.
struct Scales {
    strides: Shape,
    /// Dimension in blocks, and the elements of a block.
    blocked: Option<(usize, usize)>,
}

/// Finds scales of shape `scale` for a tensor of shape `x`.
fn scales(x: &[usize], scale: &Tensor, at: i64, block: usize) -> Result<Scales, Error> {
    let unlike = || Error::invalid(format!("scales of shape {:?} do not fit shape {x:?}", scale.shape()));
    let zeros = || Shape::from_elem(0, x.len());
    if scale.len() == 1 && block == 0 {
        return Ok(Scales { strides: zeros(), blocked: None });
    }
    let at = axis(at, x.len())?;
    if block == 0 {
        if scale.rank() != 1 || scale.len() != x[at] {
            return Err(unlike());
        }
        let mut strides = zeros();
        strides[at] = 1;
        return Ok(Scales { strides, blocked: None });
    }
    let fits = |i: usize| scale.shape()[i] == if i == at { x[i].div_ceil(block) } else { x[i] };
    if scale.rank() != x.len() || !(0..x.len()).all(fits) {
        return Err(unlike());
    }
    Ok(Scales { strides: crate::shape::strides(scale.shape()), blocked: Some((at, block)) })
}

impl Scales {
    /// Calls `f(element, scale)` for all elements of a shape.
    fn for_each(&self, shape: &[usize], mut f: impl FnMut(usize, usize)) {
        match self.blocked {
            None => {
                let mut i = 0;
                for_offsets(shape, [&self.strides], |[s]| {
                    f(i, s);
                    i += 1;
                });
            }
            Some((at, block)) => {
                let steps = crate::shape::strides(shape);
                for i in 0..product(shape) {
                    let index = |d: usize| i / steps[d] % shape[d];
                    let place = |d: usize| if d == at { index(d) / block } else { index(d) };
                    f(i, (0..shape.len()).map(|d| place(d) * self.strides[d]).sum());
                }
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Quantize {
    axis: i64,
    block: usize,
    ty: Option<ElementType>,
}

impl Operator for Quantize {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, scale, zero) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional(2)?);
        let ty = zero.map(Tensor::ty).or(self.ty).unwrap_or(ElementType::U8);
        let (limits, values, factors) = (bounds(ty)?, x.to_f32()?, scale.to_f32()?);
        let zeros = match zero {
            Some(zero) if zero.len() != factors.len() => {
                return Err("scales and zero points differ in number".into());
            }
            Some(zero) => zero.to_f32()?,
            None => vec![0.0; factors.len()],
        };
        let mut out = vec![0.0; values.len()];
        if let ([factor], [zero]) = (&factors[..], &zeros[..]) {
            out.iter_mut().zip(&values).for_each(|(o, x)| *o = quantised(*x, *factor, *zero, limits));
        } else {
            scales(x.shape(), scale, self.axis, self.block)?
                .for_each(x.shape(), |i, s| out[i] = quantised(values[i], factors[s], zeros[s], limits));
        }
        one(Tensor::with(x.shape(), packed(out.into_iter(), ty)?))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn quantize(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["saturate", "precision"]);
    let ty = a.int_or("output_dtype", 0)?;
    let ty = if ty == 0 { None } else { Some(ElementType::of_onnx(ty)?) };
    let block = crate::shape::size(a.int_or("block_size", 0)?)?;
    Ok(Box::new(Quantize { axis: a.int_or("axis", 1)?, block, ty }))
}

#[derive(Debug)]
pub(crate) struct Dequantize {
    axis: i64,
    block: usize,
    ty: Option<ElementType>,
}

impl Operator for Dequantize {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, scale, zero) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional(2)?);
        let (values, factors) = (widened(x)?, scale.to_f32()?);
        let zeros = match zero {
            Some(zero) if zero.len() != factors.len() => {
                return Err("scales and zero points differ in number".into());
            }
            Some(zero) => widened(zero)?,
            None => vec![0; factors.len()],
        };
        let value = |q: i32, factor: f32, zero: i32| q.wrapping_sub(zero) as f32 * factor;
        let mut out = vec![0.0; values.len()];
        if let ([factor], [zero]) = (&factors[..], &zeros[..]) {
            out.iter_mut().zip(&values).for_each(|(o, q)| *o = value(*q, *factor, *zero));
        } else {
            scales(x.shape(), scale, self.axis, self.block)?
                .for_each(x.shape(), |i, s| out[i] = value(values[i], factors[s], zeros[s]));
        }
        one(crate::ops::cast::cast(Tensor::of(x.shape(), out), self.ty.unwrap_or(scale.ty()))?)
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn dequantize(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let ty = a.int_or("output_dtype", 0)?;
    let ty = if ty == 0 { None } else { Some(ElementType::of_onnx(ty)?) };
    let block = crate::shape::size(a.int_or("block_size", 0)?)?;
    Ok(Box::new(Dequantize { axis: a.int_or("axis", 1)?, block, ty }))
}

/// Returns bytes with scale and zero point found from the least and the greatest value.
pub(crate) fn dynamic(values: &[f32]) -> (Vec<u8>, f32, u8) {
    let (mut low, mut high) = (0.0_f32, 0.0_f32);
    for v in values {
        low = low.min(*v);
        high = high.max(*v);
    }
    let scale = (high - low) / 255.0;
    if scale == 0.0 || !scale.is_finite() {
        // All values are zero; any scale is right.
        return (vec![0; values.len()], if scale == 0.0 { 1.0 } else { scale }, 0);
    }
    let zero = (-low / scale).clamp(0.0, 255.0).round_ties_even();
    let bytes = values.iter().map(|v| quantised(*v, scale, zero, [0.0, 255.0]) as u8).collect();
    (bytes, scale, zero as u8)
}

#[derive(Debug)]
struct DynamicQuantize;

impl Operator for DynamicQuantize {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let (bytes, scale, zero) = dynamic(x.f32s()?);
        let all = [Tensor::of(x.shape(), bytes), Tensor::scalar(scale), Tensor::scalar(zero)];
        Ok(all.into_iter().map(Into::into).collect())
    }
}

pub(crate) fn dynamic_quantize(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(DynamicQuantize))
}

/// Subtracts zero points along a dimension counted from the back (1: columns, 2: rows), or one of all.
fn centred(x: &Tensor, zero: Option<&Tensor>, from_back: usize) -> Result<Vec<i32>, Error> {
    let mut values = widened(x)?;
    let Some(zero) = zero else { return Ok(values) };
    let zeros = widened(zero)?;
    if let [zero] = zeros[..] {
        if zero != 0 {
            values.iter_mut().for_each(|v| *v -= zero);
        }
        return Ok(values);
    }
    if x.rank() < from_back {
        return Err(
            format!("zero points of shape {:?} do not fit shape {:?}", zero.shape(), x.shape()).into()
        );
    }
    let at = x.rank() - from_back;
    let (n, inner) = (x.shape()[at], product(&x.shape()[at + 1..]));
    // One for each row or column, or one for each of every matrix of a stack.
    let whole = zeros.len() == product(&x.shape()[..at]) * n;
    if zeros.len() != n && !whole {
        return Err(
            format!("zero points of shape {:?} do not fit shape {:?}", zero.shape(), x.shape()).into()
        );
    }
    for (i, v) in values.iter_mut().enumerate() {
        let (outer, row) = (i / (inner * n).max(1), i / inner % n);
        *v -= zeros[if zeros.len() == n { row } else { outer * n + row }];
    }
    Ok(values)
}

/// Exact product of stacks of integer matrices, wrapped to 32 bits.
fn integer_product(
    ctx: &Context<'_>,
    a: (&[i32], &[usize]),
    b: (&[i32], &[usize]),
) -> Result<(Shape, Vec<i32>), Error> {
    let unlike = || Error::invalid(format!("shapes {:?} and {:?} cannot be multiplied", a.1, b.1));
    let (&[ref ab @ .., m, k], &[ref bb @ .., bk, n]) = (a.1, b.1) else { return Err(unlike()) };
    if bk != k {
        return Err(unlike());
    }
    let batch = broadcast(ab, bb)?;
    let scaled =
        |s: &[usize], size: usize| broadcast_strides(s, &batch).iter().map(|v| v * size).collect::<Shape>();
    let (sa, sb) = (scaled(ab, m * k), scaled(bb, k * n));
    let mut shape = batch.clone();
    shape.extend([m, n]);
    let mut out = ctx.zeros::<i32>(&shape)?;
    if out.is_empty() || k == 0 {
        return Ok((shape, out));
    }
    let mut at = 0;
    if let (Some(x), Some(w)) = (small(a.0), small(b.0)) {
        for_offsets(&batch, [&sa, &sb], |[i, j]| {
            let right = DenseMatrix { values: &w[j..j + k * n], n, strides: [n, 1] };
            exact_product(ctx, &x[i..i + m * k], &right, [m, k, n], &mut out[at..at + m * n]);
            at += m * n;
        });
        return Ok((shape, out));
    }
    for_offsets(&batch, [&sa, &sb], |[i, j]| {
        let (x, w) = (&a.0[i..i + m * k], &b.0[j..j + k * n]);
        ctx.cpu.for_blocks(&mut out[at..at + m * n], n, (1 << 14) / (n * k) + 1, |first, rows| {
            for (r, row) in rows.chunks_exact_mut(n).enumerate() {
                multiply_row(&x[(first + r) * k..][..k], w, row);
            }
        });
        at += m * n;
    });
    Ok((shape, out))
}

/// Returns integers as floats if their magnitudes are at most 255.
fn small(values: &[i32]) -> Option<Vec<f32>> {
    let fits = values.iter().fold(true, |fits, v| fits & (v.unsigned_abs() <= 255));
    fits.then(|| values.iter().map(|v| *v as f32).collect())
}

/// Right matrix without its first rows.
struct After<'a> {
    panels: &'a dyn Panels,
    start: usize,
}

impl Panels for After<'_> {
    fn panel<'p>(&'p self, p: usize, k: Range<usize>, scratch: &'p mut [f32]) -> &'p [f32] {
        self.panels.panel(p, k.start + self.start..k.end + self.start, scratch)
    }
}

/// Adds the product of integers of at most 255, given as floats: sums of 256 products stay below 2^24, so that floats are
/// exact, and these sums are added as integers.
fn exact_product(ctx: &Context<'_>, a: &[f32], b: &dyn Panels, [m, k, n]: [usize; 3], out: &mut [i32]) {
    const EXACT: usize = 256;
    let mut part = vec![0.0; m * n];
    for start in (0..k).step_by(EXACT) {
        let rows = DenseRows { values: &a[start..], m, k: EXACT.min(k - start), stride: k };
        dense_multiply(
            ctx.cpu,
            rows,
            &After { panels: b, start },
            n,
            (&mut part, n),
            DenseEpilogue::default(),
        );
        out.iter_mut().zip(&part).for_each(|(o, v)| *o = o.wrapping_add(*v as i32));
    }
}

/// Adds a row times a matrix, wrapped to 32 bits.
fn multiply_row(x: &[i32], w: &[i32], out: &mut [i32]) {
    let n = out.len();
    for (x, w) in x.iter().zip(w.chunks_exact(n)) {
        if *x != 0 {
            out.iter_mut().zip(w).for_each(|(o, w)| *o = o.wrapping_add(x.wrapping_mul(*w)));
        }
    }
}

#[derive(Debug)]
struct MatMulInteger;

impl Operator for MatMulInteger {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let x = centred(a, inputs.optional(2)?, 2)?;
        let w = centred(b, inputs.optional(3)?, 1)?;
        let (shape, out) = vectors(ctx, (&x, a.shape()), (&w, b.shape()))?;
        one(Tensor::of(shape, out))
    }
}

/// Multiplies as [`integer_product`], where either operand may be a vector.
fn vectors(
    ctx: &Context<'_>,
    a: (&[i32], &[usize]),
    b: (&[i32], &[usize]),
) -> Result<(Shape, Vec<i32>), Error> {
    let mut left = Shape::from_slice(a.1);
    let mut right = Shape::from_slice(b.1);
    if a.1.len() == 1 {
        left.insert(0, 1);
    }
    if b.1.len() == 1 {
        right.push(1);
    }
    let (mut shape, out) = integer_product(ctx, (a.0, &left), (b.0, &right))?;
    if b.1.len() == 1 {
        shape.pop();
    }
    if a.1.len() == 1 {
        let at = shape.len() - if b.1.len() == 1 { 1 } else { 2 };
        shape.remove(at);
    }
    Ok((shape, out))
}

pub(crate) fn matmul_integer(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(MatMulInteger))
}

/// Quantises 32-bit sums: scales of one or of each column, then the result's scale and zero point.
fn requantised(sums: &[i32], factors: impl Fn(usize) -> f32, zero: &Tensor) -> Result<Data, Error> {
    let limits = bounds(zero.ty())?;
    let offset = zero.to_f32()?.first().copied().ok_or("a zero point is missing")?;
    let one = |(i, s): (usize, &i32)| quantised(*s as f32 * factors(i), 1.0, offset, limits);
    packed(sums.iter().enumerate().map(one), zero.ty())
}

/// Returns the only factor of a tensor.
fn scalar(x: &Tensor) -> Result<f32, Error> {
    x.to_f32()?.first().copied().ok_or_else(|| "a scale is missing".into())
}

#[derive(Debug)]
struct QLinearMatMul;

impl Operator for QLinearMatMul {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(3)?);
        let x = centred(a, inputs.optional(2)?, 2)?;
        let w = centred(b, inputs.optional(5)?, 1)?;
        let (shape, sums) = vectors(ctx, (&x, a.shape()), (&w, b.shape()))?;
        let (sa, sb, sy) =
            (inputs.tensor(1)?.to_f32()?, inputs.tensor(4)?.to_f32()?, scalar(inputs.tensor(6)?)?);
        let n = shape.last().copied().unwrap_or(1).max(1);
        let m = if shape.len() > 1 { shape[shape.len() - 2] } else { 1 }.max(1);
        let pick = |s: &[f32], i: usize, rows: bool| -> Option<f32> {
            match s.len() {
                1 => Some(s[0]),
                len if rows && len == m => Some(s[i / n % m]),
                len if !rows && len == n => Some(s[i % n]),
                _ => None,
            }
        };
        if !sums.is_empty() && (pick(&sa, 0, true).is_none() || pick(&sb, 0, false).is_none()) {
            return Err(format!("scales do not fit a result of shape {shape:?}").into());
        }
        let factor = |i: usize| pick(&sa, i, true).unwrap_or(1.0) * pick(&sb, i, false).unwrap_or(1.0) / sy;
        let data = requantised(&sums, factor, inputs.tensor(7)?)?;
        one(Tensor::with(shape, data))
    }
}

pub(crate) fn qlinear_matmul(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(QLinearMatMul))
}

/// Exact convolution of integers, from which zero points are subtracted.
fn integer_conv(ctx: &Context<'_>, x: &[i32], w: &[i32], s: &Sizes, group: usize) -> Result<Vec<i32>, Error> {
    let mut out = ctx.zeros::<i32>(&s.shape)?;
    let (plane, image) = (product(&s.placed.output), product(&s.input));
    let (channels, outputs) = (s.channels / group, s.outputs / group);
    let window = product(&s.placed.kernel);
    if plane == 0 || outputs == 0 {
        return Ok(out);
    }
    if channels > 1
        && let (Some(x), Some(w)) = (small(x), small(w))
    {
        let k = channels * window;
        for b in 0..s.batch {
            for g in 0..group {
                let first = b * s.outputs + g * outputs;
                let image = &x[(b * s.channels + g * channels) * image..][..channels * image];
                let windows = Windows::new(image, &s.input, &s.placed);
                let out = &mut out[first * plane..(first + outputs) * plane];
                exact_product(ctx, &w[g * outputs * k..][..outputs * k], &windows, [outputs, k, plane], out);
            }
        }
        return Ok(out);
    }
    let (input, kernel, output) =
        (three(&s.input, 1), three(&s.placed.kernel, 1), three(&s.placed.output, 1));
    let (strides, dilations, before) =
        (three(&s.placed.strides, 1), three(&s.placed.dilations, 1), three(&s.placed.before, 0));
    ctx.cpu.for_blocks(&mut out, plane, 1, |first, out| {
        let (b, o) = (first / s.outputs, first % s.outputs);
        let g = o / outputs;
        for c in 0..channels {
            let x = &x[(b * s.channels + g * channels + c) * image..][..image];
            let w = &w[(o * channels + c) * window..][..window];
            for (k, weight) in w.iter().enumerate() {
                let at = [k / (kernel[1] * kernel[2]), k / kernel[2] % kernel[1], k % kernel[2]];
                let place =
                    |i: usize, d: usize| (i * strides[d] + at[d] * dilations[d]).wrapping_sub(before[d]);
                let shift = at[2] * dilations[2];
                let start = before[2].saturating_sub(shift).div_ceil(strides[2]);
                let end = (input[2] + before[2]).saturating_sub(shift).div_ceil(strides[2]).min(output[2]);
                if start >= end || *weight == 0 {
                    continue;
                }
                for (row, line) in out.chunks_exact_mut(output[2]).enumerate() {
                    let (z, y) = (place(row / output[1], 0), place(row % output[1], 1));
                    if z >= input[0] || y >= input[1] {
                        continue;
                    }
                    let from = &x[(z * input[1] + y) * input[2] + place(start, 2)..];
                    let line = &mut line[start..end];
                    if strides[2] == 1 {
                        line.iter_mut()
                            .zip(from)
                            .for_each(|(o, x)| *o = o.wrapping_add(weight.wrapping_mul(*x)));
                    } else {
                        let from = from.iter().step_by(strides[2]);
                        line.iter_mut()
                            .zip(from)
                            .for_each(|(o, x)| *o = o.wrapping_add(weight.wrapping_mul(*x)));
                    }
                }
            }
        }
    });
    Ok(out)
}

/// Subtracts one zero point, or one for each filter.
fn centred_filters(w: &Tensor, zero: Option<&Tensor>) -> Result<Vec<i32>, Error> {
    let Some(zero) = zero.filter(|zero| zero.len() > 1) else { return centred(w, zero, 1) };
    let (mut values, zeros) = (widened(w)?, widened(zero)?);
    let Some(&outputs) = w.shape().first().filter(|n| **n == zeros.len()) else {
        return Err(
            format!("zero points of shape {:?} do not fit shape {:?}", zero.shape(), w.shape()).into()
        );
    };
    let each = values.len() / outputs.max(1);
    for (row, zero) in values.chunks_exact_mut(each.max(1)).zip(zeros) {
        row.iter_mut().for_each(|v| *v -= zero);
    }
    Ok(values)
}

/// A convolution of integers: sums alone, or quantised.
#[derive(Debug)]
struct ConvInteger {
    window: Window,
    group: usize,
    quantised: bool,
}

impl Operator for ConvInteger {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (at_w, at_zero, at_wzero) = if self.quantised { (3, 2, 5) } else { (1, 2, 3) };
        let (x, w) = (inputs.tensor(0)?, inputs.tensor(at_w)?);
        let s = conv_sizes(ctx, &self.window, self.group, x.shape(), w.shape())?;
        let values = centred(x, inputs.optional(at_zero)?.filter(|z| z.len() == 1), 1)?;
        let filters = centred_filters(w, inputs.optional(at_wzero)?)?;
        let mut sums = integer_conv(ctx, &values, &filters, &s, self.group)?;
        if !self.quantised {
            return one(Tensor::of(s.shape, sums));
        }
        let plane = product(&s.placed.output).max(1);
        if let Some(bias) = inputs.optional_values::<i32>(8)? {
            if bias.len() != s.outputs {
                return Err(format!("a bias for {} filters has another length", s.outputs).into());
            }
            for (i, row) in sums.chunks_exact_mut(plane).enumerate() {
                row.iter_mut().for_each(|v| *v = v.wrapping_add(bias[i % s.outputs]));
            }
        }
        let (sx, sw, sy) =
            (scalar(inputs.tensor(1)?)?, inputs.tensor(4)?.to_f32()?, scalar(inputs.tensor(6)?)?);
        if sw.len() != 1 && sw.len() != s.outputs {
            return Err(format!("{} scales for {} filters", sw.len(), s.outputs).into());
        }
        let factor = |i: usize| sx * sw[if sw.len() == 1 { 0 } else { i / plane % s.outputs }] / sy;
        let data = requantised(&sums, factor, inputs.tensor(7)?)?;
        one(Tensor::with(s.shape, data))
    }
}

fn conv(a: &Attributes<'_, '_>, quantised: bool) -> Result<Box<dyn Operator>, Error> {
    let group = crate::shape::size(a.int_or("group", 1)?)?;
    Ok(Box::new(ConvInteger { window: Window::read(a)?, group, quantised }))
}

pub(crate) fn conv_integer(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    conv(a, false)
}

pub(crate) fn qlinear_conv(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    conv(a, true)
}

/// Functions of quantised values (onnxruntime's): computed as floats between dequantisation and quantisation.
#[derive(Debug)]
enum QLinear {
    Add,
    Mul,
    Sigmoid,
    LeakyRelu(f32),
    GlobalAveragePool,
}

impl Operator for QLinear {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        use crate::ops::binary::{Arithmetic, combine};
        use crate::ops::unary::Function;
        let real = |x: usize| -> Result<Tensor, Error> {
            let (q, scale) = (inputs.tensor(x)?, scalar(inputs.tensor(x + 1)?)?);
            let zero = inputs
                .optional(x + 2)?
                .map(widened)
                .transpose()?
                .and_then(|z| z.first().copied())
                .unwrap_or(0);
            Ok(Tensor::of(q.shape(), widened(q)?.into_iter().map(|v| (v - zero) as f32 * scale).collect()))
        };
        let (mut y, at) = match self {
            QLinear::Add => (combine(ctx, Arithmetic::Add, real(0)?, real(3)?)?, 6),
            QLinear::Mul => (combine(ctx, Arithmetic::Mul, real(0)?, real(3)?)?, 6),
            _ => (real(0)?, 3),
        };
        if let QLinear::GlobalAveragePool = self {
            let n = product(y.shape().get(2..).unwrap_or_default()).max(1);
            let shape: Shape =
                y.shape().iter().enumerate().map(|(i, n)| if i < 2 { *n } else { 1 }).collect();
            let means = y
                .f32s()?
                .chunks_exact(n)
                .map(|row| row.iter().map(|v| f64::from(*v)).sum::<f64>() as f32 / n as f32);
            y = Tensor::of(shape, means.collect());
        }
        let function = match self {
            QLinear::Sigmoid => Some(Function::Sigmoid),
            QLinear::LeakyRelu(alpha) => Some(Function::LeakyRelu(*alpha)),
            _ => None,
        };
        if let (Some(function), Data::F32(v)) = (function, y.data_mut()) {
            function.apply(ctx, v.make_mut());
        }
        let (scale, zero) = (scalar(inputs.tensor(at)?)?, inputs.optional(at + 1)?);
        let ty = zero.map_or(inputs.tensor(0)?.ty(), Tensor::ty);
        let zero = zero.map(Tensor::to_f32).transpose()?.and_then(|z| z.first().copied()).unwrap_or(0.0);
        let limits = bounds(ty)?;
        let data = packed(y.f32s()?.iter().map(|v| quantised(*v, scale, zero, limits)), ty)?;
        one(Tensor::with(y.shape(), data))
    }
}

pub(crate) fn qlinear_add(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(QLinear::Add))
}

pub(crate) fn qlinear_mul(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(QLinear::Mul))
}

pub(crate) fn qlinear_sigmoid(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(QLinear::Sigmoid))
}

pub(crate) fn qlinear_leaky_relu(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(QLinear::LeakyRelu(a.float_or("alpha", 0.01)?)))
}

pub(crate) fn qlinear_global_average(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    if a.int_or("channels_last", 0)? != 0 {
        return Err("channels last are not supported".into());
    }
    Ok(Box::new(QLinear::GlobalAveragePool))
}

/// Products of quantised matrices that become floats (onnxruntime's): `a` quantised already, or while it runs.
#[derive(Debug)]
struct ToFloat {
    dynamic: bool,
}

impl Operator for ToFloat {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (x, sa, at) = if self.dynamic {
            let (bytes, scale, zero) = dynamic(a.f32s()?);
            let x: Vec<i32> = bytes.into_iter().map(|v| i32::from(v) - i32::from(zero)).collect();
            (x, scale, 2)
        } else {
            (centred(a, inputs.optional(4)?, 2)?, scalar(inputs.tensor(2)?)?, 3)
        };
        let sb = inputs.tensor(at)?.to_f32()?;
        let (at_zero, at_bias) = if self.dynamic { (3, 4) } else { (5, 6) };
        let w = centred(b, inputs.optional(at_zero)?, 1)?;
        let (shape, sums) = vectors(ctx, (&x, a.shape()), (&w, b.shape()))?;
        let n = shape.last().copied().unwrap_or(1).max(1);
        if sb.len() != 1 && sb.len() != n {
            return Err(format!("{} scales for {n} columns", sb.len()).into());
        }
        let bias = inputs.optional_values::<f32>(at_bias)?;
        if bias.is_some_and(|bias| bias.len() != n) {
            return Err(format!("a bias for {n} columns has another length").into());
        }
        let value = |(i, s): (usize, &i32)| {
            let y = *s as f32 * (sa * sb[if sb.len() == 1 { 0 } else { i % n }]);
            y + bias.map_or(0.0, |bias| bias[i % n])
        };
        one(Tensor::of(shape, sums.iter().enumerate().map(value).collect()))
    }
}

pub(crate) fn matmul_integer_to_float(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(ToFloat { dynamic: false }))
}

pub(crate) fn dynamic_quantize_matmul(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(ToFloat { dynamic: true }))
}

/// Product of quantised matrices with a bias (onnxruntime's QGemm).
#[derive(Debug)]
struct QGemm {
    alpha: f32,
    turned: [bool; 2],
}

impl Operator for QGemm {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let matrix = |i: usize, turned: bool| -> Result<Tensor, Error> {
            let x = inputs.tensor(i)?;
            if x.rank() != 2 {
                return Err(
                    format!("input {i} has shape {:?} where two dimensions should be", x.shape()).into()
                );
            }
            Ok(if turned { crate::ops::layout::transposed(x, &[1, 0]) } else { x.clone() })
        };
        let (a, b) = (matrix(0, self.turned[0])?, matrix(3, self.turned[1])?);
        let (x, w) = (centred(&a, inputs.optional(2)?, 2)?, centred(&b, inputs.optional(5)?, 1)?);
        let (shape, mut sums) = integer_product(ctx, (&x, a.shape()), (&w, b.shape()))?;
        let n = shape[1].max(1);
        if let Some(bias) = inputs.optional_values::<i32>(6)? {
            if bias.len() != n {
                return Err(format!("a bias for {n} columns has another length").into());
            }
            sums.iter_mut().enumerate().for_each(|(i, v)| *v = v.wrapping_add(bias[i % n]));
        }
        let (sa, sb) = (scalar(inputs.tensor(1)?)?, inputs.tensor(4)?.to_f32()?);
        if sb.len() != 1 && sb.len() != n {
            return Err(format!("{} scales for {n} columns", sb.len()).into());
        }
        let factor = |i: usize| self.alpha * sa * sb[if sb.len() == 1 { 0 } else { i % n }];
        if !inputs.has(7) {
            return one(Tensor::of(
                shape,
                sums.iter().enumerate().map(|(i, s)| *s as f32 * factor(i)).collect(),
            ));
        }
        let sy = scalar(inputs.tensor(7)?)?;
        let data = requantised(&sums, |i| factor(i) / sy, inputs.tensor(8)?)?;
        one(Tensor::with(shape, data))
    }
}

pub(crate) fn qgemm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let turned = [a.flag("transA", false)?, a.flag("transB", false)?];
    Ok(Box::new(QGemm { alpha: a.float_or("alpha", 1.0)?, turned }))
}
