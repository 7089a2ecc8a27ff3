//! Values from nothing: constants, fills, ranges, diagonals, random numbers.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::binary::Number;
use crate::shape::{Shape, axis, size};
use crate::tensor::{Buffer, Data, ElementType, Tensor, each_number, same_type};

/// A constant.
#[derive(Debug)]
struct Constant(Tensor);

impl Operator for Constant {
    fn run(&self, _ctx: &Context<'_>, _inputs: Inputs) -> Result<Outputs, Error> {
        one(self.0.clone())
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn constant(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let value = if let Some(tensor) = a.tensor("value")? {
        tensor
    } else if let Some(x) = a.float("value_float")? {
        Tensor::scalar(x)
    } else if let Some(x) = a.int("value_int")? {
        Tensor::scalar(x)
    } else if let Some(x) = a.floats("value_floats")? {
        Tensor::vector(x)
    } else if let Some(x) = a.ints("value_ints")? {
        Tensor::vector(x)
    } else if let Some(x) = a.text("value_string")? {
        Tensor::texts(Shape::new(), vec![x])
    } else if let Some(x) = a.texts("value_strings")? {
        let shape: Shape = [x.len()].into_iter().collect();
        Tensor::texts(shape, x)
    } else {
        return Err("has no value: attribute `value` is missing".into());
    };
    Ok(Box::new(Constant(value)))
}

/// One value in a shape that is an input.
#[derive(Debug)]
struct ConstantOfShape(Tensor);

impl Operator for ConstantOfShape {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let shape = inputs.ints(0)?.into_iter().map(size).collect::<Result<Shape, _>>()?;
        let n = ctx.elements(&shape, self.0.ty().bytes())?;
        let data = same_type!(self.0.data(), v => vec![v[0].clone(); n]);
        one(Tensor::with(shape, data))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn constant_of_shape(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let value = a.tensor("value")?.unwrap_or_else(|| Tensor::vector(vec![0.0_f32]));
    if value.len() != 1 {
        return Err(format!("attribute `value` has {} values, not one", value.len()).into());
    }
    Ok(Box::new(ConstantOfShape(value)))
}

/// Numbers from a start to a limit, which is left out.
#[derive(Debug)]
struct Range;

impl Operator for Range {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let start = inputs.tensor(0)?;
        fn numbers<T: Number>(ctx: &Context<'_>, inputs: &Inputs) -> Result<Tensor, Error> {
            let get = |i: usize| -> Result<T, Error> {
                inputs.values::<T>(i)?.first().copied().ok_or_else(|| format!("input {i} is empty").into())
            };
            let (start, limit, delta) = (get(0)?, get(1)?, get(2)?);
            if delta == T::default() {
                return Err("input 2, the step, is zero".into());
            }
            let n = ((limit.to_f64() - start.to_f64()) / delta.to_f64()).ceil().max(0.0);
            if n.is_nan() || n > 1e15 {
                return Err(format!("{n} numbers are too many").into());
            }
            let n = n as usize;
            ctx.elements(&[n], size_of::<T>())?;
            let at = |i: usize| start.add(T::from_f64(i as f64).mul(delta));
            Ok(Tensor::vector((0..n).map(at).collect()))
        }
        let result = match start.ty() {
            ElementType::F32 => numbers::<f32>(ctx, &inputs)?,
            ElementType::F64 => numbers::<f64>(ctx, &inputs)?,
            ElementType::I64 => numbers::<i64>(ctx, &inputs)?,
            ElementType::I32 => numbers::<i32>(ctx, &inputs)?,
            ElementType::I16 => numbers::<i16>(ctx, &inputs)?,
            other => return Err(format!("does not take values of type {}", other.name()).into()),
        };
        one(result)
    }
}

pub(crate) fn range(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["stash_type"]);
    Ok(Box::new(Range))
}

/// A diagonal of ones.
#[derive(Debug)]
struct EyeLike {
    ty: Option<ElementType>,
    k: i64,
}

impl Operator for EyeLike {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let &[_, columns] = x.shape() else {
            return Err(format!("input 0 has shape {:?} where two dimensions should be", x.shape()).into());
        };
        let at = |i: usize| i64::from((i % columns) as i64 - (i / columns) as i64 == self.k);
        let eye = ctx.filled(x.shape(), at)?;
        one(crate::ops::cast::cast(eye, self.ty.unwrap_or(x.ty()))?)
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn eye_like(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let ty = a.int("dtype")?.map(ElementType::of_onnx).transpose()?;
    Ok(Box::new(EyeLike { ty, k: a.int_or("k", 0)? }))
}

/// One or another value by class.
#[derive(Debug)]
struct OneHot {
    axis: i64,
}

impl Operator for OneHot {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (indices, depth, values) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let depth = each_number!(depth.data(), v => v.first().map(|v| v.to_f64()), None);
        let depth =
            depth.filter(|n| *n >= 0.0 && *n < 1e12).ok_or("input 1, the depth, is no size")? as usize;
        let indices_i: Vec<i64> = each_number!(indices.data(), v => v.iter().map(|v| v.to_f64() as i64).collect(),
            return Err("input 0 has no numbers".into()));
        let rank = indices.rank() + 1;
        let at = axis(self.axis, rank)?;
        let mut shape = Shape::from_slice(indices.shape());
        shape.insert(at, depth);
        let n = ctx.elements(&shape, values.ty().bytes())?;
        if values.len() != 2 {
            return Err(format!("input 2 has {} values, not two", values.len()).into());
        }
        let inner: usize = shape[at + 1..].iter().product();
        let data = same_type!(values.data(), v => {
            let mut out = vec![v[0].clone(); n];
            for (i, &class) in indices_i.iter().enumerate() {
                let class = if class < 0 { class + depth as i64 } else { class };
                if class >= 0 && class < depth as i64 {
                    let (before, after) = (i / inner.max(1), i % inner.max(1));
                    out[(before * depth + class as usize) * inner + after] = v[1].clone();
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

pub(crate) fn one_hot(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(OneHot { axis: a.int_or("axis", -1)? }))
}

/// Kinds of random numbers.
#[derive(Clone, Copy, Debug)]
enum Distribution {
    /// Mean and deviation.
    Normal(f32, f32),
    /// Bounds.
    Uniform(f32, f32),
    /// Ones with the probability of the input.
    Bernoulli,
}

/// Random numbers: SplitMix64 from the seed of the node or of the run. Other runtimes give others.
#[derive(Debug)]
struct Random {
    kind: Distribution,
    ty: Option<ElementType>,
    shape: Option<Vec<usize>>,
    seed: Option<f32>,
}

/// Returns 24 random bits as a number in [0, 1).
pub(crate) fn uniform(ctx: &Context<'_>) -> f32 {
    let state = ctx.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    ctx.random.set(state);
    let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 40) as f32 / (1 << 24) as f32
}

impl Operator for Random {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let before = ctx.random.get();
        if let Some(seed) = self.seed {
            ctx.random.set(u64::from(seed.to_bits()));
        }
        let like = inputs.optional(0)?;
        let shape = match (&self.shape, like) {
            (Some(shape), _) => Shape::from_slice(shape),
            (None, Some(like)) => Shape::from_slice(like.shape()),
            (None, None) => return Err("has no shape".into()),
        };
        let n = ctx.elements(&shape, 4)?;
        let values: Vec<f32> = match self.kind {
            Distribution::Uniform(low, high) => (0..n).map(|_| low + (high - low) * uniform(ctx)).collect(),
            Distribution::Normal(mean, deviation) => {
                // Box and Muller, 1958.
                let one = |_| {
                    let (u, v) = (1.0 - f64::from(uniform(ctx)), f64::from(uniform(ctx)));
                    let radius = (-2.0 * libm::log(u)).sqrt();
                    mean + deviation * (radius * libm::cos(std::f64::consts::TAU * v)) as f32
                };
                (0..n).map(one).collect()
            }
            Distribution::Bernoulli => {
                let p = inputs.tensor(0)?.to_f32()?;
                p.iter().map(|p| f32::from(u8::from(uniform(ctx) < *p))).collect()
            }
        };
        if self.seed.is_some() {
            ctx.random.set(before);
        }
        let ty = self.ty.or(like.map(Tensor::ty)).unwrap_or(ElementType::F32);
        one(crate::ops::cast::cast(Tensor::of(shape, values), ty)?)
    }

    fn is_pure(&self) -> bool {
        false
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

fn random(a: &Attributes<'_, '_>, kind: Distribution) -> Result<Box<dyn Operator>, Error> {
    let ty = a.int("dtype")?.map(ElementType::of_onnx).transpose()?;
    Ok(Box::new(Random { kind, ty, shape: a.sizes("shape")?, seed: a.float("seed")? }))
}

pub(crate) fn random_normal(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    random(a, Distribution::Normal(a.float_or("mean", 0.0)?, a.float_or("scale", 1.0)?))
}

pub(crate) fn random_uniform(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    random(a, Distribution::Uniform(a.float_or("low", 0.0)?, a.float_or("high", 1.0)?))
}

pub(crate) fn bernoulli(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    random(a, Distribution::Bernoulli)
}

/// Values with noise removed in use; the mask is all true.
#[derive(Debug)]
struct Dropout {
    mask_is_bool: bool,
}

impl Operator for Dropout {
    fn run(&self, _ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.take(0)?;
        if let Some(training) = inputs.optional(2)? {
            let ratio = inputs.optional(1)?.map(Tensor::to_f32).transpose()?;
            let ratio = ratio.and_then(|r| r.first().copied()).unwrap_or(0.5);
            if training.truths()?.first() == Some(&1) && ratio != 0.0 {
                return Err("training mode is not supported".into());
            }
        }
        let mask = vec![1_u8; x.len()];
        let mask = if self.mask_is_bool {
            Tensor::bools(x.shape(), mask)
        } else {
            let ones = Data::Bool(Buffer::new(mask));
            crate::ops::cast::cast(Tensor::with(x.shape(), ones), x.ty())?
        };
        Ok([x.into(), mask.into()].into_iter().collect())
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn dropout(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["ratio", "seed", "is_test", "consumed_inputs"]);
    Ok(Box::new(Dropout { mask_is_bool: a.opset >= 10 }))
}
