//! A quantised matrix, and what becomes of it.
//!
//! Values are `scale * (code - zero)`. [`Target`] is the first format that holds all of them; integers stay what they are, and
//! what is lost, if anything, is the rounding of scales to half precision. Floats in eight bits, and integers whose groups do
//! not lie in order, become floats of 16 bits, exactly where these hold the products, else rounded to the nearest.

use crate::DType;
use crate::quant::{Block, Q4_0, Q5_0, Q8_0, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use std::ops::Range;
use std::thread;

/// Values in a block of the formats below.
const BLOCK: usize = 32;
/// Up to this much a scale may change on its way to half precision: half of its last bit, where it is no subnormal number.
const MOST_LOSS: f32 = 1.0 / 2048.0;

/// Words of 32 bits, low byte first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl Words<'_> {
    pub(super) fn at(&self, i: usize) -> u32 {
        self.0.as_chunks().0.get(i).map_or(0, |b| u32::from_le_bytes(*b))
    }

    /// These words with one added to each field of so many bits, as GPTQ's programs make zero points of their first version those
    /// of the second: where fields fill a word the sum is the word's, so that a field of ones becomes 0 and adds one to its
    /// neighbour, from which one was taken when it was written.
    pub(super) fn zero_point(&self, first: u64, bits: u32, place: impl Fn(usize) -> usize) -> u32 {
        let all = (1 << bits) - 1;
        if !32_u32.is_multiple_of(bits) {
            return (self.bits(first, bits, place) + 1) & all;
        }
        // Ones in the lowest place of each field.
        let ones = u32::MAX / all;
        let word = self.at(place((first / 32) as usize)).wrapping_add(ones);
        word >> (first % 32) & all
    }

    /// `bits` bits from `first` on of a run of words whose places `place` gives.
    pub(super) fn bits(&self, first: u64, bits: u32, place: impl Fn(usize) -> usize) -> u32 {
        let (word, shift) = ((first / 32) as usize, (first % 32) as u32);
        let low = u64::from(self.at(place(word)));
        let high = if shift + bits > 32 { u64::from(self.at(place(word + 1))) } else { 0 };
        ((low | high << 32) >> shift) as u32 & ((1 << bits) - 1)
    }
}

/// Where codes lie.
#[derive(Clone, Copy, Debug)]
pub(super) enum Codes<'a> {
    /// The bits of a column, `[k * bits / 32][rows]`.
    Columns { words: Words<'a>, bits: u32 },
    /// Four bits each of eight outputs, `[k][rows / 8]`.
    Awq { words: Words<'a>, order: [u32; 8] },
    /// As many inputs as fit into a word whole, `[rows][columns]`.
    Rows { words: Words<'a>, bits: u32, columns: usize },
    /// Signed bytes, `[rows][k]`.
    Bytes(&'a [u8]),
    /// Floats of four bits of exponent and three of fraction, `[rows][k]`.
    E4m3(&'a [u8]),
}

/// A matrix `[rows, k]`.
#[derive(Debug)]
pub(super) struct Matrix<'a> {
    pub(super) rows: usize,
    pub(super) k: usize,
    pub(super) codes: Codes<'a>,
    /// The least and the largest code.
    pub(super) range: [i16; 2],
    /// `[rows / sides[0]][groups]`.
    pub(super) scales: Vec<f32>,
    pub(super) groups: usize,
    /// How many rows and how many inputs have one scale.
    pub(super) sides: [usize; 2],
    /// As the scales; without them all are `zero`.
    pub(super) zeros: Option<Vec<i16>>,
    pub(super) zero: i16,
    /// The group of each input, where it is not that of its place.
    pub(super) order: Option<Vec<usize>>,
}

/// What a matrix becomes, the smallest first.
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
    /// Whether a value is not a number.
    pub(super) fn has_nan(&self) -> bool {
        matches!(self.codes, Codes::E4m3(bytes) if bytes.iter().any(|b| b & 0x7f == 0x7f))
    }

    /// The smallest format that holds it.
    pub(super) fn target(&self) -> Target {
        self.integers().unwrap_or_else(|| self.float_target())
    }

    /// The smallest format of integers that holds it.
    pub(super) fn integers(&self) -> Option<Target> {
        let fits = self.scales.iter().map(|s| rounding(*s)).fold(0.0, f32::max) <= MOST_LOSS;
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

    /// The first that holds all values exactly; of those of 16 bits else the one that rounds to the nearest of eleven bits, if
    /// all are in its range.
    fn float_target(&self) -> Target {
        let (mut half, mut brain, mut most, mut least) = (true, true, 0.0_f32, f32::MAX);
        self.for_values(0..self.rows, |_, values| {
            for &v in values {
                half &= f16_to_f32(f32_to_f16(v)) == v;
                brain &= bf16_to_f32(f32_to_bf16(v)) == v;
                most = most.max(v.abs());
                if v != 0.0 {
                    least = least.min(v.abs());
                }
            }
        });
        match (half, brain) {
            (true, _) => Target::F16,
            (_, true) => Target::BF16,
            // Larger ones do not fit; where even the largest is small, little would be left.
            _ if most <= 65504.0 && most >= 2_f32.powi(-12) => Target::F16,
            _ => Target::F32,
        }
    }

    /// Writes all rows, and returns by how much a value changed, relative to its size or, of floats, to the largest of its row.
    pub(super) fn write(&self, target: Target, out: &mut [u8]) -> f32 {
        let row_bytes = out.len() / self.rows.max(1);
        // Words hold eight outputs, so tasks begin at multiples of them.
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let each = self.rows.div_ceil(threads).next_multiple_of(8).max(8);
        thread::scope(|scope| {
            let parts = out.chunks_mut((each * row_bytes).max(1)).enumerate();
            let tasks: Vec<_> = parts
                .map(|(i, out)| {
                    let rows = i * each..((i + 1) * each).min(self.rows);
                    scope.spawn(move || self.write_rows(target, rows, row_bytes, out))
                })
                .collect();
            // A panic of a task is one here too.
            tasks.into_iter().map(|task| task.join().unwrap_or(f32::INFINITY)).fold(0.0, f32::max)
        })
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

    /// Where the scale of a value lies.
    fn at(&self, row: usize, i: usize) -> usize {
        let group = self.order.as_ref().map_or(i / self.sides[1], |order| order[i]);
        row / self.sides[0] * self.groups + group
    }

    /// Hands out the values of rows.
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

    /// Hands out the codes of rows, which begin at a multiple of eight.
    fn for_codes(&self, rows: Range<usize>, mut take: impl FnMut(usize, &[i16])) {
        /// Rows that are read together, whose words are neighbours.
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

/// By how much a scale changes on its way to half precision.
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

/// A float of one sign, four exponent and three fraction bits, without infinities; NaN, which is refused, counts as 0.
fn e4m3(byte: u8) -> f32 {
    let (exponent, fraction) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let size = match (exponent, byte & 0x7f) {
        (_, 0x7f) => 0.0,
        (0, _) => fraction * 2_f32.powi(-9),
        _ => (1.0 + fraction / 8.0) * 2_f32.powi(exponent - 7),
    };
    if byte >= 0x80 { -size } else { size }
}
