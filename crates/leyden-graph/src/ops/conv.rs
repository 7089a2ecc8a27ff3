//! Convolutions and their transposes, in any number of spatial dimensions, for shapes `[batch, channels, ...]`.
//!
//! A convolution is a product of the filters, `[out, in * window]`, with the windows, whose columns are gathered while
//! they are multiplied. One channel for each filter (depthwise) has loops of its own.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::unary::Function;
use crate::ops::window::{Placed, Spatial, Window};
use crate::shape::{Shape, product};
use crate::tensor::{Data, ElementType, Tensor};
use leyden_kernels::Tier;
use leyden_kernels::gemm::{COLUMNS, DenseEpilogue, DenseMatrix, DenseRows, Panels, dense_multiply};
use leyden_kernels::ops::add_scaled;
use std::ops::Range;

/// A convolution with what follows it.
#[derive(Debug)]
pub(crate) struct Conv {
    pub(crate) window: Window,
    pub(crate) group: usize,
    /// Function of the results, filled by fusion.
    pub(crate) activation: Option<Function>,
}

/// The windows of one image and group as the right matrix of a product: a row for each channel and position of the
/// window, a column for each position of the output.
pub(crate) struct Windows<'a> {
    pub(crate) x: &'a [f32],
    /// Sizes of the spatial dimensions, at most three, with ones before the first.
    pub(crate) input: [usize; 3],
    pub(crate) kernel: [usize; 3],
    pub(crate) strides: [usize; 3],
    pub(crate) dilations: [usize; 3],
    pub(crate) before: [usize; 3],
    pub(crate) output: [usize; 3],
}

/// Returns three sizes, the given ones last.
pub(crate) fn three(sizes: &[usize], before: usize) -> [usize; 3] {
    let mut all = [before; 3];
    all[3 - sizes.len()..].copy_from_slice(sizes);
    all
}

impl<'a> Windows<'a> {
    pub(crate) fn new(x: &'a [f32], input: &[usize], placed: &Placed) -> Windows<'a> {
        Windows {
            x,
            input: three(input, 1),
            kernel: three(&placed.kernel, 1),
            strides: three(&placed.strides, 1),
            dilations: three(&placed.dilations, 1),
            before: three(&placed.before, 0),
            output: three(&placed.output, 1),
        }
    }
}

impl Panels for Windows<'_> {
    fn panel<'p>(&'p self, p: usize, k: Range<usize>, scratch: &'p mut [f32]) -> &'p [f32] {
        let [_, oh, ow] = self.output;
        let columns: usize = self.output.iter().product();
        let first = p * COLUMNS;
        let count = COLUMNS.min(columns - first);
        // Runs of columns in one row of the output.
        let mut runs = [(0_usize, 0_usize, 0_usize, 0_usize, 0_usize); COLUMNS];
        let mut n_runs = 0;
        let mut at = 0;
        while at < count {
            let column = first + at;
            let (d, h, w) = (column / (oh * ow), column / ow % oh, column % ow);
            let len = (ow - w).min(count - at);
            runs[n_runs] = (at, len, d, h, w);
            n_runs += 1;
            at += len;
        }
        let [kd, kh, kw] = self.kernel;
        let [id, ih, iw] = self.input;
        let window = kd * kh * kw;
        let (mut channel, at) = (k.start / window, k.start % window);
        let (mut z, mut y, mut x) = (at / (kh * kw), at / kw % kh, at % kw);
        let stride = self.strides[2];
        let place = |o: usize, k: usize, dim: usize| {
            (o * self.strides[dim] + k * self.dilations[dim]).wrapping_sub(self.before[dim])
        };
        for out in scratch.as_chunks_mut::<COLUMNS>().0.iter_mut().take(k.len()) {
            let image = &self.x[channel * id * ih * iw..][..id * ih * iw];
            out[count..].fill(0.0);
            for &(to, len, d, h, w) in &runs[..n_runs] {
                let (z, y) = (place(d, z, 0), place(h, y, 1));
                let start = (w * stride + x * self.dilations[2]) as isize - self.before[2] as isize;
                if z >= id || y >= ih {
                    out[to..to + len].fill(0.0);
                    continue;
                }
                let line = &image[(z * ih + y) * iw..][..iw];
                if stride == 1 && start >= 0 && start as usize + len <= iw {
                    let from = &line[start as usize..start as usize + len];
                    match <&[f32; COLUMNS]>::try_from(from) {
                        Ok(from) => *out = *from,
                        Err(_) => out[to..to + len].iter_mut().zip(from).for_each(|(o, v)| *o = *v),
                    }
                    continue;
                }
                for (i, out) in out[to..to + len].iter_mut().enumerate() {
                    let at = start + (i * stride) as isize;
                    *out = if at >= 0 { line.get(at as usize).copied().unwrap_or(0.0) } else { 0.0 };
                }
            }
            x += 1;
            if x == kw {
                (x, y) = (0, y + 1);
                if y == kh {
                    (y, z) = (0, z + 1);
                    if z == kd {
                        (z, channel) = (0, channel + 1);
                    }
                }
            }
        }
        scratch
    }
}

