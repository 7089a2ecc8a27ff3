//! Numbers of a few bits: runs and packed groups (levels, dictionary indices, booleans), and delta-packed integers.

use super::Read;

/// Maximum number of values of a page that a stated count may reach before bytes justify it: a run of equal values takes no bytes.
const MAX_VALUES: usize = 1 << 22;

/// Takes bytes from the front.
pub(super) fn take<'b>(bytes: &mut &'b [u8], n: usize) -> Read<&'b [u8]> {
    let (front, rest) = bytes.split_at_checked(n).ok_or("a page is cut off")?;
    *bytes = rest;
    Ok(front)
}

/// Takes a number of 7 bits a byte, the low ones first.
pub(super) fn varint(bytes: &mut &[u8]) -> Read<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number of more than 64 bits".to_owned())
}

fn zigzag(bytes: &mut &[u8]) -> Read<i64> {
    let n = varint(bytes)?;
    Ok((n >> 1) as i64 ^ -((n & 1) as i64))
}

/// Takes a number of 4 bytes.
pub(super) fn size(bytes: &mut &[u8]) -> Read<usize> {
    let four = take(bytes, 4)?;
    Ok(u32::from_le_bytes([four[0], four[1], four[2], four[3]]) as usize)
}

/// Unpacks `count` numbers of `width` bits, the low bits first.
fn unpack(bytes: &[u8], width: u32, count: usize, mut f: impl FnMut(u64)) {
    let bit = |at: usize| u64::from(bytes.get(at / 8).copied().unwrap_or(0) >> (at % 8) & 1);
    for i in 0..count {
        let start = i * width as usize;
        f((0..width as usize).fold(0, |value, k| value | bit(start + k) << k));
    }
}

/// Decodes `count` numbers of `width` bits in runs and packed groups.
pub(super) fn runs(mut bytes: &[u8], width: u32, count: usize) -> Read<Vec<u32>> {
    if width > 32 {
        return Err(format!("numbers of {width} bits"));
    }
    if count > MAX_VALUES {
        return Err(format!("a page of {count} values"));
    }
    let mut all: Vec<u32> = Vec::new();
    while all.len() < count {
        let head = varint(&mut bytes)?;
        let left = count - all.len();
        if head & 1 == 0 {
            let n = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(left);
            let value = take(&mut bytes, width.div_ceil(8) as usize)?;
            let value = value.iter().rev().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
            if n == 0 {
                return Err("a run of no values".to_owned());
            }
            all.resize(all.len() + n, value);
        } else {
            let groups = usize::try_from(head >> 1).unwrap_or(usize::MAX);
            // The last group may be cut off behind its last value.
            let length = groups.saturating_mul(width as usize).min(bytes.len());
            let packed = take(&mut bytes, length)?;
            let n = groups.saturating_mul(8).min(left);
            if n == 0 || packed.len() * 8 < n.saturating_mul(width as usize) {
                return Err("a packed group is cut off".to_owned());
            }
            unpack(packed, width, n, |value| all.push(value as u32));
        }
    }
    Ok(all)
}

/// Decodes integers of the encoding DELTA_BINARY_PACKED, and moves `bytes` behind them.
pub(super) fn deltas(bytes: &mut &[u8], most: usize) -> Read<Vec<i64>> {
    let block = usize::try_from(varint(bytes)?).unwrap_or(0);
    let miniblocks = usize::try_from(varint(bytes)?).unwrap_or(0);
    let total = usize::try_from(varint(bytes)?).unwrap_or(usize::MAX);
    let mut last = zigzag(bytes)?;
    if miniblocks == 0
        || block == 0
        || block % miniblocks != 0
        || (block / miniblocks) % 8 != 0
        || block > 1 << 20
    {
        return Err("deltas: impossible block size".to_owned());
    }
    if total > most {
        return Err(format!("deltas: {total} values, more than the page has"));
    }
    let per_miniblock = block / miniblocks;
    let mut all = Vec::new();
    if total > 0 {
        all.push(last);
    }
    while all.len() < total {
        let least = zigzag(bytes)?;
        let widths = take(bytes, miniblocks)?.to_vec();
        for width in widths {
            if all.len() >= total {
                break;
            }
            if width > 64 {
                return Err(format!("deltas of {width} bits"));
            }
            let packed = take(bytes, per_miniblock / 8 * usize::from(width))?;
            let n = per_miniblock.min(total - all.len());
            unpack(packed, u32::from(width), n, |delta| {
                last = last.wrapping_add(least).wrapping_add(delta as i64);
                all.push(last);
            });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_groups_of_the_specification() {
        // Parquet's own example: 0 to 7 in three bits.
        let packed = [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(runs(&packed, 3, 8).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(runs(&[8, 5], 3, 4).unwrap(), [5; 4]);
        assert_eq!(runs(&[], 0, 0).unwrap(), Vec::<u32>::new());
        for (bytes, width, count) in
            [(&[][..], 1, 1), (&[3], 3, 8), (&[8], 3, 1), (&[0, 1], 3, 1), (&[8, 5], 40, 1)]
        {
            assert!(runs(bytes, width, count).is_err(), "{bytes:?}");
        }
        assert!(runs(&[0xff, 0xff, 0xff, 0xff, 0x0e, 1], 1, usize::MAX).is_err());
    }

    #[test]
    fn deltas_of_the_specification() {
        // 7, 5, 3, 1, 2, 3, 4, 5: the first value, the least delta -2, deltas 0, 0, 0, 3, 3, 3, 3 in two bits.
        let mut bytes = &[128, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0b1100_0000, 0b11_1111, 0, 0, 0, 0, 0, 0, 9][..];
        assert_eq!(deltas(&mut bytes, 8).unwrap(), [7, 5, 3, 1, 2, 3, 4, 5]);
        assert_eq!(bytes, [9]);
        assert!(
            deltas(&mut &[128, 1, 4, 8, 14][..], 8).is_err()
                && deltas(&mut &[128, 1, 4, 9, 14][..], 8).is_err()
        );
    }
}
