//! [`Gguf`]: the reader of GGUF files, versions 2 and 3.
//!
//! The format is a header (magic, version, number of tensors, number of keys), the keys with their
//! values, the descriptions of the tensors, padding, and the data of the tensors. Opening a file
//! reads everything but the data, once, front to back; arrays and data stay in the mapped file. A
//! model may be split into several such files: see [`Split`].

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder_files::FolderFiles;
use super::guess::{UNKNOWN, guess};
use super::json::Json;
use super::limits::{MAX_ALIGNMENT, MAX_KEYS, MAX_NAME_BYTES, MAX_TENSORS};
use super::metadata::Metadata;
use super::source::{Bytes, FileBytes, Source};
use super::split::Split;
use super::tensors::{Tensors, check_overlap};
use super::value::{Array, MAX_STRING_BYTES, Value, ValueType};
use super::{TensorInfo, WeightSource};
use crate::error::{Error, ErrorKind};
use crate::formats::FileType;
use crate::tensor_size::TensorSize;
use crate::view::TensorView;

const DEFAULT_ALIGNMENT: usize = 32;
const MAX_DIMS: u32 = 4;
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";

/// A GGUF file.
///
/// ```no_run
/// use leyden_tensor::{Gguf, WeightSource};
/// let file = Gguf::open("model.gguf".as_ref())?;
/// println!("GGUF {}: {}", file.version(), file.metadata().str("general.architecture")?);
/// for tensor in file.tensor_info() {
///     println!("{} {} {:?}", tensor.name, tensor.type_name, tensor.shape);
/// }
/// let embedding = file.require("token_embd.weight")?;
/// assert_eq!(embedding.bytes().len(), embedding.rows() * embedding.row_bytes());
/// # Ok::<(), leyden_tensor::Error>(())
/// ```
///
/// Errors name the file:
///
/// ```
/// use leyden_tensor::Gguf;
/// let error = Gguf::open("/no/such/model.gguf".as_ref()).unwrap_err();
/// assert!(error.to_string().starts_with("/no/such/model.gguf: cannot open: "));
/// ```
#[derive(Debug)]
pub struct Gguf {
    source: Arc<Source>,
    version: u32,
    metadata: Metadata,
    /// The Hugging Face configuration of a file that was converted from a folder.
    config: Option<Json>,
    tensors: Tensors,
}

impl Gguf {
    /// Maps a file and reads everything but the tensor data.
    ///
    /// If it is one part of several, `NAME-00001-of-00003.gguf`, all of them are opened. The metadata
    /// and the [`path`](WeightSource::path) are then those of the first.
    ///
    /// # Errors
    /// The file cannot be read or is not a valid GGUF file, or another part is missing or belongs to
    /// another model. The error names file and field.
    pub fn open(path: &Path) -> Result<Gguf, Error> {
        let source = Source::open(path)?;
        let parsed = source.read_checked(parse)?;
        match Split::of(&parsed.metadata)? {
            None => Gguf::join(vec![(source, parsed)]),
            Some(split) => Gguf::open_parts(source, parsed, split),
        }
    }

    /// Returns the files of the model at this path, from the name alone: all parts if it is named as one part of
    /// several. The files need not exist.
    #[must_use]
    pub fn files_of(path: &Path) -> Vec<PathBuf> {
        let parts = Split::paths_of_name(path);
        if parts.is_empty() { vec![path.to_owned()] } else { parts }
    }

    /// Opens the other parts of a model from one open part.
    fn open_parts(source: Arc<Source>, parsed: Parsed, split: Split) -> Result<Gguf, Error> {
        let paths = split.paths(&source.path).map_err(|e| e.file(&source.label))?;
        let mut given = Some((source, parsed));
        let mut parts = Vec::new();
        for (no, path) in (0..).zip(paths) {
            let (source, parsed) = match given.take_if(|_| no == split.no) {
                Some(given) => given,
                None => {
                    let source = Source::open(&path)?;
                    let parsed = source.read_checked(parse)?;
                    (source, parsed)
                }
            };
            split.check(no, &parsed.metadata)?;
            parts.push((source, parsed));
        }
        let file = Gguf::join(parts)?;
        split.check_tensors(file.tensors.infos().len()).map_err(|e| e.file(&file.source.label))?;
        Ok(file)
    }

    /// Reads a file that is part of the program; `label` takes the place of its path.
    ///
    /// # Errors
    /// The bytes are not a valid GGUF file.
    pub fn from_static(bytes: &'static [u8], label: &str) -> Result<Gguf, Error> {
        Gguf::parse(Source::new(Bytes::Static(bytes), label.into()))
    }

