//! Q5_0: blocks of 32 values, one 16-bit scale, 5-bit codes; 22 bytes.
//!
//! A value is `d * (code - 16)`. Byte `j` of `qs` holds the low four bits of the code of value `j`
//! below and those of value `j + 16` above; bit `i` of `qh` is the high bit of the code of value `i`.

use super::fit::{Integers, Starts};
use super::q4_0::inverse;
use super::symmetric::{self, Shape};
use super::{Block, f16_to_f32, field, finite, scale_bits};
use crate::DType;

/// The search starts from clipping the extremes and ends with the outer codes unused.
const SHAPE: Shape<Integers> = Shape {
    codes: Integers(-16.0, 15.0),
    extreme: -16.0,
    low_scale: -1.0,
    starts: Starts { first: 14.6, step: 0.3, n: 11 },
};

/// A block of 32 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q5_0 {
    /// The scale, as half-precision bits.
    pub d: u16,
    /// The high bits of the codes, little-endian.
    pub qh: [u8; 4],
    /// The low four bits of two codes per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<Q5_0>() == Q5_0::BYTES);

impl Block for Q5_0 {
    const DTYPE: DType = DType::Q5_0;
    const LEN: usize = 32;
    const BYTES: usize = 22;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q5_0 { d: u16::from_le_bytes(field(bytes, 0)), qh: field(bytes, 2), qs: field(bytes, 6) }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..2].copy_from_slice(&self.d.to_le_bytes());
        out[2..6].copy_from_slice(&self.qh);
        out[6..].copy_from_slice(&self.qs);
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let d = f16_to_f32(self.d);
        for (value, code) in out.iter_mut().zip(unpack(self.qh, &self.qs)) {
            *value = d * (f32::from(code) - 16.0);
        }
    }

    /// Encodes with the value of largest magnitude (the first, if several) as code 0, which is -16.
    fn encode(x: &[f32]) -> Self {
        assert_eq!(x.len(), Self::LEN);
        let mut largest = finite(x[0]);
        for &v in x {
            if finite(v).abs() > largest.abs() {
                largest = finite(v);
            }
        }
        let d = largest / -16.0;
        let bits = scale_bits(d);
        let id = inverse(d, bits);
        let (qh, qs) = pack(std::array::from_fn(|i| (finite(x[i]) * id + 16.5).clamp(0.0, 31.0) as u8));
        Q5_0 { d: bits, qh, qs }
    }

    /// Keeps the scale if all values are multiples of one; else searches for the scale of least error, of either
    /// sign.
    #[inline(always)]
    fn encode_weighted(x: &[f32], w: &[f32]) -> Self {
        assert_eq!((x.len(), w.len()), (Self::LEN, Self::LEN));
        let (d, codes) = symmetric::encode_32(x, w, &SHAPE);
        let (qh, qs) = pack(codes);
        Q5_0 { d, qh, qs }
    }
}

/// Returns the codes of a Q5_0 or Q5_1 block.
#[inline(always)]
pub(super) fn unpack(qh: [u8; 4], qs: &[u8; 16]) -> [u8; 32] {
    let high = u32::from_le_bytes(qh);
    let mut codes = [0; 32];
    for (i, code) in codes.iter_mut().enumerate() {
        *code = qs[i % 16] >> (i / 16 * 4) & 15 | ((high >> i & 1) as u8) << 4;
    }
    codes
}

/// Packs codes, the inverse of [`unpack`].
#[inline(always)]
pub(super) fn pack(codes: [u8; 32]) -> ([u8; 4], [u8; 16]) {
    let (mut high, mut low) = (0u32, [0; 16]);
    for (i, code) in codes.iter().enumerate() {
        high |= u32::from(code >> 4) << i;
    }
    for (j, low) in low.iter_mut().enumerate() {
        *low = codes[j] & 15 | codes[j + 16] << 4;
    }
    (high.to_le_bytes(), low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let mut x = [0.0; 32];
        (x[0], x[1], x[16], x[31]) = (-16.0, 15.0, 1.0, -1.0);
        let b = Q5_0::encode(&x);
        assert_eq!((b.d, b.qs[0], b.qs[1], b.qs[15]), (0x3c00, 0x10, 0x0f, 0xf0));
        assert_eq!(b.qh, [0xfe, 0xff, 0xff, 0x7f]);
        let mut out = [0.0; 32];
        b.decode(&mut out);
        assert_eq!(out, x);
    }
}
