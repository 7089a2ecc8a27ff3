//! Pseudo-random numbers that are the same in every run.

/// Returns a well-mixed number for each `i` (SplitMix64: Steele, Lea and Flood 2014).
#[must_use]
pub fn random(i: u64) -> u64 {
    let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
