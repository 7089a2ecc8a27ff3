//! Functions of each element: activations, roundings, and the functions of mathematics.
//!
//! Functions of `libm`, not the platform's, so results are the same bits everywhere; those that real graphs spend time in
//! are our kernels'.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::elementwise::{map_f32, map_f64};
use crate::ops::functions;
use crate::tensor::{Buffer, Data, Tensor};
use leyden_kernels::ops as kernels;

/// A function of a float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Relu,
    LeakyRelu(f32),
    Elu(f32),
    Selu(f32, f32),
    Celu(f32),
    ThresholdedRelu(f32),
    Sigmoid,
    HardSigmoid(f32, f32),
    HardSwish,
    Swish(f32),
    Mish,
    Gelu,
    GeluTanh,
    Softplus,
    Softsign,
    Shrink(f32, f32),
    Affine(f32, f32),
    ScaledTanh(f32, f32),
    Clip(f32, f32),
    Tanh,
    Exp,
    Log,
    Sqrt,
    Reciprocal,
    Erf,
    Floor,
    Ceil,
    Round,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Asinh,
    Acosh,
    Atanh,
}

/// Returns the quotient `1 / (1 + e^-x)`.
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

impl Function {
    /// Computes the function in 64 bits.
    pub(crate) fn of(self, x: f64) -> f64 {
        let f = f64::from;
        match self {
            Function::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Function::LeakyRelu(a) => {
                if x < 0.0 {
                    f(a) * x
                } else {
                    x
                }
            }
            Function::Elu(a) => {
                if x < 0.0 {
                    f(a) * libm::expm1(x)
                } else {
                    x
                }
            }
            Function::Selu(a, g) => f(g) * if x > 0.0 { x } else { f(a) * libm::expm1(x) },
            Function::Celu(a) => x.max(0.0) + (f(a) * libm::expm1(x / f(a))).min(0.0),
            Function::ThresholdedRelu(a) => {
                if x > f(a) {
                    x
                } else {
                    0.0
                }
            }
            Function::Sigmoid => sigmoid(x),
            Function::HardSigmoid(a, b) => (f(a) * x + f(b)).clamp(0.0, 1.0),
            Function::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Function::Swish(a) => x * sigmoid(f(a) * x),
            Function::Mish => x * libm::tanh(softplus(x)),
            Function::Gelu => 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Function::GeluTanh => {
                let u = 0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + libm::tanh(u))
            }
            Function::Softplus => softplus(x),
            Function::Softsign => x / (1.0 + x.abs()),
            Function::Shrink(lambda, bias) => {
                if x < -f(lambda) {
                    x + f(bias)
                } else if x > f(lambda) {
                    x - f(bias)
                } else {
                    0.0
                }
            }
            Function::Affine(a, b) => f(a) * x + f(b),
            Function::ScaledTanh(a, b) => f(a) * libm::tanh(f(b) * x),
            Function::Clip(low, high) => {
                let x = if x < f(low) { f(low) } else { x };
                if x > f(high) { f(high) } else { x }
            }
            Function::Tanh => libm::tanh(x),
            Function::Exp => libm::exp(x),
            Function::Log => libm::log(x),
            Function::Sqrt => x.sqrt(),
            Function::Reciprocal => 1.0 / x,
            Function::Erf => libm::erf(x),
            Function::Floor => x.floor(),
            Function::Ceil => x.ceil(),
            Function::Round => x.round_ties_even(),
            Function::Sin => libm::sin(x),
            Function::Cos => libm::cos(x),
            Function::Tan => libm::tan(x),
            Function::Asin => libm::asin(x),
            Function::Acos => libm::acos(x),
            Function::Atan => libm::atan(x),
            Function::Sinh => libm::sinh(x),
            Function::Cosh => libm::cosh(x),
            Function::Asinh => libm::asinh(x),
            Function::Acosh => libm::acosh(x),
            Function::Atanh => libm::atanh(x),
        }
    }

    /// Replaces 32-bit floats by their results.
    pub(crate) fn apply(self, ctx: &Context<'_>, x: &mut [f32]) {
        let tier = ctx.cpu.tier();
        let each = |f: fn(leyden_kernels::Tier, &mut [f32]), x: &mut [f32]| {
            ctx.cpu.for_blocks(x, 1, 8 << 10, |_, x| f(tier, x));
        };
        match self {
            Function::Relu => map_f32(ctx, x, |x| if x < 0.0 { 0.0 } else { x }),
            Function::LeakyRelu(a) => map_f32(ctx, x, |x| if x < 0.0 { a * x } else { x }),
            Function::Clip(low, high) => map_f32(ctx, x, |x| {
                let x = if x < low { low } else { x };
                if x > high { high } else { x }
            }),
            Function::HardSigmoid(a, b) => map_f32(ctx, x, |x| {
                let y = a * x + b;
                let y = if y < 0.0 { 0.0 } else { y };
                if y > 1.0 { 1.0 } else { y }
            }),
            Function::HardSwish => map_f32(ctx, x, |x| {
                let y = x * (1.0 / 6.0) + 0.5;
                let y = if y < 0.0 { 0.0 } else { y };
                x * if y > 1.0 { 1.0 } else { y }
            }),
            Function::Affine(a, b) => map_f32(ctx, x, |x| a * x + b),
            Function::Sqrt => map_f32(ctx, x, f32::sqrt),
            Function::Reciprocal => map_f32(ctx, x, |x| 1.0 / x),
            Function::Floor => map_f32(ctx, x, f32::floor),
            Function::Ceil => map_f32(ctx, x, f32::ceil),
            Function::Round => map_f32(ctx, x, f32::round_ties_even),
            Function::Tanh => each(functions::tanh, x),
            Function::Erf => each(functions::erf, x),
            Function::Sin => each(|_, x| functions::sine(x, false), x),
            Function::Cos => each(|_, x| functions::sine(x, true), x),
            Function::Sigmoid => each(kernels::sigmoid, x),
            Function::Gelu => each(|tier, x| kernels::activate(tier, kernels::Activation::Gelu, x), x),
            other => map_f32(ctx, x, |x| other.of(f64::from(x)) as f32),
        }
    }
}

