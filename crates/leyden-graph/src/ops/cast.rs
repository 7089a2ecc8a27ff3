//! Conversion between types.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::tensor::{Buffer, Data, ElementType, Tensor, each_number};
use leyden_tensor::quant::{f32_to_bf16, f32_to_f16};
use std::sync::Arc;

/// Numbers that convert as ONNX says: floats to integers by cutting off the fraction, integers by dropping high bits.
trait Cast: Copy {
    fn float(self) -> f64;
    fn int(self) -> i64;
}

macro_rules! ints {
    ($($ty:ty)*) => {
        $(impl Cast for $ty {
            fn float(self) -> f64 {
                self as f64
            }
            fn int(self) -> i64 {
                self as i64
            }
        })*
    };
}
ints! { i64 i32 i16 i8 u64 u32 u16 u8 }

macro_rules! floats {
    ($($ty:ty)*) => {
        $(impl Cast for $ty {
            fn float(self) -> f64 {
                f64::from(self)
            }
            fn int(self) -> i64 {
                // Values of unsigned 64-bit integers keep their bits.
                if self > i64::MAX as $ty { self as u64 as i64 } else { self as i64 }
            }
        })*
    };
}
floats! { f32 f64 }

/// Returns a text as numpy writes the number.
fn text(x: f64, digits: usize) -> String {
    if x.is_nan() {
        return "NaN".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "INF" } else { "-INF" }.to_owned();
    }
    if digits <= 9 { format!("{}", x as f32) } else { format!("{x}") }
}

/// Reads a number from a text.
fn number(text: &str) -> Result<f64, Error> {
    let trimmed = text.trim();
    let lower = trimmed.to_ascii_lowercase();
    let found = match lower.as_str() {
        "inf" | "+inf" | "infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        other => other.parse().ok(),
    };
    found.ok_or_else(|| format!("text `{trimmed}` is no number").into())
}

fn cast_numbers<T: Cast>(values: &[T], to: ElementType, float: bool) -> Data {
    macro_rules! ints {
        ($variant:ident, $ty:ty) => {
            Data::$variant(Buffer::new(values.iter().map(|v| v.int() as $ty).collect()))
        };
    }
    match to {
        // Integers of 64 bits go to floats of 32 bits in one rounding.
        ElementType::F32 if !float => Data::F32(Buffer::new(values.iter().map(|v| v.int() as f32).collect())),
        ElementType::F32 => Data::F32(Buffer::new(values.iter().map(|v| v.float() as f32).collect())),
        ElementType::F64 => Data::F64(Buffer::new(values.iter().map(|v| v.float()).collect())),
        ElementType::F16 => {
            Data::F16(Buffer::new(values.iter().map(|v| f32_to_f16(v.float() as f32)).collect()))
        }
        ElementType::BF16 => {
            Data::BF16(Buffer::new(values.iter().map(|v| f32_to_bf16(v.float() as f32)).collect()))
        }
        ElementType::I64 => ints!(I64, i64),
        ElementType::I32 => ints!(I32, i32),
        ElementType::I16 => ints!(I16, i16),
        ElementType::I8 => ints!(I8, i8),
        ElementType::U64 => ints!(U64, u64),
        ElementType::U32 => ints!(U32, u32),
        ElementType::U16 => ints!(U16, u16),
        ElementType::U8 => ints!(U8, u8),
        ElementType::Bool => {
            Data::Bool(Buffer::new(values.iter().map(|v| u8::from(v.float() != 0.0)).collect()))
        }
        ElementType::Text => {
            let text = |v: &T| if float { text(v.float(), 9) } else { v.int().to_string() };
            Data::Text(Arc::new(values.iter().map(text).collect()))
        }
    }
}

/// Returns a tensor of another type.
pub(crate) fn cast(x: Tensor, to: ElementType) -> Result<Tensor, Error> {
    if x.ty() == to {
        return Ok(x);
    }
    let x = x.widened();
    if x.ty() == to {
        return Ok(x);
    }
    let data = match x.data() {
        Data::Bool(values) => cast_numbers(&values[..], to, false),
        Data::Text(values) => {
            let values: Vec<f64> = match to {
                ElementType::I64 | ElementType::I32 | ElementType::I16 | ElementType::I8 => {
                    let ints = values.iter().map(|v| match v.trim().parse::<i64>() {
                        Ok(n) => Ok(n),
                        Err(_) => number(v).map(|x| x as i64),
                    });
                    let ints = ints.collect::<Result<Vec<i64>, Error>>()?;
                    return Ok(Tensor::with(x.shape(), cast_numbers(&ints, to, false)));
                }
                _ => values.iter().map(|v| number(v)).collect::<Result<_, _>>()?,
            };
            cast_numbers(&values, to, true)
        }
        data => {
            let float = data.ty().is_float();
            each_number!(data, v => cast_numbers(&v[..], to, float), unreachable!("other types are above"))
        }
    };
    Ok(Tensor::with(x.shape(), data))
}

#[derive(Debug)]
struct Conversion {
    to: Option<ElementType>,
}

impl Operator for Conversion {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.take(0)?;
        let to = match self.to {
            Some(to) => to,
            None => inputs.tensor(1)?.ty(),
        };
        ctx.elements(x.shape(), to.bytes())?;
        one(cast(x, to)?)
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

/// Makes `Cast`; before version 6 the type is a text.
pub(crate) fn cast_op(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["saturate", "round_mode"]);
    let to = if a.opset < 6 {
        let name = a.text("to")?.unwrap_or_default();
        let names =
            [("FLOAT", "F32"), ("DOUBLE", "F64"), ("FLOAT16", "F16"), ("INT64", "I64"), ("INT32", "I32")];
        let more =
            [("INT16", "I16"), ("INT8", "I8"), ("UINT8", "U8"), ("BOOL", "BOOL"), ("STRING", "STRING")];
        let found =
            names.iter().chain(&more).find(|row| row.0 == name).and_then(|row| ElementType::named(row.1));
        found.ok_or_else(|| format!("attribute `to` is `{name}`, which is not supported"))?
    } else {
        ElementType::of_onnx(a.int("to")?.ok_or("attribute `to` is missing")?)?
    };
    Ok(Box::new(Conversion { to: Some(to) }))
}

/// Makes `CastLike`.
pub(crate) fn cast_like(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["saturate", "round_mode"]);
    Ok(Box::new(Conversion { to: None }))
}
