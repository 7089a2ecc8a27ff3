//! [`Json`]: a JSON object of a model's folder, with accessors that check types.
//!
//! The parser is strict: a key that appears twice is an error (parsers differ in which of the two they
//! use), nesting is limited, and so is the number of values, because a value in memory takes many
//! times its two bytes in the file.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};

/// Maximum number of values, keys included, in a file. Real configurations have a few hundred.
const MAX_VALUES: u32 = 1 << 17;

/// A JSON object and the name of its file.
///
/// Keys are paths: `rope_scaling.factor` is the key `factor` of the object under the key
/// `rope_scaling`. `null` counts as absent, as in the programs that write these files. The accessors
/// come in pairs: `u32(key)` fails if the key is absent, `opt_u32(key)` returns `None`. Both fail,
/// naming file, key, wanted and found type, if the value is of another type or does not fit. An integer
/// is accepted where a float is wanted, because JSON does not distinguish them; nothing else is
/// converted.
///
/// ```
/// use leyden_tensor::Json;
/// let config = Json::parse(br#"{"hidden_size": 64, "rope_scaling": {"factor": 8}, "x": null}"#, "config.json")?;
/// assert_eq!(config.u32("hidden_size")?, 64);
/// assert_eq!(config.opt_f32("rope_scaling.factor")?, Some(8.0));
/// assert_eq!(config.opt_bool("x")?, None);
/// assert_eq!(config.str("hidden_size").unwrap_err().to_string(), "config.json: hidden_size: want string, found integer");
/// assert!(Json::parse(br#"{"a": 1, "a": 2}"#, "config.json").is_err());
/// # Ok::<(), leyden_tensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Json {
    file: Arc<str>,
    object: Map<String, Value>,
}

impl Json {
    /// Parses a file that is in memory; `label` takes the place of its path in errors. `Infinity`, which Python
    /// writes and JSON lacks, is parsed as a string.
    ///
    /// # Errors
    /// The bytes are not JSON, or not an object, or a key appears twice, or nesting or size exceed the
    /// limits.
    pub fn parse(bytes: &[u8], label: &str) -> Result<Json, Error> {
        let file: Arc<str> = label.into();
        let error = |kind: ErrorKind| Error::new(kind).file(&file);
        let parsed = parse(bytes).or_else(|e| with_infinities(bytes).map_or(Err(e), |bytes| parse(&bytes)));
        match parsed.map_err(error)? {
            Value::Object(object) => Ok(Json { file, object }),
            other => Err(error(ErrorKind::WrongType { wanted: "object", found: type_name(&other).into() })),
        }
    }

    /// Returns the file's name as errors show it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the object under a path of keys as a value of its own: errors name the file and this path.
    ///
    /// # Errors
    /// The value is not an object.
    pub fn nested(&self, key: &str) -> Result<Option<Json>, Error> {
        let object = self.opt(key, "object", Value::as_object)?;
        Ok(object.map(|object| Json { file: format!("{}: {key}", self.file).into(), object: object.clone() }))
    }

    /// Returns the object without some keys.
    #[must_use]
    pub fn without(mut self, keys: &[&str]) -> Json {
        self.object.retain(|key, _| !keys.contains(&key.as_str()));
        self
    }

