//! [`Tensor`]: a shape and values of one of several types, shared until they are written.
//!
//! Values are owned, or constants in a mapped file. Copies share them; [`Buffer::make_mut`] copies them only if they
//! are shared, which is how operators work in place.

use crate::error::Error;
use crate::shape::{Shape, elements};
use leyden_tensor::FileBytes;
use leyden_tensor::quant::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use smallvec::smallvec;
use std::ops::Deref;
use std::sync::Arc;

/// Values of one type.
#[derive(Clone, Debug)]
pub struct Buffer<T>(Repr<T>);

#[derive(Clone, Debug)]
enum Repr<T> {
    Owned(Arc<Vec<T>>),
    /// Bytes of a file, aligned for `T` and whole.
    File(FileBytes),
}

impl<T: bytemuck::AnyBitPattern> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Repr::Owned(values) => values,
            // Checked when the buffer was made; a file that shrank reads as zeros.
            Repr::File(bytes) => bytemuck::try_cast_slice(bytes.as_slice()).unwrap_or_default(),
        }
    }
}

impl<T: bytemuck::AnyBitPattern> Buffer<T> {
    /// Makes a buffer of values.
    #[must_use]
    pub fn new(values: Vec<T>) -> Buffer<T> {
        Buffer(Repr::Owned(Arc::new(values)))
    }

    /// Returns the values of a file in place if they are aligned, else a copy.
    pub(crate) fn from_file(bytes: FileBytes) -> Buffer<T> {
        if cfg!(target_endian = "little") && bytemuck::try_cast_slice::<u8, T>(bytes.as_slice()).is_ok() {
            return Buffer(Repr::File(bytes));
        }
        let values = bytes.as_slice().chunks_exact(size_of::<T>()).map(|b| {
            if cfg!(target_endian = "little") {
                bytemuck::pod_read_unaligned(b)
            } else {
                let turned: Vec<u8> = b.iter().rev().copied().collect();
                bytemuck::pod_read_unaligned(&turned)
            }
        });
        Buffer::new(values.collect())
    }

    /// Returns the values for writing, copied if they are shared.
    pub fn make_mut(&mut self) -> &mut Vec<T> {
        if let Repr::File(_) = &self.0 {
            *self = Buffer::new(self.to_vec());
        }
        match &mut self.0 {
            Repr::Owned(values) => Arc::make_mut(values),
            Repr::File(_) => unreachable!("replaced by a copy above"),
        }
    }

    /// Returns the values if nobody else has them.
    pub fn get_mut(&mut self) -> Option<&mut Vec<T>> {
        match &mut self.0 {
            Repr::Owned(values) => Arc::get_mut(values),
            Repr::File(_) => None,
        }
    }
}

/// Type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementType {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// 16-bit floats of IEEE 754.
    F16,
    /// 16-bit floats with the exponent of 32-bit ones.
    BF16,
    /// 64-bit integers.
    I64,
    /// 32-bit integers.
    I32,
    /// 16-bit integers.
    I16,
    /// 8-bit integers.
    I8,
    /// 64-bit unsigned integers.
    U64,
    /// 32-bit unsigned integers.
    U32,
    /// 16-bit unsigned integers.
    U16,
    /// 8-bit unsigned integers.
    U8,
    /// Truth values.
    Bool,
    /// Texts.
    Text,
}

/// Types: element type, ONNX's number, name, bytes of an element.
const TYPES: [(ElementType, i64, &str, usize); 14] = [
    (ElementType::F32, 1, "F32", 4),
    (ElementType::U8, 2, "U8", 1),
    (ElementType::I8, 3, "I8", 1),
    (ElementType::U16, 4, "U16", 2),
    (ElementType::I16, 5, "I16", 2),
    (ElementType::I32, 6, "I32", 4),
    (ElementType::I64, 7, "I64", 8),
    (ElementType::Text, 8, "STRING", 24),
    (ElementType::Bool, 9, "BOOL", 1),
    (ElementType::F16, 10, "F16", 2),
    (ElementType::F64, 11, "F64", 8),
    (ElementType::U32, 12, "U32", 4),
    (ElementType::U64, 13, "U64", 8),
    (ElementType::BF16, 16, "BF16", 2),
];

