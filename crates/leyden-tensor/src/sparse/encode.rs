//! [`SparseTensor`]: a matrix in the layout `leyden-sparse`, ready to be written.

use super::{BLOCK, MAX_EXPANSION, positions};
use crate::DType;
use crate::quant::{self, INT8_GREATEST, RowLosses, f16_to_f32, f32_to_f16, int8_row, largest_magnitude};

/// Shapes of blocks, rows and columns.
const SHAPES: [[usize; 2]; 3] = [[1, 1], [1, 4], [4, 1]];
/// Columns that share a scale of 4-bit integers.
const INT4_GROUP: usize = 128;
/// Greatest magnitude of a 4-bit integer.
const INT4_GREATEST: f32 = 7.0;
/// Smallest scale, the smallest normal number of half precision.
const MIN_SCALE: f32 = 6.103_515_6e-5;

/// Type of stored values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SparseValues {
    /// F32, F16 or BF16.
    Float(DType),
    /// 8-bit integers with one scale for each row, or for 32 columns if a row would lose much.
    Int8,
    /// 4-bit integers with a scale for each 128 columns.
    Int4,
}

/// A matrix in the layout `leyden-sparse`.
#[derive(Clone, Debug)]
pub struct SparseTensor {
    rows: usize,
    k: usize,
    block: [usize; 2],
    blocks: usize,
    parameter: u32,
    positions: Vec<u8>,
    values: SparseValues,
    value_bytes: Vec<u8>,
    /// Bits of scales `[rows, groups]`.
    scales: Vec<u16>,
}

/// One of the tensors that a sparse matrix consists of.
#[derive(Clone, Debug)]
pub struct SparsePart {
    /// Name of the tensor.
    pub name: String,
    /// Type in the file.
    pub type_name: &'static str,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Contents.
    pub bytes: Vec<u8>,
}

impl SparseTensor {
    /// Encodes a matrix `[rows, k]`. Returns `None` if its shape, or the small number of nonzero values, does not suit
    /// the layout.
    #[must_use]
    pub fn encode(weights: &[f32], [rows, k]: [usize; 2], values: SparseValues) -> Option<SparseTensor> {
        if rows == 0
            || k == 0
            || weights.len() != rows.checked_mul(k)?
            || u32::try_from(weights.len()).is_err()
        {
            return None;
        }
        let (codes, scales) = match values {
            SparseValues::Float(_) => (Vec::new(), Vec::new()),
            SparseValues::Int8 => int8(weights, k),
            SparseValues::Int4 => int4(weights, k),
        };
        let is_zero = |i: usize| codes.get(i).map_or(weights[i] == 0.0, |code| *code == 0);
        let value_bits = match values {
            SparseValues::Float(dtype) => 8 * dtype.row_bytes(1)? as u64,
            SparseValues::Int8 => 8,
            SparseValues::Int4 => 4,
        };
        let mut best: Option<(u64, [usize; 2], u32, Vec<u32>)> = None;
        for block in SHAPES.into_iter().filter(|b| rows.is_multiple_of(b[0]) && k.is_multiple_of(b[1])) {
            let gaps = gaps(rows, k, block, &is_zero);
            let (parameter, bits) = positions::best(&gaps);
            let bits = bits + gaps.len() as u64 * (block[0] * block[1]) as u64 * value_bits;
            if best.as_ref().is_none_or(|found| bits < found.0) {
                best = Some((bits, block, parameter, gaps));
            }
        }
        let (_, block, parameter, gaps) = best?;
        let mut of_blocks: Vec<usize> = Vec::new();
        let mut next = 0;
        for gap in &gaps {
            next += *gap as usize;
            of_blocks.extend(places(next, k, block));
            next += 1;
        }
        let value_bytes: Vec<u8> = match values {
            SparseValues::Float(dtype) => {
                let found: Vec<f32> = of_blocks.iter().map(|i| weights[*i]).collect();
                let mut bytes = vec![0; dtype.row_bytes(found.len())?];
                quant::encode_row(dtype, &found, &mut bytes);
                bytes
            }
            SparseValues::Int8 => of_blocks.iter().map(|i| codes[*i].cast_unsigned()).collect(),
            SparseValues::Int4 => {
                let nibble = |i: Option<&usize>| i.map_or(0, |i| codes[*i].cast_unsigned() & 15);
                of_blocks.chunks(2).map(|two| nibble(two.first()) | nibble(two.get(1)) << 4).collect()
            }
        };
        let positions = positions::encode(&gaps, parameter);
        let stored = positions.len() + value_bytes.len();
        (weights.len() <= stored.saturating_mul(MAX_EXPANSION)).then_some(SparseTensor {
            rows,
            k,
            block,
            blocks: gaps.len(),
            parameter,
            positions,
            values,
            value_bytes,
            scales,
        })
    }

