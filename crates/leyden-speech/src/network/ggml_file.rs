//! [`GgmlFile`]: the layout of whisper.cpp's model files, which are older than GGUF.
//!
//! A file is a magic number, eleven integers, the mel filters, the tokens' bytes, and tensors with their names and without
//! padding, little-endian throughout (whisper.cpp, `models/convert-pt-to-ggml.py`). The bytes are untrusted: every length
//! is compared with the bytes that are left before anything is allocated.

use super::tensor::Tensor;
use crate::error::{Error, ErrorKind};
use leyden_tensor::DType;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// First four bytes of a file.
const MAGIC: u32 = 0x6767_6d6c;
/// Largest number of dimensions of a tensor.
const MAX_DIMS: usize = 4;
/// Largest value of a size in the header, or of a dimension.
const MAX_SIZE: usize = 1 << 24;
/// Largest size of a token or name in bytes.
const MAX_NAME_BYTES: usize = 1 << 16;
/// Largest number of tensors.
const MAX_TENSORS: usize = 1 << 16;
/// Largest size of a file; the largest published one has 3 GiB.
const MAX_FILE_BYTES: u64 = 16 << 30;

/// Names of the integers of the header.
const NAMES: [&str; 11] = [
    "n_vocab",
    "n_audio_ctx",
    "n_audio_state",
    "n_audio_head",
    "n_audio_layer",
    "n_text_ctx",
    "n_text_state",
    "n_text_head",
    "n_text_layer",
    "n_mels",
    "ftype",
];

/// A model file of whisper.cpp, in memory.
pub(super) struct GgmlFile {
    bytes: Vec<u8>,
    /// Integers in the order of [`NAMES`].
    pub(super) header: [usize; 11],
    tokens: Vec<Range<usize>>,
    tensors: HashMap<String, Described>,
}

/// Description of a tensor.
struct Described {
    dtype: DType,
    /// The contiguous dimension last.
    shape: Vec<usize>,
    data: Range<usize>,
}

/// Place in the bytes of a file.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Takes `n` bytes; returns their range.
    fn take(&mut self, what: &str, n: usize) -> Result<Range<usize>, Error> {
        if n > self.left() {
            let (at, left) = (self.at, self.left());
            return Err(Error::model(format!(
                "file ends early: {what} needs {n} bytes at byte {at}, {left} are left"
            )));
        }
        self.at += n;
        Ok(self.at - n..self.at)
    }

    fn bytes(&mut self, what: &str, n: usize) -> Result<&'a [u8], Error> {
        let range = self.take(what, n)?;
        Ok(&self.bytes[range])
    }

    fn u32(&mut self, what: &str) -> Result<u32, Error> {
        let bytes = self.bytes(what, 4)?;
        Ok(u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    /// Reads a size of at most `most`. Negative numbers are too large.
    fn size(&mut self, what: &str, most: usize) -> Result<usize, Error> {
        let size = self.u32(what)? as usize;
        match size <= most {
            true => Ok(size),
            false => Err(Error::model(format!("{what} is {size}, at most {most} is possible"))),
        }
    }
}

impl GgmlFile {
    /// Returns type, number of values and bytes of each tensor.
    pub(super) fn sizes(&self) -> Vec<(String, u64, u64)> {
        let one = |t: &Described| {
            (t.dtype.to_string(), t.shape.iter().map(|n| *n as u64).product(), t.data.len() as u64)
        };
        self.tensors.values().map(one).collect()
    }

    /// Returns true if the file begins as one of this format.
    pub(super) fn is_at(path: &Path) -> bool {
        let mut magic = [0; 4];
        let is_file = path.metadata().is_ok_and(|known| known.is_file());
        let read = |mut file: File| file.read_exact(&mut magic).is_ok();
        is_file && File::open(path).ok().is_some_and(read) && u32::from_le_bytes(magic) == MAGIC
    }

    /// Reads a file.
    pub(super) fn open(path: &Path) -> Result<GgmlFile, Error> {
        let file = File::open(path).map_err(|error| io("open", error))?;
        let known = file.metadata().map_err(|error| io("read the size", error))?;
        if !known.is_file() {
            return Err(Error::model("not a regular file"));
        }
        if known.len() > MAX_FILE_BYTES {
            return Err(Error::new(ErrorKind::TooLarge { bytes: known.len(), most: MAX_FILE_BYTES }));
        }
        let mut bytes = Vec::with_capacity(known.len() as usize);
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(|error| io("read", error))?;
        GgmlFile::parse(bytes)
    }

    /// Reads the bytes of a file.
    pub(super) fn parse(bytes: Vec<u8>) -> Result<GgmlFile, Error> {
        let mut reader = Reader { bytes: &bytes, at: 0 };
        if reader.u32("the first number")? != MAGIC {
            let message = "neither a Hugging Face folder nor a GGML file of whisper.cpp";
            return Err(Error::model(message));
        }
        let mut header = [0; NAMES.len()];
        for (size, name) in header.iter_mut().zip(NAMES) {
            *size = reader.size(name, MAX_SIZE).map_err(|error| error.item("header"))?;
        }
        let filters = (reader.u32("number of filters")?, reader.u32("number of frequencies")?);
        let filter_bytes = u64::from(filters.0).saturating_mul(u64::from(filters.1)).saturating_mul(4);
        reader.take("mel filters", usize::try_from(filter_bytes).unwrap_or(usize::MAX))?;
        let tokens = tokens(&mut reader).map_err(|error| error.item("vocabulary"))?;
        let tensors = tensors(&mut reader)?;
        Ok(GgmlFile { header, tokens, tensors, bytes })
    }

    /// Returns the bytes of the tokens in the file; those after them have no text.
    pub(super) fn tokens(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.tokens.iter().map(|range| &self.bytes[range.clone()])
    }

    /// Returns the tensor of this name.
    pub(super) fn tensor(&self, name: &str) -> Result<Tensor<'_>, Error> {
        let missing = || Error::model("required tensor is missing").item(name);
        let tensor = self.tensors.get(name).ok_or_else(missing)?;
        Ok(Tensor {
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            bytes: &self.bytes[tensor.data.clone()],
        })
    }
}

