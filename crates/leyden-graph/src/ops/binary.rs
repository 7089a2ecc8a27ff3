//! Functions of two values: arithmetic, comparisons, logic, bits; and those of any number (`Sum`, `Max`, ...).

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::elementwise::Joined;
use crate::tensor::{Buffer, Data, Element, Tensor, each_number};
use smallvec::SmallVec;

/// Arithmetic of a type; integers wrap.
pub(crate) trait Number: Element {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn greater(self, other: Self) -> Self;
    fn less(self, other: Self) -> Self;
    /// Remainder with the sign of the dividend.
    fn remainder(self, other: Self) -> Self;
    /// Remainder with the sign of the divisor.
    fn modulo(self, other: Self) -> Self;
    fn to_f64(self) -> f64;
    fn from_f64(x: f64) -> Self;
    /// True if a division by zero is an error.
    const INTEGER: bool;
}

macro_rules! floats {
    ($($ty:ty, $rem:path;)*) => {
        $(impl Number for $ty {
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn greater(self, other: Self) -> Self {
                if self.is_nan() || self > other { self } else { other }
            }
            fn less(self, other: Self) -> Self {
                if self.is_nan() || self < other { self } else { other }
            }
            fn remainder(self, other: Self) -> Self {
                $rem(self, other)
            }
            fn modulo(self, other: Self) -> Self {
                let r = $rem(self, other);
                if r != 0.0 && (r < 0.0) != (other < 0.0) { r + other } else { r }
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn from_f64(x: f64) -> Self {
                x as $ty
            }
            const INTEGER: bool = false;
        })*
    };
}
floats! { f32, libm::fmodf; f64, libm::fmod; }

macro_rules! integers {
    ($($ty:ty)*) => {
        $(impl Number for $ty {
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            fn greater(self, other: Self) -> Self {
                self.max(other)
            }
            fn less(self, other: Self) -> Self {
                self.min(other)
            }
            fn remainder(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[allow(unused_comparisons, reason = "unsigned types are never below zero")]
            fn modulo(self, other: Self) -> Self {
                let r = self.remainder(other);
                if r != 0 && (r < 0) != (other < 0) { r.wrapping_add(other) } else { r }
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn from_f64(x: f64) -> Self {
                x as $ty
            }
            const INTEGER: bool = true;
        })*
    };
}
integers! { i64 i32 i16 i8 u64 u32 u16 u8 }

/// A function of two numbers of one type that gives a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    Remainder,
    Modulo,
}

fn arithmetic<T: Number>(op: Arithmetic, a: &mut Tensor, b: &[T], shape: &[usize]) -> Result<Tensor, Error> {
    if T::INTEGER
        && matches!(op, Arithmetic::Div | Arithmetic::Remainder | Arithmetic::Modulo)
        && b.iter().any(|v| *v == T::default())
    {
        return Err("divides an integer by zero".into());
    }
    let joined = Joined::new(a.shape(), shape)?;
    macro_rules! with {
        ($f:expr) => {{
            let in_place = joined.shape.as_slice() == a.shape();
            let own = if in_place { T::of_mut(a.data_mut()).and_then(Buffer::get_mut) } else { None };
            if let Some(own) = own {
                joined.map_in_place(own, b, $f);
                return Ok(a.clone());
            }
            Ok(Tensor::of(joined.shape.clone(), joined.map(a.values::<T>()?, b, $f)))
        }};
    }
    match op {
        Arithmetic::Add => with!(T::add),
        Arithmetic::Sub => with!(T::sub),
        Arithmetic::Mul => with!(T::mul),
        Arithmetic::Div => with!(T::div),
        Arithmetic::Max => with!(T::greater),
        Arithmetic::Min => with!(T::less),
        Arithmetic::Remainder => with!(T::remainder),
        Arithmetic::Modulo => with!(T::modulo),
    }
}

/// Returns an error for two tensors of unlike types.
fn unlike(a: &Tensor, b: &Tensor) -> Error {
    format!("does not take values of types {} and {}", a.ty().name(), b.ty().name()).into()
}

/// Computes a function of two tensors.
pub(crate) fn combine(ctx: &Context<'_>, op: Arithmetic, mut a: Tensor, b: Tensor) -> Result<Tensor, Error> {
    let shape = crate::shape::broadcast(a.shape(), b.shape())?;
    ctx.elements(&shape, a.ty().bytes())?;
    // The other operand's memory serves too, where the order does not matter.
    let commutes = matches!(op, Arithmetic::Add | Arithmetic::Mul);
    let mut b = b;
    if commutes && a.shape() != shape.as_slice() && b.shape() == shape.as_slice() {
        std::mem::swap(&mut a, &mut b);
    }
    fn typed<T: Number>(op: Arithmetic, a: &mut Tensor, b: &Tensor) -> Result<Tensor, Error> {
        let values = T::of(b.data()).ok_or_else(|| unlike(a, b))?;
        arithmetic::<T>(op, a, values, b.shape())
    }
    match a.ty() {
        crate::tensor::ElementType::F32 => typed::<f32>(op, &mut a, &b),
        crate::tensor::ElementType::F64 => typed::<f64>(op, &mut a, &b),
        crate::tensor::ElementType::I64 => typed::<i64>(op, &mut a, &b),
        crate::tensor::ElementType::I32 => typed::<i32>(op, &mut a, &b),
        crate::tensor::ElementType::I16 => typed::<i16>(op, &mut a, &b),
        crate::tensor::ElementType::I8 => typed::<i8>(op, &mut a, &b),
        crate::tensor::ElementType::U64 => typed::<u64>(op, &mut a, &b),
        crate::tensor::ElementType::U32 => typed::<u32>(op, &mut a, &b),
        crate::tensor::ElementType::U16 => typed::<u16>(op, &mut a, &b),
        crate::tensor::ElementType::U8 => typed::<u8>(op, &mut a, &b),
        _ => Err(unlike(&a, &b)),
    }
}

/// Alignment of the second shape with the first in versions before 7: at the end, or at an axis if `broadcast` is set.
#[derive(Clone, Copy, Debug)]
struct Old {
    axis: Option<i64>,
}

impl Old {
    fn read(a: &Attributes<'_, '_>) -> Result<Option<Old>, Error> {
        a.ignore(&["consumed_inputs"]);
        let broadcast = a.int_or("broadcast", 0)? != 0;
        let axis = a.int("axis")?;
        Ok(broadcast.then_some(Old { axis }))
    }

    /// Gives the second operand trailing dimensions of size 1.
    fn aligned(self, a: &Tensor, b: Tensor) -> Result<Tensor, Error> {
        let Some(axis) = self.axis else { return Ok(b) };
        let axis = crate::shape::axis(axis, a.rank().max(1))?;
        let mut shape = crate::shape::Shape::from_slice(b.shape());
        if axis + shape.len() > a.rank() {
            return Err(format!("axis {axis} does not fit shapes {:?} and {:?}", a.shape(), b.shape()).into());
        }
        shape.extend(std::iter::repeat_n(1, a.rank() - axis - shape.len()));
        b.reshaped(shape)
    }
}

/// Arithmetic of two tensors.
#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) op: Arithmetic,
    old: Option<Old>,
}

impl Binary {
    /// Returns true for an addition with the broadcast of version 7.
    pub(crate) fn is_plain_add(&self) -> bool {
        self.op == Arithmetic::Add && self.old.is_none()
    }
}

impl Operator for Binary {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let (a, mut b) = (inputs.take(0)?, inputs.take(1)?);
        if let Some(old) = self.old {
            b = old.aligned(&a, b)?;
        }
        one(combine(ctx, self.op, a, b)?)
    }
}

