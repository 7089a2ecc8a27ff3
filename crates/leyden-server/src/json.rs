//! Strict JSON: bounded in depth and number of values, without duplicate keys.

use crate::error::ApiError;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::Cell;
use std::fmt;

/// Parses a body.
///
/// # Errors
/// 400: it is not UTF-8, not JSON, nests deeper than `depth`, has more than `values` values, or a key twice.
pub(crate) fn parse(bytes: &[u8], depth: usize, values: usize) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| ApiError::body(format!("the body is not UTF-8: byte {}", e.valid_up_to())))?;
    let left = Cell::new(values);
    let mut reader = serde_json::Deserializer::from_str(text);
    let seed = Seed { depth, left: &left };
    let value = seed.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|e| ApiError::body(format!("the body is not the JSON wanted here: {e}")))
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    /// Levels that may still open.
    depth: usize,
    /// Values that may still come.
    left: &'a Cell<usize>,
}

impl Seed<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| E::custom("it nests too deep"))?;
        Ok(Seed { depth, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        let left =
            self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom("it has too many values"))?;
        self.left.set(left);
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                let shown: String = key.chars().take(64).collect();
                return Err(A::Error::custom(format!("the key {shown:?} stands twice")));
            }
            map.insert(key, entries.next_value_seed(inner)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(text: &[u8]) -> Result<Value, String> {
        parse(text, 3, 10).map_err(|e| e.message)
    }

    #[test]
    fn documents_are_read() {
        let text = r#" {"a":[1,-2,2.5,"x\u00e9",null,true]} "#;
        assert_eq!(parsed(text.as_bytes()), Ok(json!({"a": [1, -2, 2.5, "xé", null, true]})));
        assert_eq!(parsed(b"[[[]]]"), Ok(json!([[[]]])));
        assert_eq!(parsed(b"[0,1,2,3,4,5,6,7,8]").map(|_| ()), Ok(()));
    }

    #[test]
    fn what_is_not_one_is_refused() {
        let deep = "[".repeat(500_000);
        let cases: [(&[u8], &str); 12] = [
            (b"", "EOF"),
            (b"{", "EOF"),
            (b"[[[[]]]]", "too deep"),
            (deep.as_bytes(), "too deep"),
            (br#"{"a":1,"b":2,"a":1}"#, "\"a\" stands twice"),
            (b"[0,1,2,3,4,5,6,7,8,9]", "too many values"),
            (b"\"\xff\"", "not UTF-8: byte 1"),
            (b"\xc0\x80", "not UTF-8: byte 0"),
            (br#""\ud800""#, "surrogate"),
            (b"NaN", "expected value"),
            (b"1e999", "out of range"),
            (b"{} {}", "trailing"),
        ];
        for (text, wanted) in cases {
            let error = parsed(text).unwrap_err();
            let error =
                if wanted == "surrogate" { error.replace("end of hex escape", "surrogate") } else { error };
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
    }
}