    /// Returns the object itself.
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    /// Returns the value under a path of keys; `None` if there is none or it is `null`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let mut keys = key.split('.');
        let first = self.object.get(keys.next()?)?;
        let value = keys.try_fold(first, |value, key| value.as_object()?.get(key))?;
        (!value.is_null()).then_some(value)
    }

    fn error(&self, key: &str, kind: ErrorKind) -> Error {
        Error::new(kind).item(key).file(&self.file)
    }

    /// Returns the error of a key whose type is not the wanted one, for callers with types of their own.
    pub fn wrong_type(&self, key: &str, wanted: &'static str) -> Error {
        let found = self.get(key).map_or("nothing", type_name).into();
        self.error(key, ErrorKind::WrongType { wanted, found })
    }

    fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| self.error(key, ErrorKind::MissingKey))
    }

    fn opt<'a, T>(
        &'a self,
        key: &str,
        wanted: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong_type(key, wanted))
    }

    fn fit<T: TryFrom<i128>>(&self, key: &str, wanted: &'static str, n: i128) -> Result<T, Error> {
        T::try_from(n).map_err(|_| self.error(key, ErrorKind::OutOfRange { wanted, value: n.to_string() }))
    }

    fn opt_integer<T: TryFrom<i128>>(&self, key: &str, wanted: &'static str) -> Result<Option<T>, Error> {
        self.opt(key, wanted, integer)?.map(|n| self.fit(key, wanted, n)).transpose()
    }

    /// Returns one number or an array of numbers: `eos_token_id` is written in both ways.
    ///
    /// # Errors
    /// The value is neither, or a number does not fit.
    pub fn opt_u32_or_array(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        let read = |value: &Value| match value {
            Value::Array(values) => values.iter().map(integer).collect(),
            one => integer(one).map(|n| vec![n]),
        };
        let Some(numbers) = self.opt::<Vec<i128>>(key, "integer or array of integers", read)? else {
            return Ok(None);
        };
        numbers.into_iter().map(|n| self.fit(key, "u32", n)).collect::<Result<_, _>>().map(Some)
    }

    /// Returns the value of a key as an array of floats.
    ///
    /// # Errors
    /// The value is not an array of numbers, or one does not fit.
    pub fn opt_array_f32(&self, key: &str) -> Result<Option<Vec<f32>>, Error> {
        let read = |value: &Value| value.as_array()?.iter().map(Value::as_f64).collect();
        let Some(numbers) = self.opt::<Vec<f64>>(key, "array of numbers", read)? else { return Ok(None) };
        numbers.into_iter().map(|n| self.narrow(key, n)).collect::<Result<_, _>>().map(Some)
    }

    /// Returns the value of a key as an array of texts.
    ///
    /// # Errors
    /// The value is not an array of strings.
    pub fn opt_array_str(&self, key: &str) -> Result<Option<Vec<&str>>, Error> {
        self.opt(key, "array of strings", |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// Returns the value of a required key as a float.
    ///
    /// # Errors
    /// The key is missing, is not a number, or does not fit.
    pub fn f32(&self, key: &str) -> Result<f32, Error> {
        self.required(key, self.opt_f32(key)?)
    }

    /// Returns the value of a key as a float, rounded to the nearest 32-bit one.
    ///
    /// # Errors
    /// The value is not a number or does not fit.
    pub fn opt_f32(&self, key: &str) -> Result<Option<f32>, Error> {
        self.opt(key, "number", Value::as_f64)?.map(|n| self.narrow(key, n)).transpose()
    }

    #[expect(clippy::as_conversions, reason = "rounding is the purpose, and the range is checked")]
    #[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose, and the range is checked")]
    fn narrow(&self, key: &str, n: f64) -> Result<f32, Error> {
        let narrow = n as f32;
        if narrow.is_finite() {
            return Ok(narrow);
        }
        Err(self.error(key, ErrorKind::OutOfRange { wanted: "f32", value: format!("{n:e}") }))
    }

    /// Returns the value of a required key as a boolean.
    ///
    /// # Errors
    /// The key is missing or is not a boolean.
    pub fn bool(&self, key: &str) -> Result<bool, Error> {
        self.required(key, self.opt_bool(key)?)
    }

    /// Returns the value of a key as a boolean.
    ///
    /// # Errors
    /// The value is not a boolean.
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.opt(key, "boolean", Value::as_bool)
    }

    /// Returns the value of a required key as text.
    ///
    /// # Errors
    /// The key is missing or is not a string.
    pub fn str(&self, key: &str) -> Result<&str, Error> {
        self.required(key, self.opt_str(key)?)
    }

    /// Returns the value of a key as text.
    ///
    /// # Errors
    /// The value is not a string.
    pub fn opt_str(&self, key: &str) -> Result<Option<&str>, Error> {
        self.opt(key, "string", Value::as_str)
    }
}

