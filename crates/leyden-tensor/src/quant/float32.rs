//! F32: 32-bit floats, little-endian.

use super::{Block, field};
use crate::DType;

/// A single 32-bit float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct F32(pub f32);

impl Block for F32 {
    const DTYPE: DType = DType::F32;
    const LEN: usize = 1;
    const BYTES: usize = 4;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        F32(f32::from_le_bytes(field(bytes, 0)))
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0.to_le_bytes());
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        out.copy_from_slice(&[self.0]);
    }

    fn encode(x: &[f32]) -> Self {
        assert_eq!(x.len(), Self::LEN);
        F32(x[0])
    }
}
