//! [`Metadata`]: typed keys and values, and the accessors that check them.

use std::fmt;
use std::sync::Arc;

use super::value::{StrArray, Value, ValueType};
use crate::error::{Error, ErrorKind};

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
