//! One tensor of a model: its type, its shape, and the location of its values.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::model::OnnxTensor;
use super::wire::{Field, Slice, broken, pair};
use crate::DType;
use crate::error::{Error, ErrorKind};
use crate::file::gguf::check_name;
use crate::file::safetensors::{MAX_DIMS, file_type};
use crate::file::source::{Bytes, FileBytes, Source};
use crate::file::{MAX_TENSORS, TensorInfo};
use crate::formats::FileType;

/// Maximum number of files of external data: some exporters write one for each tensor.
const MAX_EXTERNAL_FILES: usize = 1024;

/// Types by their ids in a file: name, and the field that has the values if they are not in `raw_data`.
const TYPES: [(u64, &str, Values); 22] = [
    (1, "F32", Values::Floats),
    (2, "U8", Values::Ints(1)),
    (3, "I8", Values::Ints(1)),
    (4, "U16", Values::Ints(2)),
    (5, "I16", Values::Ints(2)),
    (6, "I32", Values::Ints(4)),
    (7, "I64", Values::Longs),
    (9, "BOOL", Values::Ints(1)),
    (10, "F16", Values::Ints(2)),
    (11, "F64", Values::Doubles),
    (12, "U32", Values::Unsigned(4)),
    (13, "U64", Values::Unsigned(8)),
    (14, "C64", Values::Floats),
    (16, "BF16", Values::Ints(2)),
    (17, "F8_E4M3", Values::Ints(1)),
    (18, "F8_E4M3FNUZ", Values::Ints(1)),
    (19, "F8_E5M2", Values::Ints(1)),
    (20, "F8_E5M2FNUZ", Values::Ints(1)),
    (21, "U4", Values::Halves),
    (22, "I4", Values::Halves),
    (23, "F4", Values::Halves),
    (24, "F8_E8M0", Values::Ints(1)),
];

/// Type id of strings, which [`Files::constant`] alone reads.
const STRING: u64 = 8;
/// Maximum number of texts in a tensor.
const MAX_TEXTS: usize = 1 << 20;

/// Field of values outside `raw_data`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values {
    Floats,
    Doubles,
    /// 32-bit integers, of which this many low bytes are the value.
    Ints(usize),
    Longs,
    Unsigned(usize),
    /// Two values in a byte: `raw_data` only.
    Halves,
}

/// Returns the description of a type that safetensors does not have.
fn type_named(name: &'static str) -> Option<FileType> {
    let half = |id| Some(FileType { id, name, dtype: None, block_len: 2, block_bytes: 1 });
    match name {
        "U4" => half((1 << 31) | 32),
        "I4" => half((1 << 31) | 33),
        _ => file_type(name),
    }
}

/// Returns the name of a type by its id in a file, for messages and descriptions.
pub(super) fn type_name(number: u64) -> Option<&'static str> {
    if number == STRING {
        return Some("STRING");
    }
    TYPES.iter().find(|row| row.0 == number).map(|row| row.1)
}

/// The fields of one tensor's message.
#[derive(Default)]
struct Raw<'a> {
    name: String,
    dims: Vec<u64>,
    number: u64,
    raw: Option<Slice<'a>>,
    /// Bytes of floats and doubles, in place if the field is packed.
    fixed: Option<(Values, Fixed<'a>)>,
    numbers: Option<(Values, Vec<u64>)>,
    texts: Vec<Vec<u8>>,
    external: Vec<(String, String)>,
    is_external: bool,
}

enum Fixed<'a> {
    Packed(Slice<'a>),
    Gathered(Vec<u8>),
}

impl<'a> Fixed<'a> {
    fn bytes(&self) -> &[u8] {
        match self {
            Fixed::Packed(slice) => slice.bytes,
            Fixed::Gathered(bytes) => bytes,
        }
    }

    fn join(before: Option<(Values, Fixed<'a>)>, field: Field<'a>) -> Result<Fixed<'a>, ErrorKind> {
        let mut bytes = match (before, field) {
            (None, Field::Bytes(slice)) => return Ok(Fixed::Packed(slice)),
            (Some((_, Fixed::Gathered(bytes))), _) => bytes,
            (Some((_, Fixed::Packed(slice))), _) => slice.bytes.to_vec(),
            (None, _) => Vec::new(),
        };
        match field {
            Field::Fixed32(value) => bytes.extend(value),
            Field::Fixed64(value) => bytes.extend(value),
            Field::Bytes(slice) => bytes.extend(slice.bytes),
            Field::Varint(_) => return Err(broken("values are integers where floats should be")),
        }
        Ok(Fixed::Gathered(bytes))
    }
}