fn softplus(x: f64) -> f64 {
    // ln(1 + e^x) without overflow.
    x.max(0.0) + libm::log1p(libm::exp(-x.abs()))
}

/// A function of floats.
#[derive(Debug)]
pub(crate) struct Unary(pub(crate) Function);

impl Operator for Unary {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut x = inputs.take(0)?;
        match x.data_mut() {
            Data::F32(values) => self.0.apply(ctx, values.make_mut()),
            Data::F64(values) => map_f64(ctx, values.make_mut(), |x| self.0.of(x)),
            Data::I64(values) if self.0 == Function::Relu => {
                values.make_mut().iter_mut().for_each(|x| *x = (*x).max(0));
            }
            Data::I32(values) if self.0 == Function::Relu => {
                values.make_mut().iter_mut().for_each(|x| *x = (*x).max(0));
            }
            Data::I16(values) if self.0 == Function::Relu => {
                values.make_mut().iter_mut().for_each(|x| *x = (*x).max(0));
            }
            Data::I8(values) if self.0 == Function::Relu => {
                values.make_mut().iter_mut().for_each(|x| *x = (*x).max(0));
            }
            other => return Err(format!("does not take values of type {}", other.ty().name()).into()),
        }
        one(x)
    }
}

macro_rules! plain {
    ($($make:ident $function:expr,)*) => {
        $(pub(crate) fn $make(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
            Ok(Box::new(Unary($function)))
        })*
    };
}
plain! {
    sigmoid_op Function::Sigmoid, hard_swish Function::HardSwish, mish Function::Mish,
    softplus_op Function::Softplus, softsign Function::Softsign, tanh Function::Tanh, exp Function::Exp,
    log Function::Log, sqrt Function::Sqrt, reciprocal Function::Reciprocal, erf Function::Erf,
    floor Function::Floor, ceil Function::Ceil, round Function::Round, sin Function::Sin, cos Function::Cos,
    tan Function::Tan, asin Function::Asin, acos Function::Acos, atan Function::Atan, sinh Function::Sinh,
    cosh Function::Cosh, asinh Function::Asinh, acosh Function::Acosh, atanh Function::Atanh,
    relu Function::Relu,
}

