//! Scalar encode and decode of every storage format: the oracle for faster kernels.
//!
//! One file per format. Plain arithmetic in a written order, no SIMD, no fused multiply-add, so the
//! same bytes come out on every machine. Formats that gguf-py can encode (F16, BF16, Q4_0, Q4_1,
//! Q5_0, Q5_1, Q8_0, MXFP4) are encoded byte for byte like it; the K and IQ4 formats have encoders of
//! our own. Ternary, one-bit, IQ1 to IQ3 and NVFP4 formats are only decoded
//! ([`DType::encodes`]).
//!
//! **Values that no format can represent** have a defined result in every block format, where other programs leave it
//! to the machine: NaN becomes 0, an infinity the largest finite value of its sign, and a scale or minimum that does
//! not fit 16 bits the largest that does, with codes chosen for it. F32, F16 and BF16 keep NaN and infinities. Values
//! too small for the scale become 0.

mod affine;
mod bf16;
mod f16;
mod fit;
// Not `f32`, which would shadow the primitive type.
mod float32;
mod grids;
mod int8_row;
mod iq1;
mod iq2;
mod iq3;
mod iq4_nl;
mod iq4_xs;
mod min_scale;
mod mxfp4;
mod nvfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod symmetric;
mod ternary;

pub use self::bf16::{BF16, bf16_to_f32, f32_to_bf16};
pub use self::f16::{F16, f16_to_f32, f32_to_f16};
pub use self::float32::F32;
pub use self::int8_row::{INT8_GREATEST, RowLosses, int8_row, largest_magnitude};
pub use self::iq1::{IQ1M, IQ1S};
pub use self::iq2::{IQ2S, IQ2XS, IQ2XXS};
pub use self::iq3::{IQ3S, IQ3XXS};
pub use self::iq4_nl::{IQ4_VALUES, IQ4NL};
pub use self::iq4_xs::IQ4XS;
pub use self::mxfp4::{MXFP4, MXFP4_VALUES};
pub use self::nvfp4::NVFP4;
pub use self::q2_k::Q2K;
pub use self::q3_k::Q3K;
pub use self::q4_0::Q4_0;
pub use self::q4_1::Q4_1;
pub use self::q4_k::Q4K;
pub use self::q5_0::Q5_0;
pub use self::q5_1::Q5_1;
pub use self::q5_k::Q5K;
pub use self::q6_k::Q6K;
pub use self::q8_0::Q8_0;
pub use self::ternary::{Q1_0, TQ1_0, TQ2_0};

use crate::DType;

/// The largest finite half-precision number.
const F16_MAX: f32 = 65504.0;

/// One block of a storage format, parsed from its bytes.
pub trait Block: Sized + Copy {
    /// Storage format.
    const DTYPE: DType;
    /// Values in a block.
    const LEN: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// True if there is an encoder.
    const ENCODES: bool = true;

    /// Parses a block.
    ///
    /// # Panics
    /// `bytes` is not exactly [`BYTES`](Self::BYTES) long.
    fn read(bytes: &[u8]) -> Self;

    /// Writes a block, the inverse of [`read`](Self::read).
    ///
    /// # Panics
    /// `out` is not exactly [`BYTES`](Self::BYTES) long.
    fn write(&self, out: &mut [u8]);

    /// Computes the values.
    ///
    /// # Panics
    /// `out` is not exactly [`LEN`](Self::LEN) long.
    fn decode(&self, out: &mut [f32]);

    /// Returns the block that represents the values best.
    ///
    /// # Panics
    /// `x` is not exactly [`LEN`](Self::LEN) long, or the format has no encoder.
    fn encode(x: &[f32]) -> Self;

    /// Returns the block of least squared error, where the error of value `i` is weighted by `weights[i]`. Formats
    /// without parameters to search for ignore the weights.
    ///
    /// # Panics
    /// `x` or `weights` is not exactly [`LEN`](Self::LEN) long.
    fn encode_weighted(x: &[f32], weights: &[f32]) -> Self {
        assert_eq!(weights.len(), Self::LEN);
        Self::encode(x)
    }
}

/// Decodes whole rows: as many blocks as fill `out`.
///
/// ```
/// use leyden_tensor::{DType, quant};
/// let mut out = [0.0; 2];
/// quant::decode_row(DType::F16, &[0x00, 0x3c, 0x00, 0xc0], &mut out);
/// assert_eq!(out, [1.0, -2.0]);
/// ```
///
/// # Panics
/// `bytes` is not exactly as long as `out.len()` values of `dtype` need.
pub fn decode_row(dtype: DType, bytes: &[u8], out: &mut [f32]) {
    (dtype.info().decode)(bytes, out);
}

