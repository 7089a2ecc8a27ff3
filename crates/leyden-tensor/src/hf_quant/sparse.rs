//! Sparse matrices of a folder, decoded to dense ones.

use super::Parts;
use crate::DType;
use crate::error::Error;
use crate::file::TensorInfo;
use crate::sparse::{Stored, of_bitmask, of_stored};
use crate::view::OwnedTensor;

/// Endings of the names of a sparse matrix's tensors.
const PARTS: [&str; 8] = [
    "sparse_layout",
    "sparse_positions",
    "sparse_values",
    "sparse_scales",
    "bitmask",
    "compressed",
    "shape",
    "row_offsets",
];

impl<'a> Parts<'a> {
    /// Returns true if the matrix, whose name ends in `.weight`, is stored sparse.
    pub(super) fn is_sparse(&self, name: &str) -> bool {
        let Some(stem) = name.strip_suffix(".weight") else { return false };
        ["sparse_positions", "bitmask"].iter().any(|part| self.part(stem, part).is_some())
    }

    /// Returns an upper bound of the bytes in memory of a sparse matrix; `None` if its description cannot be read.
    pub(super) fn sparse_bytes(&self, name: &str) -> Option<usize> {
        let stem = name.strip_suffix(".weight")?;
        let (sizes, values) = match self.part(stem, "sparse_layout") {
            Some(_) => ("sparse_layout", "sparse_values"),
            None => ("shape", "compressed"),
        };
        let numbers = self.numbers(&format!("{stem}.{sizes}")).ok()?;
        let &[rows, k, ..] = &numbers[..] else { return None };
        let (info, _) = self.part(stem, values)?;
        // Integers take a little more than a byte with their scales, at most four bytes.
        let dtype = match (info.dtype, info.type_name) {
            (Some(dtype), _) => dtype,
            _ if k % 32 != 0 => DType::F32,
            (None, "U8") => DType::Q4_0,
            (None, _) => DType::Q8_0,
        };
        dtype.row_bytes(usize::try_from(k).ok()?)?.checked_mul(usize::try_from(rows).ok()?)
    }

    /// Decodes the sparse matrix `names[0]`, or a stack of all named matrices, to one tensor of this shape.
    pub(super) fn compose_sparse(
        &self,
        name: &str,
        names: &[String],
        shape: &[usize],
    ) -> Result<OwnedTensor, Error> {
        let (count, rows, k) = match *shape {
            [rows, k] => (1, rows, k),
            [count, rows, k] => (count, rows, k),
            _ => return Err(self.unfit(name, "a matrix, or a stack of matrices")),
        };
        if count != names.len() {
            return Err(self.unfit(name, "as many matrices as the model has"));
        }
        let mut made: Option<OwnedTensor> = None;
        for part in names {
            let (dtype, bytes) = self.decoded(part, [rows, k])?;
            let stem = part.strip_suffix(".weight").unwrap_or(part);
            let used = PARTS.iter().filter(|end| self.part(stem, end).is_some());
            let used: Vec<String> = used.map(|end| format!("{stem}.{end}")).collect();
            match &mut made {
                Some(made) if made.dtype == dtype => {
                    made.bytes.extend(bytes);
                    made.parts.extend(used);
                }
                Some(_) => return Err(self.unfit(part, "the type of the stack's first matrix")),
                None => {
                    let (name, shape) = (name.to_owned(), shape.to_vec());
                    made = Some(OwnedTensor { name, dtype, shape, bytes, parts: used, loss: 0.0 });
                }
            }
        }
        made.ok_or_else(|| self.unfit(name, "at least one matrix"))
    }

    /// Decodes one matrix.
    fn decoded(&self, name: &str, shape: [usize; 2]) -> Result<(DType, Vec<u8>), Error> {
        let stem = name.strip_suffix(".weight").unwrap_or(name);
        let raw = |part: &str| self.raw(&format!("{stem}.{part}"));
        let made = if self.part(stem, "bitmask").is_some() {
            let found = self.numbers(&format!("{stem}.shape"))?;
            let offsets = match self.part(stem, "row_offsets") {
                Some(_) => Some(self.numbers(&format!("{stem}.row_offsets"))?),
                None => None,
            };
            of_bitmask(raw("bitmask")?, raw("compressed")?, (&found, offsets.as_deref()), shape)
        } else {
            let stored = Stored {
                layout: raw("sparse_layout")?,
                positions: raw("sparse_positions")?,
                values: raw("sparse_values")?,
                scales: self.part(stem, "sparse_scales"),
            };
            of_stored(stored, shape)
        };
        made.map_err(|(part, wanted)| self.unfit(&format!("{stem}.{part}"), wanted))
    }

    fn part(&self, stem: &str, part: &str) -> Option<(&'a TensorInfo, &'a [u8])> {
        self.weights.raw(&format!("{stem}.{part}"))
    }
}
