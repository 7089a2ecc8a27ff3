//! Numbers in base64 (RFC 4648).

/// Returns a vector's little-endian bytes in base64, the form that OpenAI's clients ask for.
pub(crate) fn base64(vector: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let of = |bytes: [u8; 4]| base64(&[f32::from_le_bytes(bytes)]);
        assert_eq!(of(*b"Many"), "TWFueQ==");
        assert_eq!(base64(&[f32::from_le_bytes(*b"lion"), f32::from_le_bytes(*b"s in")]), "bGlvbnMgaW4=");
        assert_eq!(of([0xff; 4]), "/////w==");
    }
}