impl<'a> Raw<'a> {
    fn parse(mut message: Slice<'a>) -> Result<Raw<'a>, Error> {
        let mut raw = Raw::default();
        let result = (|| {
            while let Some((number, field)) = message.next()? {
                match number {
                    1 => field.add_numbers("shape", &mut raw.dims)?,
                    2 => raw.number = field.number("data_type")?,
                    3 => return Err(broken("is stored in segments, which is not supported")),
                    4 => raw.fixed = Some((Values::Floats, Fixed::join(raw.fixed.take(), field)?)),
                    10 => raw.fixed = Some((Values::Doubles, Fixed::join(raw.fixed.take(), field)?)),
                    5 => add(&mut raw.numbers, Values::Ints(4), field)?,
                    7 => add(&mut raw.numbers, Values::Longs, field)?,
                    11 => add(&mut raw.numbers, Values::Unsigned(8), field)?,
                    6 => {
                        if raw.texts.len() >= MAX_TEXTS {
                            return Err(broken(format!("has more than {MAX_TEXTS} texts")));
                        }
                        raw.texts.push(field.bytes("string_data")?.bytes.to_vec());
                    }
                    8 => {
                        let name = field.bytes("name of a tensor")?;
                        check_name("name", u64::try_from(name.bytes.len().max(1)).unwrap_or(u64::MAX))?;
                        raw.name = name.text("name of a tensor")?;
                    }
                    9 => raw.raw = Some(field.bytes("raw_data")?),
                    13 => {
                        if raw.external.len() >= MAX_EXTERNAL_KEYS {
                            return Err(broken("external_data has too many keys"));
                        }
                        raw.external.push(pair(field.bytes("external_data")?)?);
                    }
                    14 => raw.is_external = field.number("data_location")? == 1,
                    _ => {}
                }
                if raw.dims.len() > MAX_DIMS {
                    let [count, most] =
                        [raw.dims.len(), MAX_DIMS].map(|n| u64::try_from(n).unwrap_or(u64::MAX));
                    return Err(ErrorKind::TooMany { what: "number of dimensions", count, most });
                }
            }
            Ok(())
        })();
        result.map_err(|kind| called(kind.into(), &raw.name))?;
        Ok(raw)
    }
}

/// Adds the tensor's name to an error, if the tensor has one.
fn called(error: Error, name: &str) -> Error {
    if name.is_empty() { error } else { error.item(name) }
}

/// Maximum number of keys of external data: location, offset, length, checksum, and some spare.
const MAX_EXTERNAL_KEYS: usize = 16;

fn add(to: &mut Option<(Values, Vec<u64>)>, kind: Values, field: Field<'_>) -> Result<(), ErrorKind> {
    let (found, numbers) = to.get_or_insert_with(|| (kind, Vec::new()));
    if *found != kind {
        return Err(broken("has values in two fields"));
    }
    field.add_numbers("values", numbers)
}

/// Returns the low `size` bytes of each number.
fn low_bytes(numbers: &[u64], size: usize) -> Result<Vec<u8>, ErrorKind> {
    let mut bytes = Vec::with_capacity(numbers.len().saturating_mul(size));
    for number in numbers {
        let all = number.to_le_bytes();
        let (low, high) = all.split_at_checked(size).unwrap_or((&all, &[]));
        if !high.iter().all(|byte| *byte == 0) && !high.iter().all(|byte| *byte == 0xff) {
            return Err(broken(format!(
                "has the value {}, which does not fit its type",
                number.cast_signed()
            )));
        }
        bytes.extend(low);
    }
    Ok(bytes)
}

/// Location of a tensor's bytes.
pub(super) enum Place {
    /// A range of a file; file 0 is the model's own.
    File(usize, Range<usize>),
    Own(Vec<u8>),
}

/// The files of a model while it is read.
pub(super) struct Files<'s> {
    pub(super) model: &'s Arc<Source>,
    /// Files of external data, by name.
    pub(super) external: Vec<(String, Arc<Source>)>,
    /// Number of tensors that were read so far.
    count: u64,
}

