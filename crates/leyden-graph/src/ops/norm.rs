//! Normalisations: batch, layer, instance, group, RMS, local response, Lp.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::elementwise::Joined;
use crate::ops::reduce::sum_lanes;
use crate::shape::{Shape, axis, broadcast_strides, product};
use crate::tensor::{Data, Tensor};

/// Returns the tensor as 32-bit floats.
fn floats(x: Tensor) -> Result<Tensor, Error> {
    match x.data() {
        Data::F32(_) => Ok(x),
        Data::F64(_) => Ok(Tensor::of(x.shape(), x.to_f32()?)),
        other => Err(format!("does not take values of type {}", other.ty().name()).into()),
    }
}

/// Per-channel affine function in use of training's statistics.
#[derive(Debug)]
pub(crate) struct BatchNorm {
    pub(crate) epsilon: f32,
}

impl BatchNorm {
    /// Returns factor and offset of each channel.
    pub(crate) fn affine(&self, scale: &[f32], bias: &[f32], mean: &[f32], var: &[f32]) -> Vec<(f32, f32)> {
        let one = |i: usize| {
            let factor = f64::from(scale[i]) / (f64::from(var[i]) + f64::from(self.epsilon)).sqrt();
            (factor as f32, (f64::from(bias[i]) - f64::from(mean[i]) * factor) as f32)
        };
        (0..scale.len()).map(one).collect()
    }
}

impl Operator for BatchNorm {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.take(0)?;
        let double = matches!(x.data(), Data::F64(_));
        let mut x = floats(x)?;
        let own = (1..5).map(|i| inputs.tensor(i)?.to_f32()).collect::<Result<Vec<_>, _>>()?;
        let channels = if x.rank() > 1 { x.shape()[1] } else { 1 };
        if own.iter().any(|v| v.len() != channels) {
            return Err(format!("parameters do not fit {channels} channels").into());
        }
        let affine = self.affine(&own[0], &own[1], &own[2], &own[3]);
        let inner = product(x.shape().get(2..).unwrap_or_default());
        if let Data::F32(v) = x.data_mut()
            && inner > 0
        {
            ctx.cpu.for_blocks(v.make_mut(), inner, (8192 / inner).max(1), |first, rows| {
                for (i, row) in rows.chunks_exact_mut(inner).enumerate() {
                    let (factor, offset) = affine[(first + i) % channels];
                    row.iter_mut().for_each(|v| *v = *v * factor + offset);
                }
            });
        }
        one(if double { crate::ops::cast::cast(x, crate::tensor::ElementType::F64)? } else { x })
    }
}

pub(crate) fn batch_norm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["momentum", "consumed_inputs"]);
    if a.flag("training_mode", false)? || a.opset < 7 && a.int_or("is_test", 0)? == 0 && a.n_outputs() > 1 {
        return Err("training mode is not supported".into());
    }
    if a.int_or("spatial", 1)? != 1 {
        return Err("attribute `spatial` is 0, which is not supported".into());
    }
    a.ignore(&["is_test"]);
    Ok(Box::new(BatchNorm { epsilon: a.float_or("epsilon", 1e-5)? }))
}

/// Layer normalisation and its variant without a mean. The parameters may have any shape that broadcasts.
#[derive(Debug)]
pub(crate) struct LayerNorm {
    pub(crate) axis: i64,
    pub(crate) epsilon: f32,
    pub(crate) rms: bool,
}

/// Normalises a row; returns mean and inverse deviation.
pub(crate) fn normalise(row: &mut [f32], epsilon: f32, rms: bool) -> (f32, f32) {
    let n = row.len() as f32;
    let mean = if rms { 0.0 } else { sum_lanes(row, |v| v) / n };
    let variance = sum_lanes(row, |v| (v - mean) * (v - mean)) / n;
    let inverse = 1.0 / (variance + epsilon).sqrt();
    row.iter_mut().for_each(|v| *v = (*v - mean) * inverse);
    (mean, inverse)
}

