//! Base64 (RFC 4648), the encoding of SentencePiece's character table in `tokenizer.json`.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes a text; `None` if it is not Base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let digit = DIGITS.iter().position(|digit| *digit == c)? as u32;
        bits = bits << 6 & 0x00ff_ffff | digit;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff) as u8);
        }
    }
    Some(out)
}

/// Encodes bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().enumerate().map(|(i, b)| u32::from(*b) << (16 - 8 * i)).sum::<u32>();
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= three.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"hello", "aGVsbG8="),
            (b"\xff\xfe\xfd", "//79"),
        ] {
            assert_eq!((encode(bytes), decode(text)), (text.to_owned(), Some(bytes.to_vec())));
        }
        assert_eq!(decode("a b"), None);
    }
}