macro_rules! arithmetics {
    ($($make:ident $op:ident,)*) => {
        $(pub(crate) fn $make(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
            let old = if a.opset < 7 { Old::read(a)? } else { None };
            Ok(Box::new(Binary { op: Arithmetic::$op, old }))
        })*
    };
}
arithmetics! { add Add, sub Sub, mul Mul, div Div, }

pub(crate) fn modulo(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let op = if a.flag("fmod", false)? { Arithmetic::Remainder } else { Arithmetic::Modulo };
    Ok(Box::new(Binary { op, old: None }))
}

/// Functions of any number of tensors, from the first to the last.
#[derive(Clone, Copy, Debug)]
enum Variadic {
    Sum,
    Mean,
    Max,
    Min,
}

impl Operator for Variadic {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let op = match self {
            Variadic::Sum | Variadic::Mean => Arithmetic::Add,
            Variadic::Max => Arithmetic::Max,
            Variadic::Min => Arithmetic::Min,
        };
        let mut sum = inputs.take(0)?;
        for i in 1..inputs.len() {
            sum = combine(ctx, op, sum, inputs.take(i)?)?;
        }
        if let Variadic::Mean = self {
            let n = inputs.len();
            match sum.data_mut() {
                Data::F32(v) => v.make_mut().iter_mut().for_each(|v| *v /= n as f32),
                Data::F64(v) => v.make_mut().iter_mut().for_each(|v| *v /= n as f64),
                other => return Err(format!("does not take values of type {}", other.ty().name()).into()),
            }
        }
        one(sum)
    }
}

