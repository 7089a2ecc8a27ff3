//! [`GgufWriter`]: writes GGUF version 3, in memory or durably to a file.

use std::borrow::Cow;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use super::gguf::{ALIGNMENT_KEY, alignment, check_name};
use super::metadata::Metadata;
use super::value::Value;
use crate::error::{Error, ErrorKind};
use crate::tensor_size::TensorSize;
use crate::{DType, TensorView};
use leyden_files::{Output, OutputOptions};
use xxhash_rust::xxh3::Xxh3;

/// Collects metadata and tensors and writes them as a GGUF file.
///
/// The bytes of tensors may be borrowed: they are copied only on their way into the file.
///
/// ```
/// use leyden_tensor::{DType, Gguf, GgufWriter, Value, WeightSource};
/// let mut writer = GgufWriter::new();
/// writer.set("general.name", "nothing".into()).set("n", Value::U32(3));
/// writer.add_tensor("w", DType::F32, &[1, 2], [0, 0, 128, 63, 0, 0, 0, 64].as_slice())?;
/// let file = Gguf::from_vec(writer.to_vec()?, "w.gguf")?;
/// assert_eq!((file.version(), file.metadata().u32("n")?, file.tensor_names()), (3, 3, vec!["w"]));
/// # Ok::<(), leyden_tensor::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct GgufWriter<'a> {
    entries: Vec<(String, Value)>,
    tensors: Vec<Tensor<'a>>,
}

#[derive(Debug)]
struct Tensor<'a> {
    name: String,
    type_id: u32,
    shape: Vec<usize>,
    len: usize,
    /// Bytes of the tensor; `None` if they are generated during writing.
    bytes: Option<Cow<'a, [u8]>>,
}

/// Type id for bytes that are not weights: `I8`.
const BYTES_ID: u32 = 24;

