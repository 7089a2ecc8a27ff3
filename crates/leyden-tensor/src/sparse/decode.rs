//! Matrices of the layout `leyden-sparse`, decoded to dense ones.

use super::encode::places;
use super::{BLOCK, MAX_EXPANSION, positions};
use crate::DType;
use crate::file::TensorInfo;
use crate::quant::{Block, Q4_0, Q8_0, f16_to_f32};

/// The tensors of a sparse matrix as they are stored.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) layout: (&'a TensorInfo, &'a [u8]),
    pub(crate) positions: (&'a TensorInfo, &'a [u8]),
    pub(crate) values: (&'a TensorInfo, &'a [u8]),
    pub(crate) scales: Option<(&'a TensorInfo, &'a [u8])>,
}

/// Part of a sparse matrix, by the ending of its name, and the demand that it does not meet.
pub(crate) type Unfit = (&'static str, &'static str);

/// Checked description of a matrix.
struct Shape {
    rows: usize,
    k: usize,
    block: [usize; 2],
    blocks: usize,
    parameter: u32,
}

/// Integers of a sparse matrix in its dense form, and their scales `[rows, groups]`.
struct Integers {
    codes: Vec<i8>,
    scales: Vec<u16>,
    groups: usize,
}

/// Decodes a matrix that must have this shape. Returns its type and bytes: floats as they are stored; 8-bit integers as
/// Q8_0 and 4-bit integers as Q4_0, which hold them exactly, or as F32 if rows are no multiple of 32 values.
///
/// # Errors
/// A part does not fit the others.
pub(crate) fn of_stored(stored: Stored<'_>, wanted: [usize; 2]) -> Result<(DType, Vec<u8>), Unfit> {
    let shape = Shape::read(&stored, wanted)?;
    let (info, values) = stored.values;
    if let Some(float) = info.dtype {
        return Ok((float, shape.dense(&stored, values, float.block_bytes())?));
    }
    let (codes, bits) = match info.type_name {
        "I8" => (shape.dense(&stored, values, 1)?, 8),
        _ => {
            let nibbles: Vec<u8> = values.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect();
            let count = shape.values();
            if count.is_multiple_of(2) || nibbles.last() == Some(&0) {
                (shape.dense(&stored, &nibbles[..count], 1)?, 4)
            } else {
                return Err(("sparse_values", "zero in the half of a byte that is no value"));
            }
        }
    };
    // Of four bits the sign is the fourth.
    let signed = |code: u8| if bits == 4 { (code << 4).cast_signed() >> 4 } else { code.cast_signed() };
    let codes = codes.into_iter().map(signed).collect();
    let (scales, groups) = shape.scales(stored.scales)?;
    Ok(Integers { codes, scales, groups }.encode(&shape, bits))
}

impl Shape {
    /// Reads and checks the description, and the sizes of positions and values.
    fn read(stored: &Stored<'_>, [rows, k]: [usize; 2]) -> Result<Shape, Unfit> {
        const LAYOUT: &str = "sparse_layout";
        let (info, bytes) = stored.layout;
        let numbers = bytes.as_chunks::<8>().0.iter().map(|b| usize::try_from(i64::from_le_bytes(*b)));
        let numbers: Vec<usize> = numbers.collect::<Result<_, _>>().unwrap_or_default();
        let (true, &[found_rows, found_k, high, wide, blocks, parameter]) =
            (info.type_name == "I64" && info.shape.len() == 1, &numbers[..])
        else {
            return Err((LAYOUT, "six numbers of I64, none of them negative"));
        };
        if [found_rows, found_k] != [rows, k] || rows == 0 || k == 0 {
            return Err((LAYOUT, "the rows and columns that the model needs"));
        }
        if !matches!([high, wide], [1, 1] | [1, 4] | [4, 1])
            || !rows.is_multiple_of(high)
            || !k.is_multiple_of(wide)
        {
            return Err((LAYOUT, "blocks of 1 by 1, 1 by 4 or 4 by 1 that fill rows and columns"));
        }
        let parameter = match u32::try_from(parameter) {
            Ok(parameter) if parameter <= positions::MAX_PARAMETER => parameter,
            _ => return Err((LAYOUT, "a Rice parameter from 0 to 15")),
        };
        let all = rows.checked_mul(k).ok_or((LAYOUT, "a size that fits memory"))?;
        if blocks > all / (high * wide) {
            return Err((LAYOUT, "no more nonzero blocks than the matrix has"));
        }
        let shape = Shape { rows, k, block: [high, wide], blocks, parameter };
        let (info, codes) = stored.positions;
        if info.type_name != "U8" || info.shape.len() != 1 {
            return Err(("sparse_positions", "U8 of one dimension"));
        }
        let (info, values) = stored.values;
        let each = match info.type_name {
            "F32" => 4,
            "F16" | "BF16" => 2,
            "I8" | "U8" => 1,
            _ => return Err(("sparse_values", "type F32, F16, BF16, I8 or U8")),
        };
        let count = if info.type_name == "U8" { shape.values().div_ceil(2) } else { shape.values() };
        if info.shape != [count] || values.len() != count * each {
            return Err(("sparse_values", "all values of the nonzero blocks, and no others"));
        }
        if all > (codes.len() + values.len()).saturating_mul(MAX_EXPANSION) {
            return Err((LAYOUT, "at least one stored byte for 4096 values of the matrix"));
        }
        Ok(shape)
    }

