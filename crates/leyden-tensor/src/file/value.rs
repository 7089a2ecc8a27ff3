//! [`Value`]: a metadata value; [`Array`] and [`StrArray`]: metadata arrays that stay in the bytes of the file.
//!
//! A vocabulary of 150,000 tokens costs one scan over its bytes and four bytes per token here, not
//! 150,000 allocations.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::source::{Bytes, Source};
use crate::error::ErrorKind;

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

    pub(super) fn is_integer(self) -> bool {
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
    pub(super) fn describe(&self) -> String {
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

/// A metadata array: numbers, booleans or strings of one type.
#[derive(Clone)]
pub struct Array {
    pub(super) elem: ValueType,
    pub(super) len: usize,
    pub(super) source: Arc<Source>,
    /// Range of the elements in the file, without type and count.
    pub(super) range: Range<usize>,
    /// For strings: offset of each string's length field within the range, and the end of the last string.
    pub(super) starts: Arc<[u32]>,
}

impl Array {
    /// Returns the type of the elements.
    pub fn elem_type(&self) -> ValueType {
        self.elem
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the elements as a GGUF file stores them.
    pub(super) fn raw(&self) -> &[u8] {
        self.source.slice(&self.range)
    }

    /// Returns the strings, if it is an array of strings.
    pub fn strings(&self) -> Option<StrArray> {
        let strings = StrArray {
            len: self.len,
            source: Arc::clone(&self.source),
            range: self.range.clone(),
            starts: Arc::clone(&self.starts),
        };
        (self.elem == ValueType::String).then_some(strings)
    }

    /// Returns element `i` as a number or boolean; `None` for strings and beyond the end.
    pub fn get(&self, i: usize) -> Option<Value> {
        let width = self.elem.width()?;
        let at = i.checked_mul(width)?;
        let bytes = self.raw().get(at..at.checked_add(width)?)?;
        self.elem.scalar(bytes)
    }

    /// Returns the numbers or booleans in order; nothing for strings.
    pub fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        let width = self.elem.width();
        let raw = if width.is_some() { self.raw() } else { &[] };
        raw.chunks_exact(width.unwrap_or(1)).filter_map(|bytes| self.elem.scalar(bytes))
    }

    /// Makes an array of strings, which need not be UTF-8.
    ///
    /// # Panics
    /// The strings, with eight bytes added to each, are longer than 4 GiB together.
    pub fn from_strs<I, S>(strings: I) -> Array
    where
        I: IntoIterator<Item = S>,
        S: AsRef<[u8]>,
    {
        let mut bytes = Vec::new();
        let mut starts = vec![0];
        for s in strings {
            let s = s.as_ref();
            bytes.extend(u64::try_from(s.len()).unwrap_or(u64::MAX).to_le_bytes());
            bytes.extend(s);
            starts.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        assert!(bytes.len() <= MAX_STRING_BYTES, "string arrays are limited to {MAX_STRING_BYTES} bytes");
        let len = starts.len().saturating_sub(1);
        Array::owned(ValueType::String, len, bytes, starts.into())
    }

    pub(super) fn owned(elem: ValueType, len: usize, bytes: Vec<u8>, starts: Arc<[u32]>) -> Array {
        let range = 0..bytes.len();
        Array { elem, len, source: Source::new(Bytes::Owned(bytes), "<memory>".into()), range, starts }
    }
}

/// Maximum size of a string array in bytes, so that its index needs four bytes per string.
pub(super) const MAX_STRING_BYTES: usize = 0xffff_ffff;

macro_rules! numbers {
    ($($constructor:ident $ty:ty, $elem:ident, $doc:literal;)*) => {
        impl Array {
            $(
                #[doc = $doc]
                pub fn $constructor(values: &[$ty]) -> Array {
                    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                    Array::owned(ValueType::$elem, values.len(), bytes, Arc::new([]))
                }
            )*
        }
    };
}

numbers! {
    from_u8 u8, U8, "Makes an array of unsigned 8-bit numbers.";
    from_i8 i8, I8, "Makes an array of signed 8-bit numbers.";
    from_u16 u16, U16, "Makes an array of unsigned 16-bit numbers.";
    from_i16 i16, I16, "Makes an array of signed 16-bit numbers.";
    from_u32 u32, U32, "Makes an array of unsigned 32-bit numbers.";
    from_i32 i32, I32, "Makes an array of signed 32-bit numbers.";
    from_u64 u64, U64, "Makes an array of unsigned 64-bit numbers.";
    from_i64 i64, I64, "Makes an array of signed 64-bit numbers.";
    from_f32 f32, F32, "Makes an array of 32-bit floats.";
    from_f64 f64, F64, "Makes an array of 64-bit floats.";
}

impl Array {
    /// Makes an array of booleans.
    pub fn from_bools(values: &[bool]) -> Array {
        let bytes = values.iter().map(|&b| u8::from(b)).collect();
        Array::owned(ValueType::Bool, values.len(), bytes, Arc::new([]))
    }
}

/// Equal if type and elements are, bit for bit.
impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        (self.elem, self.len, self.raw()) == (other.elem, other.len, other.raw())
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}; {}]", self.elem, self.len)
    }
}

/// An array of byte strings. GGUF calls them UTF-8, but vocabularies have arbitrary bytes, so they
/// are returned without a check. Cheap to clone; keeps the file open.
#[derive(Clone)]
pub struct StrArray {
    len: usize,
    source: Arc<Source>,
    range: Range<usize>,
    starts: Arc<[u32]>,
}

impl StrArray {
    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns string `i`, or `None` beyond the end.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let start = usize::try_from(*self.starts.get(i)?).ok()?.checked_add(size_of::<u64>())?;
        let end = usize::try_from(*self.starts.get(i.checked_add(1)?)?).ok()?;
        self.source.slice(&self.range).get(start..end)
    }

    /// Returns the strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len).map(|i| self.get(i).unwrap_or_default())
    }
}

impl fmt::Debug for StrArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[string; {}]", self.len)
    }
}