impl LayerNorm {
    /// Normalises rows of `width` values, then multiplies and adds the parameters.
    pub(crate) fn apply(
        &self,
        ctx: &Context<'_>,
        x: &mut Tensor,
        scale: Option<&Tensor>,
        bias: Option<&Tensor>,
    ) -> Result<(Shape, Vec<f32>, Vec<f32>), Error> {
        let at = axis(self.axis, x.rank())?;
        let shape = Shape::from_slice(x.shape());
        let width = product(&shape[at..]);
        let mut kept: Shape = shape.clone();
        kept[at..].fill(1);
        // Parameters of one row, or of the whole tensor where they differ between rows.
        let whole = |p: Option<&Tensor>| -> Result<Option<(Vec<f32>, bool)>, Error> {
            let Some(p) = p else { return Ok(None) };
            let values = p.to_f32()?;
            if p.shape() == &shape[at..] || p.len() == width && p.rank() == shape.len() - at {
                return Ok(Some((values, false)));
            }
            if p.rank() > shape.len() || crate::shape::broadcast(p.shape(), &shape)? != shape {
                return Err(format!("parameters of shape {:?} do not fit shape {shape:?}", p.shape()).into());
            }
            let steps = broadcast_strides(p.shape(), &shape);
            let mut all = Vec::with_capacity(product(&shape));
            crate::shape::for_offsets(&shape, [&steps], |[i]| all.push(values[i]));
            Ok(Some((all, true)))
        };
        let (scale, bias) = (whole(scale)?, whole(bias)?);
        let rows = product(&shape[..at]);
        let mut stats = vec![(0.0, 0.0); rows];
        if let (Data::F32(v), true) = (x.data_mut(), width > 0) {
            // Rows are independent; statistics are few, so they are computed again if they are asked for.
            let v = v.make_mut();
            for (row, stats) in v.chunks_exact(width).zip(&mut stats) {
                let n = width as f32;
                let mean = if self.rms { 0.0 } else { sum_lanes(row, |v| v) / n };
                let variance = sum_lanes(row, |v| (v - mean) * (v - mean)) / n;
                *stats = (mean, 1.0 / (variance + self.epsilon).sqrt());
            }
            let part = |p: &Option<(Vec<f32>, bool)>, row: usize, i: usize, default: f32| match p {
                None => default,
                Some((values, false)) => values[i],
                Some((values, true)) => values[row * width + i],
            };
            ctx.cpu.for_blocks(v, width, (8192 / width).max(1), |first, rows| {
                for (r, row) in rows.chunks_exact_mut(width).enumerate() {
                    let (mean, inverse) = stats[first + r];
                    match (&scale, &bias) {
                        (Some((scale, false)), Some((bias, false))) => {
                            for ((v, s), b) in row.iter_mut().zip(scale).zip(bias) {
                                *v = (*v - mean) * inverse * s + b;
                            }
                        }
                        _ => {
                            for (i, v) in row.iter_mut().enumerate() {
                                let s = part(&scale, first + r, i, 1.0);
                                *v = (*v - mean) * inverse * s + part(&bias, first + r, i, 0.0);
                            }
                        }
                    }
                }
            });
        }
        Ok((kept, stats.iter().map(|s| s.0).collect(), stats.iter().map(|s| s.1).collect()))
    }
}

impl Operator for LayerNorm {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.take(0)?;
        let double = matches!(x.data(), Data::F64(_));
        let mut x = floats(x)?;
        let (kept, mean, inverse) = self.apply(ctx, &mut x, inputs.optional(1)?, inputs.optional(2)?)?;
        if double {
            return one(crate::ops::cast::cast(x, crate::tensor::ElementType::F64)?);
        }
        let stats = if self.rms { vec![inverse] } else { vec![mean, inverse] };
        let mut all: Outputs = Outputs::new();
        all.push(x.into());
        all.extend(stats.into_iter().map(|s| Tensor::of(kept.clone(), s).into()));
        Ok(all)
    }
}

pub(crate) fn layer_norm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["stash_type"]);
    Ok(Box::new(LayerNorm { axis: a.int_or("axis", -1)?, epsilon: a.float_or("epsilon", 1e-5)?, rms: false }))
}

