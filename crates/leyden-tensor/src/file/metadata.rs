//! [`Metadata`]: typed keys and values, and the accessors that check them.

use std::fmt;
use std::sync::Arc;

use super::array::{Array, StrArray};
use crate::error::{Error, ErrorKind};

/// The type of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

/// Type id in a file, name and width in bytes of every type.
const TYPES: [(ValueType, u32, &str, usize); 13] = [
    (ValueType::U8, 0, "u8", 1),
    (ValueType::I8, 1, "i8", 1),
    (ValueType::U16, 2, "u16", 2),
    (ValueType::I16, 3, "i16", 2),
    (ValueType::U32, 4, "u32", 4),
    (ValueType::I32, 5, "i32", 4),
    (ValueType::F32, 6, "f32", 4),
    (ValueType::Bool, 7, "bool", 1),
    (ValueType::String, 8, "string", 0),
    (ValueType::Array, 9, "array", 0),
    (ValueType::U64, 10, "u64", 8),
    (ValueType::I64, 11, "i64", 8),
    (ValueType::F64, 12, "f64", 8),
];

impl ValueType {
    pub(super) fn from_gguf_id(id: u32) -> Result<ValueType, ErrorKind> {
        TYPES.iter().find(|row| row.1 == id).map(|row| row.0).ok_or(ErrorKind::ValueType(id))
    }

    fn row(self) -> Option<&'static (ValueType, u32, &'static str, usize)> {
        TYPES.iter().find(|row| row.0 == self)
    }

    /// Returns the type id in a GGUF file.
    pub(super) fn gguf_id(self) -> u32 {
        self.row().map_or(u32::MAX, |row| row.1)
    }

    /// Returns the bytes of a value, for the types that have a fixed size.
    pub(super) fn width(self) -> Option<usize> {
        self.row().map(|row| row.3).filter(|&width| width > 0)
    }

    fn is_integer(self) -> bool {
        use ValueType::{I8, I16, I32, I64, U8, U16, U32, U64};
        matches!(self, U8 | I8 | U16 | I16 | U32 | I32 | U64 | I64)
    }

    /// Reads a value of a type of fixed size from exactly as many bytes.
    pub(super) fn scalar(self, bytes: &[u8]) -> Option<Value> {
        Some(match self {
            ValueType::U8 => Value::U8(u8::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::I8 => Value::I8(i8::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::U32 => Value::U32(u32::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::I32 => Value::I32(i32::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::Bool => Value::Bool(u8::from_le_bytes(bytes.try_into().ok()?) != 0),
            ValueType::U64 => Value::U64(u64::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::I64 => Value::I64(i64::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::String | ValueType::Array => return None,
        })
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().map_or("?", |row| row.2))
    }
}

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

impl Value {
    /// Returns the type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F32(_) => ValueType::F32,
            Value::F64(_) => ValueType::F64,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
        }
    }

    /// Returns an integer of any width; `None` for anything else.
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// Returns a float of either width, rounded to the nearest `f32`; `None` for anything else.
    pub fn as_f32(&self) -> Option<f32> {
        match *self {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(narrow(v)),
            _ => None,
        }
    }

    /// Returns the name of the type, for arrays with the type of their elements.
    fn describe(&self) -> String {
        match self {
            Value::Array(array) => format!("array of {}", array.elem_type()),
            other => other.value_type().to_string(),
        }
    }
}

#[expect(clippy::as_conversions, reason = "rounding is the purpose")]
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
fn narrow(v: f64) -> f32 {
    v as f32
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::String(value.into())
    }
}

macro_rules! value_from {
    ($($ty:ty => $variant:ident),* $(,)?) => {
        $(impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Value::$variant(value)
            }
        })*
    };
}

value_from! {
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64,
    f32 => F32, f64 => F64, bool => Bool, String => String, Array => Array,
}