impl<'s> Files<'s> {
    pub(super) fn new(model: &'s Arc<Source>) -> Files<'s> {
        Files { model, external: Vec::new(), count: 0 }
    }

    /// Reads the description of a tensor, and finds its bytes.
    pub(super) fn tensor(&mut self, message: Slice<'_>) -> Result<(TensorInfo, Place), Error> {
        self.bound()?;
        let raw = Raw::parse(message)?;
        let name = raw.name.clone();
        self.find(raw).map_err(|e| called(e, &name))
    }

    /// Reads a tensor that is an attribute or part of one, as a value of its own.
    pub(super) fn constant(&mut self, message: Slice<'_>) -> Result<OnnxTensor, Error> {
        self.bound()?;
        let raw = Raw::parse(message)?;
        let name = raw.name.clone();
        if raw.number == STRING {
            return self.texts(raw).map_err(|e| called(e, &name));
        }
        let (mut info, place) = self.find(raw).map_err(|e| called(e, &name))?;
        let (source, range) = match place {
            Place::File(file, range) => (self.source(file), range),
            Place::Own(bytes) => {
                let range = 0..bytes.len();
                info.offset = 0;
                (Source::new(Bytes::Derived(bytes, Arc::clone(self.model)), self.model.path.clone()), range)
            }
        };
        Ok(OnnxTensor { info, bytes: FileBytes::new(source, range), texts: Vec::new() })
    }

    /// Makes a tensor of texts.
    fn texts(&self, raw: Raw<'_>) -> Result<OnnxTensor, Error> {
        let dims = raw.dims.iter().map(|&dim| usize::try_from(dim).ok()).collect::<Option<Vec<_>>>();
        let count =
            dims.as_ref().and_then(|dims| dims.iter().try_fold(1_usize, |n, dim| n.checked_mul(*dim)));
        let (Some(shape), Some(count)) = (dims, count) else {
            return Err(ErrorKind::SizeOverflow { dims: raw.dims }.into());
        };
        if count != raw.texts.len() {
            return Err(broken(format!("has {} texts where {count} should be", raw.texts.len())).into());
        }
        let (name, type_name) = (raw.name, "STRING");
        let info = TensorInfo {
            name,
            type_name,
            type_id: u32::MAX,
            dtype: None,
            shape,
            file: 0,
            offset: 0,
            bytes: 0,
        };
        Ok(OnnxTensor { info, bytes: FileBytes::new(Arc::clone(self.model), 0..0), texts: raw.texts })
    }

    /// Counts a tensor against the limit.
    fn bound(&mut self) -> Result<(), ErrorKind> {
        self.count = self.count.saturating_add(1);
        if self.count > MAX_TENSORS {
            return Err(ErrorKind::TooMany {
                what: "number of tensors",
                count: self.count,
                most: MAX_TENSORS,
            });
        }
        Ok(())
    }

    /// Returns true if a message describes a tensor of texts.
    pub(super) fn is_text(mut message: Slice<'_>) -> bool {
        while let Ok(Some((number, field))) = message.next() {
            if number == 2 {
                return field.number("data_type").is_ok_and(|number| number == STRING);
            }
        }
        false
    }

    fn source(&self, file: usize) -> Arc<Source> {
        let external = file.checked_sub(1).and_then(|i| self.external.get(i));
        Arc::clone(external.map_or(self.model, |(_, source)| source))
    }

    fn find(&mut self, raw: Raw<'_>) -> Result<(TensorInfo, Place), Error> {
        let unknown = || match type_name(raw.number) {
            Some(name) => broken(format!("values of type {name} are not supported")),
            None => broken(format!("tensor type {} is unknown", raw.number)),
        };
        let &(_, name, values) = TYPES.iter().find(|row| row.0 == raw.number).ok_or_else(unknown)?;
        let ty = type_named(name).ok_or_else(unknown)?;
        if !raw.texts.is_empty() {
            return Err(broken("has texts where numbers should be").into());
        }
        let wanted = n_bytes(&raw.dims, ty)?;
        let place = match raw {
            Raw { is_external: true, external, .. } => self.external(&external, wanted)?,
            Raw { raw: Some(slice), .. } => in_file(slice),
            Raw { fixed: Some((kind, fixed)), .. } if kind == values => match fixed {
                Fixed::Packed(slice) => in_file(slice),
                Fixed::Gathered(bytes) => Place::Own(bytes),
            },
            Raw { numbers: Some((kind, numbers)), .. } => {
                let size = match (kind, values) {
                    (Values::Ints(_), Values::Ints(size)) | (Values::Unsigned(_), Values::Unsigned(size)) => {
                        size
                    }
                    (Values::Longs, Values::Longs) => 8,
                    _ => {
                        return Err(
                            broken(format!("has type {name} and values in the field of another")).into()
                        );
                    }
                };
                Place::Own(low_bytes(&numbers, size)?)
            }
            Raw { fixed: Some((_, fixed)), .. } if !fixed.bytes().is_empty() => {
                return Err(broken(format!("has type {name} and values in the field of another")).into());
            }
            _ => Place::Own(Vec::new()),
        };
        let (file, offset, bytes) = match &place {
            Place::File(file, range) => (*file, range.start, range.len()),
            Place::Own(bytes) => (0, 0, bytes.len()),
        };
        if bytes != wanted {
            return Err(ErrorKind::ByteLength { wanted, found: bytes }.into());
        }
        let dims = raw.dims.iter().map(|&dim| usize::try_from(dim).ok());
        let shape = dims.collect::<Option<_>>();
        let shape = shape.ok_or_else(|| ErrorKind::SizeOverflow { dims: raw.dims.clone() })?;
        let info = TensorInfo {
            name: raw.name,
            type_name: ty.name,
            type_id: ty.id,
            dtype: ty.dtype,
            shape,
            file,
            offset,
            bytes,
        };
        Ok((info, place))
    }

    /// Returns the bytes of a tensor in a file of external data.
    fn external(&mut self, entries: &[(String, String)], wanted: usize) -> Result<Place, Error> {
        let get = |key: &str| entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1.as_str());
        let number = |key: &str| match get(key) {
            None => Ok(None),
            Some(text) => {
                let value = text.parse::<usize>();
                value.map(Some).map_err(|_| broken(format!("external_data: {key} `{text}` is not a number")))
            }
        };
        let location = get("location").ok_or_else(|| broken("external_data has no location"))?;
        let offset = number("offset")?.unwrap_or(0);
        let bytes = number("length")?.unwrap_or(wanted);
        if bytes != wanted {
            return Err(ErrorKind::ByteLength { wanted, found: bytes }.into());
        }
        let file = self.open(location)?;
        let source = self.source(file);
        let (end, file_len) = (offset.checked_add(bytes), source.bytes().len());
        match end.filter(|end| *end <= file_len) {
            Some(end) => Ok(Place::File(file, offset..end)),
            None => Err(Error::new(ErrorKind::OutOfFile { end, file_len }).file(&source.label)),
        }
    }

