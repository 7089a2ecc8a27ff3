//! Writes safetensors, tensor by tensor.

use crate::error::Error;
use leyden_files::Output;
use leyden_tensor::DType;
use serde_json::{Map, Value as Json, json};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Description of a tensor in a file.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) type_name: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: usize,
}

/// A file whose tensors are declared first and then written in that order.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    out: BufWriter<Output>,
}

/// Returns the name of a float type.
pub(crate) fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "F32",
        DType::BF16 => "BF16",
        _ => "F16",
    }
}

impl Writer {
    /// Creates a file of these tensors.
    pub(crate) fn create(path: &Path, tensors: &[Place]) -> Result<Writer, Error> {
        let mut header = Map::new();
        header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
        let mut at = 0;
        for tensor in tensors {
            let end = at + tensor.bytes;
            let place: Json =
                json!({ "dtype": tensor.type_name, "shape": tensor.shape, "data_offsets": [at, end] });
            header.insert(tensor.name.clone(), place);
            at = end;
        }
        let mut text = Json::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut writer = Writer::empty(path)?;
        writer.write(&(text.len() as u64).to_le_bytes())?;
        writer.write(&text)?;
        Ok(writer)
    }

    /// Creates an empty file.
    pub(crate) fn empty(path: &Path) -> Result<Writer, Error> {
        let file =
            Output::create(path).map_err(|error| Error::unlike(path, format!("cannot create: {error}")))?;
        Ok(Writer { path: path.to_owned(), out: BufWriter::with_capacity(1 << 20, file) })
    }

    /// Writes the next bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(|error| Error::unlike(&self.path, format!("cannot write: {error}")))
    }

    /// Flushes the file to the disk.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::unlike(&self.path, format!("cannot write: {error}"));
        self.out.into_inner().map_err(|error| failed(error.into_error()))?.finish().map_err(failed)
    }
}