pub(crate) fn rms_norm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["stash_type"]);
    Ok(Box::new(LayerNorm { axis: a.int_or("axis", -1)?, epsilon: a.float_or("epsilon", 1e-5)?, rms: true }))
}

/// Layer normalisation of the sum of inputs (onnxruntime's).
#[derive(Debug)]
pub(crate) struct SkipLayerNorm(pub(crate) LayerNorm);

impl Operator for SkipLayerNorm {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        use crate::ops::binary::{Arithmetic, combine};
        let mut x = combine(ctx, Arithmetic::Add, inputs.take(0)?, inputs.take(1)?)?;
        let at_bias = if self.0.rms { 3 } else { 4 };
        if inputs.has(at_bias) {
            x = combine(ctx, Arithmetic::Add, x, inputs.take(at_bias)?)?;
        }
        let sum = x.clone();
        let beta = if self.0.rms { None } else { inputs.optional(3)? };
        let (kept, mean, inverse) = self.0.apply(ctx, &mut x, inputs.optional(2)?, beta)?;
        let stats = [Tensor::of(kept.clone(), mean), Tensor::of(kept, inverse)];
        Ok(std::iter::once(x).chain(stats).chain([sum]).map(Into::into).collect())
    }
}

pub(crate) fn skip_layer_norm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(SkipLayerNorm(LayerNorm { axis: -1, epsilon: a.float_or("epsilon", 1e-12)?, rms: false })))
}

pub(crate) fn skip_rms_norm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(SkipLayerNorm(LayerNorm { axis: -1, epsilon: a.float_or("epsilon", 1e-5)?, rms: true })))
}

/// Normalisation of each channel, or group of channels, of each example.
#[derive(Debug)]
struct GroupNorm {
    /// Number of groups; one for each channel if it is zero.
    groups: usize,
    epsilon: f32,
    /// Parameters are those of groups, as in versions before 21.
    per_group: bool,
}

impl Operator for GroupNorm {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut x = floats(inputs.take(0)?)?;
        let (scale, bias) = (inputs.tensor(1)?.to_f32()?, inputs.tensor(2)?.to_f32()?);
        let &[_, channels, ..] = x.shape() else {
            return Err(format!("input 0 has shape {:?} where channels should be", x.shape()).into());
        };
        let groups = if self.groups == 0 { channels } else { self.groups };
        let wanted = if self.per_group { groups } else { channels };
        if channels % groups.max(1) != 0 || groups == 0 || scale.len() != wanted || bias.len() != wanted {
            return Err(
                format!("{groups} groups and {} parameters for {channels} channels", scale.len()).into()
            );
        }
        let inner = product(&x.shape()[2..]);
        let (each, width) = (channels / groups, channels / groups * inner);
        if let (Data::F32(v), true) = (x.data_mut(), width > 0) {
            ctx.cpu.for_blocks(v.make_mut(), width, 1, |first, row| {
                normalise(row, self.epsilon, false);
                let group = first % groups;
                for (c, row) in row.chunks_exact_mut(inner).enumerate() {
                    let at = if self.per_group { group } else { group * each + c };
                    row.iter_mut().for_each(|v| *v = *v * scale[at] + bias[at]);
                }
            });
        }
        one(x)
    }
}

pub(crate) fn instance_norm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["consumed_inputs"]);
    Ok(Box::new(GroupNorm { groups: 0, epsilon: a.float_or("epsilon", 1e-5)?, per_group: false }))
}

pub(crate) fn group_norm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["stash_type"]);
    let groups = crate::shape::size(a.int("num_groups")?.ok_or("attribute `num_groups` is missing")?)?;
    let per_group = a.opset < 21;
    Ok(Box::new(GroupNorm { groups: groups.max(1), epsilon: a.float_or("epsilon", 1e-5)?, per_group }))
}

/// Division by the norm along a dimension.
#[derive(Debug)]
struct LpNorm {
    axis: i64,
    p: i64,
}