macro_rules! integer_accessors {
    ($($ty:ident $opt:ident $name:literal;)*) => {
        impl Json {
            $(
                #[doc = concat!("Returns the value of a required key as `", $name, "`.")]
                ///
                /// # Errors
                /// The key is missing, is not an integer, or does not fit.
                pub fn $ty(&self, key: &str) -> Result<$ty, Error> {
                    self.required(key, self.$opt(key)?)
                }

                #[doc = concat!("Returns the value of a key as `", $name, "`.")]
                ///
                /// # Errors
                /// The value is not an integer or does not fit.
                pub fn $opt(&self, key: &str) -> Result<Option<$ty>, Error> {
                    self.opt_integer(key, $name)
                }
            )*
        }
    };
}

integer_accessors! {
    u32 opt_u32 "u32";
    i64 opt_i64 "i64";
    usize opt_usize "usize";
}

fn integer(value: &Value) -> Option<i128> {
    value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Converts a parser's error to its position and reason.
pub(super) fn json_error(e: &serde_json::Error) -> ErrorKind {
    let reason = e.to_string();
    let place = format!(" at line {} column {}", e.line(), e.column());
    let reason = reason.strip_suffix(&place).unwrap_or(&reason);
    ErrorKind::Json { line: e.line(), column: e.column(), reason: reason.into() }
}

fn parse(bytes: &[u8]) -> Result<Value, ErrorKind> {
    let left = Cell::new(MAX_VALUES);
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    Strict(&left)
        .deserialize(&mut parser)
        .and_then(|value| parser.end().map(|()| value))
        .map_err(|e| json_error(&e))
}

/// Returns the text with quotes around every `Infinity` outside strings, if there is one.
fn with_infinities(bytes: &[u8]) -> Option<Vec<u8>> {
    const WORD: &[u8] = b"Infinity";
    let mut out = Vec::new();
    let (mut quoted, mut escaped, mut found, mut rest) = (false, false, false, bytes);
    while let Some((&first, after)) = rest.split_first() {
        let unsigned = if first == b'-' { after } else { rest };
        if let Some(behind) = unsigned.strip_prefix(WORD).filter(|_| !quoted) {
            out.extend(if first == b'-' { &b"\"-"[..] } else { b"\"" });
            out.extend(WORD);
            out.push(b'"');
            (found, rest) = (true, behind);
            continue;
        }
        (quoted, escaped) = match first {
            b'"' if !escaped => (!quoted, false),
            b'\\' => (quoted, quoted && !escaped),
            _ => (quoted, false),
        };
        out.push(first);
        rest = after;
    }
    found.then_some(out)
}

/// Deserialises a value; the cell counts the values that may still follow.
#[derive(Clone, Copy)]
struct Strict<'a>(&'a Cell<u32>);

