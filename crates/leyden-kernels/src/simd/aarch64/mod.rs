//! 64-bit Arm.

pub(crate) mod i8mm_int;
pub(crate) mod neon;
mod neon_common;
pub(crate) mod neon_int;