impl ElementType {
    fn row(self) -> (ElementType, i64, &'static str, usize) {
        TYPES.into_iter().find(|row| row.0 == self).unwrap_or(TYPES[0])
    }

    /// Returns the name, as in files: `F32`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Returns the bytes of an element.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.row().3
    }

    /// Returns the type of ONNX's number.
    pub(crate) fn of_onnx(number: i64) -> Result<ElementType, Error> {
        let found = TYPES.iter().find(|row| row.1 == number).map(|row| row.0);
        found.ok_or_else(|| format!("values of ONNX's type {number} are not supported").into())
    }

    /// Returns the type of a name in a file.
    pub(crate) fn named(name: &str) -> Option<ElementType> {
        TYPES.iter().find(|row| row.2 == name).map(|row| row.0)
    }

    /// Returns true for floats.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, ElementType::F32 | ElementType::F64 | ElementType::F16 | ElementType::BF16)
    }
}

/// Values of a tensor, by type.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "named as the types")]
pub enum Data {
    F32(Buffer<f32>),
    F64(Buffer<f64>),
    /// Bit patterns.
    F16(Buffer<u16>),
    /// Bit patterns.
    BF16(Buffer<u16>),
    I64(Buffer<i64>),
    I32(Buffer<i32>),
    I16(Buffer<i16>),
    I8(Buffer<i8>),
    U64(Buffer<u64>),
    U32(Buffer<u32>),
    U16(Buffer<u16>),
    U8(Buffer<u8>),
    /// Zeros and ones.
    Bool(Buffer<u8>),
    Text(Arc<Vec<String>>),
}

/// Evaluates an expression with the values of whatever type as a slice.
macro_rules! each_type {
    ($data:expr, $v:ident => $e:expr) => {
        match $data {
            $crate::tensor::Data::F32($v) => $e,
            $crate::tensor::Data::F64($v) => $e,
            $crate::tensor::Data::F16($v) => $e,
            $crate::tensor::Data::BF16($v) => $e,
            $crate::tensor::Data::I64($v) => $e,
            $crate::tensor::Data::I32($v) => $e,
            $crate::tensor::Data::I16($v) => $e,
            $crate::tensor::Data::I8($v) => $e,
            $crate::tensor::Data::U64($v) => $e,
            $crate::tensor::Data::U32($v) => $e,
            $crate::tensor::Data::U16($v) => $e,
            $crate::tensor::Data::U8($v) => $e,
            $crate::tensor::Data::Bool($v) => $e,
            $crate::tensor::Data::Text($v) => $e,
        }
    };
}

/// Makes values of the same type from an expression that gives a vector.
macro_rules! same_type {
    ($data:expr, $v:ident => $e:expr) => {{
        use $crate::tensor::{Buffer, Data};
        match $data {
            Data::F32($v) => Data::F32(Buffer::new($e)),
            Data::F64($v) => Data::F64(Buffer::new($e)),
            Data::F16($v) => Data::F16(Buffer::new($e)),
            Data::BF16($v) => Data::BF16(Buffer::new($e)),
            Data::I64($v) => Data::I64(Buffer::new($e)),
            Data::I32($v) => Data::I32(Buffer::new($e)),
            Data::I16($v) => Data::I16(Buffer::new($e)),
            Data::I8($v) => Data::I8(Buffer::new($e)),
            Data::U64($v) => Data::U64(Buffer::new($e)),
            Data::U32($v) => Data::U32(Buffer::new($e)),
            Data::U16($v) => Data::U16(Buffer::new($e)),
            Data::U8($v) => Data::U8(Buffer::new($e)),
            Data::Bool($v) => Data::Bool(Buffer::new($e)),
            Data::Text($v) => Data::Text(std::sync::Arc::new($e)),
        }
    }};
}
pub(crate) use same_type;

