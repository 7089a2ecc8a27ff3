//! [`Safetensors`]: the reader of safetensors files, single or sharded.
//!
//! A file is the length of a header, the header, and the data. The header is a JSON object with the
//! type, shape and offsets of every tensor, and under `__metadata__` some texts. Tensors must cover the data
//! without gaps and overlaps, so that nothing can be hidden in a file. A sharded model has an index,
//! `model.safetensors.index.json`, that maps every tensor to a file in the same folder.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::guess::{UNKNOWN, guess};
use super::limits::{MAX_HEADER_BYTES, MAX_TENSORS};
use super::metadata::{Metadata, sorted_index};
use super::source::{Bytes, Source};
use super::tensors::{Parsed, Tensors, check_overlap};
use super::torch::{self, is_torch};
use super::value::Value;
use super::{TensorInfo, WeightSource};
use crate::error::{Error, ErrorKind};
use crate::formats::FileType;
use crate::tensor_size::TensorSize;
use crate::view::TensorView;

mod compose;
mod header;
mod index;
mod types;

pub use compose::{StackRows, Stacked};

use header::{Header, RawTensor};

pub(super) use types::{MAX_DIMS, file_type};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// PyTorch checkpoint of folders that have no safetensors.
const TORCH: &str = "pytorch_model.bin";

/// A model in one safetensors file or several, or in a checkpoint that `torch.save` wrote.
///
/// Tensors of other types than F32, F16 and BF16 are listed, and refused by name when asked for.
/// [`metadata`](WeightSource::metadata) has the texts under `__metadata__`; for a sharded model those of
/// its first file.
///
/// The format's own library writes only one of several tensors that share their bytes, and records
/// under `__metadata__` its name for each omitted one. Asking for an omitted name returns the written tensor,
/// under its own name: `model.embed_tokens.weight` may be a view called `lm_head.weight`.
///
/// ```
/// use leyden_tensor::{DType, Safetensors, WeightSource};
/// let header = br#"{"w":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}"#;
/// let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
/// bytes.extend(header);
/// bytes.extend([0x00, 0x3c, 0x00, 0xc0]);
/// let file = Safetensors::from_vec(bytes, "model.safetensors")?;
/// let w = file.require("w")?;
/// assert_eq!((w.dtype(), w.shape(), w.bytes()), (DType::F16, &[1, 2][..], &[0x00, 0x3c, 0x00, 0xc0][..]));
/// # Ok::<(), leyden_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Safetensors {
    /// The file, folder or index as it was given.
    place: Arc<Source>,
    metadata: Metadata,
    tensors: Tensors,
}

impl Safetensors {
    /// Returns true if a folder has weights that [`open`](Self::open) reads.
    pub fn is_in(folder: &Path) -> bool {
        [SINGLE, INDEX, TORCH].iter().any(|name| folder.join(name).exists())
    }