    /// Returns the number of bytes of all its tensors.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts("").iter().map(|part| part.bytes.len()).sum()
    }

    /// Returns the tensors of the matrix `STEM.weight`.
    #[must_use]
    pub fn parts(&self, stem: &str) -> Vec<SparsePart> {
        let part = |name: &str, type_name: &'static str, shape: Vec<usize>, bytes: Vec<u8>| SparsePart {
            name: format!("{stem}.{name}"),
            type_name,
            shape,
            bytes,
        };
        let numbers = [self.rows, self.k, self.block[0], self.block[1], self.blocks, self.parameter as usize];
        let numbers: Vec<u8> = numbers.iter().flat_map(|n| (*n as u64).to_le_bytes()).collect();
        let (type_name, each) = match self.values {
            SparseValues::Float(DType::F32) => ("F32", 4),
            SparseValues::Float(DType::BF16) => ("BF16", 2),
            SparseValues::Float(_) => ("F16", 2),
            SparseValues::Int8 => ("I8", 1),
            SparseValues::Int4 => ("U8", 1),
        };
        let mut all = vec![
            part("sparse_layout", "I64", vec![6], numbers),
            part("sparse_positions", "U8", vec![self.positions.len()], self.positions.clone()),
            part("sparse_values", type_name, vec![self.value_bytes.len() / each], self.value_bytes.clone()),
        ];
        if !self.scales.is_empty() {
            let bytes = self.scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
            all.push(part("sparse_scales", "F16", vec![self.rows, self.scales.len() / self.rows], bytes));
        }
        all
    }
}

/// Returns the indices of a block's values in the matrix.
pub(super) fn places(at: usize, k: usize, [high, wide]: [usize; 2]) -> impl Iterator<Item = usize> {
    let across = k / wide;
    let first = at / across * high * k + at % across * wide;
    (0..high).flat_map(move |row| (0..wide).map(move |column| first + row * k + column))
}

/// Returns the number of zero blocks before each nonzero one.
fn gaps(rows: usize, k: usize, block: [usize; 2], is_zero: &dyn Fn(usize) -> bool) -> Vec<u32> {
    let (mut gaps, mut gap) = (Vec::new(), 0);
    for at in 0..rows * k / (block[0] * block[1]) {
        if places(at, k, block).all(is_zero) {
            gap += 1;
        } else {
            gaps.push(gap);
            gap = 0;
        }
    }
    gaps
}

/// Quantises rows to 8-bit integers with scales of rows, or of 32 columns if that would lose much.
fn int8(weights: &[f32], k: usize) -> (Vec<i8>, Vec<u16>) {
    let by_groups = |group: usize| {
        let (mut codes, mut scales) = (vec![0; weights.len()], Vec::new());
        let losses = weights.chunks_exact(group).zip(codes.chunks_exact_mut(group)).map(|(x, codes)| {
            let bits = scale_bits(largest_magnitude(x) / INT8_GREATEST);
            scales.push(bits);
            match f16_to_f32(bits) {
                0.0 if largest_magnitude(x) > 0.0 => f64::INFINITY,
                0.0 => 0.0,
                scale => int8_row(x, scale, |i, code| codes[i] = code),
            }
        });
        let small = losses.collect::<RowLosses>().are_small();
        (small, (codes, scales))
    };
    match by_groups(k) {
        (false, _) if k.is_multiple_of(BLOCK) => by_groups(BLOCK).1,
        (_, made) => made,
    }
}

/// Quantises groups of columns to 4-bit integers, with the scale of the least squared error among some.
fn int4(weights: &[f32], k: usize) -> (Vec<i8>, Vec<u16>) {
    /// Shares of the scale of the largest magnitude that are tried.
    const SHARES: [f32; 9] = [1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6];
    let group = [INT4_GROUP, BLOCK].into_iter().find(|group| k.is_multiple_of(*group)).unwrap_or(k);
    let (mut codes, mut scales) = (Vec::with_capacity(weights.len()), Vec::new());
    let code = |x: f32, scale: f32| (x / scale).round_ties_even().clamp(-INT4_GREATEST, INT4_GREATEST);
    for x in weights.chunks_exact(group) {
        let largest = largest_magnitude(x) / INT4_GREATEST;
        let tried = SHARES.map(|share| scale_bits(share * largest));
        let error = |bits: &u16| {
            let scale = f16_to_f32(*bits);
            let one =
                |x: &f32| f64::from(x - scale * if scale > 0.0 { code(*x, scale) } else { 0.0 }).powi(2);
            x.iter().map(one).sum::<f64>()
        };
        let best = tried.into_iter().min_by(|a, b| error(a).total_cmp(&error(b))).unwrap_or(0);
        let scale = f16_to_f32(best);
        scales.push(best);
        codes.extend(x.iter().map(|x| if scale > 0.0 { code(*x, scale) as i8 } else { 0 }));
    }
    (codes, scales)
}

/// Returns the bits of a scale; 0 if half precision does not have it.
fn scale_bits(scale: f32) -> u16 {
    let bits = f32_to_f16(scale);
    let back = f16_to_f32(bits);
    if back.is_finite() && back >= MIN_SCALE { bits } else { 0 }
}
