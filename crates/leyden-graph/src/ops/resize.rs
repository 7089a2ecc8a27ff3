//! Resampling: `Resize` and `Upsample`.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::binary::Number;
use crate::shape::{Shape, axis, product, size};
use crate::tensor::{Tensor, each_number, same_type};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfHalfPixelForNn,
    CropAndResize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nearest {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

#[derive(Debug)]
struct Resize {
    mode: Mode,
    coordinates: Coordinates,
    nearest: Nearest,
    cubic: f32,
    exclude_outside: bool,
    extrapolation: f32,
    antialias: bool,
    /// 0: stretch, 1: not larger, 2: not smaller.
    policy: usize,
    axes: Option<Vec<i64>>,
    /// Place of the scales among the inputs; sizes follow. Scales of an attribute are in `fixed`.
    scales_at: usize,
    fixed: Option<Vec<f32>>,
}

/// Weights of one output position: inputs with their factors.
type Taps = Vec<(usize, f32)>;

/// Cubic convolution (Keys, 1981).
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

impl Resize {
    /// Returns the position in the input of a position of the output; `None` is outside.
    fn place(&self, o: usize, scale: f64, input: usize, output: usize, roi: (f64, f64)) -> f64 {
        // The output's size before it was cut to a whole number.
        let (x, n, m) = (o as f64, input as f64, input as f64 * scale);
        match self.coordinates {
            Coordinates::HalfPixel => (x + 0.5) / scale - 0.5,
            Coordinates::HalfPixelSymmetric => {
                let adjustment = output as f64 / m;
                let center = n / 2.0;
                center * (1.0 - adjustment) + (x + 0.5) / scale - 0.5
            }
            Coordinates::PytorchHalfPixel => {
                if output > 1 {
                    (x + 0.5) / scale - 0.5
                } else {
                    0.0
                }
            }
            Coordinates::AlignCorners => {
                if output > 1 {
                    x * (n - 1.0) / (m - 1.0)
                } else {
                    0.0
                }
            }
            Coordinates::Asymmetric => x / scale,
            Coordinates::TfHalfPixelForNn => (x + 0.5) / scale,
            Coordinates::CropAndResize => {
                if output > 1 {
                    roi.0 * (n - 1.0) + x * (roi.1 - roi.0) * (n - 1.0) / (m - 1.0)
                } else {
                    0.5 * (roi.0 + roi.1) * (n - 1.0)
                }
            }
        }
    }

    /// Returns the taps of each output position of a dimension; an empty list is the extrapolation value.
    fn taps(&self, input: usize, output: usize, scale: f64, roi: (f64, f64)) -> Vec<Taps> {
        let last = input as isize - 1;
        let clamp = |i: isize| i.clamp(0, last.max(0)) as usize;
        let tap = |o: usize| -> Taps {
            let x = self.place(o, scale, input, output, roi);
            if self.coordinates == Coordinates::CropAndResize && (x < 0.0 || x > last as f64) {
                return Vec::new();
            }
            if self.mode == Mode::Nearest {
                let i = match self.nearest {
                    _ if x == x.trunc() => x,
                    Nearest::PreferFloor => (x - 0.5).ceil(),
                    Nearest::PreferCeil => (x + 0.5).floor(),
                    Nearest::Floor => x.floor(),
                    Nearest::Ceil => x.ceil(),
                };
                return vec![(clamp(i as isize), 1.0)];
            }
            // Antialiasing widens the filter where the size shrinks.
            let narrow = if self.antialias { scale.min(1.0) } else { 1.0 };
            let reach = if self.mode == Mode::Linear { 1.0 } else { 2.0 } / narrow;
            let (first, end) = ((x - reach).floor() as isize + 1, (x + reach).ceil() as isize);
            let mut found = Taps::new();
            let mut sum = 0.0;
            let mut weights = Vec::new();
            for i in first..end.max(first + 1) {
                let distance = (i as f64 - x) * narrow;
                let weight = match self.mode {
                    Mode::Linear => (1.0 - distance.abs()).max(0.0),
                    _ => cubic(distance, f64::from(self.cubic)),
                };
                let outside = i < 0 || i > last;
                if outside && self.exclude_outside {
                    continue;
                }
                sum += weight;
                weights.push((clamp(i), weight));
            }
            let normalise = self.antialias || self.exclude_outside;
            for (i, weight) in weights {
                let weight = if normalise && sum != 0.0 { weight / sum } else { weight };
                found.push((i, weight as f32));
            }
            found
        };
        (0..output).map(tap).collect()
    }
}

impl Operator for Resize {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let rank = x.rank();
        let list = match &self.axes {
            Some(list) => list.iter().map(|a| axis(*a, rank)).collect::<Result<Vec<_>, _>>()?,
            None => (0..rank).collect(),
        };
        let given = match &self.fixed {
            Some(scales) => Some(scales.clone()),
            None => {
                inputs.optional(self.scales_at)?.filter(|s| !s.is_empty()).map(Tensor::to_f32).transpose()?
            }
        };
        let sizes = inputs.optional_ints(self.scales_at + 1)?.filter(|s| !s.is_empty());
        let mut scales = vec![1.0_f64; rank];
        let mut shape = Shape::from_slice(x.shape());
        match (given, sizes) {
            (Some(given), None) if given.len() == list.len() => {
                for (at, scale) in list.iter().zip(given) {
                    let scale = f64::from(scale);
                    let n = (x.shape()[*at] as f64 * scale).floor();
                    if !(scale > 0.0 && n < 1e12) {
                        return Err(format!("scale {scale} is out of range").into());
                    }
                    scales[*at] = scale;
                    shape[*at] = n as usize;
                }
            }
            (None, Some(sizes)) if sizes.len() == list.len() => {
                let sizes = sizes.into_iter().map(size).collect::<Result<Vec<_>, _>>()?;
                let ratio = |(at, n): (&usize, &usize)| *n as f64 / x.shape()[*at].max(1) as f64;
                let ratios = list.iter().zip(&sizes).map(ratio);
                let common = match self.policy {
                    0 => None,
                    1 => Some(ratios.fold(f64::INFINITY, f64::min)),
                    _ => Some(ratios.fold(0.0, f64::max)),
                };
                for (at, n) in list.iter().zip(&sizes) {
                    let own = x.shape()[*at];
                    match common {
                        None => {
                            shape[*at] = *n;
                            scales[*at] = *n as f64 / own.max(1) as f64;
                        }
                        Some(scale) => {
                            shape[*at] = (own as f64 * scale + 0.5).floor() as usize;
                            scales[*at] = scale;
                        }
                    }
                }
            }
            _ => return Err("either scales or sizes should be given, one for each dimension".into()),
        }
        ctx.elements(&shape, x.ty().bytes().max(4))?;
        if x.is_empty() && product(&shape) > 0 {
            return Err(format!("shape {:?} is empty", x.shape()).into());
        }
        let roi = match (self.coordinates, self.scales_at) {
            (Coordinates::CropAndResize, 2) => inputs.optional(1)?.map(Tensor::to_f32).transpose()?,
            _ => None,
        };
        if roi.as_ref().is_some_and(|roi| roi.len() != 2 * list.len()) {
            return Err("input 1 has another number of corners".into());
        }
        let mut taps = Vec::new();
        for d in 0..rank {
            let corners = match (&roi, list.iter().position(|at| *at == d)) {
                (Some(roi), Some(i)) => (f64::from(roi[i]), f64::from(roi[list.len() + i])),
                _ => (0.0, 1.0),
            };
            let same = shape[d] == x.shape()[d]
                && scales[d] == 1.0
                && self.coordinates != Coordinates::CropAndResize;
            taps.push((!same).then(|| self.taps(x.shape()[d], shape[d], scales[d], corners)));
        }
        let single = |t: &Option<Vec<Taps>>| {
            t.as_ref().is_none_or(|t| t.iter().all(|t| t.len() == 1 && t[0].1 == 1.0))
        };
        if taps.iter().all(single) {
            return one(picked(x, &shape, &taps));
        }
        let values = each_number!(x.data(), v => v.iter().map(|v| v.to_f64() as f32).collect::<Vec<f32>>(),
            return Err(format!("does not take values of type {}", x.ty().name()).into()));
        let out = resampled(values, x.shape(), &taps, self.extrapolation);
        let whole = !x.ty().is_float();
        let out = if whole { out.into_iter().map(f32::round_ties_even).collect() } else { out };
        one(crate::ops::cast::cast(Tensor::of(shape, out), x.ty())?)
    }
}

