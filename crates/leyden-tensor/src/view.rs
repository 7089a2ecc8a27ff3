//! [`TensorView`]: a data type, a shape and borrowed bytes, checked to fit together.

use crate::DType;
use crate::error::{Error, ErrorKind};
use crate::tensor_size::TensorSize;

/// A named tensor with borrowed bytes.
///
/// The shape is in rows-first order: `[rows, cols]` with `cols` contiguous in memory, the reverse of
/// the order in a GGUF file. The constructor checks every invariant: rows are whole blocks and
/// `bytes` has exactly the length that type and shape need.
///
/// ```
/// use leyden_tensor::{DType, TensorView};
/// let bytes = [0, 0, 128, 63, 0, 0, 0, 64];
/// let view = TensorView::new("w", DType::F32, &[2, 1], &bytes)?;
/// assert_eq!((view.rows(), view.cols(), view.row(1)), (2, 1, &bytes[4..]));
/// assert!(TensorView::new("w", DType::F32, &[3, 1], &bytes).is_err());
/// # Ok::<(), leyden_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    name: &'a str,
    dtype: DType,
    shape: &'a [usize],
    bytes: &'a [u8],
    size: TensorSize,
}

impl<'a> TensorView<'a> {
    /// Makes a view from the parts of a tensor. An empty shape is one value.
    ///
    /// # Errors
    /// A row is not a whole number of blocks, the size overflows, or `bytes` has another length than
    /// type and shape need. The error names the tensor.
    pub fn new(name: &'a str, dtype: DType, shape: &'a [usize], bytes: &'a [u8]) -> Result<Self, Error> {
        // usize never exceeds u64 on supported targets; the size would be refused at u64::MAX anyway.
        let dims = shape.iter().rev().map(|&dim| u64::try_from(dim).unwrap_or(u64::MAX));
        let size = TensorSize::new(&dims, dtype.file_type()).map_err(|e| e.item(name))?;
        if bytes.len() != size.n_bytes {
            let kind = ErrorKind::ByteLength { wanted: size.n_bytes, found: bytes.len() };
            return Err(Error::new(kind).item(name));
        }
        Ok(TensorView { name, dtype, shape, bytes, size })
    }

    /// Returns the name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the storage format.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the dimensions, the contiguous one last.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Returns the product of all dimensions but the last.
    pub fn rows(&self) -> usize {
        self.size.rows
    }

    /// Returns the number of values in a row: the last dimension.
    pub fn cols(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Returns all bytes, row after row.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the bytes of one row, a count.
    pub fn row_bytes(&self) -> usize {
        self.size.row_bytes
    }

    /// Returns the bytes of row `i`.
    ///
    /// # Panics
    /// `i` is not below [`rows`](Self::rows).
    pub fn row(&self, i: usize) -> &'a [u8] {
        assert!(i < self.rows(), "{}: row {i} of {}", self.name, self.rows());
        &self.bytes[i * self.row_bytes()..(i + 1) * self.row_bytes()]
    }
}

/// A tensor that was converted at load from the form in which the file stores it, with bytes of its own.
#[derive(Clone, Debug)]
pub struct OwnedTensor {
    /// Name of the tensor in messages.
    pub name: String,
    /// The storage format.
    pub dtype: DType,
    /// The dimensions, the contiguous one last.
    pub shape: Vec<usize>,
    /// All bytes, row after row.
    pub bytes: Vec<u8>,
    /// Names of the file's tensors that it was made from.
    pub parts: Vec<String>,
    /// Largest relative rounding error of the conversion: for integers, of a scale relative to itself; for floats, of
    /// a value relative to the largest magnitude of its row. 0 if nothing was rounded.
    pub loss: f32,
}

impl OwnedTensor {
    /// Returns a view of this tensor.
    ///
    /// # Errors
    /// The parts do not fit together.
    pub fn view(&self) -> Result<TensorView<'_>, Error> {
        TensorView::new(&self.name, self.dtype, &self.shape, &self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_bytes_and_rows_agree() {
        let bytes = vec![7; 18 * 2 * 3];
        let v = TensorView::new("t", DType::Q4_0, &[3, 1, 64], &bytes).unwrap();
        assert_eq!((v.rows(), v.cols(), v.row_bytes(), v.row(2).len()), (3, 64, 36, 36));
        for (shape, len) in
            [(&[3usize, 64][..], 107), (&[3, 64], 109), (&[3, 33], 108), (&[usize::MAX, 64], 108)]
        {
            let e = TensorView::new("t", DType::Q4_0, shape, &bytes[..len.min(108)]).map(|v| v.rows());
            assert!(e.is_err() || (len == 109), "{shape:?}");
        }
    }

    #[test]
    fn scalar_and_empty() {
        assert_eq!(TensorView::new("t", DType::F32, &[], &[0; 4]).unwrap().rows(), 1);
        assert_eq!(TensorView::new("t", DType::F32, &[0, 8], &[]).unwrap().rows(), 0);
    }
}
