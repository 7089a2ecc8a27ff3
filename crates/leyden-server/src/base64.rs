//! Base64 encoding of vectors and bytes (RFC 4648).

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns a vector's little-endian bytes in base64, the form that OpenAI's clients ask for.
pub(crate) fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    encode(&bytes)
}

/// Returns bytes in base64.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let at = |i: usize| u32::from(part.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= part.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Returns the bytes that [`encode`] encoded; `None` for a text that it does not produce.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for part in digits.as_bytes().chunks(4) {
        let mut bits = 0;
        for digit in part {
            bits = bits << 6 | DIGITS.iter().position(|d| d == digit)?;
        }
        bits <<= 6 * (4 - part.len());
        let all = [bits >> 16, bits >> 8, bits].map(|b| (b & 0xff) as u8);
        bytes.extend_from_slice(&all[..part.len().saturating_sub(1)]);
    }
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let of = |bytes: [u8; 4]| base64(&[f32::from_le_bytes(bytes)]);
        assert_eq!(of(*b"Many"), "TWFueQ==");
        assert_eq!(base64(&[f32::from_le_bytes(*b"lion"), f32::from_le_bytes(*b"s in")]), "bGlvbnMgaW4=");
        assert_eq!(of([0xff; 4]), "/////w==");
        for bytes in [&b""[..], b"a", b"ab", b"abc", &[0, 255, 7, 9, 200]] {
            assert_eq!(decode(&encode(bytes)).as_deref(), Some(bytes));
        }
        // Half a digit, a digit outside the alphabet, bits that belong to no byte.
        for wrong in ["TWFueQ=", "TWF*eQ==", "TWFueR==", "====", "A==="] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
