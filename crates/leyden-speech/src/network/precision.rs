//! [`Precision`]: types of the weights in memory.

use leyden_kernels::attention::KvType;
use std::fmt;

/// Types of the weights in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Types of the file; activations are not rounded.
    #[default]
    Stored,
    /// 8-bit integers with a scale per 32 weights.
    Q8_0,
    /// 8-bit integers with a scale per row, in the encoder also for attention: the fastest.
    Int8,
}

impl Precision {
    /// Names of all values.
    pub const NAMES: [(&'static str, Precision); 3] =
        [("stored", Precision::Stored), ("q8_0", Precision::Q8_0), ("int8", Precision::Int8)];

    /// Returns the storage type of keys and values.
    pub(super) fn kv_type(self) -> KvType {
        match self {
            Precision::Stored => KvType::F32,
            Precision::Q8_0 | Precision::Int8 => KvType::F16,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Precision::NAMES.iter().find(|row| row.1 == *self).map_or("", |row| row.0);
        f.write_str(name)
    }
}