/// Evaluates an expression with the values of two tensors of one type; `$other` if their types differ. The result is a
/// vector of that type.
macro_rules! both_types {
    ($a:expr, $b:expr, ($x:ident, $y:ident) => $e:expr, $other:expr) => {{
        use $crate::tensor::{Buffer, Data};
        match ($a, $b) {
            (Data::F32($x), Data::F32($y)) => Data::F32(Buffer::new($e)),
            (Data::F64($x), Data::F64($y)) => Data::F64(Buffer::new($e)),
            (Data::F16($x), Data::F16($y)) => Data::F16(Buffer::new($e)),
            (Data::BF16($x), Data::BF16($y)) => Data::BF16(Buffer::new($e)),
            (Data::I64($x), Data::I64($y)) => Data::I64(Buffer::new($e)),
            (Data::I32($x), Data::I32($y)) => Data::I32(Buffer::new($e)),
            (Data::I16($x), Data::I16($y)) => Data::I16(Buffer::new($e)),
            (Data::I8($x), Data::I8($y)) => Data::I8(Buffer::new($e)),
            (Data::U64($x), Data::U64($y)) => Data::U64(Buffer::new($e)),
            (Data::U32($x), Data::U32($y)) => Data::U32(Buffer::new($e)),
            (Data::U16($x), Data::U16($y)) => Data::U16(Buffer::new($e)),
            (Data::U8($x), Data::U8($y)) => Data::U8(Buffer::new($e)),
            (Data::Bool($x), Data::Bool($y)) => Data::Bool(Buffer::new($e)),
            (Data::Text($x), Data::Text($y)) => Data::Text(std::sync::Arc::new($e)),
            _ => $other,
        }
    }};
}
pub(crate) use both_types;

/// Evaluates an expression with numbers of whatever type but 16-bit floats; `$other` for these, truth values and texts.
macro_rules! each_number {
    ($data:expr, $v:ident => $e:expr, $other:expr) => {
        match $data {
            $crate::tensor::Data::F32($v) => $e,
            $crate::tensor::Data::F64($v) => $e,
            $crate::tensor::Data::I64($v) => $e,
            $crate::tensor::Data::I32($v) => $e,
            $crate::tensor::Data::I16($v) => $e,
            $crate::tensor::Data::I8($v) => $e,
            $crate::tensor::Data::U64($v) => $e,
            $crate::tensor::Data::U32($v) => $e,
            $crate::tensor::Data::U16($v) => $e,
            $crate::tensor::Data::U8($v) => $e,
            _ => $other,
        }
    };
}
pub(crate) use each_number;

impl Data {
    /// Returns the type.
    #[must_use]
    pub fn ty(&self) -> ElementType {
        match self {
            Data::F32(_) => ElementType::F32,
            Data::F64(_) => ElementType::F64,
            Data::F16(_) => ElementType::F16,
            Data::BF16(_) => ElementType::BF16,
            Data::I64(_) => ElementType::I64,
            Data::I32(_) => ElementType::I32,
            Data::I16(_) => ElementType::I16,
            Data::I8(_) => ElementType::I8,
            Data::U64(_) => ElementType::U64,
            Data::U32(_) => ElementType::U32,
            Data::U16(_) => ElementType::U16,
            Data::U8(_) => ElementType::U8,
            Data::Bool(_) => ElementType::Bool,
            Data::Text(_) => ElementType::Text,
        }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        each_type!(self, v => v.len())
    }

    /// Returns true if there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Type of values with its place in [`Data`].
pub(crate) trait Element: bytemuck::AnyBitPattern + PartialOrd + Default + Send + Sync {
    const TYPE: ElementType;
    fn wrap(values: Buffer<Self>) -> Data;
    fn of(data: &Data) -> Option<&Buffer<Self>>;
    fn of_mut(data: &mut Data) -> Option<&mut Buffer<Self>>;
}

macro_rules! elements {
    ($($variant:ident $ty:ty,)*) => {
        $(impl Element for $ty {
            const TYPE: ElementType = ElementType::$variant;
            fn wrap(values: Buffer<Self>) -> Data {
                Data::$variant(values)
            }
            fn of(data: &Data) -> Option<&Buffer<Self>> {
                match data {
                    Data::$variant(values) => Some(values),
                    _ => None,
                }
            }
            fn of_mut(data: &mut Data) -> Option<&mut Buffer<Self>> {
                match data {
                    Data::$variant(values) => Some(values),
                    _ => None,
                }
            }
        })*
    };
}
elements! { F32 f32, F64 f64, I64 i64, I32 i32, I16 i16, I8 i8, U64 u64, U32 u32, U16 u16, U8 u8, }

/// Values of one type with a shape; contiguous, the last dimension innermost.
#[derive(Clone, Debug)]
pub struct Tensor {
    shape: Shape,
    data: Data,
}

impl Tensor {
    /// Makes a tensor.
    ///
    /// # Errors
    /// The shape does not fit the number of values.
    pub fn new(shape: &[usize], data: Data) -> Result<Tensor, Error> {
        let wanted = elements(shape)?;
        if wanted != data.len() {
            return Err(format!("{} values do not fit the shape {shape:?}", data.len()).into());
        }
        Ok(Tensor { shape: shape.into(), data })
    }

