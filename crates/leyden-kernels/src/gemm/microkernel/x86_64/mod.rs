//! Microkernels for x86-64 instruction sets.

pub(crate) mod amx;
pub(crate) mod amx_block32;
pub(crate) mod amx_rows;
pub(crate) mod amx_superblock;
pub(crate) mod avx2_asm;
pub(crate) mod avx2_bf16;
pub(crate) mod avx2_madd;
pub(crate) mod avx2_maddubs;
pub(crate) mod avx512_bf16;
pub(crate) mod avx512_winograd;
mod block_dot;
pub(crate) mod int8_dot;
pub(crate) mod sparse_dot;