/// Sizes of a convolution, checked.
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    pub(crate) outputs: usize,
    pub(crate) input: Spatial,
    pub(crate) placed: Placed,
    pub(crate) shape: Shape,
}

/// Checks input and filters `[out, in / group, window...]`.
pub(crate) fn sizes(
    ctx: &Context<'_>,
    window: &Window,
    group: usize,
    x: &[usize],
    w: &[usize],
) -> Result<Sizes, Error> {
    let unlike =
        || Error::invalid(format!("filters of shape {w:?} and {group} groups do not fit shape {x:?}"));
    if x.len() < 3 || x.len() > 5 || w.len() != x.len() || group == 0 {
        return Err(unlike());
    }
    let (batch, channels, outputs) = (x[0], x[1], w[0]);
    if w[1].checked_mul(group) != Some(channels) || outputs % group != 0 {
        return Err(unlike());
    }
    if window.kernel.as_ref().is_some_and(|k| k.as_slice() != &w[2..]) {
        return Err(unlike());
    }
    let placed = window.place(&x[2..], &w[2..])?;
    let shape: Shape = [batch, outputs].into_iter().chain(placed.output.iter().copied()).collect();
    ctx.elements(&shape, 4)?;
    ctx.elements(x, 4)?;
    Ok(Sizes { batch, channels, outputs, input: Spatial::from_slice(&x[2..]), placed, shape })
}

/// Computes one channel of a depthwise convolution.
fn depthwise(tier: Tier, x: &[f32], w: &[f32], s: &Windows<'_>, out: &mut [f32]) {
    let [_, ih, iw] = s.input;
    let [od, oh, ow] = s.output;
    let [kd, kh, kw] = s.kernel;
    let inside = |dim: usize, k: usize| {
        let shift = k * s.dilations[dim];
        let first = s.before[dim].saturating_sub(shift).div_ceil(s.strides[dim]);
        let end = (s.input[dim] + s.before[dim]).saturating_sub(shift).div_ceil(s.strides[dim]);
        let end = end.min(s.output[dim]);
        first.min(end)..end
    };
    let mut strided = Vec::with_capacity(ow);
    for d in 0..od {
        for h in 0..oh {
            let line = &mut out[(d * oh + h) * ow..][..ow];
            for z in 0..kd {
                if !inside(0, z).contains(&d) {
                    continue;
                }
                for y in 0..kh {
                    if !inside(1, y).contains(&h) {
                        continue;
                    }
                    let iz = d * s.strides[0] + z * s.dilations[0] - s.before[0];
                    let iy = h * s.strides[1] + y * s.dilations[1] - s.before[1];
                    let row = &x[(iz * ih + iy) * iw..][..iw];
                    for k in 0..kw {
                        let weight = w[(z * kh + y) * kw + k];
                        let range = inside(2, k);
                        if range.is_empty() {
                            continue;
                        }
                        let from = range.start * s.strides[2] + k * s.dilations[2] - s.before[2];
                        let out = &mut line[range];
                        if s.strides[2] == 1 {
                            add_scaled(tier, weight, &row[from..from + out.len()], out);
                        } else {
                            let row = row[from..].iter().step_by(s.strides[2]).take(out.len());
                            strided.clear();
                            strided.extend(row);
                            add_scaled(tier, weight, &strided, out);
                        }
                    }
                }
            }
        }
    }
}