    /// Reads a file that is in memory; `label` takes the place of its path.
    ///
    /// # Errors
    /// The bytes are not a valid GGUF file.
    pub fn from_vec(bytes: Vec<u8>, label: &str) -> Result<Gguf, Error> {
        Gguf::parse(Source::new(Bytes::Owned(bytes), label.into()))
    }

    /// Returns the version of the format that the file has: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the bytes of a tensor of any type, supported or not, as a value that keeps the file open.
    #[must_use]
    pub fn file_bytes(&self, name: &str) -> Option<FileBytes> {
        self.tensors.file_bytes(name)
    }

    /// Parses a model that must be whole, because there is no folder with other parts.
    fn parse(source: Arc<Source>) -> Result<Gguf, Error> {
        let parsed = source.read_checked(parse)?;
        if let Some(split) = Split::of(&parsed.metadata)? {
            return Err(split.alone().file(&source.label));
        }
        Gguf::join(vec![(source, parsed)])
    }

    /// Combines files, the first of which has the metadata.
    fn join(parts: Vec<(Arc<Source>, Parsed)>) -> Result<Gguf, Error> {
        let mut head = None;
        let mut tensors = Vec::new();
        for (source, parsed) in parts {
            head.get_or_insert_with(|| (Arc::clone(&source), parsed.version, parsed.metadata));
            tensors.push((source, parsed.tensors));
        }
        let (source, version, metadata) = head.ok_or(ErrorKind::Empty { what: "list of parts" })?;
        let tensors = Tensors::new(tensors).map_err(|e| e.file(&source.label))?;
        let config = FolderFiles::config(&metadata)?;
        Ok(Gguf { source, version, metadata, config, tensors })
    }
}

impl WeightSource for Gguf {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn config_json(&self) -> Option<&Json> {
        self.config.as_ref()
    }

    fn path(&self) -> &Path {
        &self.source.path
    }

    fn paths(&self) -> Vec<&Path> {
        self.tensors.paths()
    }

    fn file_metadata(&self) -> io::Result<Vec<fs::Metadata>> {
        self.tensors.file_metadata()
    }

    fn tensor_info(&self) -> &[TensorInfo] {
        self.tensors.infos()
    }

    fn optional(&self, name: &str) -> Result<Option<TensorView<'_>>, Error> {
        self.tensors.optional(name)
    }

    fn require(&self, name: &str) -> Result<TensorView<'_>, Error> {
        self.optional(name)?
            .ok_or_else(|| Error::new(ErrorKind::MissingTensor).item(name).file(&self.source.label))
    }

    fn check_intact(&self) -> Result<(), Error> {
        self.tensors.check_intact()
    }

    fn advise_willneed(&self, name: &str) {
        self.tensors.advise_willneed(name);
    }

    fn advise_dontneed(&self, name: &str, bytes: Range<usize>) {
        self.tensors.advise_dontneed(name, bytes);
    }
}

/// The content of one file, tensors in its order.
struct Parsed {
    version: u32,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
}

fn parse(source: &Arc<Source>) -> Result<Parsed, Error> {
    let bytes = source.bytes();
    let mut cursor = Cursor { bytes, at: 0 };
    let header = read_header(&mut cursor).map_err(|kind| Error::new(kind).item("header"))?;
    let metadata = read_metadata(&mut cursor, header.n_keys, source)?;
    let alignment = alignment(&metadata)?;

    let mut tensors = Vec::new();
    for i in 0..header.n_tensors {
        let name = cursor
            .name("tensor name")
            .map_err(|kind| Error::new(kind).item(&format!("tensor {i} of {}", header.n_tensors)))?;
        let info = read_tensor_info(&mut cursor, &name, alignment).map_err(|e| e.item(&name))?;
        tensors.push(info);
    }
    let data = cursor.at.checked_next_multiple_of(alignment).unwrap_or(usize::MAX);
    for tensor in &mut tensors {
        place(tensor, data, bytes.len()).map_err(|kind| Error::new(kind).item(&tensor.name))?;
    }
    check_overlap(&tensors)?;
    Ok(Parsed { version: header.version, metadata, tensors })
}

struct Header {
    version: u32,
    n_tensors: u64,
    n_keys: u64,
}

fn read_header(cursor: &mut Cursor<'_>) -> Result<Header, ErrorKind> {
    let magic = cursor.array::<4>("magic")?;
    if magic != *b"GGUF" {
        return Err(ErrorKind::NotGguf { looks_like: guess(cursor.bytes).unwrap_or(UNKNOWN) });
    }
    let version = cursor.u32("version")?;
    // A file does not mark its byte order; version 3 in the other order reads as 50 million.
    if version.trailing_zeros() >= 16 && version != 0 {
        return Err(ErrorKind::BigEndian);
    }
    if !(2..=3).contains(&version) {
        return Err(ErrorKind::Version(version));
    }
    let n_tensors = cursor.u64("number of tensors")?;
    let n_keys = cursor.u64("number of keys")?;
    // The shortest key: length, one byte, type, one byte of value. The shortest tensor: length, one
    // byte, number of dimensions, one dimension, type, offset.
    cursor.bound("number of keys", n_keys, 14, MAX_KEYS)?;
    cursor.bound("number of tensors", n_tensors, 33, MAX_TENSORS)?;
    Ok(Header { version, n_tensors, n_keys })
}