    /// Makes a tensor of values whose number is known to fit.
    pub(crate) fn of<T: Element>(shape: impl Into<Shape>, values: Vec<T>) -> Tensor {
        Tensor::with(shape, T::wrap(Buffer::new(values)))
    }

    /// Makes a tensor of data whose length is known to fit.
    pub(crate) fn with(shape: impl Into<Shape>, data: Data) -> Tensor {
        let shape = shape.into();
        debug_assert_eq!(shape.iter().product::<usize>(), data.len(), "values of shape {shape:?}");
        Tensor { shape, data }
    }

    /// Makes a tensor of truth values.
    pub(crate) fn bools(shape: impl Into<Shape>, values: Vec<u8>) -> Tensor {
        Tensor::with(shape, Data::Bool(Buffer::new(values)))
    }

    /// Makes a tensor of texts.
    pub(crate) fn texts(shape: impl Into<Shape>, values: Vec<String>) -> Tensor {
        Tensor::with(shape, Data::Text(Arc::new(values)))
    }

    /// Makes a vector.
    pub(crate) fn vector<T: Element>(values: Vec<T>) -> Tensor {
        let shape: Shape = smallvec![values.len()];
        Tensor::of(shape, values)
    }

    /// Makes a tensor without dimensions.
    pub(crate) fn scalar<T: Element>(value: T) -> Tensor {
        Tensor::of(Shape::new(), vec![value])
    }

    /// Returns the sizes of the dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn ty(&self) -> ElementType {
        self.data.ty()
    }

    /// Returns the values.
    #[must_use]
    pub fn data(&self) -> &Data {
        &self.data
    }

    pub(crate) fn data_mut(&mut self) -> &mut Data {
        &mut self.data
    }

    /// Returns the values, by value.
    #[must_use]
    pub fn into_data(self) -> Data {
        self.data
    }

