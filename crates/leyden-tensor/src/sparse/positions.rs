//! Positions of nonzero blocks as Rice codes of the gaps between them.
//!
//! A gap is the number of zero blocks before a nonzero one, counted from the nonzero block before it, in rows. It is
//! written as `gap >> parameter` zero bits, a one bit, and the low `parameter` bits, each byte from its lowest bit. Gaps
//! of random positions take 2 to 3 % more than their entropy (Golomb, 1966; Rice, 1979), and with parameter 0 the codes
//! are a bitmask. Positions can neither repeat nor go backwards, whatever the bits are.

/// Greatest parameter.
pub(super) const MAX_PARAMETER: u32 = 15;

/// Returns the number of bits of these gaps.
fn n_bits(gaps: &[u32], parameter: u32) -> u64 {
    gaps.iter().map(|gap| u64::from(gap >> parameter) + 1 + u64::from(parameter)).sum()
}

/// Returns the parameter with the fewest bits, and their number.
pub(super) fn best(gaps: &[u32]) -> (u32, u64) {
    let all = (0..=MAX_PARAMETER).map(|parameter| (parameter, n_bits(gaps, parameter)));
    all.min_by_key(|(_, bits)| *bits).unwrap_or((0, 0))
}

/// Writes gaps.
pub(super) fn encode(gaps: &[u32], parameter: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut byte, mut at) = (0_u8, 0_u32);
    let mut put = |bit: bool| {
        byte |= u8::from(bit) << at;
        at += 1;
        if at == 8 {
            out.push(byte);
            (byte, at) = (0, 0);
        }
    };
    for gap in gaps {
        (0..gap >> parameter).for_each(|_| put(false));
        put(true);
        (0..parameter).for_each(|i| put(gap >> i & 1 == 1));
    }
    if at > 0 {
        out.push(byte);
    }
    out
}

/// Bits of a slice, each byte from its lowest bit.
struct Bits<'a> {
    rest: std::slice::Iter<'a, u8>,
    /// Bits that were read and not used, and their number.
    held: u64,
    count: u32,
}

impl Bits<'_> {
    fn fill(&mut self) {
        while self.count <= 56 {
            let Some(byte) = self.rest.next() else { return };
            self.held |= u64::from(*byte) << self.count;
            self.count += 8;
        }
    }

    /// Returns the next gap; `None` if the bits end, or it is not below `most`.
    fn gap(&mut self, parameter: u32, most: usize) -> Option<usize> {
        let mut high = 0_usize;
        loop {
            self.fill();
            if self.held != 0 {
                break;
            }
            if self.count == 0 || high > most {
                return None;
            }
            high = high.checked_add(usize::try_from(self.count).ok()?)?;
            self.count = 0;
        }
        let zeros = self.held.trailing_zeros();
        high = high.checked_add(usize::try_from(zeros).ok()?)?;
        self.skip(zeros + 1);
        self.fill();
        if self.count < parameter {
            return None;
        }
        let low = usize::try_from(self.held & ((1_u64 << parameter) - 1)).ok()?;
        self.skip(parameter);
        let gap = high.checked_mul(1 << parameter)?.checked_add(low)?;
        (gap < most).then_some(gap)
    }

    fn skip(&mut self, count: u32) {
        self.held = self.held.checked_shr(count).unwrap_or(0);
        self.count -= count;
    }
}

/// Calls `each` with the index of every nonzero block, in ascending order. Returns false if the codes are not those of
/// exactly `count` blocks among `all`.
pub(super) fn decode(
    bytes: &[u8],
    parameter: u32,
    (count, all): (usize, usize),
    mut each: impl FnMut(usize),
) -> bool {
    let mut bits = Bits { rest: bytes.iter(), held: 0, count: 0 };
    let mut next = 0;
    for _ in 0..count {
        let Some(gap) = bits.gap(parameter, all - next) else { return false };
        each(next + gap);
        next += gap + 1;
    }
    // The rest of the last byte.
    bits.rest.len() == 0 && bits.count < 8 && bits.held == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_written_and_read_back() {
        for gaps in [vec![], vec![0], vec![0; 100], vec![5, 0, 300, 1, 70_000, 63, 64, 65], vec![1 << 20]] {
            let all = gaps.iter().map(|gap| *gap as usize + 1).sum::<usize>() + 3;
            for parameter in 0..=MAX_PARAMETER {
                let bytes = encode(&gaps, parameter);
                assert_eq!(bytes.len() as u64, n_bits(&gaps, parameter).div_ceil(8));
                let mut found = Vec::new();
                assert!(decode(&bytes, parameter, (gaps.len(), all), |at| found.push(at)), "{parameter}");
                let mut next = 0;
                for (gap, at) in gaps.iter().zip(&found) {
                    assert_eq!(*at, next + *gap as usize);
                    next = at + 1;
                }
                assert_eq!(found.len(), gaps.len());
            }
        }
    }

    #[test]
    fn codes_that_lie_are_refused() {
        let bytes = encode(&[3, 0, 9], 1);
        let ok = |bytes: &[u8], count, all| decode(bytes, 1, (count, all), |_| ());
        assert!(ok(&bytes, 3, 15));
        assert!(!ok(&bytes, 3, 14), "a position out of range");
        assert!(!ok(&bytes, 2, 15) && !ok(&bytes, 4, 15), "another number of blocks");
        assert!(!ok(&bytes[..1], 3, 15), "cut off");
        assert!(!ok(&[bytes, vec![0]].concat(), 3, 15), "bytes behind the codes");
        assert!(!ok(&[0; 4096], 1, 15) && !ok(&[], 1, 15) && ok(&[], 0, 0));
        assert!(!decode(&[0xff], 15, (1, usize::MAX), |_| ()), "the low bits are missing");
    }

    #[test]
    fn random_positions_take_little_more_than_their_entropy() {
        for (share, least) in [(0.5, 1.0), (0.2, 0.722), (0.1, 0.469)] {
            let gaps: Vec<u32> = {
                let (mut gaps, mut gap, mut state) = (Vec::new(), 0, 1_u64);
                for _ in 0..200_000 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if ((state >> 33) as f64) < share * f64::from(1_u32 << 31) {
                        gaps.push(gap);
                        gap = 0;
                    } else {
                        gap += 1;
                    }
                }
                gaps
            };
            let bits = best(&gaps).1 as f64 / 200_000.0;
            assert!(bits < 1.04 * least && bits > 0.97 * least, "{share}: {bits}");
        }
    }
}