/// Computes a convolution of 32-bit floats.
pub(crate) fn conv(
    ctx: &Context<'_>,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    s: &Sizes,
    group: usize,
    activation: Option<Function>,
) -> Result<Vec<f32>, Error> {
    let mut out = ctx.zeros::<f32>(&s.shape)?;
    let (positions, image) = (product(&s.placed.output), product(&s.input));
    if out.is_empty() {
        return Ok(out);
    }
    if bias.is_some_and(|b| b.len() != s.outputs) {
        return Err(
            format!("a bias of {} values for {} filters", bias.map_or(0, <[f32]>::len), s.outputs).into()
        );
    }
    let (inputs, outputs) = (s.channels / group, s.outputs / group);
    let k = inputs * product(&s.placed.kernel);
    if inputs == 1 && outputs <= 2 {
        ctx.cpu.for_blocks(&mut out, positions, (8192 / positions).max(1), |first, rows| {
            for (i, out) in rows.chunks_exact_mut(positions).enumerate() {
                let (b, o) = ((first + i) / s.outputs, (first + i) % s.outputs);
                let channel = o / outputs;
                let x = &x[(b * s.channels + channel) * image..][..image];
                let windows = Windows::new(x, &s.input, &s.placed);
                depthwise(ctx.cpu.tier(), x, &w[o * k..(o + 1) * k], &windows, out);
                if let Some(bias) = bias {
                    out.iter_mut().for_each(|v| *v += bias[o]);
                }
            }
        });
    } else {
        let bounds = match activation {
            Some(Function::Relu) => Some([0.0, f32::INFINITY]),
            Some(Function::Clip(low, high)) => Some([low, high]),
            _ => None,
        };
        let plain = s.placed.kernel.iter().chain(&s.placed.strides).all(|n| *n == 1)
            && s.placed.before.iter().chain(&s.placed.after).all(|n| *n == 0);
        for b in 0..s.batch {
            for g in 0..group {
                let first = b * s.outputs + g * outputs;
                let x = &x[(b * s.channels + g * inputs) * image..][..inputs * image];
                let rows =
                    DenseRows { values: &w[g * outputs * k..][..outputs * k], m: outputs, k, stride: k };
                let epilogue = DenseEpilogue {
                    row_bias: bias.map(|bias| &bias[g * outputs..(g + 1) * outputs]),
                    column_bias: None,
                    bounds,
                };
                let out = &mut out[first * positions..(first + outputs) * positions];
                if plain {
                    let b = DenseMatrix { values: x, n: positions, strides: [positions, 1] };
                    dense_multiply(ctx.cpu, rows, &b, positions, (out, positions), epilogue);
                } else {
                    let windows = Windows::new(x, &s.input, &s.placed);
                    dense_multiply(ctx.cpu, rows, &windows, positions, (out, positions), epilogue);
                }
            }
        }
        if bounds.is_some() {
            return Ok(out);
        }
    }
    if let Some(function) = activation {
        function.apply(ctx, &mut out);
    }
    Ok(out)
}

impl Operator for Conv {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, w) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let s = sizes(ctx, &self.window, self.group, x.shape(), w.shape())?;
        if let Data::F64(_) = x.data() {
            let floats = |t: &Tensor| t.to_f32();
            let bias = inputs.optional(2)?.map(floats).transpose()?;
            let out = conv(ctx, &floats(x)?, &floats(w)?, bias.as_deref(), &s, self.group, self.activation)?;
            return one(crate::ops::cast::cast(Tensor::of(s.shape, out), ElementType::F64)?);
        }
        let (x, w, bias) = (inputs.values(0)?, inputs.values(1)?, inputs.optional_values(2)?);
        let out = conv(ctx, x, w, bias, &s, self.group, self.activation)?;
        one(Tensor::of(s.shape, out))
    }
}