macro_rules! with_floats {
    ($($make:ident $a:ident => $function:expr,)*) => {
        $(pub(crate) fn $make($a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
            // Old versions let a node name inputs that may be overwritten.
            $a.ignore(&["consumed_inputs"]);
            Ok(Box::new(Unary($function)))
        })*
    };
}
with_floats! {
    leaky_relu a => Function::LeakyRelu(a.float_or("alpha", 0.01)?),
    elu a => Function::Elu(a.float_or("alpha", 1.0)?),
    selu a => Function::Selu(a.float_or("alpha", 1.673_263_2)?, a.float_or("gamma", 1.050_701)?),
    celu a => Function::Celu(a.float_or("alpha", 1.0)?),
    thresholded_relu a => Function::ThresholdedRelu(a.float_or("alpha", 1.0)?),
    hard_sigmoid a => Function::HardSigmoid(a.float_or("alpha", 0.2)?, a.float_or("beta", 0.5)?),
    swish a => Function::Swish(a.float_or("alpha", 1.0)?),
    quick_gelu a => Function::Swish(a.float_or("alpha", 1.702)?),
    shrink a => Function::Shrink(a.float_or("lambd", 0.5)?, a.float_or("bias", 0.0)?),
    affine a => Function::Affine(a.float_or("alpha", 1.0)?, a.float_or("beta", 0.0)?),
    scaled_tanh a => Function::ScaledTanh(a.float_or("alpha", 1.0)?, a.float_or("beta", 1.0)?),
    gelu a => match a.choice("approximate", &["none", "tanh"])? {
        0 => Function::Gelu,
        _ => Function::GeluTanh,
    },
    microsoft_gelu _a => Function::Gelu,
}

/// Functions that keep the type: negative, magnitude and sign.
#[derive(Clone, Copy, Debug)]
enum Signed {
    Neg,
    Abs,
    Sign,
}

impl Operator for Signed {
    fn run(&self, _ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut x = inputs.take(0)?;
        macro_rules! signed {
            ($values:expr, $zero:expr, $neg:expr, $abs:expr, $sign:expr) => {{
                let values = $values.make_mut();
                match self {
                    Signed::Neg => values.iter_mut().for_each(|v| *v = $neg(*v)),
                    Signed::Abs => values.iter_mut().for_each(|v| *v = $abs(*v)),
                    Signed::Sign => values.iter_mut().for_each(|v| *v = $sign(*v)),
                }
            }};
        }
        macro_rules! float {
            ($values:expr, $ty:ty) => {
                signed!($values, 0.0, |v: $ty| -v, |v: $ty| v.abs(), |v: $ty| {
                    if v > 0.0 {
                        1.0
                    } else if v < 0.0 {
                        -1.0
                    } else {
                        v
                    }
                })
            };
        }
        macro_rules! int {
            ($values:expr, $ty:ty) => {
                signed!($values, 0, |v: $ty| v.wrapping_neg(), |v: $ty| v.wrapping_abs(), |v: $ty| v.signum())
            };
        }
        macro_rules! unsigned {
            ($values:expr, $ty:ty) => {
                signed!($values, 0, |v: $ty| v.wrapping_neg(), |v: $ty| v, |v: $ty| v.min(1))
            };
        }
        match x.data_mut() {
            Data::F32(v) => float!(v, f32),
            Data::F64(v) => float!(v, f64),
            Data::I64(v) => int!(v, i64),
            Data::I32(v) => int!(v, i32),
            Data::I16(v) => int!(v, i16),
            Data::I8(v) => int!(v, i8),
            Data::U64(v) => unsigned!(v, u64),
            Data::U32(v) => unsigned!(v, u32),
            Data::U16(v) => unsigned!(v, u16),
            Data::U8(v) => unsigned!(v, u8),
            other => return Err(format!("does not take values of type {}", other.ty().name()).into()),
        }
        one(x)
    }
}

pub(crate) fn neg(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Signed::Neg))
}

pub(crate) fn abs(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Signed::Abs))
}

pub(crate) fn sign(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Signed::Sign))
}

/// Tests of floats, and negations of truth values and bits.
#[derive(Clone, Copy, Debug)]
enum Test {
    IsNan,
    IsInf { negative: bool, positive: bool },
    Not,
    BitwiseNot,
}

impl Operator for Test {
    fn run(&self, _ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut x = inputs.take(0)?;
        let unlike = |x: &Tensor| Error::invalid(format!("does not take values of type {}", x.ty().name()));
        match self {
            Test::Not => match x.data_mut() {
                Data::Bool(values) => values.make_mut().iter_mut().for_each(|v| *v ^= 1),
                _ => return Err(unlike(&x)),
            },
            Test::BitwiseNot => match x.data_mut() {
                Data::I64(values) => values.make_mut().iter_mut().for_each(|v| *v = !*v),
                Data::I32(values) => values.make_mut().iter_mut().for_each(|v| *v = !*v),
                Data::I16(values) => values.make_mut().iter_mut().for_each(|v| *v = !*v),
                Data::I8(values) => values.make_mut().iter_mut().for_each(|v| *v = !*v),
                Data::U64(values) => values.make_mut().iter_mut().for_each(|v| *v = !*v),
                Data::U32(values) => values.make_mut().iter_mut().for_each(|v| *v = !*v),
                Data::U16(values) => values.make_mut().iter_mut().for_each(|v| *v = !*v),
                Data::U8(values) => values.make_mut().iter_mut().for_each(|v| *v = !*v),
                _ => return Err(unlike(&x)),
            },
            Test::IsNan | Test::IsInf { .. } => {
                let test = |v: f64| match self {
                    Test::IsInf { negative, positive } => {
                        v == f64::INFINITY && *positive || v == f64::NEG_INFINITY && *negative
                    }
                    _ => v.is_nan(),
                };
                let values = match x.data() {
                    Data::F32(v) => v.iter().map(|v| u8::from(test(f64::from(*v)))).collect(),
                    Data::F64(v) => v.iter().map(|v| u8::from(test(*v))).collect(),
                    _ => return Err(unlike(&x)),
                };
                return one(Tensor::with(x.shape(), Data::Bool(Buffer::new(values))));
            }
        }
        one(x)
    }
}