    /// Maps a model and reads everything but the tensor data. `path` is a safetensors file, an index
    /// (its name ends in `.index.json`), or a folder with `model.safetensors` or, if it lacks that, with
    /// `model.safetensors.index.json` or `pytorch_model.bin`.
    ///
    /// The files that an index names must lie in its own folder. Links there are followed: caches of
    /// downloaded models consist of them.
    ///
    /// # Errors
    /// A file cannot be read or is not valid, or index and files do not agree. The error names file and
    /// field.
    pub fn open(path: &Path) -> Result<Safetensors, Error> {
        if path.is_dir() {
            let (single, index) = (path.join(SINGLE), path.join(INDEX));
            return match (single.exists(), index.exists()) {
                (true, _) => Safetensors::from_source(Source::open(&single)?, path),
                (false, true) => Safetensors::open_index(&index, path),
                (false, false) if path.join(TORCH).exists() => {
                    Safetensors::from_source(Source::open(&path.join(TORCH))?, path)
                }
                (false, false) => {
                    let wanted = "model.safetensors, model.safetensors.index.json or pytorch_model.bin";
                    let label = path.display().to_string().into();
                    Err(Error::new(ErrorKind::MissingFile { wanted }).file(&label))
                }
            };
        }
        let is_index = path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b".index.json"));
        if is_index {
            Safetensors::open_index(path, path)
        } else {
            Safetensors::from_source(Source::open(path)?, path)
        }
    }

    /// Reads a file that is in memory; `label` takes the place of its path.
    ///
    /// # Errors
    /// The bytes are not a valid safetensors file.
    pub fn from_vec(bytes: Vec<u8>, label: &str) -> Result<Safetensors, Error> {
        Safetensors::from_source(Source::new(Bytes::Owned(bytes), label.into()), label.as_ref())
    }

    fn from_source(source: Arc<Source>, place: &Path) -> Result<Safetensors, Error> {
        let parsed = source.read_checked(parse)?;
        Safetensors::join(vec![(source, parsed)], place)
    }

    fn open_index(path: &Path, place: &Path) -> Result<Safetensors, Error> {
        let index = index::Index::open(path)?;
        let mut parts = Vec::new();
        for (file, name) in index.files().iter().enumerate() {
            let source = Source::open(&path.with_file_name(&**name))?;
            let parsed = source.read_checked(|source| {
                let parsed = parse(source)?;
                index.check(file, &parsed.tensors)?;
                Ok(parsed)
            })?;
            parts.push((source, parsed));
        }
        Safetensors::join(parts, place)
    }

    /// Combines files, the first of which has the metadata.
    fn join(parts: Vec<(Arc<Source>, Parsed)>, place: &Path) -> Result<Safetensors, Error> {
        let place = Source::new(Bytes::Static(&[]), place.into());
        let mut metadata = None;
        let mut tensors = Vec::new();
        for (source, parsed) in parts {
            metadata.get_or_insert(parsed.metadata);
            tensors.push((source, parsed.tensors));
        }
        let metadata = match metadata {
            Some(metadata) => metadata,
            None => Metadata::from_entries(Arc::clone(&place.label), Vec::new())?,
        };
        let tensors = Tensors::new(tensors).map_err(|e| e.file(&place.label))?;
        Ok(Safetensors { place, metadata, tensors })
    }
}

impl Safetensors {
    /// Returns the description and the bytes of a tensor of any type.
    pub fn raw(&self, name: &str) -> Option<(&TensorInfo, &[u8])> {
        self.tensors.raw(self.written_as(name).unwrap_or(name))
    }

    /// Returns the name of the tensor that was written in place of this one, if this one was omitted.
    fn written_as(&self, name: &str) -> Option<&str> {
        match self.metadata.get(name)? {
            Value::String(other) if !self.tensors.has(name) => Some(other),
            _ => None,
        }
    }
}

impl WeightSource for Safetensors {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn path(&self) -> &Path {
        &self.place.path
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
        self.tensors.optional(self.written_as(name).unwrap_or(name))
    }

    fn require(&self, name: &str) -> Result<TensorView<'_>, Error> {
        self.optional(name)?
            .ok_or_else(|| Error::new(ErrorKind::MissingTensor).item(name).file(&self.place.label))
    }

    fn check_intact(&self) -> Result<(), Error> {
        self.tensors.check_intact()
    }

    fn advise_willneed(&self, name: &str) {
        self.tensors.advise_willneed(self.written_as(name).unwrap_or(name));
    }

    fn advise_dontneed(&self, name: &str, bytes: Range<usize>) {
        self.tensors.advise_dontneed(self.written_as(name).unwrap_or(name), bytes);
    }
}

fn parse(source: &Arc<Source>) -> Result<Parsed, Error> {
    let bytes = source.bytes();
    if is_torch(bytes) {
        return torch::parse(source);
    }
    let (header, data) = split(bytes).map_err(|kind| Error::new(kind).item("header"))?;
    let Header { metadata, tensors: raw } = Header::parse(&header)?;
    let mut tensors = Vec::with_capacity(raw.len());
    for (name, raw) in raw {
        let info = place(&raw, data, bytes.len()).map_err(|e| e.item(&name))?;
        tensors.push(TensorInfo { name, ..info });
    }
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    sorted_index(&names).map_err(|twice| Error::new(ErrorKind::Duplicate { what: "tensor" }).item(twice))?;
    // An empty tensor may begin where another begins.
    tensors.sort_by_key(|tensor| (tensor.offset, tensor.bytes));
    check_overlap(&tensors)?;
    check_gaps(&tensors, data, bytes.len())?;
    let entries = metadata.into_iter().map(|(key, text)| (key, Value::String(text))).collect();
    Ok(Parsed { metadata: Metadata::from_entries(Arc::clone(&source.label), entries)?, tensors })
}