macro_rules! variadics {
    ($($make:ident $op:ident,)*) => {
        $(pub(crate) fn $make(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
            a.ignore(&["consumed_inputs"]);
            Ok(Box::new(Variadic::$op))
        })*
    };
}
variadics! { sum Sum, mean Mean, max Max, min Min, }

/// Comparisons.
#[derive(Clone, Copy, Debug)]
enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug)]
struct Compare(Order, Option<Old>);

impl Operator for Compare {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let (a, mut b) = (inputs.take(0)?, inputs.take(1)?);
        if let Some(old) = self.1 {
            b = old.aligned(&a, b)?;
        }
        let joined = Joined::new(a.shape(), b.shape())?;
        ctx.elements(&joined.shape, 1)?;
        fn compared<T: PartialOrd + Copy>(order: Order, joined: &Joined, a: &[T], b: &[T]) -> Vec<u8> {
            match order {
                Order::Equal => joined.map(a, b, |a, b| u8::from(a == b)),
                Order::Less => joined.map(a, b, |a, b| u8::from(a < b)),
                Order::LessOrEqual => joined.map(a, b, |a, b| u8::from(a <= b)),
                Order::Greater => joined.map(a, b, |a, b| u8::from(a > b)),
                Order::GreaterOrEqual => joined.map(a, b, |a, b| u8::from(a >= b)),
            }
        }
        fn typed<T: Element>(order: Order, joined: &Joined, a: &Buffer<T>, b: &Tensor) -> Option<Vec<u8>> {
            T::of(b.data()).map(|b| compared(order, joined, a, b))
        }
        let values = match (a.data(), b.data()) {
            (Data::Bool(a), Data::Bool(b)) => Some(compared(self.0, &joined, a, b)),
            (Data::Text(x), Data::Text(y)) => {
                let (x, y): (Vec<&String>, Vec<&String>) = (x.iter().collect(), y.iter().collect());
                Some(compared(self.0, &joined, &x, &y))
            }
            (data, _) => each_number!(data, values => typed(self.0, &joined, values, &b), None),
        };
        let values = values.ok_or_else(|| unlike(&a, &b))?;
        one(Tensor::bools(joined.shape, values))
    }
}

macro_rules! comparisons {
    ($($make:ident $order:ident,)*) => {
        $(pub(crate) fn $make(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
            let old = if a.opset < 7 { Old::read(a)? } else { None };
            Ok(Box::new(Compare(Order::$order, old)))
        })*
    };
}
comparisons! {
    equal Equal, less Less, less_or_equal LessOrEqual, greater Greater, greater_or_equal GreaterOrEqual,
}

/// Logic of truth values, and of bits of integers.
#[derive(Clone, Copy, Debug)]
enum Bits {
    And,
    Or,
    Xor,
}

#[derive(Debug)]
struct Logic(Bits, bool, Option<Old>);

impl Operator for Logic {
    fn run(&self, _ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let (a, mut b) = (inputs.take(0)?, inputs.take(1)?);
        if let Some(old) = self.2 {
            b = old.aligned(&a, b)?;
        }
        let joined = Joined::new(a.shape(), b.shape())?;
        macro_rules! bits {
            ($x:expr, $y:expr) => {
                match self.0 {
                    Bits::And => joined.map($x, $y, |x, y| x & y),
                    Bits::Or => joined.map($x, $y, |x, y| x | y),
                    Bits::Xor => joined.map($x, $y, |x, y| x ^ y),
                }
            };
        }
        let data = match (a.data(), b.data()) {
            (Data::Bool(x), Data::Bool(y)) if !self.1 => Data::Bool(Buffer::new(bits!(x, y))),
            (Data::I64(x), Data::I64(y)) if self.1 => Data::I64(Buffer::new(bits!(x, y))),
            (Data::I32(x), Data::I32(y)) if self.1 => Data::I32(Buffer::new(bits!(x, y))),
            (Data::I16(x), Data::I16(y)) if self.1 => Data::I16(Buffer::new(bits!(x, y))),
            (Data::I8(x), Data::I8(y)) if self.1 => Data::I8(Buffer::new(bits!(x, y))),
            (Data::U64(x), Data::U64(y)) if self.1 => Data::U64(Buffer::new(bits!(x, y))),
            (Data::U32(x), Data::U32(y)) if self.1 => Data::U32(Buffer::new(bits!(x, y))),
            (Data::U16(x), Data::U16(y)) if self.1 => Data::U16(Buffer::new(bits!(x, y))),
            (Data::U8(x), Data::U8(y)) if self.1 => Data::U8(Buffer::new(bits!(x, y))),
            _ => return Err(unlike(&a, &b)),
        };
        one(Tensor::with(joined.shape, data))
    }
}

