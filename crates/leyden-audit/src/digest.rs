//! [`Digest`]: SHA-256 of several values, each with its kind and its length.

use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 of bytes in hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns bytes in hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Returns the bytes of hexadecimal digits in lower case; `None` for other texts.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    rest.is_empty().then(|| bytes.collect()).flatten()
}

/// SHA-256 of a sequence of values. Each is hashed with a letter for its kind and its length, so that two different
/// sequences never give the same bytes.
///
/// ```
/// use leyden_audit::Digest;
/// let (mut a, mut b) = (Digest::new(), Digest::new());
/// a.text("ab").text("c");
/// b.text("a").text("bc");
/// assert_ne!(a.finish(), b.finish());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Returns the digest of no values.
    #[must_use]
    pub fn new() -> Digest {
        Digest::default()
    }

    fn value(&mut self, kind: u8, length: usize) -> &mut Digest {
        self.0.update([kind]);
        self.0.update((length as u64).to_le_bytes());
        self
    }

    /// Adds a text.
    pub fn text(&mut self, text: &str) -> &mut Digest {
        self.value(b't', text.len()).0.update(text.as_bytes());
        self
    }

    /// Adds token ids, as little-endian 32-bit numbers.
    pub fn ids(&mut self, ids: &[u32]) -> &mut Digest {
        self.value(b'i', ids.len());
        self.words(ids.iter().copied());
        self
    }

    /// Adds floating-point numbers by their bits, as little-endian 32-bit numbers.
    pub fn numbers(&mut self, numbers: &[f32]) -> &mut Digest {
        self.value(b'f', numbers.len());
        self.words(numbers.iter().map(|number| number.to_bits()));
        self
    }

    /// Hashes words, many at a time.
    fn words(&mut self, words: impl Iterator<Item = u32>) {
        let (mut block, mut filled) = ([0; 4096], 0);
        for word in words {
            block[filled..filled + 4].copy_from_slice(&word.to_le_bytes());
            filled += 4;
            if filled == block.len() {
                self.0.update(block);
                filled = 0;
            }
        }
        self.0.update(&block[..filled]);
    }

    /// Returns the digest in hexadecimal digits.
    #[must_use]
    pub fn finish(&self) -> String {
        hex(&self.0.clone().finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_they_are_written() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(unhex(&hex(&[0, 1, 254, 255])), Some(vec![0, 1, 254, 255]));
        for wrong in ["0", "0g", "AB", "é"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }
}
