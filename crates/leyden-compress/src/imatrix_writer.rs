//! Writes importance matrices in llama-imatrix's format.

use crate::error::Error;
use leyden_tensor::{Array, DType, GgufWriter, Value};
use std::path::Path;

/// An importance matrix that is being written.
#[derive(Debug)]
pub struct ImatrixWriter {
    writer: GgufWriter<'static>,
}

impl ImatrixWriter {
    /// Makes an empty importance matrix of texts `datasets` that were read in `chunks` windows of `chunk` tokens.
    #[must_use]
    pub fn new(datasets: &[String], chunks: u32, chunk: u32) -> ImatrixWriter {
        let mut writer = GgufWriter::new();
        writer.set("general.type", Value::from("imatrix"));
        let names = Array::from_strs(datasets.iter().map(String::as_str));
        writer.set("imatrix.datasets", Value::Array(names));
        writer.set("imatrix.chunk_count", Value::U32(chunks));
        writer.set("imatrix.chunk_size", Value::U32(chunk));
        ImatrixWriter { writer }
    }

    /// Adds a matrix, or a stack of them: sums of squares `[experts][columns]`, and the number of activation rows
    /// that were summed for each expert.
    ///
    /// # Errors
    /// The name was added before, or is not valid.
    pub fn add(&mut self, name: &str, squares: &[f64], rows: &[u64]) -> Result<(), Error> {
        let columns = squares.len() / rows.len().max(1);
        let bytes = |values: &mut dyn Iterator<Item = f64>| -> Vec<u8> {
            values.flat_map(|value| (value as f32).to_le_bytes()).collect()
        };
        let sums = bytes(&mut squares.iter().copied());
        self.writer.add_tensor(&format!("{name}.in_sum2"), DType::F32, &[rows.len(), columns], sums)?;
        let counts = bytes(&mut rows.iter().map(|n| *n as f64));
        self.writer.add_tensor(&format!("{name}.counts"), DType::F32, &[rows.len(), 1], counts)?;
        Ok(())
    }

    /// Writes the file; its name refers to the complete new file or to the file that was there before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        Ok(self.writer.write_to(path)?)
    }
}