/// Encodes whole rows: all blocks of `x`.
///
/// # Panics
/// `x` is not a whole number of blocks, `out` is not exactly as long as they need, or the format has no encoder
/// ([`DType::encodes`]).
pub fn encode_row(dtype: DType, x: &[f32], out: &mut [u8]) {
    (dtype.info().encode)(x, out);
}

/// Encodes whole rows like [`encode_row`], where the error of value `i` is weighted by `weights[i]`; formats with
/// scales then search for the least sum, Q4_0, Q4_1, Q5_0 and Q5_1 too. Weights are finite and not negative.
///
/// # Panics
/// `x` is not a whole number of blocks, `weights` or `out` is not exactly as long as it needs, or the format has no
/// encoder ([`DType::encodes`]).
pub fn encode_row_weighted(dtype: DType, x: &[f32], weights: &[f32], out: &mut [u8]) {
    (dtype.info().encode_weighted)(x, weights, out);
}

/// Decodes rows like [`decode_row`], of one format: inlined, so that the caller chooses the instruction set.
///
/// # Panics
/// As [`decode_row`].
#[inline(always)]
pub fn decode_blocks<B: Block>(bytes: &[u8], out: &mut [f32]) {
    check_lengths::<B>(out.len(), bytes.len());
    for (block, values) in bytes.chunks_exact(B::BYTES).zip(out.chunks_exact_mut(B::LEN)) {
        B::read(block).decode(values);
    }
}

pub(crate) fn encode_blocks<B: Block>(x: &[f32], out: &mut [u8]) {
    check_lengths::<B>(x.len(), out.len());
    for (values, block) in x.chunks_exact(B::LEN).zip(out.chunks_exact_mut(B::BYTES)) {
        B::encode(values).write(block);
    }
}

/// Encodes rows like [`encode_row_weighted`], of one format: inlined, so that the caller chooses the instruction set.
///
/// # Panics
/// As [`encode_row_weighted`].
#[inline(always)]
pub fn encode_blocks_weighted<B: Block>(x: &[f32], weights: &[f32], out: &mut [u8]) {
    check_lengths::<B>(x.len(), out.len());
    assert_eq!(x.len(), weights.len(), "a weight for each value");
    let values = x.chunks_exact(B::LEN).zip(weights.chunks_exact(B::LEN));
    for ((x, weights), block) in values.zip(out.chunks_exact_mut(B::BYTES)) {
        B::encode_weighted(x, weights).write(block);
    }
}

#[inline(always)]
fn check_lengths<B: Block>(values: usize, bytes: usize) {
    let wanted = B::DTYPE.row_bytes(values);
    assert!(wanted == Some(bytes), "{}: {values} values do not fit {bytes} bytes exactly", B::DTYPE);
}

/// Returns the value that a block format represents in place of `x`: 0 for NaN, the largest finite
/// value for infinities.
#[inline(always)]
fn finite(x: f32) -> f32 {
    if x.is_nan() { 0.0 } else { x.clamp(f32::MIN, f32::MAX) }
}

/// Returns the bits of a finite half-precision number: the largest one if `x` is out of range.
#[inline(always)]
fn scale_bits(x: f32) -> u16 {
    f32_to_f16(x.clamp(-F16_MAX, F16_MAX))
}

/// Returns the weights of a super-block; all 1 if all are 0.
///
/// # Panics
/// The number of weights is not 256.
#[inline(always)]
fn weights_of(weights: &[f32]) -> [f32; 256] {
    let mut w = [0.0; 256];
    w.copy_from_slice(weights);
    if w.iter().all(|w| *w == 0.0) { [1.0; 256] } else { w }
}

/// Splits a block's bytes into fixed-size fields.
///
/// # Panics
/// The bytes are too few, which the callers' contract excludes.
#[inline(always)]
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// Declares a format that is only decoded: a block keeps its bytes.
macro_rules! raw_block {
    ($(#[$doc:meta])* $name:ident, $len:literal, $bytes:literal, $decode:path) => {
        $(#[$doc])*
        #[allow(non_camel_case_types, reason = "named as in files")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(
            /// Bytes as in the file.
            pub [u8; $bytes],
        );

        impl Block for $name {
            const DTYPE: DType = DType::$name;
            const LEN: usize = $len;
            const BYTES: usize = $bytes;
            const ENCODES: bool = false;

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                assert_eq!(bytes.len(), Self::BYTES);
                $name($crate::quant::field(bytes, 0))
            }

            fn write(&self, out: &mut [u8]) {
                out.copy_from_slice(&self.0);
            }

            #[inline(always)]
            fn decode(&self, out: &mut [f32]) {
                assert_eq!(out.len(), Self::LEN);
                $decode(&self.0, out);
            }

            fn encode(_: &[f32]) -> Self {
                panic!("{} has no encoder", Self::DTYPE)
            }
        }
    };
}
use raw_block;
