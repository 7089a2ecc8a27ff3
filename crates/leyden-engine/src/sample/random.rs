//! Counter-based random numbers: a hash of (seed, choice, position), no state.

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number in `[0, 1)` with 53 random bits.
pub(super) fn uniform(seed: u64, choice: u64, position: u64) -> f64 {
    let bits = mix(mix(mix(seed) ^ choice) ^ position);
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