fn read_metadata(cursor: &mut Cursor<'_>, n_keys: u64, source: &Arc<Source>) -> Result<Metadata, Error> {
    let mut entries = Vec::new();
    for i in 0..n_keys {
        let key = cursor
            .name("key")
            .map_err(|kind| Error::new(kind).item(&format!("metadata key {i} of {n_keys}")))?;
        let value = read_value(cursor, source).map_err(|kind| Error::new(kind).item(&key))?;
        entries.push((key, value));
    }
    Metadata::from_entries(Arc::clone(&source.label), entries)
}

fn read_value(cursor: &mut Cursor<'_>, source: &Arc<Source>) -> Result<Value, ErrorKind> {
    match ValueType::from_gguf_id(cursor.u32("value type")?)? {
        ValueType::String => {
            let text = String::from_utf8(cursor.string("string")?.to_vec());
            text.map(Value::from).map_err(|_| ErrorKind::Utf8 { what: "value" })
        }
        ValueType::Array => read_array(cursor, source).map(Value::Array),
        scalar => {
            let width = scalar.width().unwrap_or_default();
            let bytes = cursor.take(width, "value")?;
            check_bools(scalar, bytes)?;
            // Every remaining type has a width, and `take` returned that many bytes.
            scalar.scalar(bytes).ok_or(ErrorKind::ValueType(scalar.gguf_id()))
        }
    }
}

fn read_array(cursor: &mut Cursor<'_>, source: &Arc<Source>) -> Result<Array, ErrorKind> {
    let elem = ValueType::from_gguf_id(cursor.u32("array element type")?)?;
    let count = cursor.u64("array length")?;
    let (starts, start): (Arc<[u32]>, _) = match elem {
        ValueType::Array => return Err(ErrorKind::NestedArray),
        ValueType::String => {
            cursor.bound("array length", count, size_of::<u64>(), u64::MAX)?;
            let start = cursor.at;
            (scan_strings(cursor, count)?, start)
        }
        number => {
            let width = number.width().unwrap_or(1);
            cursor.bound("array length", count, width, u64::MAX)?;
            let start = cursor.at;
            let n_bytes =
                usize::try_from(count).ok().and_then(|n| n.checked_mul(width)).unwrap_or(usize::MAX);
            check_bools(number, cursor.take(n_bytes, "array")?)?;
            (Arc::new([]), start)
        }
    };
    let len = usize::try_from(count).unwrap_or_default();
    Ok(Array { elem, len, source: Arc::clone(source), range: start..cursor.at, starts })
}

/// Returns the start of each string of an array, and the end of the last. `count` was bounded before.
fn scan_strings(cursor: &mut Cursor<'_>, count: u64) -> Result<Arc<[u32]>, ErrorKind> {
    let start = cursor.at;
    let mut starts = Vec::with_capacity(usize::try_from(count).unwrap_or_default().saturating_add(1));
    for _ in 0..count {
        starts.push(position(cursor.at, start)?);
        cursor.string("string in array")?;
    }
    starts.push(position(cursor.at, start)?);
    Ok(starts.into())
}

fn position(at: usize, start: usize) -> Result<u32, ErrorKind> {
    let offset = at.saturating_sub(start);
    u32::try_from(offset).map_err(|_| ErrorKind::TooMany {
        what: "size of the string array",
        count: u64::try_from(offset).unwrap_or(u64::MAX),
        most: u64::try_from(MAX_STRING_BYTES).unwrap_or(u64::MAX),
    })
}

fn check_bools(ty: ValueType, bytes: &[u8]) -> Result<(), ErrorKind> {
    match bytes.iter().find(|&&byte| byte > 1) {
        Some(&byte) if ty == ValueType::Bool => Err(ErrorKind::BadBool(byte)),
        _ => Ok(()),
    }
}

/// Returns the alignment. Its key must be a u32, as the format requires: other widths are a sign of a hostile file.
pub(super) fn alignment(metadata: &Metadata) -> Result<usize, Error> {
    let kind = match metadata.get(ALIGNMENT_KEY) {
        None => return Ok(DEFAULT_ALIGNMENT),
        Some(&Value::U32(n)) if n.is_power_of_two() && n <= MAX_ALIGNMENT => {
            return Ok(usize::try_from(n).unwrap_or(DEFAULT_ALIGNMENT));
        }
        Some(&Value::U32(n)) => ErrorKind::Alignment(n),
        Some(other) => ErrorKind::WrongType { wanted: "u32", found: other.value_type().to_string() },
    };
    Err(Error::new(kind).item(ALIGNMENT_KEY))
}

