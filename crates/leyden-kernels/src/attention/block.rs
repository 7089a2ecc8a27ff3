//! Block size and storage types of the key-value cache.

use std::fmt;

/// Number of tokens in a block.
pub const BLOCK_TOKENS: usize = 64;

/// Number of tokens whose keys are interleaved, one per vector lane.
pub(crate) const KEY_TOKENS: usize = 16;

/// Storage type of cached keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum KvType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    #[default]
    F16,
    /// Blocks of 32 values along the head dimension: one byte per value and one 16-bit float scale.
    Q8_0,
}

impl KvType {
    /// All types, most exact first.
    pub const ALL: [KvType; 3] = [KvType::F32, KvType::F16, KvType::Q8_0];

    /// Returns the name used on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::Q8_0 => "q8_0",
        }
    }

    /// Returns the bytes of one value, without the scales of the quantised type.
    #[inline]
    pub(crate) fn value_bytes(self) -> usize {
        match self {
            KvType::F32 => 4,
            KvType::F16 => 2,
            KvType::Q8_0 => 1,
        }
    }

    /// Returns the type called `name`, or `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<KvType> {
        KvType::ALL.into_iter().find(|t| t.name() == name)
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value per token of a tile.
pub(crate) type Row = [f32; BLOCK_TOKENS];

/// Range of the tokens of a tile that a row attends to: `first..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TileRange {
    pub(crate) first: usize,
    pub(crate) end: usize,
}

impl TileRange {
    /// All tokens of the tile.
    pub(crate) const WHOLE: TileRange = TileRange { first: 0, end: BLOCK_TOKENS };

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.first >= self.end
    }

    /// Sets the elements of `s` that are outside the range to `value`.
    #[inline(always)]
    pub(crate) fn hide(self, s: &mut Row, value: f32) {
        if self.first > 0 {
            s[..self.first].fill(value);
        }
        if self.end < BLOCK_TOKENS {
            s[self.end..].fill(value);
        }
    }
}
