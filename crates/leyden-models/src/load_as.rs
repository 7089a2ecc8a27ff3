//! [`LoadAs`]: options of loading a network.

use crate::packs::PackCache;
use leyden_kernels::gemm::LayoutRule;

/// Options of loading.
#[derive(Clone, Debug, Default)]
pub struct LoadAs {
    /// Cache of packed weights.
    pub packs: PackCache,
    /// True to multiply matrices that are stored as floats in 8-bit integers; `PackReport::int8` tells which.
    pub int8: bool,
    /// Rule by which the layouts of INT8 rows are chosen; results do not depend on it.
    pub layout: LayoutRule,
}