impl Strict<'_> {
    fn count<E: serde::de::Error>(self) -> Result<(), E> {
        self.0.set(
            self.0.get().checked_sub(1).ok_or_else(|| E::custom(format!("more than {MAX_VALUES} values")))?,
        );
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = elements.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.count()?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("key {key} appears twice")));
            }
            let value = entries.next_value_seed(self)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_asked_or_refused_by_name() {
        let text = br#"{"n": 7, "neg": -1, "big": 18446744073709551615, "f": 0.5, "huge": 1e300, "s": "x", "b": true,
            "null": null, "ids": [1, 2], "bad": [1, "a"], "fs": [1, 0.5], "ss": ["a", "b"], "o": {"p": {"q": 3}}}"#;
        let j = Json::parse(text, "c.json").unwrap();
        assert_eq!((j.u32("n").unwrap(), j.i64("neg").unwrap(), j.usize("o.p.q").unwrap()), (7, -1, 3));
        assert_eq!((j.f32("n").unwrap(), j.f32("f").unwrap(), j.bool("b").unwrap()), (7.0, 0.5, true));
        assert_eq!(
            (j.str("s").unwrap(), j.opt_str("null").unwrap(), j.opt_str("o.x.q").unwrap()),
            ("x", None, None)
        );
        assert_eq!(j.opt_u32_or_array("ids").unwrap(), Some(vec![1, 2]));
        assert_eq!(j.opt_u32_or_array("n").unwrap(), Some(vec![7]));
        assert_eq!(j.opt_array_f32("fs").unwrap(), Some(vec![1.0, 0.5]));
        assert_eq!(j.opt_array_str("ss").unwrap(), Some(vec!["a", "b"]));
        let messages = [
            (j.u32("neg").map(drop), "neg: -1 does not fit u32"),
            (j.i64("big").map(drop), "big: 18446744073709551615 does not fit i64"),
            (j.u32("f").map(drop), "f: want u32, found number"),
            (j.f32("huge").map(drop), "huge: 1e300 does not fit f32"),
            (j.f32("s").map(drop), "s: want number, found string"),
            (j.bool("n").map(drop), "n: want boolean, found integer"),
            (j.str("null").map(drop), "null: required metadata key is missing"),
            (j.u32("o.p").map(drop), "o.p: want u32, found object"),
            (j.opt_u32_or_array("bad").map(drop), "bad: want integer or array of integers, found array"),
            (j.opt_array_str("ids").map(drop), "ids: want array of strings, found array"),
        ];
        for (result, want) in messages {
            assert_eq!(result.unwrap_err().to_string(), format!("c.json: {want}"));
        }
    }

    #[test]
    fn what_readers_disagree_about_is_refused() {
        let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
        let wide = format!("{{\"a\":[{}0]}}", "0,".repeat(1 << 17));
        for (text, want) in [
            ("", "line 1 column 0: EOF while parsing a value"),
            ("[1]", "want object, found array"),
            ("{\"a\": 1} x", "line 1 column 10: trailing characters"),
            ("{\"a\": 1,\n \"a\": 2}", "line 2 column 4: key a appears twice"),
            ("{\"a\": {\"b\": 1, \"b\": 1}}", "key b appears twice"),
            ("{\"a\u{1b}[31m\": 1, \"a\u{1b}[31m\": 1}", "control character"),
            ("{\"a\\u001b\": 1, \"a\\u001b\": 1}", "key a\\u{1b} appears twice"),
            ("\u{feff}{}", "line 1 column 1: expected value"),
            ("{\"a\": 1e400}", "number out of range"),
            ("{\"a\": NaN}", "expected value"),
            ("{\"a\": Infinity, \"b\": }", "expected value"),
            ("{\"a\": \"\\ud800\"}", "unexpected end of hex escape"),
            (&deep, "recursion limit exceeded"),
            (&wide, "more than 131072 values"),
        ] {
            let error = Json::parse(text.as_bytes(), "c.json").unwrap_err().to_string();
            assert!(error.starts_with("c.json: ") && error.contains(want), "{error}\nwant: {want}");
        }
        assert!(Json::parse(b"{\"a\": \"\xff\"}", "c.json").is_err());
        let infinite = Json::parse(
            br#"{"a": [0.0, Infinity], "b\\": "-Infinity \" Infinity", "c": -Infinity}"#,
            "c.json",
        );
        let infinite = infinite.unwrap();
        assert_eq!(infinite.get("a").unwrap()[1], "Infinity");
        assert_eq!(infinite.str("b\\").unwrap(), "-Infinity \" Infinity");
        assert!(infinite.f32("c").unwrap_err().to_string().contains("found string"));
    }
}