    /// Returns the bytes of the values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.len() * self.ty().bytes()
    }

    /// Returns the values in another shape of the same number of elements.
    pub(crate) fn reshaped(mut self, shape: Shape) -> Result<Tensor, Error> {
        if elements(&shape)? != self.len() {
            let own = &self.shape;
            return Err(
                format!("{} values of shape {own:?} do not fit the shape {shape:?}", self.len()).into()
            );
        }
        self.shape = shape;
        Ok(self)
    }

    /// Returns the values if they have this type.
    pub(crate) fn values<T: Element>(&self) -> Result<&[T], Error> {
        let found = T::of(&self.data).map(|buffer| &**buffer);
        found
            .ok_or_else(|| format!("has type {} where {} should be", self.ty().name(), T::TYPE.name()).into())
    }

    /// Returns 32-bit floats.
    pub(crate) fn f32s(&self) -> Result<&[f32], Error> {
        self.values()
    }

    /// Returns truth values.
    pub(crate) fn truths(&self) -> Result<&[u8], Error> {
        match &self.data {
            Data::Bool(values) => Ok(values),
            _ => Err(format!("has type {} where BOOL should be", self.ty().name()).into()),
        }
    }

    /// Returns 64-bit or 32-bit integers as 64-bit ones.
    pub(crate) fn ints(&self) -> Result<Vec<i64>, Error> {
        match &self.data {
            Data::I64(values) => Ok(values.to_vec()),
            Data::I32(values) => Ok(values.iter().map(|v| i64::from(*v)).collect()),
            _ => Err(format!("has type {} where I64 should be", self.ty().name()).into()),
        }
    }

    /// Returns the only integer.
    pub(crate) fn int(&self) -> Result<i64, Error> {
        match self.ints()?.as_slice() {
            [one] => Ok(*one),
            other => Err(format!("has {} values where one should be", other.len()).into()),
        }
    }

    /// Returns values as 32-bit floats, converted from other floats or 8-bit integers.
    pub(crate) fn to_f32(&self) -> Result<Vec<f32>, Error> {
        Ok(match &self.data {
            Data::F32(v) => v.to_vec(),
            Data::F64(v) => v.iter().map(|v| *v as f32).collect(),
            Data::F16(v) => v.iter().map(|v| f16_to_f32(*v)).collect(),
            Data::BF16(v) => v.iter().map(|v| bf16_to_f32(*v)).collect(),
            Data::I64(v) => v.iter().map(|v| *v as f32).collect(),
            Data::I32(v) => v.iter().map(|v| *v as f32).collect(),
            Data::I16(v) => v.iter().map(|v| f32::from(*v)).collect(),
            Data::I8(v) => v.iter().map(|v| f32::from(*v)).collect(),
            Data::U64(v) => v.iter().map(|v| *v as f32).collect(),
            Data::U32(v) => v.iter().map(|v| *v as f32).collect(),
            Data::U16(v) => v.iter().map(|v| f32::from(*v)).collect(),
            Data::U8(v) | Data::Bool(v) => v.iter().map(|v| f32::from(*v)).collect(),
            Data::Text(_) => return Err("has texts where numbers should be".into()),
        })
    }

    /// Returns 16-bit floats as 32-bit ones, and everything else unchanged.
    pub(crate) fn widened(self) -> Tensor {
        let values = match &self.data {
            Data::F16(v) => v.iter().map(|v| f16_to_f32(*v)).collect(),
            Data::BF16(v) => v.iter().map(|v| bf16_to_f32(*v)).collect(),
            _ => return self,
        };
        Tensor::of(self.shape, values)
    }

    /// Returns 32-bit floats as floats of 16 bits, and everything else unchanged.
    pub(crate) fn narrowed(self, ty: ElementType) -> Tensor {
        let Data::F32(v) = &self.data else { return self };
        let data = match ty {
            ElementType::F16 => Data::F16(Buffer::new(v.iter().map(|v| f32_to_f16(*v)).collect())),
            ElementType::BF16 => Data::BF16(Buffer::new(v.iter().map(|v| f32_to_bf16(*v)).collect())),
            _ => return self,
        };
        Tensor { shape: self.shape, data }
    }
}

/// Returns a tensor of zeros, or of empty texts.
///
/// # Errors
/// The shape is too large.
pub fn zeros(shape: &[usize], ty: ElementType) -> Result<Tensor, Error> {
    let n = elements(shape)?;
    let data = match ty {
        ElementType::F32 => Data::F32(Buffer::new(vec![0.0; n])),
        ElementType::F64 => Data::F64(Buffer::new(vec![0.0; n])),
        ElementType::F16 => Data::F16(Buffer::new(vec![0; n])),
        ElementType::BF16 => Data::BF16(Buffer::new(vec![0; n])),
        ElementType::I64 => Data::I64(Buffer::new(vec![0; n])),
        ElementType::I32 => Data::I32(Buffer::new(vec![0; n])),
        ElementType::I16 => Data::I16(Buffer::new(vec![0; n])),
        ElementType::I8 => Data::I8(Buffer::new(vec![0; n])),
        ElementType::U64 => Data::U64(Buffer::new(vec![0; n])),
        ElementType::U32 => Data::U32(Buffer::new(vec![0; n])),
        ElementType::U16 => Data::U16(Buffer::new(vec![0; n])),
        ElementType::U8 => Data::U8(Buffer::new(vec![0; n])),
        ElementType::Bool => Data::Bool(Buffer::new(vec![0; n])),
        ElementType::Text => Data::Text(Arc::new(vec![String::new(); n])),
    };
    Tensor::new(shape, data)
}