    /// Opens an external file, which must be in the model's own folder, and returns its number.
    fn open(&mut self, location: &str) -> Result<usize, Error> {
        let known = self.external.iter().position(|(name, _)| name == location);
        if let Some(i) = known {
            return Ok(i.saturating_add(1));
        }
        // A downloaded file must not name arbitrary files of the machine, so only its own folder is allowed.
        let plain = Path::new(location).file_name().is_some_and(|name| name == location);
        if !plain || location.contains(['/', '\\', ':', '\0']) {
            let what = format!(
                "external_data: location `{location}` is not a plain name of a file in the same folder"
            );
            return Err(broken(what).into());
        }
        if !matches!(self.model.bytes, Bytes::Mapped(_)) {
            return Err(broken("external_data: a model in memory has no folder with such files").into());
        }
        if self.external.len() >= MAX_EXTERNAL_FILES {
            let most = u64::try_from(MAX_EXTERNAL_FILES).unwrap_or(u64::MAX);
            let count = most.saturating_add(1);
            return Err(ErrorKind::TooMany { what: "number of files of external data", count, most }.into());
        }
        let source = Source::open(&self.model.path.with_file_name(location))?;
        self.external.push((location.to_owned(), source));
        Ok(self.external.len())
    }
}

fn in_file(slice: Slice<'_>) -> Place {
    Place::File(0, slice.at..slice.at.saturating_add(slice.bytes.len()))
}

/// Returns the bytes of a tensor, a count. An odd number of two-to-a-byte values is rounded up to a whole byte.
fn n_bytes(dims: &[u64], ty: FileType) -> Result<usize, Error> {
    let size = |dims: &[u64], ty| crate::tensor_size::TensorSize::new(&dims.iter().rev().copied(), ty);
    if ty.block_len == 1 {
        return Ok(size(dims, ty)?.n_bytes);
    }
    let one = size(dims, DType::F32.file_type())?;
    let values = one.n_bytes.checked_div(size_of::<f32>()).unwrap_or_default();
    Ok(values.div_ceil(ty.block_len).saturating_mul(ty.block_bytes))
}
