//! A quantised matrix, and its conversion to a block format or to floats.
//!
//! Values are `scale * (code - zero)`. [`Target`] is the smallest format that holds all of them. Integers are kept
//! exactly; only scales may be rounded, to half precision. 8-bit floats, and integers whose groups are not in order,
//! become 16-bit floats: exactly if these can represent the products, else rounded to nearest.

use crate::DType;
use crate::quant::{Block, Q4_0, Q5_0, Q8_0, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::run::Run;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Values in a block of the formats below.
const BLOCK: usize = 32;
/// Maximum number of tasks of a matrix: more than threads, of which some may be slower.
const TASKS: usize = 256;
/// Maximum relative rounding error of a scale in half precision: half of its last bit, if it is not subnormal.
const MAX_SCALE_LOSS: f32 = 1.0 / 2048.0;

/// 32-bit words, little-endian.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl Words<'_> {
    /// Returns a word.
    ///
    /// # Panics
    /// If there is no such word: shapes are checked before.
    pub(super) fn at(&self, i: usize) -> u32 {
        u32::from_le_bytes(self.0.as_chunks().0[i])
    }

    /// Returns the zero point of `bits` bits at bit `first`, plus one: files of GPTQ's first version store zero
    /// points minus one. If fields fill a word, one is added to all fields of the word at once, as GPTQ's programs
    /// do: a field of ones becomes 0 and carries into its neighbour, which had lent to it when the file was written.
    pub(super) fn zero_point(&self, first: u64, bits: u32, place: impl Fn(usize) -> usize) -> u32 {
        let all = (1 << bits) - 1;
        if !32_u32.is_multiple_of(bits) {
            return (self.bits(first, bits, place) + 1) & all;
        }
        // A one in the lowest bit of each field.
        let ones = u32::MAX / all;
        let word = self.at(place((first / 32) as usize)).wrapping_add(ones);
        word >> (first % 32) & all
    }

    /// Returns `bits` bits from bit `first` on of a sequence of words; `place` gives the index of each word.
    pub(super) fn bits(&self, first: u64, bits: u32, place: impl Fn(usize) -> usize) -> u32 {
        let (word, shift) = ((first / 32) as usize, (first % 32) as u32);
        let low = u64::from(self.at(place(word)));
        let high = if shift + bits > 32 { u64::from(self.at(place(word + 1))) } else { 0 };
        ((low | high << 32) >> shift) as u32 & ((1 << bits) - 1)
    }
}

