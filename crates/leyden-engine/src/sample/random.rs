//! Counter-based random numbers: a hash of (seed, choice, position, token), without state.

/// Key of a token's random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random {
    pub(super) seed: u64,
    pub(super) choice: u64,
    pub(super) position: u64,
}

/// Constant that separates the random numbers of XTC from those of the draw.
const XTC: u64 = 0x7874_6321;

/// Factor that spreads the ids of tokens over all bits.
const TOKEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Computes the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Converts random bits to a number in `[0, 1)` with 53 bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

impl Random {
    fn bits(self) -> u64 {
        mix(mix(mix(self.seed) ^ self.choice) ^ self.position)
    }

    /// Returns the random number of a token in the draw, above 0 and at most 1.
    pub(super) fn of_token(self, id: u32) -> f64 {
        1.0 - unit(mix(self.bits() ^ TOKEN.wrapping_mul(u64::from(id) + 1)))
    }

    /// Returns the random number that decides whether XTC acts, in `[0, 1)`.
    pub(super) fn xtc(self) -> f64 {
        unit(mix(self.bits() ^ XTC))
    }
}