/// Copies one input for each output.
fn picked(x: &Tensor, shape: &Shape, taps: &[Option<Vec<Taps>>]) -> Tensor {
    let own = crate::shape::strides(x.shape());
    let steps = crate::shape::strides(shape);
    let places: Vec<Vec<usize>> = (0..shape.len())
        .map(|d| match &taps[d] {
            Some(taps) => taps.iter().map(|t| t[0].0 * own[d]).collect(),
            None => (0..shape[d]).map(|i| i * own[d]).collect(),
        })
        .collect();
    let Some((inner, outer)) = places.split_last() else { return x.clone() };
    let data = same_type!(x.data(), v => {
        let mut out = Vec::with_capacity(product(shape));
        if !shape.contains(&0) {
            let rows = product(&shape[..shape.len() - 1]);
            for row in 0..rows {
                let flat = row * inner.len();
                let base: usize = outer.iter().enumerate().map(|(d, p)| p[flat / steps[d] % shape[d]]).sum();
                out.extend(inner.iter().map(|i| v[base + i].clone()));
            }
        }
        out
    });
    Tensor::with(shape.clone(), data)
}

/// Resamples one dimension after the other, the last first.
fn resampled(
    mut values: Vec<f32>,
    shape: &[usize],
    taps: &[Option<Vec<Taps>>],
    extrapolation: f32,
) -> Vec<f32> {
    let mut shape = Shape::from_slice(shape);
    for d in (0..shape.len()).rev() {
        let Some(taps) = &taps[d] else { continue };
        let (outer, n, inner) = (product(&shape[..d]), shape[d], product(&shape[d + 1..]));
        let mut out = vec![0.0; outer * taps.len() * inner];
        for (o, plane) in out.chunks_exact_mut((taps.len() * inner).max(1)).enumerate() {
            for (t, row) in taps.iter().zip(plane.chunks_exact_mut(inner.max(1))) {
                if t.is_empty() {
                    row.fill(extrapolation);
                }
                for (i, weight) in t {
                    let from = &values[(o * n + i) * inner..][..inner];
                    row.iter_mut().zip(from).for_each(|(r, v)| *r += weight * v);
                }
            }
        }
        shape[d] = taps.len();
        values = out;
    }
    values
}