/// Reads a tensor's description. Its `offset` still counts from the start of the data.
fn read_tensor_info(cursor: &mut Cursor<'_>, name: &str, alignment: usize) -> Result<TensorInfo, Error> {
    let n_dims = cursor.u32("number of dimensions")?;
    if !(1..=MAX_DIMS).contains(&n_dims) {
        return Err(ErrorKind::Dimensions(n_dims).into());
    }
    let mut dims = Vec::new();
    for _ in 0..n_dims {
        dims.push(cursor.u64("dimension")?);
    }
    let id = cursor.u32("tensor type")?;
    let offset = cursor.u64("data offset")?;
    let ty = FileType::from_gguf_id(id).map_err(ErrorKind::UnsupportedType)?;
    if dims.contains(&0) {
        return Err(ErrorKind::ZeroDimension.into());
    }
    let size = TensorSize::new(&dims.iter().copied(), ty)?;
    let too_far = || Error::new(ErrorKind::OutOfFile { end: None, file_len: cursor.bytes.len() });
    let offset_in_data = usize::try_from(offset).map_err(|_| too_far())?;
    if !offset_in_data.is_multiple_of(alignment) {
        return Err(ErrorKind::Misaligned { offset, alignment }.into());
    }
    let shape = dims.iter().rev().map(|&dim| usize::try_from(dim).map_err(|_| too_far()));
    Ok(TensorInfo {
        name: name.to_owned(),
        type_name: ty.name,
        type_id: ty.id,
        dtype: ty.dtype,
        shape: shape.collect::<Result<_, _>>()?,
        file: 0,
        offset: offset_in_data,
        bytes: size.n_bytes,
    })
}

/// Converts a tensor's offset to one from the start of the file, and checks that the file is long enough.
fn place(tensor: &mut TensorInfo, data: usize, file_len: usize) -> Result<(), ErrorKind> {
    let start = data.checked_add(tensor.offset);
    let end = start.and_then(|start| start.checked_add(tensor.bytes));
    match (start, end) {
        (Some(start), Some(end)) if end <= file_len => {
            tensor.offset = start;
            Ok(())
        }
        _ => Err(ErrorKind::OutOfFile { end, file_len }),
    }
}

/// A position in the bytes of a file, which only moves forward and never beyond the end.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn ends_early(&self, what: &'static str, wanted: u64) -> ErrorKind {
        ErrorKind::Truncated { what, offset: self.at, wanted, left: self.rest().len() }
    }

    /// Refuses a count of items that cannot fit the remaining bytes, before anything is
    /// allocated for them.
    fn bound(&self, what: &'static str, count: u64, bytes_each: usize, limit: u64) -> Result<(), ErrorKind> {
        let held = self.rest().len().checked_div(bytes_each).unwrap_or_default();
        let most = limit.min(u64::try_from(held).unwrap_or(u64::MAX));
        if count <= most { Ok(()) } else { Err(ErrorKind::TooMany { what, count, most }) }
    }

    fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], ErrorKind> {
        let taken = self.rest().get(..n);
        let taken = taken.ok_or_else(|| self.ends_early(what, u64::try_from(n).unwrap_or(u64::MAX)))?;
        self.at = self.at.saturating_add(n);
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ErrorKind> {
        let bytes = self.take(N, what)?;
        bytes.try_into().map_err(|_| self.ends_early(what, 0))
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, ErrorKind> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, ErrorKind> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn string(&mut self, what: &'static str) -> Result<&'a [u8], ErrorKind> {
        let len = self.u64(what)?;
        let n = usize::try_from(len).map_err(|_| self.ends_early(what, len))?;
        self.take(n, what)
    }

    /// Reads a key or tensor name: UTF-8, not empty, not longer than [`MAX_NAME_BYTES`].
    ///
    /// Copied before it is checked: the bytes of a mapped file can change in between.
    fn name(&mut self, what: &'static str) -> Result<String, ErrorKind> {
        let mut ahead = Cursor { ..*self };
        check_name(what, ahead.u64(what)?)?;
        String::from_utf8(self.string(what)?.to_vec()).map_err(|_| ErrorKind::Utf8 { what })
    }
}

/// Checks the length of a key or tensor name.
pub(super) fn check_name(what: &'static str, len: u64) -> Result<(), ErrorKind> {
    match len {
        0 => Err(ErrorKind::Empty { what }),
        1..=MAX_NAME_BYTES => Ok(()),
        _ => Err(ErrorKind::TooMany { what: "length of the name", count: len, most: MAX_NAME_BYTES }),
    }
}