macro_rules! logic {
    ($($make:ident $op:ident $bitwise:literal,)*) => {
        $(pub(crate) fn $make(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
            let old = if a.opset < 7 { Old::read(a)? } else { None };
            Ok(Box::new(Logic(Bits::$op, $bitwise, old)))
        })*
    };
}
logic! {
    and And false, or Or false, xor Xor false, bitwise_and And true, bitwise_or Or true, bitwise_xor Xor true,
}

/// Shift of integers; by as many bits as there are, or more, nothing is left but the sign.
#[derive(Debug)]
struct Shift {
    right: bool,
}

impl Operator for Shift {
    fn run(&self, _ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let (a, b) = (inputs.take(0)?, inputs.take(1)?);
        let joined = Joined::new(a.shape(), b.shape())?;
        macro_rules! shifted {
            ($x:expr, $y:expr) => {
                joined.map($x, $y, |x, y| {
                    let by = u32::try_from(y).unwrap_or(u32::MAX);
                    (if self.right { x.checked_shr(by) } else { x.checked_shl(by) }).unwrap_or(0)
                })
            };
        }
        macro_rules! signed {
            ($x:expr, $y:expr) => {
                joined.map($x, $y, |x, y| {
                    let by = u32::try_from(y).unwrap_or(u32::MAX);
                    match self.right {
                        true => x.checked_shr(by).unwrap_or(if x < 0 { -1 } else { 0 }),
                        false => x.checked_shl(by).unwrap_or(0),
                    }
                })
            };
        }
        let data = match (a.data(), b.data()) {
            (Data::U64(x), Data::U64(y)) => Data::U64(Buffer::new(shifted!(x, y))),
            (Data::U32(x), Data::U32(y)) => Data::U32(Buffer::new(shifted!(x, y))),
            (Data::U16(x), Data::U16(y)) => Data::U16(Buffer::new(shifted!(x, y))),
            (Data::U8(x), Data::U8(y)) => Data::U8(Buffer::new(shifted!(x, y))),
            (Data::I64(x), Data::I64(y)) => Data::I64(Buffer::new(signed!(x, y))),
            (Data::I32(x), Data::I32(y)) => Data::I32(Buffer::new(signed!(x, y))),
            (Data::I16(x), Data::I16(y)) => Data::I16(Buffer::new(signed!(x, y))),
            (Data::I8(x), Data::I8(y)) => Data::I8(Buffer::new(signed!(x, y))),
            _ => return Err(unlike(&a, &b)),
        };
        one(Tensor::with(joined.shape, data))
    }
}

pub(crate) fn bit_shift(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Shift { right: a.choice("direction", &["RIGHT", "LEFT"])? == 0 }))
}

/// Power; the exponent may be of another type, and the result has the base's.
#[derive(Debug)]
struct Pow(Option<Old>);