impl Operator for LpNorm {
    fn run(&self, _ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut x = floats(inputs.take(0)?)?;
        let at = axis(self.axis, x.rank())?;
        let [outer, n, inner] = [product(&x.shape()[..at]), x.shape()[at], product(&x.shape()[at + 1..])];
        if let Data::F32(v) = x.data_mut() {
            let v = v.make_mut();
            for o in 0..outer {
                for i in 0..inner {
                    let place = |j: usize| (o * n + j) * inner + i;
                    let sum: f32 = match self.p {
                        1 => (0..n).map(|j| v[place(j)].abs()).sum(),
                        _ => (0..n).map(|j| v[place(j)] * v[place(j)]).sum::<f32>().sqrt(),
                    };
                    (0..n).for_each(|j| v[place(j)] = if sum == 0.0 { 0.0 } else { v[place(j)] / sum });
                }
            }
        }
        one(x)
    }
}

pub(crate) fn lp_norm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let p = a.int_or("p", 2)?;
    if p != 1 && p != 2 {
        return Err(format!("attribute `p` is {p}, neither 1 nor 2").into());
    }
    Ok(Box::new(LpNorm { axis: a.int_or("axis", -1)?, p }))
}

/// Division by a function of the neighbouring channels' squares.
#[derive(Debug)]
struct Lrn {
    size: usize,
    alpha: f32,
    beta: f32,
    bias: f32,
}

impl Operator for Lrn {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let v = x.f32s()?;
        let &[n, c, ..] = x.shape() else {
            return Err(format!("input 0 has shape {:?} where channels should be", x.shape()).into());
        };
        let inner = product(&x.shape()[2..]);
        let (before, after) = ((self.size - 1) / 2, self.size / 2);
        let mut out = vec![0.0; v.len()];
        for b in 0..n {
            for i in 0..c {
                let (from, to) = (i.saturating_sub(before), (i + after).min(c - 1));
                for k in 0..inner {
                    let sum: f32 = (from..=to).map(|j| v[(b * c + j) * inner + k]).map(|x| x * x).sum();
                    let at = (b * c + i) * inner + k;
                    let base = f64::from(self.bias + self.alpha / self.size as f32 * sum);
                    out[at] = (f64::from(v[at]) / libm::pow(base, f64::from(self.beta))) as f32;
                }
            }
        }
        one(Tensor::of(x.shape(), out))
    }
}

pub(crate) fn lrn(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let size = crate::shape::size(a.int("size")?.ok_or("attribute `size` is missing")?)?.max(1);
    let (alpha, beta) = (a.float_or("alpha", 1e-4)?, a.float_or("beta", 0.75)?);
    Ok(Box::new(Lrn { size, alpha, beta, bias: a.float_or("bias", 1.0)? }))
}

/// Mean and variance normalisation over given dimensions.
#[derive(Debug)]
struct MeanVariance {
    axes: Vec<i64>,
}

impl Operator for MeanVariance {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let reduced = crate::shape::axes(&self.axes, x.rank())?;
        let kept: Shape =
            (0..x.rank()).map(|i| if reduced.contains(&i) { 1 } else { x.shape()[i] }).collect();
        let width: usize = reduced.iter().map(|i| x.shape()[*i]).product();
        let steps = broadcast_strides(&kept, x.shape());
        let v = x.f32s()?;
        let mut sums = vec![(0.0_f64, 0.0_f64); product(&kept)];
        let mut i = 0;
        crate::shape::for_offsets(x.shape(), [&steps], |[at]| {
            let value = f64::from(v[i]);
            sums[at] = (sums[at].0 + value, sums[at].1 + value * value);
            i += 1;
        });
        let stats = sums.iter().map(|(sum, squares)| {
            let mean = sum / width as f64;
            ((mean as f32), ((squares / width as f64 - mean * mean).max(0.0).sqrt() + 1e-9) as f32)
        });
        let stats: Vec<(f32, f32)> = stats.collect();
        let joined = Joined::new(x.shape(), &kept)?;
        one(Tensor::of(x.shape(), joined.map(v, &stats, |v, (mean, deviation)| (v - mean) / deviation)))
    }
}

pub(crate) fn mean_variance(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(MeanVariance { axes: a.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]) }))
}
