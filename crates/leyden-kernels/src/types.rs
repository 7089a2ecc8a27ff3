//! What every floor names: the activation formats, the rows of a panel, and the bfloat16 that count.

/// Rows per panel.
pub(crate) const PANEL_ROWS: usize = 16;

/// How activations are represented for a weight type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActFormat {
    /// Unquantised.
    F32,
    /// Rounded to bfloat16, to nearest even; magnitudes below 2^-56 to zero.
    BF16,
    /// Int8 with a scale per 32.
    Q8Block32,
    /// Int8 with a scale per 128.
    Q8Block128,
    /// Int8 with a scale per 64, token by token: for INT8 rows.
    Q8Block64,
}

impl ActFormat {
    /// Values that share a scale; 0 for the unquantised activation format.
    #[must_use]
    pub fn group(self) -> usize {
        match self {
            ActFormat::F32 | ActFormat::BF16 => 0,
            ActFormat::Q8Block32 => 32,
            ActFormat::Q8Block128 => 128,
            ActFormat::Q8Block64 => 64,
        }
    }

    /// Whether values stay floats, rounded or not.
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, ActFormat::F32 | ActFormat::BF16)
    }
}

/// The greatest magnitude of a code of [`ActFormat::Q8Block128`].
pub(crate) const Q128_MAX: i32 = 120;

/// Magnitudes of bfloat16 below this, 2^-56, count as zero: by its bits, which order like the numbers.
pub(crate) const SMALLEST_BF16: u16 = (127 - 56) << 7;

/// A bfloat16, or zero if it is too small to count.
#[inline(always)]
pub(crate) const fn flush_small_bf16(bits: u16) -> u16 {
    if bits & 0x7fff < SMALLEST_BF16 { 0 } else { bits }
}
