//! Writes safetensors, tensor by tensor.

use crate::error::Error;
use leyden_files::Output;
use leyden_tensor::DType;
use serde_json::{Map, Value as Json, json};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file whose tensors are declared first and then written in that order.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    out: BufWriter<Output>,
}

/// Returns the name of a type.
fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "F32",
        DType::BF16 => "BF16",
        _ => "F16",
    }
}

impl Writer {
    /// Creates a file of tensors with these names, types, shapes and bytes.
    pub(crate) fn create(
        path: &Path,
        tensors: &[(String, DType, Vec<usize>, usize)],
    ) -> Result<Writer, Error> {
        let mut header = Map::new();
        header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
        let mut at = 0;
        for (tensor, dtype, shape, bytes) in tensors {
            let place: Json =
                json!({ "dtype": name(*dtype), "shape": shape, "data_offsets": [at, at + bytes] });
            header.insert(tensor.clone(), place);
            at += bytes;
        }
        let mut text = Json::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let file =
            Output::create(path).map_err(|error| Error::unlike(path, format!("cannot create: {error}")))?;
        let mut writer = Writer { path: path.to_owned(), out: BufWriter::with_capacity(1 << 20, file) };
        writer.write(&(text.len() as u64).to_le_bytes())?;
        writer.write(&text)?;
        Ok(writer)
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
