//! [`TensorSize`]: the only place where the size of a tensor is computed.

use crate::error::{Error, ErrorKind};
use crate::formats::FileType;

/// The checked size of a tensor: its dimensions fit `usize`, its rows are whole blocks and its bytes
/// can be addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TensorSize {
    /// Bytes of one row.
    pub(crate) row_bytes: usize,
    /// Number of rows: the product of all dimensions but the contiguous one.
    pub(crate) rows: usize,
    /// Bytes of the whole tensor.
    pub(crate) n_bytes: usize,
}

impl TensorSize {
    /// Checks dimensions given in GGUF's order, the contiguous one first. Zero dimensions are
    /// allowed here (an empty tensor); the file reader refuses them.
    pub(crate) fn new<I>(dims: &I, ty: FileType) -> Result<TensorSize, Error>
    where
        I: Iterator<Item = u64> + Clone,
    {
        let overflow = || ErrorKind::SizeOverflow { dims: dims.clone().take(8).collect() };
        let fit = |dim: u64| usize::try_from(dim).map_err(|_| Error::new(overflow()));
        let mut rest = dims.clone();
        let cols = rest.next().unwrap_or(1);
        let cols_usize = fit(cols)?;
        if ty.block_len == 0 || !cols_usize.is_multiple_of(ty.block_len) {
            return Err(ErrorKind::PartialBlock { cols, block_len: ty.block_len, dtype: ty.name }.into());
        }
        let row_bytes = (cols_usize / ty.block_len).checked_mul(ty.block_bytes).ok_or_else(overflow)?;
        let mut rows: usize = 1;
        for dim in rest {
            rows = rows.checked_mul(fit(dim)?).ok_or_else(overflow)?;
        }
        let n_bytes = rows.checked_mul(row_bytes).ok_or_else(overflow)?;
        // No slice may exceed isize::MAX bytes, neither the encoded bytes nor the decoded f32 values.
        let decoded = rows.checked_mul(cols_usize).and_then(|n| n.checked_mul(size_of::<f32>()));
        if decoded.is_none_or(|decoded| decoded.max(n_bytes) > isize::MAX.unsigned_abs()) {
            return Err(overflow().into());
        }
        Ok(TensorSize { row_bytes, rows, n_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn size(dims: &[u64], dtype: DType) -> Result<TensorSize, String> {
        TensorSize::new(&dims.iter().copied(), dtype.file_type()).map_err(|e| e.to_string())
    }

    #[test]
    fn sizes() {
        assert_eq!(size(&[512, 3, 2], DType::Q4K), Ok(TensorSize { row_bytes: 288, rows: 6, n_bytes: 1728 }));
        assert_eq!(size(&[0, 5], DType::F32), Ok(TensorSize { row_bytes: 0, rows: 5, n_bytes: 0 }));
        assert_eq!(size(&[7], DType::F16), Ok(TensorSize { row_bytes: 14, rows: 1, n_bytes: 14 }));
    }

    #[test]
    fn absurd_sizes_are_errors() {
        for dims in [
            &[1 << 62, 1, 1, 1][..],
            &[1 << 40, 1 << 40],
            &[1, 1 << 32, 1 << 32],
            &[u64::MAX],
            &[u64::MAX, u64::MAX, u64::MAX, u64::MAX],
            &[1 << 61, 4],
            &[(1 << 62) - 1],
            &[1 << 31, 1 << 31],
        ] {
            assert!(
                size(dims, DType::F32).unwrap_err().contains("more bytes than can be addressed"),
                "{dims:?}"
            );
        }
        // The bytes of the type would fit, the decoded values would not.
        assert!(size(&[1 << 31, 1 << 31], DType::Q4_0).is_err());
        assert!(
            size(&[33], DType::Q4_0).unwrap_err().contains("not a multiple of the 32 values in a Q4_0 block")
        );
    }
}