/// Layout of the codes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Codes<'a> {
    /// Bits of a column one after the other, `[k * bits / 32][rows]`.
    Columns { words: Words<'a>, bits: u32 },
    /// 4-bit codes of eight outputs in a word, `[k][rows / 8]`.
    Awq { words: Words<'a>, order: [u32; 8] },
    /// As many codes of a row as fit a word whole, `[rows][columns]`.
    Rows { words: Words<'a>, bits: u32, columns: usize },
    /// Signed bytes, `[rows][k]`.
    Bytes(&'a [u8]),
    /// 8-bit floats (E4M3), `[rows][k]`.
    E4m3(&'a [u8]),
}

/// A quantised matrix `[rows, k]`.
#[derive(Debug)]
pub(super) struct Matrix<'a> {
    pub(super) rows: usize,
    pub(super) k: usize,
    pub(super) codes: Codes<'a>,
    /// Smallest and largest code.
    pub(super) range: [i16; 2],
    /// Scales, `[rows / sides[0]][groups]`.
    pub(super) scales: Vec<f32>,
    pub(super) groups: usize,
    /// Numbers of rows and of inputs that share a scale.
    pub(super) sides: [usize; 2],
    /// Zero points, laid out like the scales; without them every zero point is `zero`.
    pub(super) zeros: Option<Vec<i16>>,
    pub(super) zero: i16,
    /// Group of each input, if groups are not consecutive inputs.
    pub(super) order: Option<Vec<usize>>,
}

/// Formats that a matrix can become, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Q4_0,
    Q5_0,
    Q8_0,
    F16,
    BF16,
    F32,
}

impl Target {
    pub(super) fn dtype(self) -> DType {
        match self {
            Target::Q4_0 => DType::Q4_0,
            Target::Q5_0 => DType::Q5_0,
            Target::Q8_0 => DType::Q8_0,
            Target::F16 => DType::F16,
            Target::BF16 => DType::BF16,
            Target::F32 => DType::F32,
        }
    }
}

impl Matrix<'_> {
    /// Returns true if a value is NaN.
    pub(super) fn has_nan(&self) -> bool {
        matches!(self.codes, Codes::E4m3(bytes) if bytes.iter().any(|b| b & 0x7f == 0x7f))
    }

    /// Returns the smallest format that holds the matrix.
    pub(super) fn target(&self, run: &Run<'_>) -> Target {
        self.integers().unwrap_or_else(|| self.float_target(run))
    }

    /// Returns the number of rows of each task but the last: a multiple of eight, because words hold eight outputs.
    fn rows_of_task(&self) -> usize {
        self.rows.div_ceil(TASKS).next_multiple_of(8).max(8)
    }

    /// Returns the smallest integer format that holds the matrix, if any.
    pub(super) fn integers(&self) -> Option<Target> {
        let fits = self.scales.iter().map(|s| rounding(*s)).fold(0.0, f32::max) <= MAX_SCALE_LOSS;
        let is_float = matches!(self.codes, Codes::E4m3(_));
        let in_blocks =
            self.order.is_none() && self.sides[1].is_multiple_of(BLOCK) && self.k.is_multiple_of(BLOCK);
        if is_float || !in_blocks {
            return None;
        }
        let zeros = self.zeros.as_deref().unwrap_or(std::slice::from_ref(&self.zero));
        let least = self.range[0] - zeros.iter().copied().max().unwrap_or(0);
        let most = self.range[1] - zeros.iter().copied().min().unwrap_or(0);
        match fits {
            true if least >= -8 && most < 8 => Some(Target::Q4_0),
            true if least >= -16 && most < 16 => Some(Target::Q5_0),
            true if least >= -128 && most < 128 => Some(Target::Q8_0),
            _ => None,
        }
    }

    /// Returns the first float format that holds all values exactly; else F16, which rounds to eleven significant
    /// bits, if all values are in its range; else F32.
    fn float_target(&self, run: &Run<'_>) -> Target {
        let all = Mutex::new((true, true, 0.0_f32));
        let each = self.rows_of_task();
        run(self.rows.div_ceil(each), &|task| {
            let (mut half, mut brain, mut most) = (true, true, 0.0_f32);
            self.for_values(task * each..((task + 1) * each).min(self.rows), |_, values| {
                for &v in values {
                    half &= f16_to_f32(f32_to_f16(v)) == v;
                    brain &= bf16_to_f32(f32_to_bf16(v)) == v;
                    most = most.max(v.abs());
                }
            });
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            *all = (all.0 && half, all.1 && brain, all.2.max(most));
        });
        let (half, brain, most) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (half, brain) {
            (true, _) => Target::F16,
            (_, true) => Target::BF16,
            // Larger values overflow; if even the largest is tiny, most precision would be lost.
            _ if most <= 65504.0 && most >= 2_f32.powi(-12) => Target::F16,
            _ => Target::F32,
        }
    }

    /// Writes all rows and returns the largest relative rounding error, as
    /// [`OwnedTensor::loss`](crate::OwnedTensor::loss).
    pub(super) fn write(&self, target: Target, out: &mut [u8], run: &Run<'_>) -> f32 {
        let row_bytes = out.len() / self.rows.max(1);
        let each = self.rows_of_task();
        // Each lock is taken once, by the task of its rows.
        let parts: Vec<Mutex<&mut [u8]>> =
            out.chunks_mut((each * row_bytes).max(1)).map(Mutex::new).collect();
        let all = Mutex::new(0.0_f32);
        run(parts.len(), &|task| {
            let rows = task * each..((task + 1) * each).min(self.rows);
            let mut out = parts[task].lock().unwrap_or_else(PoisonError::into_inner);
            let loss = self.write_rows(target, rows, row_bytes, &mut out);
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            *all = all.max(loss);
        });
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_rows(&self, target: Target, rows: Range<usize>, row_bytes: usize, out: &mut [u8]) -> f32 {
        let first = rows.start;
        let mut loss = 0.0_f32;
        match target {
            Target::Q4_0 | Target::Q5_0 | Target::Q8_0 => {
                self.for_codes(rows, |row, codes| {
                    let out = &mut out[(row - first) * row_bytes..][..row_bytes];
                    let blocks = out.chunks_exact_mut(target.dtype().block_bytes());
                    for (b, (codes, out)) in codes.as_chunks::<BLOCK>().0.iter().zip(blocks).enumerate() {
                        let at = self.at(row, b * BLOCK);
                        let zero = self.zeros.as_ref().map_or(self.zero, |zeros| zeros[at]);
                        loss = loss.max(rounding(self.scales[at]));
                        block(target, f32_to_f16(self.scales[at]), codes.map(|c| c - zero), out);
                    }
                });
            }
            Target::F16 | Target::BF16 | Target::F32 => self.for_values(rows, |row, values| {
                let out = &mut out[(row - first) * row_bytes..][..row_bytes];
                let most = values.iter().fold(f32::MIN_POSITIVE, |m, v| m.max(v.abs()));
                match target {
                    Target::F32 => {
                        let out = out.as_chunks_mut().0.iter_mut();
                        out.zip(values).for_each(|(out, v)| *out = v.to_le_bytes());
                    }
                    _ => {
                        for (out, &v) in out.as_chunks_mut().0.iter_mut().zip(values) {
                            let (bits, back) = match target {
                                Target::F16 => (f32_to_f16(v), f16_to_f32(f32_to_f16(v))),
                                _ => (f32_to_bf16(v), bf16_to_f32(f32_to_bf16(v))),
                            };
                            loss = loss.max((back - v).abs() / most);
                            *out = bits.to_le_bytes();
                        }
                    }
                }
            }),
        }
        loss
    }

    /// Returns the index of the scale and zero point of input `i`.
    fn at(&self, row: usize, i: usize) -> usize {
        let group = self.order.as_ref().map_or(i / self.sides[1], |order| order[i]);
        row / self.sides[0] * self.groups + group
    }

    /// Calls `take` with the values of each row.
    fn for_values(&self, rows: Range<usize>, mut take: impl FnMut(usize, &[f32])) {
        let mut values = vec![0.0; self.k];
        if let Codes::E4m3(bytes) = self.codes {
            for row in rows {
                for (i, (value, &byte)) in values.iter_mut().zip(&bytes[row * self.k..]).enumerate() {
                    *value = e4m3(byte) * self.scales[self.at(row, i)];
                }
                take(row, &values);
            }
            return;
        }
        self.for_codes(rows, |row, codes| {
            for (i, (value, &code)) in values.iter_mut().zip(codes).enumerate() {
                let at = self.at(row, i);
                let zero = self.zeros.as_ref().map_or(self.zero, |zeros| zeros[at]);
                *value = self.scales[at] * f32::from(code - zero);
            }
            take(row, &values);
        });
    }

    /// Calls `take` with the codes of each row; `rows` begins at a multiple of eight.
    fn for_codes(&self, rows: Range<usize>, mut take: impl FnMut(usize, &[i16])) {
        /// Number of rows that are read together, since their words are neighbours.
        const TOGETHER: usize = 8;
        let k = self.k;
        let mut codes = vec![0_i16; TOGETHER * k];
        for first in rows.clone().step_by(TOGETHER) {
            let count = TOGETHER.min(rows.end - first);
            for i in 0..k {
                for r in 0..count {
                    codes[r * k + i] = self.code(first + r, i);
                }
            }
            for (r, codes) in codes.chunks_exact(k.max(1)).take(count).enumerate() {
                take(first + r, codes);
            }
        }
    }

    #[inline(always)]
    fn code(&self, row: usize, i: usize) -> i16 {
        match self.codes {
            Codes::Columns { words, bits } => {
                words.bits(i as u64 * u64::from(bits), bits, |word| word * self.rows + row) as i16
            }
            Codes::Awq { words, order } => {
                (words.at(i * (self.rows / 8) + row / 8) >> (4 * order[row % 8]) & 15) as i16
            }
            Codes::Rows { words, bits, columns } => {
                let each = (32 / bits) as usize;
                let word = words.at(row * columns + i / each);
                (word >> (i % each * bits as usize) & ((1 << bits) - 1)) as i16
            }
            Codes::Bytes(bytes) => i16::from(bytes[row * self.k + i].cast_signed()),
            Codes::E4m3(_) => 0,
        }
    }
}

/// Returns the relative rounding error of a scale in half precision.
fn rounding(scale: f32) -> f32 {
    let back = f16_to_f32(f32_to_f16(scale));
    if back == scale { 0.0 } else { ((back - scale) / scale).abs() }
}

/// Writes a block of integers with a scale.
fn block(target: Target, d: u16, codes: [i16; BLOCK], out: &mut [u8]) {
    let nibble = |i: usize, offset: i16| (codes[i] + offset) as u8;
    match target {
        Target::Q4_0 => {
            let qs = std::array::from_fn(|j| nibble(j, 8) | nibble(j + 16, 8) << 4);
            Q4_0 { d, qs }.write(out);
        }
        Target::Q5_0 => {
            let qs = std::array::from_fn(|j| (nibble(j, 16) & 15) | nibble(j + 16, 16) << 4);
            let high = (0..BLOCK).fold(0_u32, |bits, i| bits | u32::from(nibble(i, 16) >> 4 & 1) << i);
            Q5_0 { d, qh: high.to_le_bytes(), qs }.write(out);
        }
        _ => Q8_0 { d, qs: codes.map(|c| c as i8) }.write(out),
    }
}

/// Converts an E4M3 float: one sign, four exponent and three fraction bits, no infinities; NaN, refused earlier,
/// is 0.
fn e4m3(byte: u8) -> f32 {
    let (exponent, fraction) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let size = match (exponent, byte & 0x7f) {
        (_, 0x7f) => 0.0,
        (0, _) => fraction * 2_f32.powi(-9),
        _ => (1.0 + fraction / 8.0) * 2_f32.powi(exponent - 7),
    };
    if byte >= 0x80 { -size } else { size }
}