fn tokens(reader: &mut Reader<'_>) -> Result<Vec<Range<usize>>, Error> {
    // Every token has four bytes of length.
    let count = reader.size("number of tokens", reader.left() / 4)?;
    let mut tokens = Vec::with_capacity(count);
    for _ in 0..count {
        let bytes = reader.size("length of a token", MAX_NAME_BYTES)?;
        tokens.push(reader.take("token", bytes)?);
    }
    Ok(tokens)
}

fn tensors(reader: &mut Reader<'_>) -> Result<HashMap<String, Described>, Error> {
    let mut tensors = HashMap::new();
    while reader.left() > 0 {
        if tensors.len() == MAX_TENSORS {
            return Err(Error::model(format!("more than {MAX_TENSORS} tensors")));
        }
        let (name, tensor) = tensor(reader)?;
        if tensors.insert(name.clone(), tensor).is_some() {
            return Err(Error::model("tensor appears twice").item(name));
        }
    }
    Ok(tensors)
}

fn tensor(reader: &mut Reader<'_>) -> Result<(String, Described), Error> {
    let dims = reader.size("number of dimensions", MAX_DIMS)?;
    let length = reader.size("length of a name", MAX_NAME_BYTES)?;
    let id = reader.u32("type of a tensor")?;
    let mut shape = Vec::with_capacity(dims);
    for _ in 0..dims {
        shape.push(reader.size("dimension", MAX_SIZE)?);
    }
    shape.reverse();
    let name = std::str::from_utf8(reader.bytes("name of a tensor", length)?)
        .map_err(|_| Error::model("the name of a tensor is not UTF-8"))?
        .to_owned();
    let dtype = DType::from_gguf_id(id).map_err(|unknown| Error::model(unknown.to_string()).item(&name))?;
    let row = shape.last().and_then(|columns| dtype.row_bytes(*columns));
    let rows = shape.iter().rev().skip(1).try_fold(1_usize, |all, n| all.checked_mul(*n));
    let bytes = row.zip(rows).and_then(|(row, rows)| row.checked_mul(rows));
    let bytes = bytes.ok_or_else(|| Error::model(format!("impossible shape {shape:?}")).item(&name))?;
    let data = reader.take("data", bytes).map_err(|error| error.item(&name))?;
    Ok((name, Described { dtype, shape, data }))
}

/// Returns the error of an operation on a file.
fn io(action: &'static str, source: std::io::Error) -> Error {
    Error::new(ErrorKind::Io { action, source })
}