/// The metadata of a file: keys with typed values, in the file's order.
///
/// The typed accessors come in pairs: `u32(key)` fails if the key is missing, `opt_u32(key)` returns
/// `None`. Both fail, naming file, key, wanted and found type, if the value is of another type or
/// does not fit: integers are accepted in any width that holds the value, floats in either width,
/// and nothing else is converted.
///
/// ```
/// use leyden_tensor::{Metadata, Value};
/// let meta = Metadata::new("m.gguf", [("n".to_string(), Value::U64(7)), ("s".into(), "x".into())])?;
/// assert_eq!(meta.u32("n")?, 7);
/// assert_eq!(meta.opt_u32("absent")?, None);
/// assert_eq!(meta.u32("s").unwrap_err().to_string(), "m.gguf: s: want u32, found string");
/// # Ok::<(), leyden_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Metadata {
    file: Arc<str>,
    entries: Vec<(String, Value)>,
    /// Indices into `entries`, by key.
    sorted: Vec<u32>,
}

impl Metadata {
    /// Returns metadata that does not come from a file; `label` takes the file's place in errors.
    ///
    /// # Errors
    /// A key appears twice.
    pub fn new(label: &str, entries: impl IntoIterator<Item = (String, Value)>) -> Result<Metadata, Error> {
        Metadata::from_entries(label.into(), entries.into_iter().collect())
    }

    pub(super) fn from_entries(file: Arc<str>, entries: Vec<(String, Value)>) -> Result<Metadata, Error> {
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        match sorted_index(&keys) {
            Ok(sorted) => Ok(Metadata { file, entries, sorted }),
            Err(twice) => Err(Error::new(ErrorKind::Duplicate { what: "key" }).item(twice).file(&file)),
        }
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let name = |&i: &u32| self.entry(i).map_or("", |entry| entry.0.as_str());
        let at = self.sorted.binary_search_by(|i| name(i).cmp(key)).ok()?;
        self.entry(*self.sorted.get(at)?).map(|entry| &entry.1)
    }

    fn entry(&self, i: u32) -> Option<&(String, Value)> {
        self.entries.get(usize::try_from(i).ok()?)
    }

    /// Returns all keys and values, in the file's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the file's name as errors show it.
    pub fn file(&self) -> &str {
        &self.file
    }

    fn error(&self, key: &str, kind: ErrorKind) -> Error {
        Error::new(kind).item(key).file(&self.file)
    }

    fn required<T>(&self, key: &str, value: Result<Option<T>, Error>) -> Result<T, Error> {
        value?.ok_or_else(|| self.error(key, ErrorKind::MissingKey))
    }

    fn wrong_type(&self, key: &str, wanted: &'static str, found: &Value) -> Error {
        self.error(key, ErrorKind::WrongType { wanted, found: found.describe() })
    }

    fn integer<T: TryFrom<i128>>(&self, key: &str, wanted: &'static str, value: &Value) -> Result<T, Error> {
        let n = value.as_integer().ok_or_else(|| self.wrong_type(key, wanted, value))?;
        T::try_from(n).map_err(|_| self.error(key, ErrorKind::OutOfRange { wanted, value: n.to_string() }))
    }

    fn opt_integer<T: TryFrom<i128>>(&self, key: &str, wanted: &'static str) -> Result<Option<T>, Error> {
        self.get(key).map(|value| self.integer(key, wanted, value)).transpose()
    }

    fn opt_integers<T: TryFrom<i128>>(
        &self,
        key: &str,
        wanted: &'static str,
        array: &'static str,
    ) -> Result<Option<Vec<T>>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(a)) if a.elem_type().is_integer() => {
                a.iter().map(|value| self.integer(key, wanted, &value)).collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(self.wrong_type(key, array, other)),
        }
    }
}

