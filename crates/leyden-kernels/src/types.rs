//! Types used by all modules: activation formats, panel rows, outlier channels, and the smallest bfloat16 that counts.

/// Number of rows per panel.
pub(crate) const PANEL_ROWS: usize = 16;

/// Number of channels that have a scale of their own.
pub(crate) const OUTLIERS: usize = 16;

/// Returns the number of places of a row of `k` values: padded with zeros, with the outlier channels last.
pub(crate) fn places_of(k: usize) -> usize {
    k.next_multiple_of(OUTLIERS)
}

/// Channels of a matrix's input that have a scale of their own; by default the last ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OutlierChannels(Option<[u32; OUTLIERS]>);

impl OutlierChannels {
    /// The last channels.
    pub const LAST: OutlierChannels = OutlierChannels(None);

    /// Returns the channels of the greatest magnitudes; of equal ones the first.
    #[must_use]
    pub fn of(magnitudes: &[f64]) -> OutlierChannels {
        let Some(last) = magnitudes.len().checked_sub(OUTLIERS) else { return OutlierChannels(None) };
        let mut channels: Vec<usize> = (0..magnitudes.len()).collect();
        channels.sort_by(|a, b| magnitudes[*b].total_cmp(&magnitudes[*a]));
        channels.truncate(OUTLIERS);
        channels.sort_unstable();
        // Outliers among the last channels keep their places.
        let mut others = channels.iter().filter(|c| **c < last);
        let place = |own: usize| match channels.contains(&own) {
            true => own as u32,
            false => others.next().map_or(own as u32, |c| *c as u32),
        };
        let slots: Vec<u32> = (last..magnitudes.len()).map(place).collect();
        OutlierChannels(slots.try_into().ok())
    }

    /// Returns the channels in the order of their places; none for the last channels.
    pub(crate) fn channels(&self) -> &[u32] {
        self.0.as_ref().map_or(&[], |channels| channels.as_slice())
    }

    /// Returns the outliers whose [`channels`](Self::channels) these are, of a row of `k` values; `None` if one is beyond
    /// the row, or there are more or fewer.
    pub(crate) fn from_channels(channels: &[usize], k: usize) -> Option<OutlierChannels> {
        if channels.is_empty() {
            return Some(OutlierChannels::LAST);
        }
        let all = channels.iter().map(|channel| u32::try_from(*channel).ok().filter(|_| *channel < k));
        let all: Vec<u32> = all.collect::<Option<_>>()?;
        Some(OutlierChannels(Some(all.try_into().ok()?)))
    }

    /// Returns the pairs of places that are swapped in a row of `k` values to put the outliers last.
    pub(crate) fn swaps(&self, k: usize) -> impl Iterator<Item = (usize, usize)> {
        let (last, first) = (k.saturating_sub(OUTLIERS), places_of(k) - OUTLIERS);
        let slots = self.0.iter().flatten().enumerate();
        slots
            .filter(move |(_, channel)| (**channel as usize) < last)
            .map(move |(i, c)| (*c as usize, first + i))
    }
}

/// Format of activations for a weight type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActFormat {
    /// Unquantised.
    F32,
    /// Rounded to bfloat16, to nearest even; magnitudes below 2^-56 to zero.
    BF16,
    /// Int8 with a scale per 32 values.
    Q8Block32,
    /// Int8 with a scale per 128 values.
    Q8Block128,
    /// Int8 with a scale per token and another for its outlier channels: for INT8 rows.
    Q8Token(OutlierChannels),
}

impl ActFormat {
    /// Returns the number of values that share a scale; 0 if there is no scale, or if it is per token.
    #[must_use]
    pub fn group(self) -> usize {
        match self {
            ActFormat::F32 | ActFormat::BF16 | ActFormat::Q8Token(_) => 0,
            ActFormat::Q8Block32 => 32,
            ActFormat::Q8Block128 => 128,
        }
    }

    /// Returns true if values stay floats, rounded or not.
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, ActFormat::F32 | ActFormat::BF16)
    }
}

/// Greatest magnitude of a quantised value of [`ActFormat::Q8Block128`].
pub(crate) const Q128_MAX: i32 = 120;

/// Bits of 2^-56: bfloat16 of smaller magnitude count as zero. The bits have the order of the numbers.
pub(crate) const SMALLEST_BF16: u16 = (127 - 56) << 7;

/// Returns the bits of a bfloat16, or of zero if it is too small to count.
#[inline(always)]
pub(crate) const fn flush_small_bf16(bits: u16) -> u16 {
    if bits & 0x7fff < SMALLEST_BF16 { 0 } else { bits }
}
