//! Minimum numbers of tiles in a batch for which panels are unpacked once for all of them.

use crate::cpu::Tier;

/// Values of `UnpackKernel::min_tiles`: of most levels, of AVX2, and on AVX2 of formats whose packed tiles need more
/// sums than there are registers.
pub(crate) const MIN_TILES: usize = 4;

pub(crate) const MIN_TILES_AVX2: usize = 3;

pub(crate) const MIN_TILES_WITHOUT_REGISTERS: usize = 2;

/// Returns whether a batch of `tiles` tiles is multiplied by Winograd kernels, if its weights have them.
pub(crate) fn uses_winograd(tier: Tier, tiles: usize) -> bool {
    tier.single_multiply_port() && tiles >= MIN_TILES
}
