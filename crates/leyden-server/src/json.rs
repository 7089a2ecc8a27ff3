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
    if text.starts_with('\u{feff}') {
        let message = "the body begins with a byte order mark, at byte 0; remove it";
        return Err(ApiError::body(message));
    }
    let left = Cell::new(values);
    let mut reader = serde_json::Deserializer::from_str(text);
    let seed = Seed { depth, left: &left };
    let value = seed.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|e| ApiError::body(explained(text, &e)))
}

/// Messages of the parser, and clearer ones.
const WORDS: &[(&str, &str)] = &[
    ("EOF while parsing a string", "it is incomplete: it ends within a string"),
    ("EOF while parsing an object", "it is incomplete: it ends within an object"),
    ("EOF while parsing a list", "it is incomplete: it ends within a list"),
    ("EOF while parsing", "it is incomplete: it ends where a value is expected"),
    ("trailing comma", "there is a comma before the end of a list or object"),
    ("surrogate", "a `\\u` escape is half of a surrogate pair, which is not a character"),
    ("unexpected end of hex escape", "a `\\u` escape is half of a surrogate pair, which is not a character"),
    ("invalid escape", "a string has an unknown escape"),
    ("control character", "a string has an unescaped control character, such as a line break"),
    ("key must be a string", "a key is not in quotation marks"),
    ("trailing characters", "there are characters after its end"),
    ("number out of range", "a number is out of range for 64-bit floats"),
];

/// Names of values in other languages.
const FOREIGN: &[&str] = &["NaN", "nan", "Infinity", "inf", "undefined", "None", "True", "False"];

/// Returns the message of a parser's error, with its place.
fn explained(text: &str, error: &serde_json::Error) -> String {
    let shown = error.to_string();
    let (what, place) = shown.rsplit_once(" at line ").unwrap_or((&shown, ""));
    let place = if place.is_empty() { String::new() } else { format!(", at line {place}") };
    // Errors of this module: the document is JSON, but exceeds a limit or has a duplicate key.
    if error.classify() == serde_json::error::Category::Data {
        return format!("the body cannot be read: {what}{place}");
    }
    let known = WORDS.iter().find(|(word, _)| what.contains(word)).map(|(_, meaning)| *meaning);
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let foreign = foreign_word(line, error.column());
    match (foreign.filter(|_| what.starts_with("expected") || what == "invalid number"), known) {
        (Some(word), _) => format!("the body is not JSON: `{word}` is not a JSON value{place}"),
        (None, Some(meaning)) => format!("the body is not JSON: {meaning}{place}"),
        (None, None) => format!("the body is not JSON: {what}{place}"),
    }
}

/// Returns the foreign word at a column of a line, which counts bytes from 1.
fn foreign_word(line: &str, column: usize) -> Option<&'static str> {
    let is_word = |b: &u8| b.is_ascii_alphabetic();
    let bytes = line.as_bytes();
    let at = column.saturating_sub(1).min(bytes.len());
    // The parser's position may be a byte or two within the word.
    let start = at - bytes[..at].iter().rev().take_while(|b| is_word(b)).count();
    let start = start + bytes[start..].iter().take_while(|b| **b == b'-').count();
    let end = start + bytes[start..].iter().take_while(|b| is_word(b)).count();
    let word = &bytes[start..end];
    FOREIGN.iter().find(|known| known.as_bytes() == word).copied()
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    /// Number of levels that may still be opened.
    depth: usize,
    /// Number of values that may still follow.
    left: &'a Cell<usize>,
}

impl Seed<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| E::custom("it is nested too deeply"))?;
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
                return Err(A::Error::custom(format!("the key {shown:?} occurs twice in an object")));
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
        let cases: &[(&[u8], &str)] = &[
            (b"", "not JSON: it is incomplete: it ends where a value is expected, at line 1 column 0"),
            (b"{", "not JSON: it is incomplete: it ends within an object, at line 1 column 1"),
            (b"{\"a\":\n[1", "it ends within a list, at line 2 column 2"),
            (b"{\"a", "it ends within a string"),
            (b"[[[[]]]]", "cannot be read: it is nested too deeply, at line 1 column "),
            (deep.as_bytes(), "too deeply"),
            (
                br#"{"a":1,"b":2,"a":1}"#,
                "cannot be read: the key \"a\" occurs twice in an object, at line 1 column",
            ),
            (b"[0,1,2,3,4,5,6,7,8,9]", "too many values"),
            (b"\"\xff\"", "not UTF-8: byte 1"),
            (b"\xc0\x80", "not UTF-8: byte 0"),
            (b"\xef\xbb\xbf{}", "byte order mark, at byte 0"),
            (br#"["\ud800"]"#, "half of a surrogate pair, which is not a character, at line 1 column 9"),
            (br#"["\ud800x"]"#, "half of a surrogate pair"),
            (br#"["\udc00"]"#, "half of a surrogate pair"),
            (b"[1,]", "there is a comma before the end of a list or object, at line 1 column 4"),
            (b"{\"a\":1,}", "there is a comma before the end"),
            (b"NaN", "`NaN` is not a JSON value, at line 1 column 1"),
            (b"[1, NaN]", "`NaN` is not a JSON value, at line 1 column 5"),
            (b"{\"a\": -Infinity}", "`Infinity` is not a JSON value"),
            (b"{\"a\": None}", "`None` is not a JSON value"),
            (b"{\"a\": nan}", "`nan` is not a JSON value"),
            (b"{a: 1}", "a key is not in quotation marks"),
            (b"{'a': 1}", "a key is not in quotation marks"),
            (b"[\"a\nb\"]", "control character"),
            (b"1e999", "out of range"),
            (b"{} {}", "there are characters after its end, at line 1 column 4"),
        ];
        for (text, wanted) in cases {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
    }
}
