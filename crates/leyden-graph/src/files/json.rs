//! Tensors as nested lists in JSON.

use crate::error::Error;
use crate::ops::cast;
use crate::outline::GraphInput;
use crate::shape::{MAX_RANK, Shape};
use crate::tensor::{Data, ElementType, Tensor, each_number};
use crate::value::{Key, Value};
use leyden_tensor::quant::{bf16_to_f32, f16_to_f32};
use serde_json::{Map, Value as Json, json};

/// Reads nested lists of numbers, truth values or texts as a tensor of the input's type.
pub(super) fn read(bytes: &[u8], input: &GraphInput) -> Result<Tensor, Error> {
    let json: Json =
        serde_json::from_slice(bytes).map_err(|e| Error::invalid(format!("is not valid JSON: {e}")))?;
    let mut shape = Shape::new();
    let mut at = &json;
    while let Json::Array(list) = at {
        shape.push(list.len());
        if shape.len() > MAX_RANK {
            return Err(format!("lists are nested more than {MAX_RANK} deep").into());
        }
        match list.first() {
            Some(first) => at = first,
            None => break,
        }
    }
    let mut flat = Vec::new();
    flatten(&json, &shape, &mut flat)?;
    let ty = input.ty.unwrap_or(ElementType::F32);
    let bad = |v: &Json| Error::invalid(format!("has {v} where a value of type {} should be", ty.name()));
    if ty == ElementType::Text {
        let texts = flat.iter().map(|v| v.as_str().map(str::to_owned).ok_or_else(|| bad(v)));
        return Ok(Tensor::texts(shape, texts.collect::<Result<_, _>>()?));
    }
    if ty.is_float() {
        let numbers =
            flat.iter().map(|v| v.as_f64().ok_or_else(|| bad(v))).collect::<Result<Vec<f64>, _>>()?;
        return cast::cast(Tensor::of(shape, numbers), ty);
    }
    let whole = |v: &&Json| match v {
        Json::Bool(b) => Ok(i64::from(*b)),
        v => v.as_i64().ok_or_else(|| bad(v)),
    };
    let numbers = flat.iter().map(whole).collect::<Result<Vec<i64>, _>>()?;
    let tensor = cast::cast(Tensor::of(shape.clone(), numbers.clone()), ty)?;
    // Values that do not fit the type are an error, not cut off.
    let back = cast::cast(tensor.clone(), ElementType::I64)?;
    match back.ints()?.iter().zip(&numbers).find(|(a, b)| a != b) {
        Some((_, n)) => Err(format!("has {n}, which does not fit type {}", ty.name()).into()),
        None => Ok(tensor),
    }
}

fn flatten<'j>(json: &'j Json, shape: &[usize], to: &mut Vec<&'j Json>) -> Result<(), Error> {
    match (json, shape) {
        (Json::Array(list), [n, rest @ ..]) if list.len() == *n => {
            list.iter().try_for_each(|item| flatten(item, rest, to))
        }
        (Json::Array(_), _) | (_, [_, ..]) => Err("lists of one level differ in length".into()),
        (value, []) => {
            to.push(value);
            Ok(())
        }
    }
}

/// Returns a number of JSON; those that JSON lacks are texts.
fn float(x: f64) -> Json {
    match serde_json::Number::from_f64(x) {
        Some(number) => Json::Number(number),
        None => json!(if x.is_nan() {
            "NaN"
        } else if x > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }),
    }
}

/// Returns a value as JSON: of a tensor `{"type", "shape", "data"}` with the values in one list, of a sequence a list,
/// of a map an object.
#[must_use]
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Absent => Json::Null,
        Value::Sequence(list) => Json::Array(list.iter().map(to_json).collect()),
        Value::Map(map) => {
            let key = |key: &Key| match key {
                Key::Int(n) => n.to_string(),
                Key::Text(text) => text.clone(),
            };
            Json::Object(map.iter().map(|(k, v)| (key(k), single(*v))).collect::<Map<_, _>>())
        }
        Value::Tensor(tensor) => {
            json!({ "type": tensor.ty().name(), "shape": tensor.shape(), "data": data(tensor) })
        }
    }
}

/// Returns a 32-bit float with no more digits than it has.
fn single(x: f32) -> Json {
    x.to_string().parse::<f64>().map_or_else(|_| float(f64::from(x)), float)
}

fn data(tensor: &Tensor) -> Vec<Json> {
    match tensor.data() {
        Data::F32(v) => v.iter().map(|v| single(*v)).collect(),
        Data::F64(v) => v.iter().map(|v| float(*v)).collect(),
        Data::F16(v) => v.iter().map(|v| single(f16_to_f32(*v))).collect(),
        Data::BF16(v) => v.iter().map(|v| single(bf16_to_f32(*v))).collect(),
        Data::Bool(v) => v.iter().map(|v| Json::Bool(*v != 0)).collect(),
        Data::Text(v) => v.iter().map(|v| json!(v)).collect(),
        other => each_number!(other, v => v.iter().map(|v| json!(v)).collect(), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(ty: ElementType) -> GraphInput {
        GraphInput { name: "x".to_owned(), ty: Some(ty), shape: None }
    }

    #[test]
    fn lists_become_tensors_and_back() {
        let x = read(b"[[1, 2.5], [3, 4]]", &input(ElementType::F32)).unwrap();
        let json = to_json(&x.into());
        assert_eq!(json, json!({ "type": "F32", "shape": [2, 2], "data": [1.0, 2.5, 3.0, 4.0] }));
        let x = read(b"[true, false]", &input(ElementType::Bool)).unwrap();
        assert_eq!(to_json(&x.into())["data"], json!([true, false]));
        assert_eq!(read(b"7", &input(ElementType::I64)).unwrap().shape(), [0_usize; 0]);
        let nan = to_json(&Tensor::vector(vec![f32::NAN, 0.1]).into());
        assert_eq!(nan["data"], json!(["NaN", 0.1]));
    }

    #[test]
    fn lists_that_do_not_fit_are_errors() {
        for (text, ty, wanted) in [
            ("[[1], [2, 3]]", ElementType::F32, "lists of one level differ in length"),
            ("[1, [2]]", ElementType::F32, "lists of one level differ in length"),
            ("[300]", ElementType::U8, "has 300, which does not fit type U8"),
            ("[1.5]", ElementType::I64, "has 1.5 where a value of type I64 should be"),
            ("[", ElementType::I64, "is not valid JSON: EOF while parsing a list at line 1 column 1"),
        ] {
            assert_eq!(read(text.as_bytes(), &input(ty)).unwrap_err().to_string(), wanted);
        }
    }
}