impl<'a> GgufWriter<'a> {
    /// Returns a file with no metadata and no tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of a key, replacing an earlier one.
    ///
    /// The tensor data is aligned to `general.alignment` if that is set, otherwise to 32 bytes.
    pub fn set(&mut self, key: &str, value: Value) -> &mut Self {
        match self.entries.iter_mut().find(|entry| entry.0 == key) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((key.to_owned(), value)),
        }
        self
    }

    /// Adds a tensor; the shape is in rows-first order, the contiguous dimension last.
    ///
    /// # Errors
    /// Type, shape and bytes do not fit together, there are not 1 to 4 dimensions or one is 0, or
    /// the name is taken, empty or too long.
    pub fn add_tensor(
        &mut self,
        name: &str,
        dtype: DType,
        shape: &[usize],
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<&mut Self, Error> {
        let bytes = bytes.into();
        TensorView::new(name, dtype, shape, &bytes)?;
        self.add(name, dtype.gguf_id(), shape, bytes.len(), Some(bytes))
    }

    /// Adds a tensor whose bytes are generated while the file is written: see
    /// [`write_made_to`](Self::write_made_to).
    ///
    /// # Errors
    /// A row is not a whole number of blocks, there are not 1 to 4 dimensions or one is 0, or the name is taken, empty
    /// or too long.
    pub fn announce_tensor(&mut self, name: &str, dtype: DType, shape: &[usize]) -> Result<&mut Self, Error> {
        let dims = shape.iter().rev().map(|&dim| dim.to_u64());
        let size = TensorSize::new(&dims, dtype.file_type()).map_err(|e| e.item(name))?;
        self.add(name, dtype.gguf_id(), shape, size.n_bytes, None)
    }

    /// Adds bytes that are not weights, as a vector of type `I8`; [`Gguf::file_bytes`](crate::Gguf::file_bytes)
    /// returns them.
    ///
    /// # Errors
    /// `bytes` is empty, or the name is taken, empty or too long.
    pub fn add_bytes(&mut self, name: &str, bytes: impl Into<Cow<'a, [u8]>>) -> Result<&mut Self, Error> {
        let bytes = bytes.into();
        self.add(name, BYTES_ID, &[bytes.len()], bytes.len(), Some(bytes))
    }

    fn add(
        &mut self,
        name: &str,
        type_id: u32,
        shape: &[usize],
        len: usize,
        bytes: Option<Cow<'a, [u8]>>,
    ) -> Result<&mut Self, Error> {
        let dimensions = match shape.len() {
            1..=4 if shape.contains(&0) => Err(ErrorKind::ZeroDimension),
            1..=4 => Ok(()),
            n => Err(ErrorKind::Dimensions(u32::try_from(n).unwrap_or(u32::MAX))),
        };
        let taken = self.tensors.iter().any(|tensor| tensor.name == name);
        let unique = if taken { Err(ErrorKind::Duplicate { what: "tensor" }) } else { Ok(()) };
        dimensions
            .and_then(|()| check_name("tensor name", name.len().to_u64()))
            .and(unique)
            .map_err(|kind| Error::new(kind).item(name))?;
        self.tensors.push(Tensor { name: name.to_owned(), type_id, shape: shape.to_vec(), len, bytes });
        Ok(self)
    }

    /// Returns the file as bytes.
    ///
    /// # Errors
    /// The metadata is not valid: see [`write_to`](Self::write_to).
    pub fn to_vec(&self) -> Result<Vec<u8>, Error> {
        let layout = self.layout()?;
        let mut out = Vec::with_capacity(layout.file_len);
        self.write(&layout, &mut out, &mut nothing_made)?;
        Ok(out)
    }

    /// Writes the file so that after a crash at any moment either the old or the complete new file is found under its
    /// name; see [`Output`] for links, modes, devices and FIFOs.
    ///
    /// # Errors
    /// The file cannot be written (the temporary file is then removed), or `general.alignment` is
    /// not a power of two in range, or a key is empty or too long. The error names the file.
    pub fn write_to(&self, path: &Path) -> Result<(), Error> {
        self.write_made_to(path, &mut nothing_made)
    }

    /// Writes the file like [`write_to`](Self::write_to) but refuses devices and FIFOs.
    ///
    /// # Errors
    /// As for [`write_to`](Self::write_to).
    pub fn write_to_file(&self, path: &Path) -> Result<(), Error> {
        self.write_by(path, OutputOptions::new().files_only(), &mut nothing_made)
    }

    /// Writes the file like [`write_to`](Self::write_to), with the bytes of every announced tensor from `make`, in
    /// the order in which they were announced. A regular file is read back and compared with the written bytes before
    /// it is renamed to `path`; a device or FIFO is not.
    ///
    /// # Errors
    /// The errors of [`write_to`](Self::write_to) and of `make`; `make` writes more or fewer bytes than the tensor
    /// has; or the file reads back differently.
    pub fn write_made_to<E: From<Error>>(
        &self,
        path: &Path,
        make: &mut dyn FnMut(&str, &mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        self.write_by(path, OutputOptions::new(), make)
    }

    fn write_by<E: From<Error>>(
        &self,
        path: &Path,
        options: OutputOptions,
        make: &mut dyn FnMut(&str, &mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        let label = path.display().to_string().into();
        let named = |e: Error| E::from(e.file(&label));
        let layout = self.layout().map_err(named)?;
        let io = |action| move |source| Error::new(ErrorKind::Io { action, source });
        let output = Output::with(path, options).map_err(io("write")).map_err(named)?;
        let announced = self.tensors.iter().any(|tensor| tensor.bytes.is_none());
        let mut out = Summed::new(BufWriter::with_capacity(1 << 20, output));
        self.write(&layout, &mut out, make).map_err(|e| match e {
            Stop::Own(e) => named(e),
            Stop::Maker(e) => e,
        })?;
        let finish = || {
            let sum = out.sum.digest();
            let output = out.inner.into_inner().map_err(|e| io("write")(e.into_error()))?;
            if announced && differs(&output, sum).map_err(io("read back"))? {
                return Err(Error::new(ErrorKind::ReadBack));
            }
            output.finish().map_err(io("finish"))
        };
        finish().map_err(named)
    }

    fn layout(&self) -> Result<Layout, Error> {
        let metadata = Metadata::new("", self.entries.iter().filter(|e| e.0 == ALIGNMENT_KEY).cloned())?;
        let alignment = alignment(&metadata)?;
        for (key, _) in &self.entries {
            check_name("key", key.len().to_u64()).map_err(|kind| Error::new(kind).item(key))?;
        }
        let mut header = b"GGUF".to_vec();
        header.extend(3u32.to_le_bytes());
        header.extend(self.tensors.len().to_u64().to_le_bytes());
        header.extend(self.entries.len().to_u64().to_le_bytes());
        for (key, value) in &self.entries {
            put_string(&mut header, key.as_bytes());
            header.extend(value.value_type().gguf_id().to_le_bytes());
            put_value(&mut header, value);
        }
        let mut at: usize = 0;
        let mut ends = Vec::new();
        for tensor in &self.tensors {
            put_string(&mut header, tensor.name.as_bytes());
            header.extend(u32::try_from(tensor.shape.len()).unwrap_or(u32::MAX).to_le_bytes());
            for dim in tensor.shape.iter().rev() {
                header.extend(dim.to_u64().to_le_bytes());
            }
            header.extend(tensor.type_id.to_le_bytes());
            header.extend(at.to_u64().to_le_bytes());
            let overflow = || Error::new(ErrorKind::SizeOverflow { dims: Vec::new() }).item(&tensor.name);
            at = at
                .checked_add(tensor.len)
                .and_then(|end| end.checked_next_multiple_of(alignment))
                .ok_or_else(overflow)?;
            ends.push(at);
        }
        let padded = header.len().checked_next_multiple_of(alignment).unwrap_or(header.len());
        header.resize(padded, 0);
        Ok(Layout { file_len: padded.saturating_add(at), header, ends })
    }

    fn write<E>(
        &self,
        layout: &Layout,
        out: &mut impl Write,
        make: &mut dyn FnMut(&str, &mut dyn Write) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        let io = |source| Stop::Own(Error::new(ErrorKind::Io { action: "write", source }));
        out.write_all(&layout.header).map_err(io)?;
        let mut at: usize = 0;
        for (tensor, &end) in self.tensors.iter().zip(&layout.ends) {
            match &tensor.bytes {
                Some(bytes) => out.write_all(bytes).map_err(io)?,
                None => {
                    let mut counted = Counted { inner: out, bytes: 0 };
                    make(&tensor.name, &mut counted).map_err(Stop::Maker)?;
                    if counted.bytes != tensor.len {
                        let kind = ErrorKind::ByteLength { wanted: tensor.len, found: counted.bytes };
                        return Err(Stop::Own(Error::new(kind).item(&tensor.name)));
                    }
                }
            }
            let mut padding = end.saturating_sub(at.saturating_add(tensor.len));
            while padding > 0 {
                const ZEROS: [u8; 4096] = [0; 4096];
                let zeros = ZEROS.get(..padding).unwrap_or(&ZEROS);
                out.write_all(zeros).map_err(io)?;
                padding = padding.saturating_sub(zeros.len());
            }
            at = end;
        }
        Ok(())
    }
}

/// Reason why writing stopped.
enum Stop<E> {
    Own(Error),
    Maker(E),
}

impl From<Stop<Error>> for Error {
    fn from(stop: Stop<Error>) -> Error {
        match stop {
            Stop::Own(e) | Stop::Maker(e) => e,
        }
    }
}

/// Stands for `make` in files without announced tensors.
fn nothing_made(name: &str, _: &mut dyn Write) -> Result<(), Error> {
    Err(Error::new(ErrorKind::MissingTensor).item(name))
}

/// A writer that counts the bytes.
struct Counted<'w, W> {
    inner: &'w mut W,
    bytes: usize,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.bytes = self.bytes.saturating_add(n);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A writer that computes a checksum of the bytes.
struct Summed<W> {
    inner: W,
    sum: Xxh3,
}

impl<W> Summed<W> {
    fn new(inner: W) -> Self {
        Summed { inner, sum: Xxh3::new() }
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.sum.update(bytes.get(..n).unwrap_or_default());
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The bytes before the tensor data, and the end of each tensor's data with its padding.
struct Layout {
    header: Vec<u8>,
    ends: Vec<usize>,
    file_len: usize,
}

fn put_string(out: &mut Vec<u8>, s: &[u8]) {
    out.extend(s.len().to_u64().to_le_bytes());
    out.extend(s);
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(v) => out.extend(v.to_le_bytes()),
        Value::I8(v) => out.extend(v.to_le_bytes()),
        Value::U16(v) => out.extend(v.to_le_bytes()),
        Value::I16(v) => out.extend(v.to_le_bytes()),
        Value::U32(v) => out.extend(v.to_le_bytes()),
        Value::I32(v) => out.extend(v.to_le_bytes()),
        Value::U64(v) => out.extend(v.to_le_bytes()),
        Value::I64(v) => out.extend(v.to_le_bytes()),
        Value::F32(v) => out.extend(v.to_le_bytes()),
        Value::F64(v) => out.extend(v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::String(v) => put_string(out, v.as_bytes()),
        Value::Array(array) => {
            out.extend(array.elem_type().gguf_id().to_le_bytes());
            out.extend(array.len().to_u64().to_le_bytes());
            out.extend(array.raw());
        }
    }
}

/// Conversion of `usize`, which has at most 64 bits on every supported target.
trait ToU64 {
    fn to_u64(self) -> u64;
}

impl ToU64 for usize {
    fn to_u64(self) -> u64 {
        u64::try_from(self).unwrap_or(u64::MAX)
    }
}

/// Returns true if a file's bytes have another checksum than `sum`.
fn differs(output: &Output, sum: u64) -> io::Result<bool> {
    let Some(mut file) = output.read_back()? else { return Ok(false) };
    let mut found = Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(found.digest() != sum),
            n => found.update(buffer.get(..n).unwrap_or_default()),
        }
    }
}