pub(crate) fn conv_op(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let group = crate::shape::size(a.int_or("group", 1)?)?;
    Ok(Box::new(Conv { window: Window::read(a)?, group, activation: None }))
}

/// A transposed convolution.
#[derive(Debug)]
struct ConvTranspose {
    window: Window,
    group: usize,
    output_padding: Option<Vec<usize>>,
    output_shape: Option<Vec<usize>>,
}

impl ConvTranspose {
    /// Returns the widths cut off before each dimension, and the output's sizes.
    fn output(
        &self,
        input: &[usize],
        kernel: &[usize],
    ) -> Result<(Spatial, Spatial, Spatial, Spatial), Error> {
        use crate::ops::window::AutoPad;
        let n = input.len();
        let or = |v: &Option<Spatial>| v.clone().unwrap_or_else(|| Spatial::from_elem(1, n));
        let (strides, dilations) = (or(&self.window.strides), or(&self.window.dilations));
        let pads = self.window.pads.clone().unwrap_or_else(|| vec![0; 2 * n]);
        let extra = self.output_padding.clone().unwrap_or_else(|| vec![0; n]);
        let wanted = self.output_shape.as_ref().map(|s| s[s.len().saturating_sub(n)..].to_vec());
        let lengths = [strides.len(), dilations.len(), pads.len() / 2, extra.len(), kernel.len()];
        if lengths.iter().any(|l| *l != n) || wanted.as_ref().is_some_and(|w| w.len() != n) {
            return Err(format!("attributes do not fit {n} spatial dimensions").into());
        }
        let (mut before, mut output) = (Spatial::new(), Spatial::new());
        for d in 0..n {
            let reach = (kernel[d].max(1) - 1).saturating_mul(dilations[d]).saturating_add(1);
            let full = (input[d].max(1) - 1)
                .checked_mul(strides[d])
                .and_then(|n| n.checked_add(reach)?.checked_add(extra[d]))
                .filter(|n| *n < 1 << 40);
            let full = full.ok_or("the result is too large")? as i64;
            let (cut, size) = match (&wanted, self.window.auto) {
                (Some(wanted), auto) => {
                    let all = (full - wanted[d] as i64).max(0);
                    let cut = if auto == AutoPad::Upper { all / 2 } else { all - all / 2 };
                    (cut, wanted[d] as i64)
                }
                (None, AutoPad::Upper | AutoPad::Lower) => {
                    let size = (input[d] * strides[d]) as i64;
                    let all = (full - size).max(0);
                    (if self.window.auto == AutoPad::Upper { all / 2 } else { all - all / 2 }, size)
                }
                (None, AutoPad::Valid) => (0, full),
                (None, AutoPad::No) => (pads[d], full.saturating_sub(pads[d]).saturating_sub(pads[n + d])),
            };
            before.push(crate::shape::size(cut)?);
            output.push(crate::shape::size(size)?);
        }
        Ok((strides, dilations, before, output))
    }
}

