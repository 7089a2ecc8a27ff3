//! Sparse matrices of compressed-tensors: `sparse-bitmask` and `sparse-24-bitmask`.
//!
//! `STEM.bitmask`, U8 `[rows, ceil(k / 8)]`, has a bit for each value, each byte from its lowest bit; `STEM.compressed`
//! has the values whose bits are set, `[n]` or `[rows, k / 2]`; `STEM.shape` is I64, rows and k. `STEM.row_offsets`,
//! I64 `[rows]`, which only the first format has, repeats the number of values before each row.

use super::decode::Unfit;
use crate::DType;
use crate::file::TensorInfo;

/// Decodes a matrix that must have this shape. Returns its type and bytes.
///
/// # Errors
/// A part does not fit the others.
pub(crate) fn of_bitmask(
    (mask_info, mask): (&TensorInfo, &[u8]),
    (info, values): (&TensorInfo, &[u8]),
    (found, offsets): (&[i64], Option<&[i64]>),
    [rows, k]: [usize; 2],
) -> Result<(DType, Vec<u8>), Unfit> {
    let same = |found: &[i64]| {
        let sizes = found.iter().map(|n| usize::try_from(*n));
        sizes.collect::<Result<Vec<_>, _>>().is_ok_and(|sizes| sizes == [rows, k])
    };
    if !same(found) || rows == 0 || k == 0 {
        return Err(("shape", "the rows and columns that the model needs"));
    }
    let columns = k.div_ceil(8);
    if mask_info.type_name != "U8" || mask_info.shape != [rows, columns] {
        return Err(("bitmask", "U8 with a bit for each value"));
    }
    let Some(dtype) = info.dtype else { return Err(("compressed", "type F32, F16 or BF16")) };
    let each = dtype.block_bytes();
    let count = mask.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
    if values.len() != count.saturating_mul(each) {
        return Err(("compressed", "a value for each bit that is set in bitmask"));
    }
    // A bit of the file for each value, so memory is bounded by the file.
    let size = rows.checked_mul(k).and_then(|all| all.checked_mul(each));
    let mut out = vec![0; size.ok_or(("shape", "a size that fits memory"))?];
    let mut rest = values.chunks_exact(each);
    for (row, (mask, out)) in mask.chunks_exact(columns).zip(out.chunks_exact_mut(k * each)).enumerate() {
        let before = count - rest.len();
        if offsets.is_some_and(|offsets| offsets.get(row).is_none_or(|at| usize::try_from(*at) != Ok(before)))
        {
            return Err(("row_offsets", "the number of values before each row"));
        }
        for (i, out) in out.chunks_exact_mut(each).enumerate() {
            if mask[i / 8] >> (i % 8) & 1 == 1
                && let Some(value) = rest.next()
            {
                out.copy_from_slice(value);
            }
        }
    }
    match rest.len() {
        0 => Ok((dtype, out)),
        _ => Err(("bitmask", "no bits behind the columns")),
    }
}