fn mode(a: &Attributes<'_, '_>) -> Result<Mode, Error> {
    let names = ["nearest", "linear", "cubic", "bilinear"];
    Ok([Mode::Nearest, Mode::Linear, Mode::Cubic, Mode::Linear][a.choice("mode", &names)?])
}

pub(crate) fn resize(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let names = [
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_half_pixel_for_nn",
        "tf_crop_and_resize",
        "half_pixel_symmetric",
    ];
    let all = [
        Coordinates::HalfPixel,
        Coordinates::PytorchHalfPixel,
        Coordinates::AlignCorners,
        Coordinates::Asymmetric,
        Coordinates::TfHalfPixelForNn,
        Coordinates::CropAndResize,
        Coordinates::HalfPixelSymmetric,
    ];
    let nearest = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];
    let rounds = [Nearest::PreferFloor, Nearest::PreferCeil, Nearest::Floor, Nearest::Ceil];
    let old = a.opset < 11;
    Ok(Box::new(Resize {
        mode: mode(a)?,
        coordinates: if old {
            Coordinates::Asymmetric
        } else {
            all[a.choice("coordinate_transformation_mode", &names)?]
        },
        nearest: if old { Nearest::Floor } else { rounds[a.choice("nearest_mode", &nearest)?] },
        cubic: a.float_or("cubic_coeff_a", -0.75)?,
        exclude_outside: a.int_or("exclude_outside", 0)? != 0,
        extrapolation: a.float_or("extrapolation_value", 0.0)?,
        antialias: a.int_or("antialias", 0)? != 0,
        policy: a.choice("keep_aspect_ratio_policy", &["stretch", "not_larger", "not_smaller"])?,
        axes: a.ints("axes")?,
        scales_at: if old { 1 } else { 2 },
        fixed: None,
    }))
}

pub(crate) fn upsample(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Resize {
        mode: mode(a)?,
        coordinates: Coordinates::Asymmetric,
        nearest: Nearest::Floor,
        cubic: -0.75,
        exclude_outside: false,
        extrapolation: 0.0,
        antialias: false,
        policy: 0,
        axes: None,
        scales_at: 1,
        fixed: a.floats("scales")?,
    }))
}