pub(crate) fn is_nan(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Test::IsNan))
}

pub(crate) fn is_inf(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let (negative, positive) = (a.flag("detect_negative", true)?, a.flag("detect_positive", true)?);
    Ok(Box::new(Test::IsInf { negative, positive }))
}

pub(crate) fn not(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Test::Not))
}

pub(crate) fn bitwise_not(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Test::BitwiseNot))
}

/// Bounds values from below and above; the bounds are attributes in old versions and inputs in new ones.
#[derive(Debug)]
pub(crate) struct Clip {
    bounds: Option<(f32, f32)>,
}

impl Clip {
    /// Returns the function if the bounds are constants.
    pub(crate) fn function(&self, constants: &[Option<Tensor>]) -> Option<Function> {
        if let Some((low, high)) = self.bounds {
            return Some(Function::Clip(low, high));
        }
        let bound = |i: usize, default: f32| match constants.get(i) {
            None => Some(default),
            Some(None) => None,
            Some(Some(value)) => match value.f32s() {
                Ok([one]) => Some(*one),
                _ => None,
            },
        };
        (constants.len() > 1).then_some(())?;
        Some(Function::Clip(bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?))
    }
}

impl Operator for Clip {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut x = inputs.take(0)?;
        if let (Some((low, high)), Data::F32(values)) = (self.bounds, x.data_mut()) {
            Function::Clip(low, high).apply(ctx, values.make_mut());
            return one(x);
        }
        macro_rules! clip {
            ($values:expr, $ty:ty) => {{
                let bound = |i: usize| -> Result<Option<$ty>, Error> {
                    match inputs.optional_values::<$ty>(i)? {
                        None => Ok(None),
                        Some([one]) => Ok(Some(*one)),
                        Some(other) => {
                            Err(format!("input {i} has {} values where one should be", other.len()).into())
                        }
                    }
                };
                let (mut low, mut high) = (bound(1)?, bound(2)?);
                if let Some(bounds) = self.bounds {
                    (low, high) = (Some(bounds.0 as $ty), Some(bounds.1 as $ty));
                }
                for v in $values.make_mut().iter_mut() {
                    if let Some(low) = low.filter(|low| *v < *low) {
                        *v = low;
                    }
                    if let Some(high) = high.filter(|high| *v > *high) {
                        *v = high;
                    }
                }
            }};
        }
        match x.data_mut() {
            Data::F32(values) => {
                let bound = |i: usize, default: f32| -> Result<f32, Error> {
                    match inputs.optional_values::<f32>(i)? {
                        None => Ok(default),
                        Some([one]) => Ok(*one),
                        Some(other) => {
                            Err(format!("input {i} has {} values where one should be", other.len()).into())
                        }
                    }
                };
                let (low, high) = (bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?);
                Function::Clip(low, high).apply(ctx, values.make_mut());
            }
            Data::F64(v) => clip!(v, f64),
            Data::I64(v) => clip!(v, i64),
            Data::I32(v) => clip!(v, i32),
            Data::I16(v) => clip!(v, i16),
            Data::I8(v) => clip!(v, i8),
            Data::U64(v) => clip!(v, u64),
            Data::U32(v) => clip!(v, u32),
            Data::U16(v) => clip!(v, u16),
            Data::U8(v) => clip!(v, u8),
            other => return Err(format!("does not take values of type {}", other.ty().name()).into()),
        }
        one(x)
    }
}

/// Makes a `Clip` whose bounds are attributes.
pub(crate) fn clip_6(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["consumed_inputs"]);
    let bounds = (a.float_or("min", f32::MIN)?, a.float_or("max", f32::MAX)?);
    Ok(Box::new(Clip { bounds: Some(bounds) }))
}

/// Makes a `Clip` whose bounds are inputs.
pub(crate) fn clip(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Clip { bounds: None }))
}