/// Returns the header, copied because the bytes of a mapped file can change while they are parsed, and the offset of
/// the data.
fn split(bytes: &[u8]) -> Result<(Vec<u8>, usize), ErrorKind> {
    let ends_early = |what, offset: usize, wanted| {
        Err(ErrorKind::Truncated { what, offset, wanted, left: bytes.len().saturating_sub(offset) })
    };
    let Some((len, rest)) = bytes.split_first_chunk::<8>() else {
        return ends_early("length of the header", 0, 8);
    };
    let len = u64::from_le_bytes(*len);
    if len > MAX_HEADER_BYTES || rest.first().is_some_and(|&byte| byte != b'{') {
        return Err(match guess(bytes) {
            // Its header may be too long, or begin with something other than an object.
            Some("a safetensors file") | None if len > MAX_HEADER_BYTES => {
                ErrorKind::TooMany { what: "length of the header", count: len, most: MAX_HEADER_BYTES }
            }
            Some(looks_like) => ErrorKind::NotSafetensors { looks_like },
            None => ErrorKind::NotSafetensors { looks_like: UNKNOWN },
        });
    }
    let header = usize::try_from(len).ok().and_then(|n| rest.get(..n));
    let Some(header) = header else { return ends_early("header", 8, len) };
    Ok((header.to_vec(), header.len().saturating_add(8)))
}

/// Checks type, shape and offsets of a tensor; its name is filled in by the caller.
fn place(raw: &RawTensor, data: usize, file_len: usize) -> Result<TensorInfo, Error> {
    let ty = match &raw.dtype {
        Ok(ty) => *ty,
        Err(unknown) => return Err(ErrorKind::UnknownTypeName(unknown.clone()).into()),
    };
    let [begin, end] = raw.data_offsets;
    if begin > end {
        return Err(ErrorKind::Offsets { begin, end }.into());
    }
    let wanted = n_bytes(&raw.shape, ty)?;
    let out_of_file = |end| Error::new(ErrorKind::OutOfFile { end, file_len });
    let position = |offset: u64| usize::try_from(offset).ok().and_then(|offset| data.checked_add(offset));
    let (begin, end) = (position(begin).ok_or_else(|| out_of_file(None))?, position(end));
    let end = end.filter(|&end| end <= file_len).ok_or_else(|| out_of_file(end))?;
    let found = end.saturating_sub(begin);
    if found != wanted {
        return Err(ErrorKind::ByteLength { wanted, found }.into());
    }
    let dims = raw.shape.iter().map(|&dim| usize::try_from(dim).map_err(|_| out_of_file(None)));
    Ok(TensorInfo {
        name: String::new(),
        type_name: ty.name,
        type_id: ty.id,
        dtype: ty.dtype,
        shape: dims.collect::<Result<_, _>>()?,
        file: 0,
        offset: begin,
        bytes: found,
    })
}

/// Returns the bytes of a tensor, a count. Types with several values in a byte need not have whole bytes in a row.
fn n_bytes(shape: &[u64], ty: FileType) -> Result<usize, Error> {
    if shape.len() > MAX_DIMS {
        let (count, most) = (u64::try_from(shape.len()), u64::try_from(MAX_DIMS));
        let [count, most] = [count, most].map(|n| n.unwrap_or(u64::MAX));
        return Err(ErrorKind::TooMany { what: "number of dimensions", count, most }.into());
    }
    if ty.block_len == 1 {
        return Ok(TensorSize::new(&shape.iter().rev().copied(), ty)?.n_bytes);
    }
    let n = shape.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim));
    let n = n.ok_or_else(|| ErrorKind::SizeOverflow { dims: shape.iter().rev().copied().collect() })?;
    Ok(TensorSize::new(&std::iter::once(n), ty)?.n_bytes)
}

/// Checks that every byte of the data belongs to a tensor. `tensors` is sorted and without overlaps.
fn check_gaps(tensors: &[TensorInfo], data: usize, file_len: usize) -> Result<(), Error> {
    let mut at = data;
    let ends = tensors.iter().map(|tensor| (tensor.offset, tensor.range().end));
    for (begin, end) in ends.chain([(file_len, file_len)]) {
        if begin != at {
            return Err(Error::new(ErrorKind::Gap { begin: at, end: begin }).item("header"));
        }
        at = end;
    }
    Ok(())
}
