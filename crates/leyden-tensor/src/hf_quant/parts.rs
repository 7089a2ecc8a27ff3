//! The tensors that a quantised matrix consists of, checked to fit one another.

use super::Parts;
use super::config::Method;
use super::matrix::{Codes, Matrix, Words};
use crate::error::Error;
use crate::quant::{bf16_to_f32, f16_to_f32};

/// Positions in an AWQ word of eight neighbouring outputs.
const AWQ_ORDER: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Bits of a value in words of compressed-tensors; no value spans two words.
const WORD_BITS: [u32; 4] = [4, 8, 2, 3];

impl<'a> Parts<'a> {
    /// Reads the matrix `name`, which ends in `.weight`.
    pub(super) fn matrix(&self, name: &str) -> Result<Matrix<'a>, Error> {
        let stem = name.strip_suffix(".weight").unwrap_or(name);
        match self.method {
            Method::Gptq { first_version, bits } => self.gptq(stem, first_version, bits),
            Method::Awq => self.awq(stem),
            Method::CompressedTensors { block, bits, .. } => {
                match self.weights.raw(&format!("{stem}.weight_packed")) {
                    Some(_) => self.packed(stem, bits),
                    None => self.plain(stem, block),
                }
            }
            Method::Fp8 { block } => self.plain(stem, Some(block)),
            Method::Sparse => Err(self.unfit(name, "a sparse matrix")),
        }
    }

    /// Returns the names of the tensors that the matrix consists of.
    pub(super) fn used(&self, name: &str) -> Vec<String> {
        const PARTS: [&str; 9] = [
            "qweight",
            "qzeros",
            "scales",
            "g_idx",
            "weight",
            "weight_packed",
            "weight_scale",
            "weight_scale_inv",
            "weight_zero_point",
        ];
        let stem = name.strip_suffix(".weight").unwrap_or(name);
        let all = PARTS.iter().chain(&["weight_g_idx", "weight_shape"]).map(|part| format!("{stem}.{part}"));
        all.filter(|name| self.weights.raw(name).is_some()).collect()
    }

    fn gptq(&self, stem: &str, first_version: bool, bits: u32) -> Result<Matrix<'a>, Error> {
        let (weights, zeros) = (format!("{stem}.qweight"), format!("{stem}.qzeros"));
        let ([lines, rows], words) = self.words(&weights)?;
        let ([groups, columns], zero_words) = self.words(&zeros)?;
        // The column's bits give the number of values.
        let k = lines.saturating_mul(32) / bits as usize;
        let words_of = |n: usize| n.saturating_mul(bits as usize).div_ceil(32);
        if words_of(k) != lines || words_of(rows) != columns {
            return Err(self.unfit(&zeros, "a zero point for each output of qweight"));
        }
        let scales = self.grouped_scales(&format!("{stem}.scales"), groups, rows)?;
        // Transposed to outputs by groups, as the scales are.
        let mut all = vec![0_i16; rows * groups];
        for group in 0..groups {
            for row in 0..rows {
                let (at, place) = (row as u64 * u64::from(bits), |i| group * columns + i);
                let zero = if first_version {
                    zero_words.zero_point(at, bits, place)
                } else {
                    zero_words.bits(at, bits, place)
                };
                all[row * groups + group] = zero as i16;
            }
        }
        let mut matrix = self.integers(stem, [rows, k], groups, scales)?;
        matrix.codes = Codes::Columns { words, bits };
        matrix.range = [0, (1 << bits) - 1];
        matrix.zeros = Some(all);
        self.order(&format!("{stem}.g_idx"), &mut matrix)?;
        Ok(matrix)
    }

    fn awq(&self, stem: &str) -> Result<Matrix<'a>, Error> {
        let zeros = format!("{stem}.qzeros");
        let ([k, columns], words) = self.words(&format!("{stem}.qweight"))?;
        let rows = columns.saturating_mul(8);
        let mut matrix = match self.weights.raw(&zeros) {
            Some(_) => {
                let ([groups, found], zero_words) = self.words(&zeros)?;
                if found != columns {
                    return Err(self.unfit(&zeros, "a zero point for each output of qweight"));
                }
                let scales = self.grouped_scales(&format!("{stem}.scales"), groups, rows)?;
                let mut matrix = self.integers(stem, [rows, k], groups, scales)?;
                let zero = |i: usize| {
                    let (row, group) = (i / groups, i % groups);
                    (zero_words.at(group * columns + row / 8) >> (4 * AWQ_ORDER[row % 8]) & 15) as i16
                };
                matrix.zeros = Some((0..rows * groups).map(zero).collect());
                matrix
            }
            None => {
                let name = format!("{stem}.scales");
                let (info, _) = self.raw(&name)?;
                let groups = info.shape.first().copied().unwrap_or(0);
                let scales = self.grouped_scales(&name, groups, rows)?;
                let mut matrix = self.integers(stem, [rows, k], groups, scales)?;
                matrix.zero = 8;
                matrix
            }
        };
        matrix.codes = Codes::Awq { words, order: AWQ_ORDER };
        matrix.range = [0, 15];
        Ok(matrix)
    }

    fn packed(&self, stem: &str, known: u16) -> Result<Matrix<'a>, Error> {
        let (name, zeros) = (format!("{stem}.weight_packed"), format!("{stem}.weight_zero_point"));
        let ([rows, columns], words) = self.words(&name)?;
        let k = match self.numbers(&format!("{stem}.weight_shape"))?[..] {
            [found, k] if usize::try_from(found) == Ok(rows) => usize::try_from(k).unwrap_or(0),
            _ => return Err(self.unfit(&format!("{stem}.weight_shape"), "the rows of weight_packed")),
        };
        let in_word = |bits: u32| (32 / bits) as usize;
        let known = WORD_BITS.into_iter().filter(|bits| known >> bits & 1 == 1);
        let bits = known.filter(|bits| k.div_ceil(in_word(*bits)) == columns).collect::<Vec<_>>();
        let [bits] = bits[..] else {
            return Err(self.unfit(&name, "words of as many values as num_bits of quantization_config says"));
        };
        let (scales, [scale_rows, groups]) = self.scales(&format!("{stem}.weight_scale"))?;
        if scale_rows != rows && scale_rows != 1 || groups == 0 || k == 0 || !k.is_multiple_of(groups) {
            return Err(
                self.unfit(&format!("{stem}.weight_scale"), "scales of outputs, and of groups of one size")
            );
        }
        let scales = if scale_rows == rows { scales } else { scales.repeat(rows) };
        let mut matrix = self.integers(stem, [rows, k], groups, scales)?;
        matrix.codes = Codes::Rows { words, bits, columns };
        matrix.range = [0, (1 << bits) - 1];
        let middle = 1_i16 << (bits - 1);
        matrix.zero = middle;
        if self.weights.raw(&zeros).is_some() {
            let ([lines, found], zero_words) = self.words(&zeros)?;
            let each = in_word(bits);
            if lines != rows.div_ceil(each) || found != groups {
                return Err(self.unfit(&zeros, "a zero point for each scale"));
            }
            let zero = |i: usize| {
                let (row, group) = (i / groups, i % groups);
                let word = zero_words.at(row / each * groups + group);
                (word >> (row % each * bits as usize) & ((1 << bits) - 1)) as i16
            };
            matrix.zeros = Some((0..rows * groups).map(zero).collect());
        }
        self.order(&format!("{stem}.weight_g_idx"), &mut matrix)?;
        Ok(matrix)
    }

    /// Reads `weight` in bytes.
    fn plain(&self, stem: &str, block: Option<[usize; 2]>) -> Result<Matrix<'a>, Error> {
        let name = format!("{stem}.weight");
        let (info, bytes) = self.raw(&name)?;
        let (rows, k) = match *info.shape.as_slice() {
            [rows, k] if rows > 0 && k > 0 => (rows, k),
            _ => return Err(self.unfit(&name, "two dimensions")),
        };
        let inverse = format!("{stem}.weight_scale_inv");
        let scale = match self.weights.raw(&inverse) {
            Some(_) => inverse,
            None => format!("{stem}.weight_scale"),
        };
        let (scales, [scale_rows, scale_columns]) = self.scales(&scale)?;
        let across = |all: usize, count: usize, side: Option<usize>| match (count, side) {
            (1, _) => Some(all.max(1)),
            (count, _) if count == all => Some(1),
            (count, Some(side)) if all.div_ceil(side) == count => Some(side),
            (count, None) if all.is_multiple_of(count) => Some(all / count),
            _ => None,
        };
        let sides = [
            across(rows, scale_rows, block.map(|b| b[0])),
            across(k, scale_columns, block.map(|b| b[1])).or_else(|| across(k, scale_columns, None)),
        ];
        let [Some(row_side), Some(column_side)] = sides else {
            return Err(self.unfit(&scale, "a scale for the matrix, each row, or each block"));
        };
        let codes = if info.type_name == "I8" { Codes::Bytes(bytes) } else { Codes::E4m3(bytes) };
        let mut matrix = Matrix {
            rows,
            k,
            codes,
            range: [-128, 127],
            scales,
            groups: scale_columns,
            sides: [row_side, column_side],
            zeros: None,
            zero: 0,
            order: None,
        };
        let zeros = format!("{stem}.weight_zero_point");
        if let Some((info, bytes)) = self.weights.raw(&zeros) {
            if info.type_name != "I8" || bytes.len() != matrix.scales.len() {
                return Err(self.unfit(&zeros, "a zero point in I8 for each scale"));
            }
            matrix.zeros = Some(bytes.iter().map(|b| i16::from(b.cast_signed())).collect());
        }
        Ok(matrix)
    }

    /// Makes a matrix with this many scales for each output; its codes are set by the caller.
    fn integers(
        &self,
        stem: &str,
        [rows, k]: [usize; 2],
        groups: usize,
        scales: Vec<f32>,
    ) -> Result<Matrix<'a>, Error> {
        if rows == 0 || groups == 0 || k == 0 || !k.is_multiple_of(groups) || scales.len() != rows * groups {
            return Err(self.unfit(stem, "groups of inputs of one size"));
        }
        let (codes, sides) = (Codes::Bytes(&[]), [1, k / groups]);
        Ok(Matrix { rows, k, codes, range: [0, 0], scales, groups, sides, zeros: None, zero: 0, order: None })
    }

    /// Reads the group of each input, if groups are not consecutive inputs.
    fn order(&self, name: &str, matrix: &mut Matrix<'a>) -> Result<(), Error> {
        if self.weights.raw(name).is_none() {
            return Ok(());
        }
        let found = self.numbers(name)?;
        let groups = matrix.groups as i64;
        // Some programs write -1 everywhere if nothing is reordered.
        if found.iter().all(|g| *g == -1) {
            return Ok(());
        }
        if found.len() != matrix.k || found.iter().any(|g| !(0..groups).contains(g)) {
            return Err(self.unfit(name, "the group of each input"));
        }
        let order: Vec<usize> = found.iter().map(|g| *g as usize).collect();
        let in_place = order.iter().enumerate().all(|(i, g)| *g == i / matrix.sides[1]);
        matrix.order = (!in_place).then_some(order);
        Ok(())
    }

    /// Reads a matrix of 32-bit words.
    fn words(&self, name: &str) -> Result<([usize; 2], Words<'a>), Error> {
        let (info, bytes) = self.raw(name)?;
        match (info.type_name, &info.shape[..]) {
            ("I32" | "U32", &[rows, columns]) => Ok(([rows, columns], Words(bytes))),
            _ => Err(self.unfit(name, "a matrix of I32")),
        }
    }

    /// Reads integers.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<i64>, Error> {
        let (info, bytes) = self.raw(name)?;
        match info.type_name {
            "I32" => Ok(bytes.as_chunks().0.iter().map(|b| i64::from(i32::from_le_bytes(*b))).collect()),
            "I64" => Ok(bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()),
            _ => Err(self.unfit(name, "type I32 or I64")),
        }
    }

    /// Reads scales `[groups, rows]` and transposes them to `[rows, groups]`.
    fn grouped_scales(&self, name: &str, groups: usize, rows: usize) -> Result<Vec<f32>, Error> {
        let (scales, shape) = self.scales(name)?;
        if shape != [groups, rows] {
            return Err(self.unfit(name, "a scale for each zero point"));
        }
        Ok((0..rows * groups).map(|i| scales[i % groups * rows + i / groups]).collect())
    }

    /// Reads floats of any type and their shape `[rows, columns]`.
    fn scales(&self, name: &str) -> Result<(Vec<f32>, [usize; 2]), Error> {
        let (info, bytes) = self.raw(name)?;
        let shape = match *info.shape.as_slice() {
            [] => [1, 1],
            [rows] | [rows, 1] => [rows, 1],
            [rows, columns] => [rows, columns],
            _ => return Err(self.unfit(name, "at most two dimensions")),
        };
        let values: Vec<f32> = match info.type_name {
            "F32" => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            "F16" => bytes.as_chunks().0.iter().map(|b| f16_to_f32(u16::from_le_bytes(*b))).collect(),
            "BF16" => bytes.as_chunks().0.iter().map(|b| bf16_to_f32(u16::from_le_bytes(*b))).collect(),
            // E8M0 has only an exponent: powers of two.
            "F8_E8M0" => bytes.iter().map(|b| 2_f32.powi(i32::from(*b) - 127)).collect(),
            _ => return Err(self.unfit(name, "type F32, F16, BF16 or F8_E8M0")),
        };
        match values.iter().all(|v| v.is_finite()) {
            true => Ok((values, shape)),
            false => Err(self.unfit(name, "finite scales")),
        }
    }
}