macro_rules! integer_accessors {
    ($($ty:ident $opt:ident $name:literal;)*) => {
        impl Metadata {
            $(
                #[doc = concat!("Returns the value of a required key as `", $name, "`.")]
                ///
                /// # Errors
                /// The key is missing, is not an integer, or does not fit.
                pub fn $ty(&self, key: &str) -> Result<$ty, Error> {
                    self.required(key, self.$opt(key))
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
    i32 opt_i32 "i32";
    u64 opt_u64 "u64";
    i64 opt_i64 "i64";
    usize opt_usize "usize";
}

impl Metadata {
    /// Returns the value of a required key as a float.
    ///
    /// # Errors
    /// The key is missing or is not a float.
    pub fn f32(&self, key: &str) -> Result<f32, Error> {
        self.required(key, self.opt_f32(key))
    }

    /// Returns the value of a key as a float.
    ///
    /// # Errors
    /// The value is not a float.
    pub fn opt_f32(&self, key: &str) -> Result<Option<f32>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_f32().map(Some).ok_or_else(|| self.wrong_type(key, "f32", value))
    }

    /// Returns the value of a required key as a boolean.
    ///
    /// # Errors
    /// The key is missing or is not a boolean.
    pub fn bool(&self, key: &str) -> Result<bool, Error> {
        self.required(key, self.opt_bool(key))
    }

    /// Returns the value of a key as a boolean.
    ///
    /// # Errors
    /// The value is not a boolean.
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(other) => Err(self.wrong_type(key, "bool", other)),
        }
    }

    /// Returns the value of a required key as text.
    ///
    /// # Errors
    /// The key is missing or is not a string.
    pub fn str(&self, key: &str) -> Result<&str, Error> {
        self.required(key, self.opt_str(key))
    }

    /// Returns the value of a key as text.
    ///
    /// # Errors
    /// The value is not a string.
    pub fn opt_str(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(value)) => Ok(Some(value)),
            Some(other) => Err(self.wrong_type(key, "string", other)),
        }
    }

    /// Returns the value of a key as an array of strings.
    ///
    /// # Errors
    /// The value is not an array of strings.
    pub fn opt_array_str(&self, key: &str) -> Result<Option<StrArray>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let strings = if let Value::Array(array) = value { array.strings() } else { None };
        strings.map(Some).ok_or_else(|| self.wrong_type(key, "array of string", value))
    }

    /// Returns the value of a key as an array of floats.
    ///
    /// # Errors
    /// The value is not an array of floats.
    pub fn opt_array_f32(&self, key: &str) -> Result<Option<Vec<f32>>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(a)) if matches!(a.elem_type(), ValueType::F32 | ValueType::F64) => {
                Ok(Some(a.iter().filter_map(|value| value.as_f32()).collect()))
            }
            Some(other) => Err(self.wrong_type(key, "array of f32", other)),
        }
    }

    /// Returns the value of a key as an array of booleans.
    ///
    /// # Errors
    /// The value is not an array of booleans.
    pub fn opt_array_bool(&self, key: &str) -> Result<Option<Vec<bool>>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(a)) if a.elem_type() == ValueType::Bool => {
                Ok(Some(a.iter().map(|value| value == Value::Bool(true)).collect()))
            }
            Some(other) => Err(self.wrong_type(key, "array of bool", other)),
        }
    }

    /// Returns the value of a key as an array of `i32`.
    ///
    /// # Errors
    /// The value is not an array of integers, or one does not fit.
    pub fn opt_array_i32(&self, key: &str) -> Result<Option<Vec<i32>>, Error> {
        self.opt_integers(key, "i32", "array of i32")
    }

    /// Returns the value of a key as an array of `u32`.
    ///
    /// # Errors
    /// The value is not an array of integers, or one does not fit.
    pub fn opt_array_u32(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        self.opt_integers(key, "u32", "array of u32")
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata").field("file", &self.file).field("entries", &self.entries).finish()
    }
}

/// Returns the indices of names in sorted order, or a name that appears twice. A sorted index instead of a hash
/// table: its order does not depend on a seed, and no choice of names makes it slow.
pub(super) fn sorted_index<'a>(names: &[&'a str]) -> Result<Vec<u32>, &'a str> {
    let name = |i: &u32| usize::try_from(*i).ok().and_then(|i| names.get(i)).copied().unwrap_or_default();
    let mut sorted: Vec<u32> = (0..u32::try_from(names.len()).unwrap_or(u32::MAX)).collect();
    sorted.sort_unstable_by_key(name);
    match sorted.windows(2).find(|pair| pair.first().map(name) == pair.last().map(name)) {
        Some(pair) => Err(pair.first().map(name).unwrap_or_default()),
        None => Ok(sorted),
    }
}