impl Operator for ConvTranspose {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, w) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (xs, ws, group) = (x.shape(), w.shape(), self.group);
        let fits = (3..=5).contains(&xs.len()) && ws.len() == xs.len() && group > 0 && ws[0] == xs[1];
        if !fits
            || xs[1] % group != 0
            || self.window.kernel.as_ref().is_some_and(|k| k.as_slice() != &ws[2..])
        {
            return Err(format!("filters of shape {ws:?} and {group} groups do not fit shape {xs:?}").into());
        }
        let (strides, dilations, before, output) = self.output(&xs[2..], &ws[2..])?;
        let (outputs, channels) = (ws[1] * group, xs[1]);
        let shape: Shape = [xs[0], outputs].into_iter().chain(output.iter().copied()).collect();
        let mut out = ctx.zeros::<f32>(&shape)?;
        let (x, w, bias) =
            (inputs.values::<f32>(0)?, inputs.values::<f32>(1)?, inputs.optional_values::<f32>(2)?);
        if bias.is_some_and(|b| b.len() != outputs) {
            return Err(format!("a bias for {outputs} filters has another length").into());
        }
        let [image, window, plane] = [product(&xs[2..]), product(&ws[2..]), product(&output)];
        let (m, per_group) = (ws[1] * window, channels / group);
        if image == 0 || plane == 0 || per_group == 0 {
            if let Some(bias) = bias {
                out.chunks_exact_mut(plane.max(1)).enumerate().for_each(|(i, v)| v.fill(bias[i % outputs]));
            }
            return one(Tensor::of(shape, out));
        }
        // Columns of all windows, `[out * window, positions]`, then added to their places.
        ctx.elements(&[m, image], 4)?;
        let mut columns = vec![0.0; m * image];
        let s = Scatter {
            input: three(&xs[2..], 1),
            kernel: three(&ws[2..], 1),
            strides: three(&strides, 1),
            dilations: three(&dilations, 1),
            before: three(&before, 0),
            output: three(&output, 1),
        };
        let mut turned = vec![0.0; m * per_group];
        for b in 0..xs[0] {
            for g in 0..group {
                let filters = &w[g * per_group * m..(g + 1) * per_group * m];
                for i in 0..per_group {
                    for j in 0..m {
                        turned[j * per_group + i] = filters[i * m + j];
                    }
                }
                let x = &x[(b * channels + g * per_group) * image..][..per_group * image];
                let rows = DenseRows { values: &turned, m, k: per_group, stride: per_group };
                let right = DenseMatrix { values: x, n: image, strides: [image, 1] };
                dense_multiply(ctx.cpu, rows, &right, image, (&mut columns, image), DenseEpilogue::default());
                let first = b * outputs + g * ws[1];
                let out = &mut out[first * plane..(first + ws[1]) * plane];
                let columns = &columns;
                ctx.cpu.for_blocks(out, plane, 1, |o, out| {
                    s.add(&columns[o * window * image..(o + 1) * window * image], out);
                    if let Some(bias) = bias {
                        out.iter_mut().for_each(|v| *v += bias[g * ws[1] + o]);
                    }
                });
            }
        }
        one(Tensor::of(shape, out))
    }
}

/// Geometry of the transpose.
struct Scatter {
    input: [usize; 3],
    kernel: [usize; 3],
    strides: [usize; 3],
    dilations: [usize; 3],
    before: [usize; 3],
    output: [usize; 3],
}

impl Scatter {
    /// Adds columns `[window, positions]` of one filter to its plane.
    fn add(&self, columns: &[f32], out: &mut [f32]) {
        let ([id, ih, iw], [kd, kh, kw], [_, oh, ow]) = (self.input, self.kernel, self.output);
        let place = |i: usize, k: usize, d: usize| {
            let at = (i * self.strides[d] + k * self.dilations[d]).wrapping_sub(self.before[d]);
            (at < self.output[d]).then_some(at)
        };
        let image = id * ih * iw;
        for (k, column) in columns.chunks_exact(image).enumerate() {
            let (z, y, x) = (k / (kh * kw), k / kw % kh, k % kw);
            debug_assert!(z < kd, "position of the window");
            for d in 0..id {
                let Some(oz) = place(d, z, 0) else { continue };
                for h in 0..ih {
                    let Some(oy) = place(h, y, 1) else { continue };
                    let row = &column[(d * ih + h) * iw..][..iw];
                    let line = &mut out[(oz * oh + oy) * ow..][..ow];
                    for (w, value) in row.iter().enumerate() {
                        if let Some(ox) = place(w, x, 2) {
                            line[ox] += value;
                        }
                    }
                }
            }
        }
    }
}

pub(crate) fn conv_transpose(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(ConvTranspose {
        window: Window::read(a)?,
        group: crate::shape::size(a.int_or("group", 1)?)?,
        output_padding: a.sizes("output_padding")?,
        output_shape: a.sizes("output_shape")?,
    }))
}