    /// Returns the number of stored values.
    fn values(&self) -> usize {
        self.blocks * self.block[0] * self.block[1]
    }

    /// Places values of `each` bytes in a dense matrix.
    fn dense(&self, stored: &Stored<'_>, values: &[u8], each: usize) -> Result<Vec<u8>, Unfit> {
        let all = self.rows * self.k;
        let size = all.checked_mul(each).ok_or(("sparse_layout", "a size that fits memory"))?;
        let mut out = vec![0; size];
        let mut values = values.chunks_exact(each);
        let blocks = (self.blocks, all / (self.block[0] * self.block[1]));
        let whole = positions::decode(stored.positions.1, self.parameter, blocks, |at| {
            for place in places(at, self.k, self.block) {
                if let Some(value) = values.next() {
                    out[place * each..][..each].copy_from_slice(value);
                }
            }
        });
        match whole {
            true => Ok(out),
            false => Err((
                "sparse_positions",
                "codes of as many blocks as sparse_layout has, all within the matrix",
            )),
        }
    }

    /// Reads the scales and their number in a row.
    fn scales(&self, found: Option<(&TensorInfo, &[u8])>) -> Result<(Vec<u16>, usize), Unfit> {
        const SCALES: &str = "sparse_scales";
        let Some((info, bytes)) = found else { return Err((SCALES, "scales of integers")) };
        let &[rows, groups] = &info.shape[..] else { return Err((SCALES, "F16 [rows, groups]")) };
        if info.type_name != "F16" || rows != self.rows || groups == 0 || !self.k.is_multiple_of(groups) {
            return Err((SCALES, "F16 [rows, groups], with groups of one size"));
        }
        let scales: Vec<u16> = bytes.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
        match scales.iter().all(|bits| f16_to_f32(*bits).is_finite()) {
            true => Ok((scales, groups)),
            false => Err((SCALES, "finite scales")),
        }
    }
}

impl Integers {
    /// Returns a type that holds the values exactly, and their bytes.
    fn encode(&self, shape: &Shape, bits: u32) -> (DType, Vec<u8>) {
        let k = shape.k;
        let group = k / self.groups;
        let scale = |i: usize| self.scales[i / k * self.groups + i % k / group];
        if !group.is_multiple_of(BLOCK) {
            let value = |(i, code): (usize, &i8)| (f16_to_f32(scale(i)) * f32::from(*code)).to_le_bytes();
            return (DType::F32, self.codes.iter().enumerate().flat_map(value).collect());
        }
        let dtype = if bits == 4 { DType::Q4_0 } else { DType::Q8_0 };
        let size = dtype.block_bytes();
        let mut out = vec![0; self.codes.len() / BLOCK * size];
        let blocks = self.codes.as_chunks::<BLOCK>().0.iter().zip(out.chunks_exact_mut(size));
        for (b, (codes, out)) in blocks.enumerate() {
            let d = scale(b * BLOCK);
            if bits == 4 {
                let nibble = |i: usize| (codes[i] + 8).cast_unsigned();
                let qs = std::array::from_fn(|j| nibble(j) | nibble(j + BLOCK / 2) << 4);
                Q4_0 { d, qs }.write(out);
            } else {
                Q8_0 { d, qs: *codes }.write(out);
            }
        }
        (dtype, out)
    }
}
