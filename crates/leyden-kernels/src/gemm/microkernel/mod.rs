//! Microkernels: a panel of weights times a tile of tokens.

#[cfg(target_arch = "aarch64")]
mod aarch64_block;
#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64_dot;
#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64_sparse;
pub(crate) mod block32;
pub(crate) mod byte_dot;
mod byte_dot_kernel;
mod common;
pub(crate) mod dense;
pub(crate) mod float;
pub(crate) mod int8_rows;
pub(crate) mod kernels;
pub(crate) mod sparse_blocks;
pub(crate) mod sparse_dot;
pub(crate) mod sparse_rows;
pub(crate) mod superblock;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

use crate::cpu::isa::{Level, Tier};
use kernels::{Bf16Kernels, GemmKernels};

/// Returns the kernels of BF16 weights of a level with instructions for them.
pub(crate) fn bf16_kernels(level: Level) -> Option<&'static Bf16Kernels> {
    #[cfg(target_arch = "x86_64")]
    if level.bf16_pairs() {
        return Some(&x86_64::avx512_bf16::KERNELS);
    }
    let _ = level;
    None
}

/// Registry rows of BF16 weights that have files of their own.
pub(crate) const BF16_ROWS: [&[GemmKernels]; 2] = {
    #[cfg(target_arch = "x86_64")]
    {
        use std::slice::from_ref;
        [from_ref(&x86_64::avx512_bf16::KERNELS.many), from_ref(&x86_64::avx2_bf16::MANY)]
    }
    #[cfg(not(target_arch = "x86_64"))]
    [&[], &[]]
};

/// Returns the bfloat16 counterpart of [`Simd::f32_products`](crate::simd::Simd::f32_products), if the tier has
/// instructions for it.
pub(crate) fn bf16_products(tier: Tier) -> Option<impl Fn(u64) -> u64 + Sync> {
    // SAFETY: the Tier proves the features.
    bf16_kernels(tier.level()).map(|kernels| |rounds| unsafe { (kernels.products)(rounds) })
}

/// Returns the matrix counterpart of [`Simd::int8_products`](crate::simd::Simd::int8_products), if the tier has
/// instructions for it.
pub(crate) fn matrix_products(tier: Tier) -> Option<impl Fn(u64) -> u64 + Sync> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the Tier proves the features.
    let products = |rounds| unsafe { x86_64::amx::products(rounds) };
    #[cfg(not(target_arch = "x86_64"))]
    let products = |rounds| rounds;
    tier.level().matrices().then_some(products)
}
