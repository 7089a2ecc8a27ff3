//! A block of the key-value cache: how many tokens it has, and of which type its numbers are.

use std::fmt;

/// Tokens in a block.
pub const BLOCK_TOKENS: usize = 64;

/// Tokens whose keys lie together, one in each lane of a vector.
pub(crate) const KEY_TOKENS: usize = 16;

/// How cached keys and values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum KvType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    #[default]
    F16,
    /// Blocks of 32 bytes along the head with a 16-bit float scale each.
    Q8_0,
}

impl KvType {
    /// All types, most exact first.
    pub const ALL: [KvType; 3] = [KvType::F32, KvType::F16, KvType::Q8_0];

    /// The name used on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::Q8_0 => "q8_0",
        }
    }

    /// Bytes of one number, without the scales of the quantised type.
    #[inline]
    pub(crate) fn value_bytes(self) -> usize {
        match self {
            KvType::F32 => 4,
            KvType::F16 => 2,
            KvType::Q8_0 => 1,
        }
    }

    /// The type called `name`, if there is one.
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

/// One number per token of a tile.
pub(crate) type Row = [f32; BLOCK_TOKENS];

/// Which tokens of a tile a row sees: from the first on, up to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) first: usize,
    pub(crate) end: usize,
}

impl Seen {
    /// All of them.
    pub(crate) const WHOLE: Seen = Seen { first: 0, end: BLOCK_TOKENS };

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.first >= self.end
    }

    /// Writes `value` to the tokens that are not seen.
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
