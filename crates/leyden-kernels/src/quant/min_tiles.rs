//! From how many tiles on a batch panels are unpacked once for all of them.

use crate::cpu::Tier;

/// `UnpackKernel::min_tiles` of most levels, of AVX2, and there of formats whose packed tiles hold more sums than registers.
pub(crate) const MIN_TILES: usize = 4;

pub(crate) const MIN_TILES_AVX2: usize = 3;

pub(crate) const MIN_TILES_WITHOUT_REGISTERS: usize = 2;

/// Whether a batch of so many tiles is read by such kernels, if it is quantised for weights that have them.
pub(crate) fn uses_winograd(tier: Tier, tiles: usize) -> bool {
    tier.single_multiply_port() && tiles >= MIN_TILES
}
