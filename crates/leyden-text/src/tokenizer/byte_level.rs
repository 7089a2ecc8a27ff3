//! Alphabet of byte-level vocabularies: every byte is written as one printable character.
//!
//! The 188 bytes that are printable in Latin-1 map to themselves; the other 68 map, in order, to the characters
//! from U+0100 on. So a space is `Ġ` and a line feed `Ċ`.

const fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// Byte of each character of the alphabet, or `NONE`; the alphabet ends at U+0143.
static BYTES: [u16; 0x144] = {
    let mut bytes = [NONE; 0x144];
    let mut next = 0x100;
    let mut byte = 0;
    while byte < 0x100 {
        if is_printable(byte as u8) {
            bytes[byte] = byte as u16;
        } else {
            bytes[next] = byte as u16;
            next += 1;
        }
        byte += 1;
    }
    bytes
};
const NONE: u16 = u16::MAX;

/// Appends the bytes that `text` spells. Returns false and leaves `out` unchanged if a character is not of the
/// alphabet.
pub(super) fn decode(text: &str, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    for c in text.chars() {
        match BYTES.get(c as usize).and_then(|&b| u8::try_from(b).ok()) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(before);
                return false;
            }
        }
    }
    true
}

/// Character of each byte.
static CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let mut at = 0;
    while at < BYTES.len() {
        if BYTES[at] != NONE
            && let Some(c) = char::from_u32(at as u32)
        {
            chars[BYTES[at] as usize] = c;
        }
        at += 1;
    }
    chars
};

/// Returns the character of `byte`.
pub(super) fn encode(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// Appends the characters of the bytes of `c`.
pub(super) fn spell(c: char, out: &mut String) {
    out.extend(c.encode_utf8(&mut [0; 4]).bytes().map(encode));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_every_byte() {
        for byte in 0..=255 {
            let mut out = Vec::new();
            assert!(decode(&encode(byte).to_string(), &mut out));
            assert_eq!(out, [byte]);
        }
    }

    #[test]
    fn decodes_words_and_refuses_other_characters() {
        let mut out = b"x".to_vec();
        assert!(decode("ĠHelloĊ", &mut out));
        assert_eq!(out, b"x Hello\n");
        for text in ["a b", "▁", "\n", "ń"] {
            assert!(!decode(text, &mut out), "{text}");
            assert_eq!(out, b"x Hello\n");
        }
    }
}
