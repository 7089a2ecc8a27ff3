//! Importance matrices of llama.cpp, as GGUF.
//!
//! For each weight matrix the file has, per column, the sum of squares of the activations that the column is
//! multiplied with (`NAME.in_sum2`, `[experts, columns]`) and the number of activation rows that were summed
//! (`NAME.counts`, `[experts]`).

use crate::error::Error;
use leyden_tensor::{Gguf, WeightSource, quant};
use std::collections::HashMap;
use std::path::Path;

/// Importances of the columns of weight matrices.
#[derive(Debug)]
pub struct Imatrix {
    file: String,
    /// Mean squares `[experts][columns]` and the number of experts, by the matrix's name.
    means: HashMap<String, (Vec<f32>, usize)>,
    chunks: Option<u32>,
    dataset: Option<String>,
}

impl Imatrix {
    /// Reads a file that llama-imatrix or leyden wrote.
    ///
    /// # Errors
    /// It is not such a file, or a value is negative or NaN.
    pub fn open(path: &Path) -> Result<Imatrix, Error> {
        Imatrix::read(&Gguf::open(path)?)
    }

    /// Reads a file that is in memory; `label` takes the place of its path.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_vec(bytes: Vec<u8>, label: &str) -> Result<Imatrix, Error> {
        Imatrix::read(&Gguf::from_vec(bytes, label)?)
    }

    fn read(source: &Gguf) -> Result<Imatrix, Error> {
        let file = source.path().display().to_string();
        let wrong = |what: String| Error::Imatrix { file: file.clone(), what };
        let meta = source.metadata();
        if meta.opt_str("general.type")? != Some("imatrix") {
            return Err(wrong(
                "general.type: not an importance matrix; `leyden imatrix` and llama-imatrix write them"
                    .to_owned(),
            ));
        }
        let mut means = HashMap::new();
        for name in source.tensor_names() {
            let Some(weight) = name.strip_suffix(".in_sum2") else { continue };
            let sums = values(source, name)?;
            let counts = values(source, &format!("{weight}.counts"))?;
            let (experts, columns) = (counts.len(), sums.len() / counts.len().max(1));
            if experts == 0 || sums.len() % experts != 0 {
                return Err(wrong(format!("{name}: {} values for {experts} counts", sums.len())));
            }
            if let Some(value) = sums.iter().chain(&counts).find(|v| !v.is_finite() || **v < 0.0) {
                return Err(wrong(format!("{name}: {value} is not a sum of squares")));
            }
            // All columns of an expert that never ran count alike.
            let mean = |(i, sum): (usize, &f32)| {
                let count = counts[i / columns.max(1)];
                if count > 0.0 { sum / count } else { 1.0 }
            };
            means.insert(weight.to_owned(), (sums.iter().enumerate().map(mean).collect(), experts));
        }
        if means.is_empty() {
            return Err(wrong("it has no `.in_sum2`".to_owned()));
        }
        let chunks = meta.opt_u32("imatrix.chunk_count").ok().flatten();
        let dataset = source.metadata().opt_array_str("imatrix.datasets").ok().flatten();
        let dataset = dataset.and_then(|names| names.get(0).map(|n| String::from_utf8_lossy(n).into_owned()));
        Ok(Imatrix { file, means, chunks, dataset })
    }

    /// Returns the file's name.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the number of matrices with importances.
    #[must_use]
    pub fn len(&self) -> usize {
        self.means.len()
    }

    /// Returns true if no matrix has importances.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.means.is_empty()
    }

    pub(crate) fn chunks(&self) -> Option<u32> {
        self.chunks
    }

    pub(crate) fn dataset(&self) -> Option<&str> {
        self.dataset.as_deref()
    }

    /// Returns the importances of a matrix's columns, `[experts][columns]`, if the file has any.
    ///
    /// # Errors
    /// They are of a matrix of another shape: the file belongs to another model.
    pub(crate) fn of(&self, tensor: &str, experts: usize, columns: usize) -> Result<Option<&[f32]>, Error> {
        let Some((means, found)) = self.means.get(tensor) else { return Ok(None) };
        if means.len() != experts * columns || *found != experts {
            let what = format!(
                "{tensor}: importances of {found} times {} columns, the model has {experts} times {columns}; the file belongs to another model",
                means.len() / found
            );
            return Err(Error::Imatrix { file: self.file.clone(), what });
        }
        Ok(Some(means))
    }
}

fn values(source: &Gguf, name: &str) -> Result<Vec<f32>, Error> {
    let view = source.require(name)?;
    let mut values = vec![0.0; view.rows() * view.cols()];
    quant::decode_row(view.dtype(), view.bytes(), &mut values);
    Ok(values)
}
