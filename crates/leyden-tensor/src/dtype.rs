//! [`DType`]: the storage formats that can be computed with.

use std::fmt;

/// Storage format of a tensor's values.
///
/// ```
/// use leyden_tensor::DType;
/// assert_eq!(DType::Q4K.to_string(), "Q4_K");
/// assert_eq!((DType::Q4K.block_len(), DType::Q4K.block_bytes()), (256, 144));
/// assert_eq!(DType::Q8_0.row_bytes(4096), Some(4352));
/// assert_eq!(DType::Q8_0.row_bytes(33), None);
/// assert_eq!(DType::from_gguf_id(14), Ok(DType::Q6K));
/// assert_eq!(DType::from_gguf_id(42).unwrap_err().to_string(), "tensor type Q2_0 (42) is not supported");
/// assert!(DType::Q4K.encodes() && !DType::IQ2XXS.encodes());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DType {
    /// 32-bit IEEE 754.
    F32,
    /// 16-bit IEEE 754.
    F16,
    /// The upper half of a 32-bit float.
    BF16,
    /// 4-bit codes in blocks of 32 with one scale.
    Q4_0,
    /// 8-bit codes in blocks of 32 with one scale.
    Q8_0,
    /// 4-bit codes in blocks of 256 with eight 6-bit scales and minima.
    Q4K,
    /// 6-bit codes in blocks of 256 with sixteen 8-bit scales.
    Q6K,
    /// 4-bit codes in blocks of 32 with one scale and one minimum.
    Q4_1,
    /// 5-bit codes in blocks of 32 with one scale.
    Q5_0,
    /// 5-bit codes in blocks of 32 with one scale and one minimum.
    Q5_1,
    /// 2-bit codes in blocks of 256 with sixteen 4-bit scales and minima.
    Q2K,
    /// 3-bit codes in blocks of 256 with sixteen 6-bit scales.
    Q3K,
    /// 5-bit codes in blocks of 256 with eight 6-bit scales and minima.
    Q5K,
    /// 4-bit indices into a table of uneven levels, in blocks of 32 with one scale.
    IQ4NL,
    /// 4-bit indices into a table of uneven levels, in blocks of 256 with eight 6-bit scales.
    IQ4XS,
    /// 4-bit floats in blocks of 32 with one power-of-two scale.
    MXFP4,
    /// 4-bit floats in groups of 16 with one 8-bit float as the scale.
    NVFP4,
    /// 1-bit signs in blocks of 128 with one scale.
    Q1_0,
    /// Ternary values, five to a byte, in blocks of 256 with one scale.
    TQ1_0,
    /// Ternary values, four to a byte, in blocks of 256 with one scale.
    TQ2_0,
    /// Codebook entries of eight values, with 3-bit scales and shifts.
    IQ1S,
    /// Like IQ1_S, with more scales and shifts.
    IQ1M,
    /// Codebook entries of eight values with signs, and a 4-bit scale for 32 values.
    IQ2XXS,
    /// Like IQ2_XXS, with a scale for 16 values.
    IQ2XS,
    /// Like IQ2_XS, with a larger codebook.
    IQ2S,
    /// Codebook entries of four values with signs, and a 4-bit scale for 32 values.
    IQ3XXS,
    /// Like IQ3_XXS, with a larger codebook.
    IQ3S,
}

/// A tensor type that this build cannot compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownDType {
    /// Type id in a GGUF file; from 2^31 on for types which GGUF does not have.
    pub id: u32,
    /// Name in llama.cpp or in the file, if the type is known at all.
    pub name: Option<&'static str>,
}

impl std::error::Error for UnknownDType {}

impl fmt::Display for UnknownDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) if self.id >= 1 << 31 => write!(f, "tensor type {name} is not supported"),
            Some(name) => write!(f, "tensor type {name} ({}) is not supported", self.id),
            None => write!(f, "tensor type {} is unknown", self.id),
        }
    }
}