/// Returns the power of two integers, wrapped.
fn int_pow(base: i64, exponent: i64) -> i64 {
    match u32::try_from(exponent) {
        Ok(n) => base.wrapping_pow(n),
        Err(_) if exponent > 0 => {
            if base == 0 || base == 1 {
                base
            } else {
                0
            }
        }
        Err(_) => match base {
            1 => 1,
            -1 => {
                if exponent % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        },
    }
}

/// Returns a power of a float; small whole exponents are products.
fn float_pow(x: f64, y: f64) -> f64 {
    if y == 2.0 {
        x * x
    } else if y == 0.5 {
        x.sqrt()
    } else if y == 3.0 {
        x * x * x
    } else {
        libm::pow(x, y)
    }
}

impl Operator for Pow {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let (a, mut b) = (inputs.take(0)?, inputs.take(1)?);
        if let Some(old) = self.0 {
            b = old.aligned(&a, b)?;
        }
        if let (Data::F32(values), Data::F32(exponent)) = (a.data(), b.data())
            && exponent[..] == [2.0]
            && b.rank() <= a.rank()
        {
            let squares = values.iter().map(|x| x * x).collect::<Vec<f32>>();
            return one(Tensor::of(a.shape(), squares));
        }
        let joined = Joined::new(a.shape(), b.shape())?;
        ctx.elements(&joined.shape, 8)?;
        let exponent: Vec<f64> = each_number!(b.data(), v => v.iter().map(|v| v.to_f64()).collect(), {
            return Err(unlike(&a, &b));
        });
        let ints = |values: Vec<i64>| -> Result<Vec<i64>, Error> {
            let exponents: Vec<i64> = each_number!(b.data(), v => v.iter().map(|v| v.to_f64() as i64).collect(), {
                return Err(unlike(&a, &b));
            });
            Ok(joined.map(&values, &exponents, int_pow))
        };
        let whole = !b.ty().is_float();
        let data = match a.data() {
            Data::F32(x) => {
                Data::F32(Buffer::new(joined.map(x, &exponent, |x, y| float_pow(f64::from(x), y) as f32)))
            }
            Data::F64(x) => Data::F64(Buffer::new(joined.map(x, &exponent, float_pow))),
            Data::I64(x) if whole => Data::I64(Buffer::new(ints(x.to_vec())?)),
            Data::I32(x) if whole => {
                let values = ints(x.iter().map(|v| i64::from(*v)).collect())?;
                Data::I32(Buffer::new(values.into_iter().map(|v| v as i32).collect()))
            }
            Data::I64(x) => {
                Data::I64(Buffer::new(joined.map(x, &exponent, |x, y| libm::pow(x as f64, y) as i64)))
            }
            Data::I32(x) => {
                Data::I32(Buffer::new(joined.map(x, &exponent, |x, y| libm::pow(f64::from(x), y) as i32)))
            }
            _ => return Err(unlike(&a, &b)),
        };
        one(Tensor::with(joined.shape, data))
    }
}

pub(crate) fn pow(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Pow(if a.opset < 7 { Old::read(a)? } else { None })))
}

/// Leaky ReLU with a slope for each channel.
#[derive(Debug)]
struct PRelu {
    old: bool,
}

impl Operator for PRelu {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let (x, mut slope) = (inputs.take(0)?, inputs.take(1)?);
        if self.old && slope.rank() == 1 && slope.len() > 1 && x.rank() > 2 {
            // Before version 7 the only dimension is that of the channels.
            let mut shape = crate::shape::Shape::from_slice(slope.shape());
            shape.extend(std::iter::repeat_n(1, x.rank() - 2));
            slope = slope.reshaped(shape)?;
        }
        let joined = Joined::new(x.shape(), slope.shape())?;
        ctx.elements(&joined.shape, 8)?;
        let values = each_number!(x.data(), v => {
            fn of<T: Number>(joined: &Joined, x: &[T], slope: &Tensor) -> Result<Tensor, Error> {
                let zero = T::default();
                let f = |x: T, s: T| if x < zero { s.mul(x) } else { x };
                Ok(Tensor::of(joined.shape.clone(), joined.map(x, slope.values::<T>()?, f)))
            }
            of(&joined, v, &slope)?
        }, return Err(unlike(&x, &slope)));
        one(values)
    }
}

pub(crate) fn prelu(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["consumed_inputs"]);
    Ok(Box::new(PRelu { old: a.opset < 7 }))
}

/// Values of one of two tensors, by a condition.
#[derive(Debug)]
struct Where;

impl Operator for Where {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let (condition, a, b) = (inputs.take(0)?, inputs.take(1)?, inputs.take(2)?);
        let shape = crate::shape::broadcast(a.shape(), b.shape())?;
        let joined = Joined::new(condition.shape(), &shape)?;
        ctx.elements(&joined.shape, a.ty().bytes())?;
        let mask = condition.truths()?;
        let shape = joined.shape;
        let strides: SmallVec<[_; 3]> = [condition.shape(), a.shape(), b.shape()]
            .iter()
            .map(|s| crate::shape::broadcast_strides(s, &shape))
            .collect();
        let data = crate::tensor::both_types!(a.data(), b.data(), (x, y) => {
            let mut out = Vec::with_capacity(shape.iter().product());
            let last = shape.len().saturating_sub(1);
            let (n, steps) = match shape.last() {
                Some(n) => (*n, [strides[0][last], strides[1][last], strides[2][last]]),
                None => (1, [0; 3]),
            };
            let outer = [&strides[0][..last], &strides[1][..last], &strides[2][..last]];
            crate::shape::for_offsets(&shape[..last], outer, |[m, p, q]| {
                for i in 0..n {
                    let pick = mask[m + i * steps[0]] != 0;
                    out.push(if pick { x[p + i * steps[1]].clone() } else { y[q + i * steps[2]].clone() });
                }
            });
            out
        }, return Err(unlike(&a, &b)));
        one(Tensor::with(shape, data))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn where_op(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Where))
}
